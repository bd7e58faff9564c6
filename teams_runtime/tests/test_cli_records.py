"""`verify`, `export`, `import`, `prune` and `show --salvage`: what a person does with record files."""

from __future__ import annotations

import contextlib
import json
import tempfile
import unittest
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

from teams_runtime.cli.main import cli, execute
from teams_runtime.cli.service import new_id, now
from teams_runtime.shared.paths import WorkspacePaths
from teams_runtime.store.records import Record, RecordStore


class RecordsCase(unittest.TestCase):
    """A test with a workspace that holds one request of four events."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.paths = WorkspacePaths(self.root)
        self.paths.config_file.write_text("{}\n")
        self.store = RecordStore(self.paths, clock=now, new_id=new_id)
        self.record = self.file_request("fix-sum")
        self.enterContext(contextlib.chdir(self.root))

    def file_request(self, request_id: str, *, ending: str | None = None) -> Record:
        """A request with a few events, the last of them an end when one is named."""
        record = self.store.create(
            request_id, scope="fix sum()", body="", requester="ada", params={"profile": "lean"},
            sprint_id="sprint-1", base={"commit": "a" * 40, "branch": "main"},
        )  # fmt: skip
        for kind in ("delegated", "note", ending or "note"):
            payload = {"step": "build", "target": "developer", "reason": "done", "odd": 'é\ud800"'}
            event = self.store.new_event(kind, actor="orchestrator", summary=kind, payload=payload)
            record = self.store.append(request_id, event, expected_seq=record.seq)
        return record

    def call(self, *arguments: str) -> tuple[int, str, str]:
        """Run a verb in this process; return exit code, output and errors."""
        with TextIOWrapper(BytesIO(), "utf-8") as out, TextIOWrapper(BytesIO(), "utf-8") as err:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = self._code(list(arguments))
            texts = []
            for stream in (out, err):
                stream.flush()
                texts.append(stream.buffer.getvalue().decode())
        return code, texts[0], texts[1]

    def _code(self, arguments: list[str]) -> int:
        try:
            return execute(cli, arguments)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else 1

    def json(self, *arguments: str) -> Any:
        """The JSON that a verb prints."""
        return json.loads(self.call(*arguments, "--json")[1])


class VerifyTest(RecordsCase):
    def test_a_sound_workspace(self) -> None:
        """Every record is told, and the exit code is 0."""
        self.file_request("other")
        code, out, _ = self.call("verify")
        self.assertEqual((0, 2), (code, out.count(": sound, 4 events")))

    def test_what_is_wrong_is_told(self) -> None:
        """A changed word of the history: exit code 1, and the line says so; the file is left as it is."""
        path = self.record.path
        blob = path.read_bytes().replace(b'"summary":"note"', b'"summary":"nota"', 1)
        path.write_bytes(blob)
        code, out, _ = self.call("verify", "fix")
        self.assertEqual(1, code)
        self.assertIn("wrong: another program changed bytes of the history", out)
        told = self.json("verify", "fix-sum")["records"][0]
        self.assertEqual((False, 4, blob), (told["sound"], told["events"], path.read_bytes()))

    def test_any_file_can_be_verified(self) -> None:
        """Also outside a workspace, also one that is no record."""
        (self.root / "torn.json").write_text('{"events":[')
        code, out, _ = self.call("verify", "./torn.json")
        self.assertEqual(1, code)
        self.assertIn("cut off", out)
        self.assertEqual(2, self.call("verify", "./none.json")[0])
        self.assertEqual(2, self.call("verify", "nobody")[0])


class CarryTest(RecordsCase):
    def test_out_and_in_again(self) -> None:
        """The plain file is the record without bookkeeping; after the record is removed it makes the same one."""
        self.assertEqual(0, self.call("export", "fix", "kept.json")[0])
        self.assertEqual(self.record.data, json.loads((self.root / "kept.json").read_bytes()))
        self.assertEqual(0, self.call("prune", "fix-sum", "--yes")[0])
        self.assertEqual({"request_id": "fix-sum", "events": 4, "native": True}, self.json("import", "kept.json"))
        self.assertEqual(self.record.data, self.store.load("fix-sum").data)
        self.assertEqual(0, self.call("verify")[0])

    def test_standard_output(self) -> None:
        """`-` prints the file and nothing else."""
        code, out, _ = self.call("export", "fix-sum", "-")
        self.assertEqual((0, self.record.data), (code, json.loads(out)))

    def test_nothing_is_replaced(self) -> None:
        """Neither a file that is there nor a record."""
        (self.root / "fix-sum.json").write_text("mine")
        code, _, err = self.call("export", "fix-sum")
        self.assertEqual((2, "mine"), (code, (self.root / "fix-sum.json").read_text()))
        self.assertIn("File exists", err)
        self.call("export", "fix-sum", "kept.json")
        code, _, err = self.call("import", "kept.json")
        self.assertEqual((2, 1), (code, err.count("exists already")))

    def test_an_export_is_private_and_whole_or_not_there(self) -> None:
        """A record holds whatever the roles have said; half a file would stand in the way of the next try."""
        self.assertEqual(0, self.call("export", "fix-sum", "out.json")[0])
        self.assertEqual(0o600, (self.root / "out.json").stat().st_mode & 0o777)
        self.assertEqual(2, self.call("export", "fix-sum", "no/folder.json")[0])

    def test_a_foreign_record(self) -> None:
        """It takes the file's name or the given id, and says that it is only read."""
        (self.root / "old.json").write_text('{"events": [{"event_type": "note"}]}')
        self.assertIn("never lengthened", self.call("import", "old.json")[1])
        self.assertEqual("named", self.json("import", "old.json", "--id", "named")["request_id"])


class PruneTest(RecordsCase):
    def test_nothing_goes_unasked(self) -> None:
        """Without --yes it is only shown; without a name or an age nothing is meant."""
        code, out, _ = self.call("prune", "fix-sum")
        self.assertEqual(0, code)
        self.assertIn(str(self.record.path), out)
        self.assertIn("would be removed", out)
        self.assertTrue(self.record.path.exists())
        self.assertEqual(2, self.call("prune", "--yes")[0])

    def test_no_number_of_days_breaks_the_calendar(self) -> None:
        for days in ("-1", "999999999", "9" * 30):
            with self.subTest(days):
                code, _, told = self.call("prune", "--older-than", days)
                self.assertEqual((2, 1), (code, told.count("\n")), told)

    def test_only_ended_requests_are_old(self) -> None:
        """A request that runs, a damaged and a foreign one are never meant by their age."""
        self.file_request("ended", ending="completed")
        self.file_request("stopped", ending="cancelled")
        self.paths.record("torn").write_text("{")
        self.paths.record("foreign").write_text('{"status":"completed","updated_at":"2020-01-01T00:00:00Z"}')
        told = self.json("prune", "--older-than", "0", "--yes")
        self.assertEqual({"ended", "stopped"}, {one["request_id"] for one in told["requests"]})
        self.assertEqual(
            ["fix-sum", "foreign", "torn"], sorted(path.stem for path in self.paths.requests.glob("*.json"))
        )
        self.assertEqual([], self.json("prune", "--older-than", "1")["requests"])


class SalvageTest(RecordsCase):
    def test_whole_events_of_a_damaged_record(self) -> None:
        """`show` refuses it, `--salvage` prints what is whole, and the file stays."""
        blob = self.record.path.read_bytes()
        cut = blob[: blob.index(b'"summary":"note"')]
        self.record.path.write_bytes(cut)
        self.assertEqual(2, self.call("show", "fix-sum")[0])
        code, out, err = self.call("show", "fix-sum", "--salvage")
        self.assertEqual((0, [self.record.event_line(0), self.record.event_line(1)]), (code, out.splitlines()))
        self.assertIn("cut off", err)
        self.assertEqual(cut, self.record.path.read_bytes())
        self.assertEqual(2, len(self.json("show", "fix-sum", "--salvage")["events"]))


class LongTest(RecordsCase):
    def test_a_long_history_is_shown_from_its_end(self) -> None:
        """Only the newest events have a row, with their own numbers; a line says how to see the others."""
        record = self.record
        for number in range(300):
            event = self.store.new_event("note", actor="orchestrator", summary=f"note {number}", payload={})
            record = self.store.append("fix-sum", event, expected_seq=record.seq)
        out = self.call("show", "fix-sum")[1]
        self.assertIn("  104  earlier events:", out)
        self.assertNotIn("note 99", out)
        for row in ("  105  ", "  304  "):
            self.assertIn(row, out)
        self.assertEqual(304, len(self.json("show", "fix-sum")["events"]))
