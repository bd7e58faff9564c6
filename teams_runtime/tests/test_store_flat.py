"""Long records: what the index says, how they are lengthened and read in slices, and what other programs do to them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import skipUnless

from hypothesis import given, settings
from hypothesis import strategies as st

from teams_runtime.shared.errors import EventRefusedError, RecordConflictError
from teams_runtime.shared.models import PromptContextRuntimeConfig
from teams_runtime.shared.prompt_context import event_json, evidence_role, newest_evidence, project_request
from teams_runtime.store.alternating import spare_path
from teams_runtime.store.fold import first_head
from teams_runtime.store.history import WHOLE_BYTES, IndexedHistory, open_history
from teams_runtime.store.index import VERSION, empty_index
from teams_runtime.store.records import Record, read_record_file
from teams_runtime.store.writing import Disk
from teams_runtime.tests.store_support import ID, SHARED, StoreCase, create, note, open_store

EVERYTHING = PromptContextRuntimeConfig(enabled=False)
HISTORY = st.lists(st.tuples(st.sampled_from(("planner", "qa", "QA", "", 7)), st.booleans()), min_size=1, max_size=30)
ROLES = ("planner", "qa", "Developer", " QA ", "", 7)


class NoExchange(Disk):
    """A file system that cannot exchange two names."""

    def exchange(self, first: Path, second: Path) -> None:
        raise OSError(22, "Invalid argument")


class FlatCase(StoreCase):
    """A test whose store keeps every record in two copies."""

    def setUp(self) -> None:
        super().setUp()
        self.store = open_store(self.root, alternate_from=0)

    def grow(self, times: int, size: int = 10, request_id: str = ID) -> Record:
        """Add events that are evidence of several roles now and then."""
        record = self.store.load(request_id)
        for number in range(times):
            status = "completed" if number % 3 else ""
            payload = {"role": ROLES[number % len(ROLES)], "status": status, "bulk": "x" * size}
            record = self.store.append(request_id, note(self.store, payload), expected_seq=record.seq)
        return record

    def history(self, request_id: str = ID) -> IndexedHistory:
        """The record by its index."""
        found = open_history(self.file(request_id), follow_links=False)
        if not isinstance(found, IndexedHistory):
            self.fail("the record has no index that counts")
        return found


class LayoutTest(FlatCase):
    def test_the_index_agrees_with_the_whole_record(self) -> None:
        """After every append each slice is the event, and each role's newest evidence is where the list has it."""
        create(self.store)
        for _ in range(40):
            self.grow(1)
            history = self.history()
            events = json.loads(self.file().read_bytes())["events"]
            places = {len(events) - 1 - back: place for back, place in enumerate(reversed(history.index.recent))}
            places |= {one.position: one.slice for one in history.index.roles.values()}
            blob = self.file().read_bytes()
            for position, place in places.items():
                self.assertEqual(events[position], json.loads(blob[place.offset : place.offset + place.length]))
            self.assertEqual((len(events), newest_evidence(events)), (history.index.count, history.index.newest()))

    def test_the_index_is_the_last_field_and_no_part_of_the_record(self) -> None:
        """Any JSON reader sees it; neither data nor head nor projection has it."""
        create(self.store)
        record = self.grow(3)
        self.assertEqual("_index", list(json.loads(self.file().read_bytes()))[-1])
        for shown in (record.data, record.head, record.project().record, self.store.load(ID).data, record.at(2).data):
            self.assertNotIn("_index", shown)

    def test_both_ways_of_writing_give_the_same_file(self) -> None:
        """A short record that is replaced and a long one that alternates hold the same bytes but for the token."""
        create(self.store)
        create(open_store(self.root), "whole")
        for number in range(6):
            event = note(self.store, {"n": number})
            self.store.append(ID, event, expected_seq=number + 1)
            open_store(self.root).append("whole", event, expected_seq=number + 1)
        self.assertEqual(self.store.load(ID).events[1:], self.store.load("whole").events[1:])
        self.assertTrue(spare_path(self.file()).exists())
        self.assertFalse(spare_path(self.file("whole")).exists())

    def test_the_spare_is_one_event_behind_and_private(self) -> None:
        """Both copies are whole JSON at rest."""
        create(self.store)
        record = self.grow(5)
        spare = spare_path(self.file())
        self.assertEqual(record.seq - 1, len(json.loads(spare.read_bytes())["events"]))
        self.assertEqual(0o600, spare.stat().st_mode & 0o777)
        self.assertEqual([ID], [row.request_id for row in self.store.list()])

    def test_a_file_that_is_being_read_is_not_touched(self) -> None:
        """A program that has opened the record reads what it opened, however many appends happen meanwhile."""
        create(self.store)
        self.grow(3)
        with self.file().open("rb") as reader:
            before = self.file().read_bytes()
            self.grow(5)
            self.assertEqual(before, reader.read())
        self.assertEqual(9, self.grow(0).seq)

    def test_an_append_writes_into_the_spare_that_is_there(self) -> None:
        """From the third append on the two files only change names."""
        create(self.store)
        self.grow(2)
        files = {self.file().stat().st_ino, spare_path(self.file()).stat().st_ino}
        self.grow(5)
        self.assertEqual(files, {self.file().stat().st_ino, spare_path(self.file()).stat().st_ino})

    def test_an_end_that_became_shorter_leaves_nothing_behind(self) -> None:
        """What changes may shrink by more than an event: the file is cut where the record ends."""
        create(self.store)
        self.grow(3)
        for seq, word in ((4, "x" * 5000), (5, "y" * 5000), (6, "short"), (7, "short")):
            self.store.append(ID, note(self.store, {"head_status": word}), expected_seq=seq)
            self.assertEqual(word, json.loads(self.file().read_bytes())["status"])
            self.assertEqual(seq + 1, self.history().index.count)

    def test_a_spare_that_does_not_fit_is_made_anew(self) -> None:
        """Torn, foreign, gone, a link, of another layout: the append goes through and the next ones too."""
        create(self.store)
        create(self.store, "other")
        self.grow(3, request_id="other")
        seq = self.grow(3).seq
        spare = spare_path(self.file())
        for case in ("torn", "empty", "gone", "link", "hard link", "other", "old"):
            with self.subTest(case):
                blob = spare.read_bytes()
                spare.unlink()
                if case == "torn":
                    spare.write_bytes(blob[:-5])
                elif case == "empty":
                    spare.touch()
                elif case == "link":
                    spare.symlink_to(self.file("other"))
                elif case == "hard link":
                    os.link(self.file(), spare)
                elif case == "other":
                    shutil.copy(self.file("other"), spare)
                elif case == "old":
                    spare.write_bytes(blob)
                    kept = spare.read_bytes()
                    self.grow(1)
                    spare.write_bytes(kept)
                    seq += 1
                seq += 2
                self.assertEqual(seq, self.grow(2).seq)
                events = json.loads(self.file().read_bytes())["events"]
                self.assertEqual(list(range(1, seq + 1)), [event["seq"] for event in events])
        self.assertEqual(4, self.store.load("other").seq)

    def test_without_exchange_the_names_are_moved_one_by_one(self) -> None:
        """Where two names cannot be exchanged, the record is never missing and stays in two copies."""
        self.store = open_store(self.root, disk=NoExchange(), alternate_from=0)
        create(self.store)
        self.assertEqual(9, self.grow(8).seq)
        names = sorted(path.name for path in self.paths.requests.iterdir())
        self.assertEqual([".fix-sum.spare", "fix-sum.json"], names)

    def test_an_id_is_found_anywhere_in_a_long_history(self) -> None:
        """A repeated event is found at the beginning of over a megabyte, and not taken for another's text."""
        create(self.store)
        first = note(self.store, {"fake": '\n{"id":"later"'}, id="first")
        self.store.append(ID, first, expected_seq=1)
        record = self.grow(30, 60_000)
        self.assertGreater(self.file().stat().st_size, WHOLE_BYTES)
        self.assertEqual(record.seq, self.store.append(ID, first, expected_seq=record.seq).seq)
        with self.assertRaises(EventRefusedError):
            self.store.append(ID, first | {"summary": "other"}, expected_seq=record.seq)
        last = {key: value for key, value in record.events[-1].items() if key != "seq"}
        self.assertEqual(record.seq, self.store.append(ID, last, expected_seq=5).seq)
        self.assertEqual(record.seq + 1, self.store.append(ID, first | {"id": "later"}, expected_seq=record.seq).seq)


class VersionTest(StoreCase):
    def test_a_head_of_another_shape_needs_a_new_version_of_the_index(self) -> None:
        """A stored head is advanced, not folded anew: when the fold's fields change, raise `index.VERSION` and this."""
        head = first_head()
        shape = " ".join((*sorted(head), "|", *sorted(head["workflow"])))
        digest = hashlib.sha256(shape.encode()).hexdigest()[:12]
        self.assertEqual((1, "9eff2e0492aa"), (VERSION, digest), shape)

    def test_a_record_of_another_version_is_folded_anew(self) -> None:
        """Its index does not count, and the next append writes the present one."""
        create(self.store)
        blob = self.file().read_bytes().replace(b'"_index":{"v":1', b'"_index":{"v":0')
        self.file().write_bytes(blob.replace(b'"count":1', b'"count":9'))
        self.assertNotIsInstance(open_history(self.file(), follow_links=False), IndexedHistory)
        self.assertEqual(2, self.store.append(ID, note(self.store), expected_seq=1).head["count"])


class SliceTest(FlatCase):
    def setUp(self) -> None:
        super().setUp()
        create(self.store)
        self.record = self.grow(60, 25_000)
        self.whole = json.loads(self.file().read_bytes())

    def test_every_event_is_read_from_its_place(self) -> None:
        """By number, by slice, from the end and by walking, a long history gives what the whole file gives."""
        self.assertGreater(self.file().stat().st_size, WHOLE_BYTES)
        events, record = self.whole["events"], self.store.load(ID)
        self.assertEqual(events, record.events)
        for position in (0, 1, 30, 44, 45, 60, -1, -61):
            self.assertEqual(events[position], record.events[position])
            self.assertEqual(events[position], json.loads(record.event_line(position)))
        for part in (slice(3, 9), slice(9, 3, -2), slice(-2, None), slice(70, None)):
            self.assertEqual(events[part], record.events[part])
        with self.assertRaises(IndexError):
            _ = record.events[61]

    def test_a_projection_equals_that_of_the_list(self) -> None:
        """For the indexed caps and for others the slices give the same as the parsed record."""
        for recent, largest in ((8, 16), (1, 1), (1, 2), (16, 20), (20, 40), (60, 61), (61, 61), (8, 100)):
            for enabled in (True, False):
                config = PromptContextRuntimeConfig(enabled=enabled, recent_events=recent, max_events=largest)
                sliced = self.store.project(ID, config)
                whole = project_request(self.store.load(ID).data, config)
                self.assertEqual(whole, sliced)
                self.assertEqual(whole.event_lines(), sliced.event_lines())

    def test_an_older_record_can_be_asked_for(self) -> None:
        """`at` and the count of characters agree with the whole file."""
        self.assertEqual(self.whole["events"][:7], self.record.at(7).events)
        self.assertEqual(7, self.record.at(7).head["count"])
        self.assertEqual(sum(map(len, self.record.project(EVERYTHING).event_lines())), self.record.event_characters)

    def test_a_record_that_was_read_stays_what_it_was(self) -> None:
        """Later appends are not seen by it; a file that another program wrote is an error, not another history."""
        self.grow(3)
        self.assertEqual((61, self.whole["events"]), (self.record.seq, self.record.events))
        self.file().write_bytes(json.dumps(self.whole).encode())
        with self.assertRaisesRegex(RecordConflictError, "another program wrote the file"):
            list(self.record.events)

    def test_a_lying_index_never_shows_half_an_event(self) -> None:
        """Bytes that moved within a file of the same length: the projection is made from the whole record."""
        blob, place = self.file().read_bytes(), self.history().index.recent[-2]
        moved = blob[place.offset : place.offset + place.length].replace(b"xx", b"x", 1)
        self.file().write_bytes(blob[: place.offset] + b" " + moved + blob[place.offset + place.length :])
        self.assertEqual(len(blob), self.file().stat().st_size)
        projection = self.store.project(ID)
        self.assertEqual(24_999, len(projection.record["events"][-2]["payload"]["bulk"]))
        self.assertEqual(json.loads(projection.event_lines()[-2]), projection.record["events"][-2])


def recorded(most: int) -> Iterator[list[dict[str, Any]]]:
    """Yield every recorded history, up to so many events."""
    for source in sorted(SHARED.glob("histories/*.jsonl") if SHARED else ()):
        with source.open() as lines:
            yield from (json.loads(line)["events"][:most] for line in lines)


class RealHistoriesTest(FlatCase):
    @skipUnless(SHARED, "shared/data is not beside this checkout")
    def test_recorded_histories_grow_event_by_event(self) -> None:
        """Recorded events, appended here: the index's projection equals the list's on every prefix."""
        done = 0
        for source in sorted(SHARED.glob("histories/*.jsonl") if SHARED else ()):
            with source.open() as lines:
                for number, line in zip(range(3), lines, strict=False):
                    done += self._replay(f"{source.stem}-{number}", json.loads(line)["events"][:60])
        self.assertGreater(done, 200)

    @skipUnless(SHARED, "shared/data is not beside this checkout")
    def test_the_index_names_the_evidence_of_every_recorded_prefix(self) -> None:
        """All recorded histories: after each event the index holds what a walk through the list finds."""
        prefixes = 0
        for events in recorded(80):
            index = empty_index(b"[", "token")
            for count, event in enumerate(events, 1):
                index = index.add(event_json(event).encode(), 1, evidence_role(event))
                self.assertEqual(newest_evidence(events[:count]), index.newest())
            prefixes += len(events)
        self.assertGreater(prefixes, 10_000)

    def _replay(self, request_id: str, recorded: list[dict[str, Any]]) -> int:
        record = create(self.store, request_id)
        for event in recorded:
            payload = event.get("payload")
            made = note(self.store, payload if isinstance(payload, dict) else {"value": payload})
            if event["type"] != "created":
                made |= {key: event[key] for key in ("type", "actor", "summary") if event.get(key)}
            record = self.store.append(request_id, made, expected_seq=record.seq)
            whole = project_request(self.store.load(request_id).data)
            self.assertEqual((whole, whole.event_lines()), (record.project(), record.project().event_lines()))
        return len(recorded)


class OutsideTest(FlatCase):
    """Other programs write the file; it is read, and the next append gives it its index back."""

    def setUp(self) -> None:
        super().setUp()
        create(self.store)
        self.grow(20)
        self.before = self.store.load(ID).events[:]

    def go_on(self) -> None:
        """Read, project and append twice; every event is still there, the index counts again."""
        self.assertEqual(self.before, self.store.load(ID).events)
        expected = project_request(self.store.load(ID).data)
        self.assertEqual(expected.positions, self.store.project(ID).positions)
        for seq in (21, 22):
            self.store.append(ID, note(self.store), expected_seq=seq)
        self.assertEqual(23, self.history().index.count)
        self.assertEqual(self.before, self.store.load(ID).events[:21])
        self.assertEqual(23, len(self.file().read_bytes().split(b'"events":[')[1].split(b"\n]")[0].split(b"\n")) - 1)

    @skipUnless(shutil.which("jq"), "jq is not installed")
    def test_jq(self) -> None:
        """Indented, compact, with sorted keys, and with a field of its own."""
        for arguments in (["."], ["-c", "."], ["-S", "."], ['.mine = "x"']):
            with self.subTest(arguments):
                done = subprocess.run(["jq", *arguments, self.file()], capture_output=True, check=True)
                self.file().write_bytes(done.stdout)
                self.go_on()
                self.store = open_store(self.root, alternate_from=0)
                data = self.store.load(ID).data
                self.file().write_text(json.dumps(data | {"events": self.before}))
        self.assertEqual("x", data["mine"])

    @skipUnless(shutil.which("vim"), "vim is not installed")
    def test_vim(self) -> None:
        """A real editor changes one word and writes the file."""
        commands = ["-c", "%s/fix sum()/fix sums()/g", "-c", "wq"]
        subprocess.run(["vim", "-u", "NONE", "-es", *commands, self.file()], check=True, stdin=subprocess.DEVNULL)
        self.assertIn(b"fix sums()", self.file().read_bytes())
        self.before[0]["payload"]["scope"] = "fix sums()"
        self.before[0]["summary"] = "fix sums()"
        self.go_on()

    def test_a_change_of_the_same_length_is_seen(self) -> None:
        """The length alone does not guard a short record: every byte is checked."""
        self.file().write_bytes(self.file().read_bytes().replace(b"a note", b"a nota", 1))
        self.before[1]["summary"] = "a nota"
        self.assertNotIsInstance(open_history(self.file(), follow_links=False), IndexedHistory)
        self.go_on()

    def test_spelling_survives_the_new_layout(self) -> None:
        """What another program wrote is taken over as it is spelled, non-ASCII text too."""
        odd = (
            '{"id":"odd","seq":22,"timestamp":"2026-12-01T03:04:05Z","type":"note","actor":"é","summary":"\U0001f600",'
        )
        odd += '"payload":{"a":1e5,"a":2.50,"b":' + "9" * 5000 + ',"c":"\\ud800\\u0000"}}'
        text = self.file().read_text().replace("\n],", ",\n" + odd + "\n],")
        self.file().write_text(text)
        self.store.append(ID, note(self.store), expected_seq=22)
        record = self.grow(2)
        self.assertEqual(odd, record.event_line(21))
        self.assertEqual(odd, dict(zip(record.project().positions, record.project().event_lines(), strict=True))[21])
        self.assertEqual(sum(map(len, record.project(EVERYTHING).event_lines())), record.event_characters)

    def test_an_index_of_a_foreign_record_is_its_own_field(self) -> None:
        """A foreign `_index` is kept and never believed."""
        path = self.put(b'{"events":[{"a":1}],\n"_index":{"v":1}}', "foreign")
        self.assertEqual({"v": 1}, read_record_file(path).data["_index"])
        self.assertEqual((1,), (read_record_file(path).seq,))


class AnyHistoryTest(FlatCase):
    @settings(max_examples=25, deadline=None)
    @given(HISTORY, st.integers(1, 6), st.integers(0, 6))
    def test_any_history_projects_like_its_list(self, roles: list[tuple[object, bool]], recent: int, more: int) -> None:
        """Whatever roles speak in whatever order, the index selects what the list algorithm selects."""
        shutil.rmtree(self.paths.state, ignore_errors=True)
        record = create(self.store)
        config = PromptContextRuntimeConfig(recent_events=recent, max_events=recent + more)
        for role, is_report in roles:
            event = note(self.store, {"role": role}, type="role_report" if is_report else "note")
            record = self.store.append(ID, event, expected_seq=record.seq)
        self.assertEqual(project_request(self.store.load(ID).data, config), record.project(config))
