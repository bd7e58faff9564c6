"""Manifests keep what a call was and cost, and no text can get into them."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import stat
import tempfile
import typing
import unittest
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from teams_runtime.shared.errors import FailureKind
from teams_runtime.telemetry.manifests import KINDS, CallManifest, ManifestLog
from teams_runtime.workflows.roles.contract import PromptKind

NOON = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
CANARY = "Canary text, 4711"


def manifest(**changed: Any) -> CallManifest:
    """The manifest of a call that went well."""
    given: dict[str, Any] = {
        "request_id": "fix-sum", "seq": 20, "role": "qa", "step": "qa", "visit": 1, "attempt": 0, "kind": "role_task",
        "provider": "scripted", "model": None, "policy": "recent_tail_plus_latest_role_evidence",
        "positions": (3, 12), "reasons": ("backfill:planner", "tail"), "total_events": 13, "included_events": 2,
        "template_sha256": "0" * 64, "config_sha256": "1" * 64, "prompt_sha256": "2" * 64, "characters": 5000,
        "characters_full": 9000, "answer_characters": 400, "duration_seconds": 1.25, "outcome": "ok",
    }  # fmt: skip
    return CallManifest(**given | changed)


def write_many(folder: Path, name: str, times: int) -> None:
    """Write manifests; run in processes of their own."""
    log = ManifestLog(folder, lambda: NOON)
    for visit in range(1, times + 1):
        log.write(manifest(request_id=name, visit=visit, positions=tuple(range(2)), reasons=("all",) * 2))


class LogCase(unittest.TestCase):
    """A test with a telemetry folder that is not there yet, and a clock that can be set."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name) / "state" / "telemetry"
        self.now = NOON
        self.log = ManifestLog(self.folder, lambda: self.now)

    @property
    def file(self) -> Path:
        """The file of the day."""
        return self.folder / "2026-12-01.jsonl"


class ManifestLogTest(LogCase):
    """Writing and reading."""

    def test_what_was_written_is_read_back_in_order(self) -> None:
        """One request's manifests, all values equal, over several days."""
        written = [manifest(visit=1), manifest(visit=2, model="m-1", cost_usd=0.5, input_tokens=7, outcome="timeout")]
        for one in (written[0], manifest(request_id="other"), written[1]):
            self.log.write(one)
            self.now += timedelta(days=1)
        self.assertEqual(written, self.log.read("fix-sum"))
        self.assertEqual(["2026-12-01.jsonl", "2026-12-02.jsonl", "2026-12-03.jsonl"],
                         sorted(one.name for one in self.folder.glob("*.jsonl")))  # fmt: skip

    def test_nothing_written_is_nothing_read(self) -> None:
        """Reading makes no folder."""
        self.assertEqual([], self.log.read("fix-sum"))
        self.assertFalse(self.folder.exists())

    def test_files_are_private(self) -> None:
        """0700 for the folder, 0600 for what is in it."""
        self.log.write(manifest())
        self.assertEqual(0o700, stat.S_IMODE(self.folder.stat().st_mode))
        self.assertEqual({0o600}, {stat.S_IMODE(one.stat().st_mode) for one in self.folder.iterdir()})

    def test_a_line_is_told_when_it_was_written(self) -> None:
        """In UTC, whatever zone the clock has."""
        self.log.write(manifest())
        self.assertEqual("2026-12-01T12:00:00.000+00:00", json.loads(self.file.read_text())["timestamp"])

    def test_a_torn_last_line_is_passed_over_and_closed(self) -> None:
        """A crash in the middle of a write costs that line only."""
        self.log.write(manifest(visit=1))
        self.file.write_bytes(self.file.read_bytes() * 2)
        self.file.write_bytes(self.file.read_bytes()[:-9])
        self.assertEqual([1], [one.visit for one in self.log.read("fix-sum")])
        self.log.write(manifest(visit=2))
        self.assertEqual([1, 2], [one.visit for one in self.log.read("fix-sum")])

    def test_lines_that_are_no_manifest_are_passed_over(self) -> None:
        """Other versions, other shapes, no JSON."""
        self.log.write(manifest())
        good = self.file.read_bytes()
        lines = (b"[]", b"1", b"{}", b"\xff", b"[" * 100_000, b'{"positions": 1}', good.replace(b'"qa"', b'"boss"', 1))
        self.file.write_bytes(b"\n".join(line.strip() for line in (*lines, good)) + b"\n")
        self.assertEqual([manifest()], self.log.read("fix-sum"))

    def test_a_line_of_an_earlier_version_is_read(self) -> None:
        """What it does not tell has its default."""
        self.log.write(manifest(retry=2, tool_calls=3, denials=1))
        told = json.loads(self.file.read_text("ascii"))
        old = {key: value for key, value in told.items() if key not in {"retry", "tool_calls", "denials"}}
        self.file.write_text(json.dumps(old) + "\n", encoding="ascii")
        self.assertEqual([manifest()], self.log.read("fix-sum"))

    def test_several_processes_write_at_once(self) -> None:
        """Every line is whole, and none is lost."""
        context = multiprocessing.get_context("spawn")
        names = ("a", "b", "c")
        writers = [context.Process(target=write_many, args=(self.folder, name, 40)) for name in names]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        for name in names:
            self.assertEqual(list(range(1, 41)), [one.visit for one in self.log.read(name)])


class NoTextTest(LogCase):
    """No field can hold a text."""

    def test_no_field_takes_a_text(self) -> None:
        """A canary in any field is refused, or kept out, and the error does not repeat it."""
        for field in dataclasses.fields(CallManifest):
            for value in (CANARY, (CANARY, "tail"), {CANARY: 1}, f"backfill:{CANARY}", (f"backfill:{CANARY}", "tail")):
                with self.subTest(field=field.name, value=value):
                    self.assertNotIn(CANARY, self.told(field.name, value))
        written = self.file.read_text() if self.file.exists() else ""
        self.assertNotIn(CANARY, written)

    def told(self, name: str, value: object) -> str:
        """What is said or written when a field gets a value."""
        try:
            self.log.write(manifest(**{name: value}))
        except ValueError as error:
            return str(error)
        return self.file.read_text()

    def test_names_that_others_choose_become_other(self) -> None:
        """A model name that is no plain name, and a backfilled role that is none of the team's."""
        odd = manifest(model=CANARY, reasons=(f"backfill:{CANARY}", "backfill:requester"))
        self.assertEqual(("other", ("backfill:other", "backfill:requester")), (odd.model, odd.reasons))
        plain = manifest(model="vendor/Model-4.1:free")
        self.assertEqual("vendor/Model-4.1:free", plain.model)

    def test_every_field_is_checked(self) -> None:
        """A value of another type is refused in each; only those that may be unknown take None."""
        hints = typing.get_type_hints(CallManifest)
        for name, hint in hints.items():
            with self.subTest(name):
                self.assertRaises(ValueError, manifest, **{name: object()})
                if type(None) not in typing.get_args(hint):
                    self.assertRaises(ValueError, manifest, **{name: None})

    def test_counts_are_whole_and_finite(self) -> None:
        """No bool, no negative, no NaN, no number that is none of a call's."""
        for value in (True, -1, 1.5, float("nan"), 10**16):
            with self.subTest(value=value):
                self.assertRaises(ValueError, manifest, characters=value)
        for value in (float("nan"), float("inf"), -0.1, True):
            with self.subTest(value=value):
                self.assertRaises(ValueError, manifest, duration_seconds=value)

    def test_positions_and_reasons_belong_together(self) -> None:
        """One of each for every included event."""
        self.assertRaises(ValueError, manifest, positions=(1,))
        self.assertRaises(ValueError, manifest, included_events=3)

    def test_the_lists_are_those_of_the_contract_and_the_errors(self) -> None:
        """Kinds of prompts, and ways in which a call can end."""
        self.assertEqual([str(kind) for kind in PromptKind], list(KINDS))
        for kind in FailureKind:
            self.assertEqual(kind, manifest(outcome=kind).outcome)


if __name__ == "__main__":
    unittest.main()
