"""A file that is no record is refused with one line that names file and reason, and stays as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from unittest import skipUnless

from teams_runtime.shared.errors import RecordDamagedError, RecordNotFoundError
from teams_runtime.store.records import read_record_file
from teams_runtime.store.scanning import read_value
from teams_runtime.tests.store_support import ID, SHARED, StoreCase, create, note

DEEP = 100_000
NATIVE = b'{"schema":1,"request_id":"fix-sum","events":[{"type":"created","seq":1,"payload":{"n":[[]]}}]}'


class DamageTest(StoreCase):
    def test_every_kind_of_damage_has_its_line(self) -> None:
        """The line names the file and what was there; the bytes stay; another record is not affected."""
        create(self.store, "other")
        table: list[tuple[bytes, str]] = [
            (b"", "the file is empty"),
            (b"\0" * 64, "nothing but 64 zero or blank bytes"),
            (b" \n", "nothing but 2 zero or blank bytes"),
            (b"[]", "must be a JSON object, got a list"),
            (b"null", "must be a JSON object, got null"),
            (b'"text"', "must be a JSON object, got a str"),
            (b"7", "must be a JSON object, got a int"),
            (b'\xef\xbb\xbf{"events":[]}', "byte order mark"),
            (b'{"a":"\xff\xfe"}', "is not UTF-8: byte 6 starts with ff fe"),
            (b'{"a":"\xed\xa0\x80"}', "is not UTF-8: byte 6"),
            (b'{"events":[{"a":1},{"a"', "cut off: it ends inside event 2, after line 1, column 24"),
            (b'{"events":[{"a":1}] "b":2}', "event 1 is not JSON: expecting ','"),
            (b"{'a':1}", "the file is not JSON"),
            (b'{"a":1}{"b":2}', "text follows after the object's end"),
            (b'{"a":tru}', "field 'a' is not JSON"),
            (b'{"events":[1],"events":[]}', "'events' stands there twice"),
            (b'{"a":' + b"[" * DEEP + b"]" * DEEP + b"}", "field 'a' is nested too deeply"),
            (b"[" * DEEP, "nested too deeply"),
            (
                b'{"request_id":"../../etc/passwd"}',
                "request_id must be 'fix-sum', the file's name, got '../../etc/passwd'",
            ),
            (b'{"request_id":"' + b"x" * 500 + b'"}', "request_id must be 'fix-sum'"),
            (b'{"request_id":["fix-sum"]}', "request_id must be 'fix-sum'"),
            (NATIVE.replace(b"[[]]", b"[NaN]"), "event 1 holds NaN"),
            (NATIVE.replace(b"[[]]", b"[-Infinity]"), "event 1 holds -Infinity"),
            (b'{"a":' + b"9" * 100_001 + b"}", "field 'a' holds a number of 100001 digits, at most 100000"),
        ]
        for blob, expected in table:
            with self.subTest(expected):
                path = self.put(blob)
                with self.assertRaisesRegex(RecordDamagedError, expected) as caught:
                    self.store.load(ID)
                self.assertTrue(str(caught.exception).startswith(f"{path}: "))
                self.assertLess(len(caught.exception.reason), 200)
                self.assertNotIn("\n", str(caught.exception))
                self.assertEqual(blob, path.read_bytes())
        self.assertEqual(1, self.store.load("other").seq)

    def test_every_cut_of_a_record_is_called_a_cut(self) -> None:
        """Wherever a file ends too early, the line says that it is cut off."""
        create(self.store)
        self.store.append(ID, note(self.store, {"n": [-1.5e7, True, None], "s": 'é "\\ \U0001f600'}), expected_seq=1)
        blob = self.file().read_bytes().rstrip()
        for end in range(1, len(blob)):
            self.put(blob[:end])
            with self.assertRaisesRegex(RecordDamagedError, "the file is cut off"):
                self.store.load(ID)

    def test_what_is_no_regular_file_is_refused_at_once(self) -> None:
        """A folder, a pipe, a link: refused without waiting."""
        create(self.store, "other")
        for kind, expected in (("folder", "is a folder"), ("pipe", "is a named pipe"), ("link", "is a symbolic link")):
            with self.subTest(kind):
                path = self.file(kind)
                if kind == "folder":
                    path.mkdir()
                elif kind == "pipe":
                    os.mkfifo(path)
                else:
                    path.symlink_to(self.file("other"))
                with self.assertRaisesRegex(RecordDamagedError, expected):
                    self.store.load(kind)

    @skipUnless(os.geteuid() == 0, "only root can become somebody who may not read")
    def test_a_file_that_may_not_be_read_is_named(self) -> None:
        """Permission denied is one line."""
        create(self.store)
        self.file().chmod(0o000)
        for folder in (self.root, self.paths.state, self.paths.requests):
            folder.chmod(0o755)
        program = (
            "import os, sys, pathlib; from teams_runtime.store.records import read_record_file\nos.setuid(65534)\n"
        )
        program += "try: read_record_file(pathlib.Path(sys.argv[1]))\nexcept Exception as error: print(error)"
        done = subprocess.run(
            [sys.executable, "-c", program, str(self.file())], capture_output=True, text=True, check=True
        )
        self.assertEqual(f"{self.file()}: cannot be opened: Permission denied\n", done.stdout)

    def test_a_file_that_is_not_there(self) -> None:
        """Missing is another error than damaged."""
        with self.assertRaises(RecordNotFoundError):
            read_record_file(self.root / "none.json")

    def test_a_draft_beside_the_record_is_never_read(self) -> None:
        """A whole `.tmp` sibling does not stand in for a torn record."""
        torn = self.put(b'{"request_id":"fix-sum"')
        torn.with_name("fix-sum.json.tmp").write_text('{"request_id":"fix-sum","events":[]}')
        with self.assertRaisesRegex(RecordDamagedError, "cut off"):
            self.store.load(ID)
        self.assertEqual([ID], [row.request_id for row in self.store.list()])


class FidelityTest(StoreCase):
    def test_an_event_comes_back_as_it_is_spelled(self) -> None:
        """Numbers, escapes, key order, spaces and doubled keys are not respelled."""
        for text in (
            r'{"a":"\ud800"}',
            r'{"a":"\u0000\u001f"}',
            '{"a":123456789012345678901234567890}',
            '{"a":' + "7" * 5000 + "}",
            "[" * 700 + "]" * 700,
            '{"a":' * 700 + "1" + "}" * 700,
            '{"a":1e5,"b":1E+5,"c":0.1000,"d":-0}',
            r'{"a":"\/\u00e9é\u2028"}',
            '{"z": 1, "a" :2}',
            '{"a":1,"a":2}',
            '"text"',
            "null",
            "[1, 2]",
        ):
            with self.subTest(text):
                record = read_record_file(self.put(('{"events" : [ 0 ,\n ' + text + "\n]}").encode()))
                self.assertEqual(text, record.event_line(1))
                self.assertEqual(read_value(text), record.events[1])

    def test_nan_of_a_foreign_record_comes_back(self) -> None:
        """Python's own programs write NaN; it is shown as it is spelled."""
        for spelled in ("NaN", "Infinity", "-Infinity"):
            record = read_record_file(self.put(b'{"events":[{"a":' + spelled.encode() + b"}]}"))
            self.assertEqual(f'{{"a":{spelled}}}', record.event_line(0))
            self.assertEqual(spelled.lower().replace("infinity", "inf"), str(record.events[0]["a"]))

    def test_an_indented_event_is_joined_and_nothing_else(self) -> None:
        """Line breaks between tokens go, line breaks in strings are escapes and stay."""
        text = '{\n  "a": [\n    1e5,\n    "x \\n y"\n  ]\n}'
        record = read_record_file(self.put(('{"events":[' + text + "]}").encode()))
        self.assertEqual('{"a":[1e5,"x \\n y"]}', record.event_line(0))

    def test_foreign_records_are_read_whole(self) -> None:
        """No events, null, another type: shown as it is, and counted as none."""
        for text, count in (("{}", 0), ('{"events":null}', 0), ('{"events":{"a":1}}', 0), ('{"events":[{}]}', 1)):
            with self.subTest(text):
                record = read_record_file(self.put(text.encode()))
                self.assertEqual((json.loads(text), count, False), (record.data, record.seq, record.native))

    @skipUnless(SHARED, "shared/data is not beside this checkout")
    def test_hostile_samples(self) -> None:
        """Each sample is read whole, or refused with the reason that its name says."""
        reasons = {"01_bom": "byte order mark", "17_truncated": "cut off"}
        for path in sorted(SHARED.glob("hostile/*.json") if SHARED else ()):
            with self.subTest(path.name):
                if path.stem in reasons:
                    self.assertRaisesRegex(RecordDamagedError, reasons[path.stem], read_record_file, path)
                else:
                    self.assertEqual(json.loads(path.read_bytes()), read_record_file(path).data)
