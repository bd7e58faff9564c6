"""Processes that append at the same time, die, or run out of space lose nothing; every process here is a real one."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import skipUnless

from teams_runtime.shared.errors import RecordError
from teams_runtime.store.history import WHOLE_BYTES
from teams_runtime.tests.store_support import ID, StoreCase, create, note, open_store

FULL = os.environ.get("TEAMS_RUNTIME_CRASH") == "full"
KILLS = 200 if FULL else 4
ROOT = os.geteuid() == 0 and sys.platform == "linux"


def start(name: str, *arguments: object) -> subprocess.Popen[bytes]:
    """Run one of the support module's programs."""
    command = [sys.executable, "-m", "teams_runtime.tests.store_support", name, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class ConcurrencyTest(StoreCase):
    def setUp(self) -> None:
        super().setUp()
        create(self.store)

    def test_eight_processes_lose_and_double_nothing(self) -> None:
        """8 × 50 appends are 400 events, each once, in each process's order; a reader sees valid JSON all the time."""
        for alternate_from, times in ((WHOLE_BYTES, 15), (0, 50)):
            with self.subTest(alternate_from=alternate_from):
                self.start_anew()
                reader = start("read", self.file())
                writers = [start("append", self.root, alternate_from, name, times) for name in "abcdefgh"]
                for writer in writers:
                    self.assertEqual((0, b""), (writer.wait(120), writer.communicate()[1]))
                seen = json.loads(reader.communicate(timeout=60)[0])
                events = self.store.load(ID).events
                by = [(event["payload"]["by"], event["payload"]["number"]) for event in events[1:]]
                for name in "abcdefgh":
                    self.assertEqual(list(range(times)), [number for one, number in by if one == name])
                self.assertEqual(list(range(1, 8 * times + 2)), [event["seq"] for event in events])
                self.assertEqual((0, True), (seen["bad"], seen["good"] > 0))

    def test_a_killed_writer_loses_no_event_that_it_had_reported(self) -> None:
        """After each kill the file is whole, holds every reported event, and can grow; a reader never fails."""
        chance = random.Random(7)
        for alternate_from in (WHOLE_BYTES, 0):
            self.start_anew()
            reader = start("read", self.file())
            for _ in range(KILLS):
                self._kill(start("append-endlessly", self.root, alternate_from), chance.uniform(0.001, 0.05))
            record = self.store.load(ID)
            seen = json.loads(reader.communicate(timeout=60)[0])
            self.assertEqual(0, seen["bad"])
            if FULL:
                told = (
                    f"{KILLS} kills, {record.seq} events, none lost; {seen['good']} reads by another program, 0 torn; "
                )
                sys.stderr.write(told)
            self.assertEqual(record.seq + 1, self.store.append(ID, note(self.store), expected_seq=record.seq).seq)

    def _kill(self, writer: subprocess.Popen[bytes], after_seconds: float) -> None:
        if writer.stdout is None:
            self.fail("the writer has no output")
        first = writer.stdout.readline()
        time.sleep(after_seconds)
        writer.send_signal(signal.SIGKILL)
        reported = [first, *writer.stdout.read().splitlines()]  # what readline has read ahead is still in this stream
        writer.communicate()
        events = json.loads(self.file().read_bytes())["events"]
        self.assertIn(len(events) - int(reported[-1]), (0, 1))
        self.assertEqual(list(range(1, len(events) + 1)), [event["seq"] for event in events])

    def start_anew(self) -> None:
        """A fresh record."""
        shutil.rmtree(self.paths.state)
        create(self.store)

    def test_a_killed_lock_holder_blocks_nobody(self) -> None:
        """While it lives an append gives up with one line, when it is killed the next append goes through."""
        holder = start("hold-lock", self.root)
        if holder.stdout is None:
            self.fail("the holder has no output")
        self.assertEqual(b"held\n", holder.stdout.readline())
        with self.assertRaisesRegex(RecordError, r"another process has held fix-sum\.record\.lock for 0\.1 s"):
            open_store(self.root, timeout=0.1).append(ID, note(self.store), expected_seq=1)
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
        self.assertEqual(2, self.store.append(ID, note(self.store), expected_seq=1).seq)


class NoSpaceTest(StoreCase):
    def setUp(self) -> None:
        super().setUp()
        create(self.store)

    def test_a_write_that_is_cut_short_leaves_the_old_record(self) -> None:
        """A process that may write no more than 64 KiB a file says so; the record stays and can be lengthened."""
        blob = self.file().read_bytes()
        done = start("short-of-space", self.root, 65536).communicate(timeout=60)
        self.assertEqual(f"{self.file()}: cannot be written: File too large; nothing was lost", done[0].decode())
        self.assertEqual((blob, [self.file()]), (self.file().read_bytes(), list(self.paths.requests.iterdir())))
        self.assertEqual(2, self.store.append(ID, note(self.store), expected_seq=1).seq)

    @skipUnless(ROOT, "only root can mount a small file system")
    def test_a_full_file_system_leaves_the_old_record(self) -> None:
        """No space left: one line, the old record, and the next small event fits."""
        place = self.root / "small"
        place.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", place], check=False).returncode:
            self.skipTest("mounting is not allowed here")
        try:
            store = open_store(place)
            blob = create(store).path.read_bytes()
            with self.assertRaisesRegex(RecordError, "cannot be written: No space left on device; nothing was lost"):
                store.append(ID, note(store, {"bulk": "x" * 200_000}), expected_seq=1)
            self.assertEqual(blob, store.load(ID).path.read_bytes())
            self.assertEqual(2, store.append(ID, note(store), expected_seq=1).seq)
        finally:
            subprocess.run(["umount", place], check=True)

    def test_a_read_only_folder_is_one_line(self) -> None:
        """The record can still be read."""
        self._freeze(self.paths.requests)
        blob = self.file().read_bytes()
        with self.assertRaisesRegex(RecordError, "cannot be written: (Operation not permitted|Permission denied)"):
            self.store.append(ID, note(self.store), expected_seq=1)
        self.assertEqual((blob, 1), (self.file().read_bytes(), self.store.load(ID).seq))

    def _freeze(self, folder: Path) -> None:
        if os.geteuid() != 0:
            folder.chmod(0o500)
            self.addCleanup(folder.chmod, 0o700)
        elif subprocess.run(["chattr", "+i", folder], check=False).returncode:
            self.skipTest("this file system has no immutable folders, and root is not held back by modes")
        else:
            self.addCleanup(lambda: subprocess.run(["chattr", "-i", folder], check=True))
