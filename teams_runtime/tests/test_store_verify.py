"""A record is checked, salvaged, carried elsewhere and removed: always by a person's command, never by reading."""

from __future__ import annotations

import json
import shutil

from teams_runtime.shared.errors import InputError, RecordDamagedError, RecordError, RecordNotFoundError
from teams_runtime.store.alternating import spare_path
from teams_runtime.store.checking import verify_file
from teams_runtime.store.folding import OWN_FOLDING
from teams_runtime.store.records import Record, read_record_file
from teams_runtime.store.salvage import salvage_file
from teams_runtime.store.writing import record_lock
from teams_runtime.tests.store_support import ID, SHARED, StoreCase, create, note, open_store


class MovedCase(StoreCase):
    """A test with a record of six events in two copies."""

    def setUp(self) -> None:
        super().setUp()
        self.store = open_store(self.root, alternate_from=0)
        create(self.store)
        self.record = self.grow(5)

    def grow(self, times: int) -> Record:
        """Add events."""
        record = self.store.load(ID)
        for number in range(times):
            record = self.store.append(ID, note(self.store, {"n": number, "odd": 'é"\ud800'}), expected_seq=record.seq)
        return record

    def change(self, old: str, new: str) -> None:
        """Change the file as another program would."""
        text = self.file().read_text()
        self.assertIn(old, text)
        self.file().write_text(text.replace(old, new, 1))


class VerifyTest(MovedCase):
    def test_a_sound_record_has_no_problem(self) -> None:
        """As written, and after another program spelled it anew."""
        self.assertEqual(((), ()), (self.store.verify(ID).problems, self.store.verify(ID).notes))
        self.file().write_text(json.dumps(json.loads(self.file().read_bytes()), indent=2))
        verdict = self.store.verify(ID)
        self.assertEqual((True, 6, True), (verdict.sound, verdict.events, verdict.native))
        self.assertRegex(verdict.notes[0], "another program wrote the file")

    def test_each_breach_is_named(self) -> None:
        """Numbers, ids, shapes, the head, bytes of the history: each in a sentence, and the file stays."""
        last_id = self.record.events[-1]["id"]
        for old, new, expected in (
            ('"seq":3', '"seq":7', "event 3: 'seq' must be 3"),
            (',"seq":3', "", "event 3: 'seq' must be 3, it is missing"),
            (self.record.events[2]["id"], last_id, f"the event id '{last_id}' is there 2 times"),
            ('"actor":"orchestrator"', '"actor":7', "event 2: 'actor' must be a string, got int"),
            ('"status":"queued"', '"status":"ended"', "the head's 'status' is not what the events make of it"),
            ('"count":6,', "", "the head must have 'count', as the events say"),
            ("a note", "a nota", "another program changed bytes of the history"),
            ('"n":0', '"n":NaN', "event 2 holds NaN"),
            ('"request_id":"fix-sum"', '"request_id":"other"', "its request_id must be 'fix-sum'"),
            ("\n],", "", "is not JSON"),
        ):
            with self.subTest(expected):
                whole = self.file().read_bytes()
                self.change(old, new)
                changed = self.file().read_bytes()
                self.assertRegex("\n".join(self.store.verify(ID).problems), expected)
                self.assertEqual(changed, self.file().read_bytes())
                self.file().write_bytes(whole)

    def test_foreign_records_are_told_as_such(self) -> None:
        """They are read; an `events` that is no list is a problem."""
        path = self.put(b'{"events":[{"id":"a"},{"id":"a"}]}', "foreign")
        verdict = verify_file(path, OWN_FOLDING, in_store=True)
        self.assertEqual(
            (2, False, ("the event id 'a' is there 2 times",)), (verdict.events, verdict.native, verdict.problems)
        )
        self.put(b'{"events":{"a":1}}', "foreign")
        self.assertRegex(self.store.verify("foreign").problems[0], "'events' must be a list, got dict")

    def test_what_lies_beside_the_record_is_told(self) -> None:
        """Drafts and copies of other programs harm nothing."""
        self.file().with_name("fix-sum.json.tmp").write_text("{}")
        self.file().with_name(".fix-sum.draft").write_text("{")
        notes = "\n".join(self.store.verify(ID).notes)
        self.assertRegex(notes, "fix-sum.json.tmp lies beside the record and is never read")
        self.assertRegex(notes, "next append removes it")
        self.grow(1)
        self.assertTrue(self.store.verify(ID).sound)

    def test_a_missing_record_is_not_verified(self) -> None:
        """There is nothing to say of it."""
        with self.assertRaises(RecordNotFoundError):
            self.store.verify("other")


class SalvageTest(MovedCase):
    def test_whole_events_come_out_of_a_cut_file(self) -> None:
        """Wherever the file ends, every event before is there as it was spelled, and nothing else."""
        blob = self.file().read_bytes()
        lines = [self.record.event_line(position) for position in range(6)]
        start = blob.index(b'"events"')
        for end in range(start + 12, len(blob), 13):
            self.put(blob[:end], "cut")
            found = salvage_file(self.file("cut"))
            self.assertEqual(tuple(lines[: len(found.lines)]), found.lines)
            whole = sum(blob.index(line.encode()) + len(line) <= end for line in lines)
            self.assertEqual(whole, len(found.lines))

    def test_events_after_the_damage_come_out_too(self) -> None:
        """A hole in one event costs that event."""
        blob = self.file().read_bytes()
        line = self.record.event_line(2).encode()
        for hole in (b"\0" * len(line), line[:-9], line.replace(b"note", b"n\xff"), b"{" * 3):
            with self.subTest(hole[:20]):
                found = salvage_file(self.put(blob.replace(line, hole), "hole"))
                self.assertEqual([1, 2, 4, 5, 6], [json.loads(text)["seq"] for text in found.lines])
                self.assertRegex(found.gaps[0], "after event 2 of the whole ones: .* that are no whole event")

    def test_nothing_to_salvage(self) -> None:
        """An empty file and a file of zeros hold nothing; a sound one has no gap."""
        for blob in (b"", b"\0" * 50, b"[]"):
            self.assertEqual(((), ("no 'events' are in the file",)), vars_of(salvage_file(self.put(blob, "none"))))
        self.assertEqual((6, ()), (len(salvage_file(self.file()).lines), salvage_file(self.file()).gaps))

    def test_a_real_cut_file(self) -> None:
        """The sample of the hostile data."""
        if SHARED is None:
            self.skipTest("shared/data is not beside this checkout")
        found = salvage_file(SHARED / "hostile" / "17_truncated.json")
        self.assertGreater(len(found.lines), 5)
        self.assertRegex(found.gaps[-1], "cut off")


def vars_of(found: object) -> tuple[object, ...]:
    """The values of a salvage."""
    return (getattr(found, "lines", None), getattr(found, "gaps", None))


class MoveTest(MovedCase):
    def test_a_record_leaves_and_enters_unchanged(self) -> None:
        """The plain file is any reader's JSON without the index; taken in elsewhere it is the same record and grows."""
        file = self.root / "carried.json"
        file.write_bytes(self.store.plain_bytes(ID))
        self.assertEqual(self.record.data, json.loads(file.read_bytes()))
        (self.root / "other").mkdir()
        store = open_store(self.root / "other")
        taken = store.take_in(file)
        self.assertEqual((self.record.data, True), (taken.data, store.verify(ID).sound))
        self.assertEqual([self.record.event_line(n) for n in range(6)], [taken.event_line(n) for n in range(6)])
        self.assertEqual(7, store.append(ID, note(store), expected_seq=6).seq)
        with self.assertRaisesRegex(InputError, "exists already"):
            store.take_in(file)

    def test_a_foreign_record_is_carried_byte_for_byte(self) -> None:
        """Its bytes are not changed in either direction; without an id it takes the file's name, or the given one."""
        blob = b'{"events": [1e5, NaN],\n "a": 1, "a": 2}'
        file = self.root / "old-one.json"
        file.write_bytes(blob)
        self.assertEqual("old-one", self.store.take_in(file).path.stem)
        self.assertEqual("named", self.store.take_in(file, "named").path.stem)
        self.assertEqual((blob, blob), (self.store.plain_bytes("old-one"), self.file("named").read_bytes()))

    def test_what_cannot_enter_is_named(self) -> None:
        """Damaged, unsound, of another id, of an id that is none: nothing is made."""
        file = self.root / "carried.json"
        sound = self.store.plain_bytes(ID)
        for blob, request_id, expected in (
            (sound[:-20], None, "cut off"),
            (sound.replace(b'"seq":3', b'"seq":8'), None, "is not sound: event 3"),
            (sound, "renamed", "cannot get another one"),
            (b'{"request_id":"../up","events":[]}', None, "a request id must be"),
            (b'{"request_id":7,"events":[]}', None, "cannot get another one"),
        ):
            with self.subTest(expected), self.assertRaisesRegex((InputError, RecordDamagedError), expected):
                file.write_bytes(blob)
                self.store.take_in(file, request_id)
        self.assertEqual([ID], [row.request_id for row in self.store.list()])


class RemoveTest(MovedCase):
    def test_what_is_shown_is_what_goes(self) -> None:
        """The record, its second copy and its artifacts; other requests stay."""
        create(self.store, "other")
        artifact = self.paths.artifacts(ID) / "log" / "out.txt"
        artifact.parent.mkdir(parents=True)
        artifact.write_text("12345")
        shown = self.store.footprint(ID)
        self.assertEqual([self.file(), spare_path(self.file()), artifact], list(shown.files))
        self.assertEqual(sum(path.stat().st_size for path in shown.files), shown.bytes)
        self.assertEqual(shown, self.store.remove(ID))
        self.assertFalse(any(path.exists() for path in shown.files))
        self.assertEqual(["other"], [row.request_id for row in self.store.list()])
        self.assertEqual(["other.record.lock"], [path.name for path in self.paths.locks.iterdir()])

    def test_a_removed_id_can_be_used_again(self) -> None:
        """Nothing of the old record is left to be found."""
        self.store.remove(ID)
        with self.assertRaises(RecordNotFoundError):
            self.store.remove(ID)
        create(self.store)
        self.assertEqual(3, self.grow(2).seq)
        self.assertTrue(self.store.verify(ID).sound)

    def test_a_damaged_record_can_be_removed(self) -> None:
        """Its bytes need not be read."""
        self.put(b"{")
        self.store.remove(ID)
        self.assertEqual([], self.store.list())

    def test_a_request_that_is_worked_on_is_not_removed(self) -> None:
        """The lock of a running process holds it; the record stays whole."""
        with (
            record_lock(self.file(), self.paths.run_lock(ID), 0),
            self.assertRaisesRegex(RecordError, "at work|working"),
        ):
            self.store.remove(ID)
        self.assertTrue(self.store.verify(ID).sound)

    def test_links_are_removed_and_not_followed(self) -> None:
        """A folder of artifacts that leads elsewhere is left where it leads."""
        elsewhere = self.root / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "kept").touch()
        self.paths.artifacts(ID).parent.mkdir(parents=True, exist_ok=True)
        self.paths.artifacts(ID).symlink_to(elsewhere)
        self.store.remove(ID)
        self.assertTrue((elsewhere / "kept").exists())


class ListTest(MovedCase):
    def test_a_row_needs_no_whole_history(self) -> None:
        """A long record whose middle is damaged is listed by its ends, and is damaged when it is read."""
        for seq in range(6, 40):
            self.store.append(ID, note(self.store, {"bulk": "x" * 40_000}), expected_seq=seq)
        blob = self.file().read_bytes()
        middle = len(blob) // 2
        self.file().write_bytes(blob[:middle] + b"\xff" + blob[middle + 1 :])
        self.assertEqual([40], [getattr(row, "seq", None) for row in self.store.list()])
        self.assertFalse(self.store.verify(ID).sound)
        with self.assertRaises(RecordDamagedError):
            _ = self.store.load(ID).data
        shutil.copy(self.file(), self.root / "copy.json")
        self.assertEqual(40, read_record_file(self.root / "copy.json").seq)
