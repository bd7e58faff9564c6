"""`prompt`: the exact text a role would be shown now, or was shown then, and why each event is in it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from teams_runtime.tests.team_fixture import QA, TEAM, TeamCase
from teams_runtime.tests.test_cli_main import teams_runtime


class PastPromptTest(TeamCase):
    """Prompts of a run that has ended."""

    def setUp(self) -> None:
        super().setUp()
        refused = {"role": "qa", "attempt": 0, "text": "All is well: {}"}
        self.write_script(refused, *TEAM[:-2], QA | {"attempt": 1}, TEAM[-1])
        self.write_config(prompt_context={"recent_events": 2, "max_events": 4})
        service, self.record = self.run_request(profile="full")
        self.manifests = service.manifests.read(self.record.request_id)

    def prompt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = teams_runtime("prompt", self.record.request_id, *arguments, folder=self.root)
        self.assertEqual(0, done.returncode, done.stderr)
        return done

    def test_every_past_prompt_comes_back_to_the_byte(self) -> None:
        """What the command shows has the hash that the call's manifest recorded, in all four kinds."""
        self.assertEqual(4, len({manifest.kind for manifest in self.manifests}))
        for manifest in self.manifests:
            with self.subTest(kind=manifest.kind, role=manifest.role):
                shown = self.prompt("--role", manifest.role, "--kind", manifest.kind, "--at", str(manifest.seq)).stdout
                self.assertEqual(manifest.prompt_sha256, hashlib.sha256(shown.encode()).hexdigest())

    def test_a_past_prompt_says_whether_it_is_what_was_sent(self) -> None:
        """The hash that was kept tells: the same text, another one since the config changed, or never sent."""
        last = self.manifests[-1]
        arguments = ("--role", last.role, "--at", str(last.seq))
        self.assertIn("byte for byte, what was sent", self.prompt(*arguments).stderr)
        self.assertIn("never sent", self.prompt("--role", "designer", "--at", str(last.seq)).stderr)
        self.write_config(prompt_context={"recent_events": 1, "max_events": 4})
        self.assertIn("What was sent differs", self.prompt(*arguments, "--why").stderr)

    def test_why_explains_every_event(self) -> None:
        """Tail, backfill for whom, or omitted: one row an event."""
        last = self.manifests[-1]
        lines = self.prompt("--role", last.role, "--at", str(last.seq), "--why").stdout.splitlines()
        reasons = [line.split()[-1] for line in lines[1 : last.seq + 1]]
        self.assertEqual(last.seq, len(reasons))
        self.assertEqual(["tail"] * 2, reasons[-2:])
        self.assertIn("backfill:developer", reasons)
        self.assertIn("omitted", reasons)

    def test_json_has_text_notice_sizes_and_reasons(self) -> None:
        """The keys that programs rely on; positions count from 1, as in the notice."""
        last = self.manifests[-1]
        told = json.loads(self.prompt("--role", last.role, "--at", str(last.seq), "--json").stdout)
        self.assertEqual({"prompt", "notice", "characters", "characters_full", "events"}, set(told))
        self.assertEqual((last.characters, last.characters_full), (told["characters"], told["characters_full"]))
        self.assertEqual(list(range(1, last.seq + 1)), [row["position"] for row in told["events"]])
        included = [row["position"] for row in told["events"] if row["included"]]
        self.assertEqual(told["notice"]["included_events"], len(included))

    def test_full_shows_the_prompt_without_the_projection(self) -> None:
        """Every event is in it, and its size is what `characters_full` says."""
        last = self.manifests[-1]
        told = json.loads(self.prompt("--role", last.role, "--at", str(last.seq), "--full", "--json").stdout)
        self.assertEqual(({}, last.characters_full), (told["notice"], told["characters"]))
        self.assertTrue(all(row["included"] for row in told["events"]))

    def test_what_cannot_be_shown_is_refused(self) -> None:
        """An unknown role, an event that is not there, a repair that never was."""
        for arguments in (
            ["--role", "boss"],
            ["--at", "0"],
            ["--at", "999"],
            ["--at", "x"],
            ["--kind", "other"],
            ["--role", "planner", "--kind", "contract_repair", "--at", "2"],
            ["--role", "qa", "--kind", "research_decision"],
        ):
            with self.subTest(arguments):
                done = teams_runtime("prompt", self.record.request_id, *arguments, folder=self.root)
                self.assertEqual((2, 1), (done.returncode, done.stderr.count("\n")), done.stderr)


class RecordFileTest(unittest.TestCase):
    """Any record file can be tried, without workspace or repository."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def show(self, content: bytes, *arguments: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "mine.json").write_bytes(content)
        return teams_runtime("prompt", "mine.json", *arguments, folder=self.folder)

    def test_a_foreign_record_is_projected(self) -> None:
        """Events without ids or times, in the older shape, get their prompt and their reasons."""
        events = [{"event_type": "role_report", "actor": "planner", "payload": {}}, *[{"note": n} for n in range(30)]]
        done = self.show(json.dumps({"request_id": "x", "events": events}).encode(), "--json")
        told = json.loads(done.stdout)
        self.assertEqual("backfill:planner", told["events"][0]["reason"])
        self.assertEqual((31, 9), (told["notice"]["total_events"], told["notice"]["included_events"]))

    def test_odd_records_give_a_prompt_or_one_clear_line(self) -> None:
        """No shape of a file makes the command fail in another way."""
        for content in (b"{}", b'{"events": null}', b'{"events": {"a": 1}}', b'{"events": [1, null, "x", []]}',
                        b'{"workflow": 3, "current_role": [], "result": "x", "events": []}'):  # fmt: skip
            with self.subTest(content):
                done = self.show(content, "--why")
                self.assertEqual((0, ""), (done.returncode, done.stderr))
        for content in (b"", b"[]", b"nothing", b"\xef\xbb\xbf{}", b"\xff", b'{"events": [' + b"[" * 100_000):
            with self.subTest(content[:20]):
                done = self.show(content)
                self.assertEqual((2, 1), (done.returncode, done.stderr.count("\n")), done.stderr)
                self.assertIn("mine.json", done.stderr)

    def test_a_file_that_is_not_there(self) -> None:
        """One line names it."""
        done = teams_runtime("prompt", "./missing.json", folder=self.folder)
        self.assertEqual((2, 1), (done.returncode, done.stderr.count("\n")))


if __name__ == "__main__":
    unittest.main()
