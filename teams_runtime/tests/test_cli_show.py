"""`list` and `show`: what became of requests, damaged and foreign records included."""

from __future__ import annotations

import json
import unittest

from teams_runtime.cli.show import parse_span
from teams_runtime.shared.errors import InputError
from teams_runtime.tests.team_fixture import TeamCase
from teams_runtime.tests.test_cli_main import teams_runtime


class ListTest(TeamCase):
    """`list`."""

    def test_an_empty_workspace_says_what_to_do(self) -> None:
        """The first line of a new user is the next command."""
        done = teams_runtime("list", folder=self.root)
        self.assertEqual(0, done.returncode)
        self.assertIn(" run SCOPE", done.stdout)

    def test_a_damaged_record_is_a_row_and_the_others_are_listed(self) -> None:
        """One bad file hides nothing, and listing repairs nothing."""
        _, record = self.run_request()
        damaged = self.paths.requests / "broken.json"
        damaged.write_bytes(b'{"request_id": "bro')
        done = teams_runtime("list", "--json", folder=self.root)
        rows = {row["request_id"]: row for row in json.loads(done.stdout)["requests"]}
        self.assertEqual("completed", rows[record.request_id]["status"])
        self.assertEqual("damaged", rows["broken"]["status"])
        self.assertEqual(b'{"request_id": "bro', damaged.read_bytes())
        self.assertIn("damaged", teams_runtime("list", folder=self.root).stdout)


class ShowTest(TeamCase):
    """`show`."""

    def setUp(self) -> None:
        super().setUp()
        _, self.record = self.run_request()

    def test_the_overview_has_a_row_for_every_event(self) -> None:
        """A unique beginning of the id is enough."""
        done = teams_runtime("show", self.record.request_id[:-1], folder=self.root)
        self.assertEqual(0, done.returncode, done.stderr)
        for event in self.record.events:
            self.assertIn(event["summary"], done.stdout)

    def test_events_are_shown_whole_and_as_stored(self) -> None:
        """Each line is the event's own text in the file."""
        done = teams_runtime("show", self.record.request_id, "--events", "2-3", folder=self.root)
        self.assertEqual([self.record.event_line(1), self.record.event_line(2)], done.stdout.splitlines())

    def test_a_roles_evidence_can_be_asked_for(self) -> None:
        """`--role` shows only events that speak for the role."""
        done = teams_runtime("show", self.record.request_id, "--role", "QA", folder=self.root)
        self.assertEqual(["qa"], [json.loads(line)["payload"]["role"] for line in done.stdout.splitlines()])

    def test_json_holds_head_and_events_and_no_bookkeeping(self) -> None:
        """Programs get the record without the store's own index."""
        shown = json.loads(teams_runtime("show", self.record.request_id, "--json", folder=self.root).stdout)
        self.assertEqual({"head", "events"}, set(shown))
        self.assertEqual(self.record.head, shown["head"])
        self.assertEqual(self.record.events, shown["events"])

    def test_damaged_records_are_named_on_one_line(self) -> None:
        """File and reason, exit code 2, the file untouched."""
        cases = {
            "empty": b"",
            "list": b"[]",
            "bom": b"\xef\xbb\xbf{}",
            "bytes": b'{"a": "\xff"}',
            "deep": b"[" * 100_000,
            "truncated": b'{"request_id": "truncated", "events": [',
        }
        for name, content in cases.items():
            with self.subTest(name):
                path = self.paths.requests / f"{name}.json"
                path.write_bytes(content)
                done = teams_runtime("show", name, folder=self.root)
                self.assertEqual((2, 1), (done.returncode, done.stderr.count("\n")), done.stderr)
                self.assertIn(f"{name}.json", done.stderr)
                self.assertEqual(content, path.read_bytes())

    def test_a_span_must_lie_within_the_record(self) -> None:
        """Spans are 1-based and both ends belong to them."""
        self.assertEqual((7, 7), parse_span("7", 9))
        for span in ("0-1", "2-1", "1-10", "a", "", "-", "1-", "-3", "٣", "9" * 30):
            with self.subTest(span), self.assertRaises(InputError):
                parse_span(span, 9)


if __name__ == "__main__":
    unittest.main()
