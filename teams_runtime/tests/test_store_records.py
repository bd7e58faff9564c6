"""The store makes, reads and lengthens records, and never changes what is stored."""

from __future__ import annotations

import json
import os
import stat
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from teams_runtime.shared.errors import (
    EventRefusedError,
    InputError,
    RecordConflictError,
    RecordDamagedError,
    RecordNotFoundError,
)
from teams_runtime.store.events import MAX_EVENT_BYTES
from teams_runtime.store.records import DamagedRecord, RecordSummary, read_record_file
from teams_runtime.tests.store_support import ID, StoreCase, create, note, open_store

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


class CreateTest(StoreCase):
    def test_a_new_record_is_on_disk_as_it_is_returned(self) -> None:
        """`create` returns what a fresh read of the file gives."""
        record = create(self.store)
        self.assertEqual(record, self.store.load(ID))
        stored = json.loads(self.file().read_bytes())
        self.assertEqual(record.data, {name: stored[name] for name in stored if name != "_index"})
        self.assertEqual(["created"], [event["type"] for event in record.events])

    def test_fields_stand_in_the_order_fixed_events_changing(self) -> None:
        """What never changes stands first, then the events one a line, then what changes."""
        record = create(self.store)
        self.store.append(ID, note(self.store), expected_seq=1)
        names = list(json.loads(self.file().read_bytes()))
        self.assertEqual(
            ["schema", "request_id", "scope", "body", "requester", "params", "created_at", "events"], names[:8]
        )
        self.assertEqual(
            ["status", "sprint_id", "updated_at", "count"], [name for name in names[8:] if name != "_index"]
        )
        self.assertIn(record.event_line(0).encode() + b",\n{", self.file().read_bytes())

    def test_an_existing_name_is_refused_whatever_it_is(self) -> None:
        """A record, a damaged file, a dangling link: never written over."""
        for case in ("record", "damaged", "link"):
            with self.subTest(case):
                if case == "record":
                    create(self.store, case)
                elif case == "damaged":
                    self.put(b"{", case)
                else:
                    self.file(case).symlink_to("nowhere")
                before = self.file(case).lstat()
                with self.assertRaisesRegex(InputError, "exists already"):
                    create(self.store, case)
                self.assertEqual(before, self.file(case).lstat())

    def test_hostile_ids_reach_no_path(self) -> None:
        """An id that is no plain name is refused before anything is made."""
        for hostile in ("", "a/b", "../up", "..", "a\0b", "x" * 300, ".hidden", "a.lock", "a\n", "é"):
            with self.subTest(hostile), self.assertRaises(InputError):
                create(self.store, hostile)
        self.assertFalse(self.paths.state.exists())

    def test_files_are_private_whatever_the_umask(self) -> None:
        """Folders are 0700 and files 0600, with an open umask and with a narrow one."""
        for number, umask in enumerate((0o000, 0o777)):
            with self.subTest(oct(umask)):
                old = os.umask(umask)
                try:
                    store = open_store(self.root / str(number))
                    (self.root / str(number)).mkdir()
                    (self.root / str(number)).chmod(0o700)
                    create(store)
                    store.append(ID, note(store), expected_seq=1)
                finally:
                    os.umask(old)
                for path in sorted((self.root / str(number) / ".teams_runtime").rglob("*")):
                    self.assertEqual(0o700 if path.is_dir() else 0o600, stat.S_IMODE(path.stat().st_mode), path)

    def test_the_state_folder_ignores_itself(self) -> None:
        """Git sees nothing of the state folder."""
        create(self.store)
        self.assertEqual("*\n", (self.paths.state / ".gitignore").read_text())

    def test_a_file_in_the_place_of_a_folder_is_named(self) -> None:
        """One line says which folder is missing and why."""
        self.paths.state.write_text("in the way")
        with self.assertRaisesRegex(
            Exception, r"requests.*cannot be made: Not a directory|\.teams_runtime: cannot be made"
        ):
            create(self.store)


class AppendTest(StoreCase):
    def setUp(self) -> None:
        super().setUp()
        create(self.store)

    def test_an_appended_event_is_there_and_the_older_ones_are_unchanged(self) -> None:
        """Every older event keeps its bytes, the new one has the next number, the head is folded anew."""
        before = self.store.load(ID)
        record = self.store.append(ID, note(self.store, {"head_status": "running"}), expected_seq=1)
        self.assertEqual(before.event_line(0), record.event_line(0))
        self.assertEqual([1, 2], [event["seq"] for event in record.events])
        self.assertEqual(("running", 2), (record.head["status"], record.head["count"]))

    def test_compare_and_set(self) -> None:
        """An append that has not seen the newest event, or has seen too many, is refused and writes nothing."""
        blob = self.file().read_bytes()
        for seen in (0, 2, 99):
            with self.subTest(seen), self.assertRaisesRegex(RecordConflictError, "has 1 events"):
                self.store.append(ID, note(self.store), expected_seq=seen)
        self.assertEqual(blob, self.file().read_bytes())

    def test_the_same_event_is_stored_once(self) -> None:
        """A repeated append, at any later time, returns the record and writes nothing."""
        event = note(self.store)
        self.store.append(ID, event, expected_seq=1)
        for seq in range(2, 30):
            self.store.append(ID, note(self.store), expected_seq=seq)
        blob, changed = self.file().read_bytes(), self.file().stat().st_mtime_ns
        for seen in (1, 5, 30):
            self.assertEqual(30, self.store.append(ID, event, expected_seq=seen).seq)
        self.assertEqual((blob, changed), (self.file().read_bytes(), self.file().stat().st_mtime_ns))

    def test_an_id_belongs_to_one_event(self) -> None:
        """The same id with other content is refused, also when the values only look equal to Python."""
        self.store.append(ID, note(self.store, {"n": 1}, id="one"), expected_seq=1)
        for other in ({"n": 2}, {"n": True}, {"n": 1.0}, {}):
            with self.subTest(other), self.assertRaisesRegex(EventRefusedError, "another event .* has the id 'one'"):
                self.store.append(ID, note(self.store, other, id="one"), expected_seq=2)

    def test_refused_events(self) -> None:
        """Each breach gives one line that names it, and nothing is written."""
        good = note(self.store)
        circle: dict[str, Any] = {}
        circle["again"] = circle
        table: list[tuple[Any, str]] = [
            ([], "must be an object"),
            ({key: good[key] for key in good if key != "actor"}, "'actor' is missing"),
            (good | {"colour": 1}, "'colour' is no key"),
            (good | {"seq": 7}, "'seq' must be 2"),
            (good | {"seq": True}, "'seq' must be 2"),
            (good | {"id": 5}, "'id' must be a string, got int"),
            (good | {"id": ""}, "'id' must be 1 to 200"),
            (good | {"id": 'a"b'}, "'id' must be 1 to 200"),
            (good | {"timestamp": "yesterday"}, "'timestamp' must be UTC"),
            (good | {"type": " "}, "'type' must not be empty"),
            (good | {"actor": None}, "'actor' must be a string"),
            (good | {"payload": []}, "'payload' must be an object"),
            (good | {"payload": {"a": [float("nan")]}}, "/payload/a/0: nan is no JSON number"),
            (good | {"payload": {"a": float("inf")}}, "/payload/a: inf is no JSON number"),
            (good | {"payload": {1: 2}}, "/payload: a key must be a string, got int"),
            (good | {"payload": {"a": b"x"}}, "/payload/a: bytes is no JSON value"),
            (good | {"payload": {"a": {1, 2}}}, "/payload/a: set is no JSON value"),
            (good | {"payload": {"a": 10**5000}}, "at most 4300 digits"),
            (good | {"payload": circle}, "nested deeper than 700"),
            (good | {"payload": {"a": "x" * MAX_EVENT_BYTES}}, f"at most {MAX_EVENT_BYTES} fit"),
        ]
        blob = self.file().read_bytes()
        for event, expected in table:
            with self.subTest(expected), self.assertRaisesRegex(EventRefusedError, expected) as caught:
                self.store.append(ID, event, expected_seq=1)
            self.assertNotIn("\n", str(caught.exception))
        self.assertEqual(blob, self.file().read_bytes())

    def test_an_event_of_the_largest_size_fits(self) -> None:
        """The limit is the size of the JSON text itself."""
        event = note(self.store, {"a": ""}, id="i")
        room = MAX_EVENT_BYTES - len(self.store.append(ID, event, expected_seq=1).event_line(1))
        with self.assertRaises(EventRefusedError):
            self.store.append(ID, event | {"id": "j", "payload": {"a": "x" * (room + 1)}}, expected_seq=2)
        record = self.store.append(ID, event | {"id": "j", "payload": {"a": "x" * room}}, expected_seq=2)
        self.assertEqual(MAX_EVENT_BYTES, len(record.event_line(2)))

    def test_unknown_fields_of_the_head_stay_as_they_are_spelled(self) -> None:
        """A field that another program added keeps its text and its side of the events."""
        text = (
            self.file()
            .read_text()
            .replace('"scope":', '"odd":1e5,"scope":')
            .replace('"status":', '"new":"\\u00e9",\n"status":')
        )
        self.put(text.encode())
        self.store.append(ID, note(self.store), expected_seq=1)
        before, after = self.file().read_text().split('"events":')
        self.assertIn('"odd":1e5', before)
        self.assertIn('"new":"\\u00e9"', after)

    def test_what_cannot_grow_is_left_alone(self) -> None:
        """Foreign records, odd events and a gap in the numbers: one line, the bytes stay."""
        text = self.file().read_text()
        table = [
            (text.replace('"schema":1', '"schema":2'), "has the schema 2, this program lengthens schema 1 only"),
            (text.replace('"seq":1', '"seq":2'), "not made by teams-runtime"),
            ('{"request_id":"fix-sum","events":[{"event_type":"note"}]}', "not made by teams-runtime"),
            ('{"request_id":"fix-sum","events":{"a":1}}', "not made by teams-runtime"),
            (text.replace("\n],", ',\n{"seq":7}\n],', 1), "event 2 must have seq 2, got 7"),
            (text.replace("\n],", ",\nnull\n],", 1), "event 2 must have seq 2, got None"),
        ]
        for blob, expected in table:
            with self.subTest(expected), self.assertRaisesRegex(RecordDamagedError, expected):
                self.put(blob.encode())
                self.store.append(ID, note(self.store), expected_seq=1)
            self.assertEqual(blob, self.file().read_text())

    def test_a_missing_record_is_not_made(self) -> None:
        """Appending to nothing makes nothing."""
        with self.assertRaises(RecordNotFoundError):
            self.store.append("other", note(self.store), expected_seq=0)
        self.assertFalse(self.file("other").exists())

    @settings(max_examples=40, deadline=None)
    @given(st.dictionaries(st.text(st.characters(), max_size=5), JSON, max_size=4))
    def test_any_json_value_comes_back(self, payload: dict[str, Any]) -> None:
        """What was appended is what is read, and its line says the same."""
        seq = self.store.load(ID).seq
        self.store.append(ID, note(self.store, payload), expected_seq=seq)
        record = self.store.load(ID)
        self.assertEqual(repr(payload), repr(record.events[-1]["payload"]))
        self.assertEqual(record.events[-1], json.loads(record.event_line(seq)))


class AtTest(StoreCase):
    def test_a_record_as_it_stood(self) -> None:
        """`at(seq)` has the events up to then and the head of then."""
        create(self.store)
        then = self.store.append(ID, note(self.store, {"head_status": "running"}), expected_seq=1)
        now = self.store.append(ID, note(self.store, {"head_status": "waiting"}), expected_seq=2)
        self.assertEqual((then.head, then.events), (now.at(2).head, now.at(2).events))
        self.assertEqual((now.head, now.event_line(2)), (now.at(3).head, now.at(3).event_line(2)))
        self.assertEqual([], now.at(0).events)

    def test_a_foreign_record_keeps_its_head(self) -> None:
        """Nobody knows what a foreign head looked like earlier."""
        record = read_record_file(self.put(b'{"status":"odd","events":[{"a":1},{"a":2}]}'))
        self.assertEqual({"status": "odd"}, record.at(1).head)
        self.assertEqual([{"a": 1}], record.at(1).events)

    def test_no_such_event(self) -> None:
        """A number that no event has is an input error."""
        record = create(self.store)
        for seq in (-1, 2):
            with self.subTest(seq), self.assertRaisesRegex(InputError, "events 1 to 1"):
                record.at(seq)


class FindTest(StoreCase):
    def test_a_missing_id_names_those_that_look_alike(self) -> None:
        """A slip of the finger is told what was meant."""
        create(self.store, "fix-sum")
        with self.assertRaisesRegex(RecordNotFoundError, "there is no request 'fix-sun'; did you mean fix-sum?"):
            self.store.load("fix-sun")

    def test_a_prefix_is_enough_when_it_is_the_only_one(self) -> None:
        """A whole id wins, a unique beginning is found, several are named."""
        for one in ("fix", "fix-sum", "fix-max"):
            create(self.store, one)
        self.assertEqual("fix", self.store.resolve("fix"))
        self.assertEqual("fix-sum", self.store.resolve("fix-s"))
        with self.assertRaisesRegex(InputError, "begins 2 request ids: fix-max, fix-sum"):
            self.store.resolve("fix-")
        with self.assertRaises(RecordNotFoundError):
            self.store.resolve("other")
        with self.assertRaises(InputError):
            self.store.resolve("../x")

    def test_a_list_has_a_row_for_every_file(self) -> None:
        """Newest first; a damaged file is a row of its own; drafts and other files are none."""
        create(self.store, "good")
        self.put(b'{"request_id":"old","events":[1,2],"created_at":"2020-01-01T00:00:00Z"}', "old")
        self.put(b"{", "torn")
        (self.paths.requests / "good.json.tmp").write_text("{}")
        (self.paths.requests / "-odd.json").write_text("{}")
        rows = {row.request_id: row for row in self.store.list()}
        self.assertEqual({"good", "old", "torn"}, set(rows))
        self.assertIsInstance(rows["torn"], DamagedRecord)
        good, old = rows["good"], rows["old"]
        if not (isinstance(good, RecordSummary) and isinstance(old, RecordSummary)):
            self.fail("a whole record is listed as damaged")
        self.assertEqual(("fix sum()", "queued", 1, True), (good.scope, good.status, good.seq, good.native))
        self.assertEqual((2, False, "old"), (old.seq, old.native, self.store.list()[-1].request_id))

    def test_an_empty_workspace_has_an_empty_list(self) -> None:
        """Listing makes nothing."""
        self.assertEqual([], self.store.list())
        self.assertFalse(self.paths.state.exists())
