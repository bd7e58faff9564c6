"""A crash at any byte of any write and at any system call leaves a whole record that can be lengthened.

`make test` tries every system call and some bytes of each write; `make crash` tries every byte
(`TEAMS_RUNTIME_CRASH=full`).
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from unittest import skipUnless

from teams_runtime.shared.errors import TeamsRuntimeError
from teams_runtime.store.alternating import spare_path
from teams_runtime.store.history import IndexedHistory, open_history
from teams_runtime.store.records import RecordStore
from teams_runtime.store.writing import Disk
from teams_runtime.tests.store_support import ID, StoreCase, append_retrying, create, note, open_store

FULL = os.environ.get("TEAMS_RUNTIME_CRASH") == "full"
ROOT = os.geteuid() == 0 and sys.platform == "linux"
ENDLESS = 10**12


class Crash(BaseException):
    """The program is gone: no handler of ours catches it."""


class CrashDisk(Disk):
    """Stops after a number of steps: each byte of a write is a step, and so is every other system call.

    Nothing is synced, so that many crashes can be tried; `OrderTest` checks the syncs.
    """

    def __init__(self, steps: int, *, exchanges: bool) -> None:
        self.left = steps
        self.exchanges = exchanges
        self.calls: list[int] = []
        """How many steps were left before each system call."""

    def step(self) -> None:
        """One system call."""
        self.calls.append(self.left)
        if self.left <= 0:
            raise Crash
        self.left -= 1

    def create(self, path: Path) -> int:
        self.step()
        return super().create(path)

    def write(self, descriptor: int, blob: bytes, offset: int) -> None:
        self.calls.append(self.left)
        super().write(descriptor, blob[: self.left], offset)
        if self.left < len(blob):
            raise Crash
        self.left -= len(blob)

    def copy_range(self, source: int, target: int, length: int, offset: int) -> int:
        self.calls.append(self.left)
        done = super().copy_range(source, target, min(length, self.left), offset) if self.left else 0
        if done < length:
            raise Crash
        self.left -= done
        return done

    def truncate(self, descriptor: int, length: int) -> None:
        self.step()
        super().truncate(descriptor, length)

    def sync(self, descriptor: int) -> None:
        self.step()

    def sync_folder(self, folder: Path) -> None:
        self.step()

    def replace(self, source: Path, target: Path) -> None:
        self.step()
        super().replace(source, target)

    def exchange(self, first: Path, second: Path) -> None:
        if not self.exchanges:
            raise OSError(errno.EINVAL, "Invalid argument")
        self.step()
        super().exchange(first, second)

    def link(self, source: Path, target: Path) -> None:
        self.step()
        super().link(source, target)

    def remove(self, path: Path) -> None:
        self.step()
        super().remove(path)

    def make_folder(self, folder: Path) -> None:
        self.step()
        super().make_folder(folder)


class FaultDisk(CrashDisk):
    """Every system call works but one, which fails with an error number."""

    def __init__(self, failing: int, number: int) -> None:
        super().__init__(ENDLESS, exchanges=True)
        self.failing = failing
        self.number = number

    def step(self) -> None:
        self.failing -= 1
        if self.failing == 0:
            raise OSError(self.number, os.strerror(self.number))

    def write(self, descriptor: int, blob: bytes, offset: int) -> None:
        try:
            self.step()
        except OSError:
            Disk.write(self, descriptor, blob[: len(blob) // 2], offset)
            raise
        Disk.write(self, descriptor, blob, offset)

    def copy_range(self, source: int, target: int, length: int, offset: int) -> int:
        self.step()
        return Disk.copy_range(self, source, target, length, offset)


class OrderDisk(Disk):
    """Checks that no name is given to bytes that a power cut could still take away."""

    def __init__(self) -> None:
        self.dirty: set[int] = set()
        self.folders: set[Path] = set()

    def write(self, descriptor: int, blob: bytes, offset: int) -> None:
        self.dirty.add(os.fstat(descriptor).st_ino)
        super().write(descriptor, blob, offset)

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        self.dirty.discard(os.fstat(descriptor).st_ino)

    def sync_folder(self, folder: Path) -> None:
        super().sync_folder(folder)
        self.folders.discard(folder)

    def _named(self, path: Path, folder: Path) -> None:
        if path.stat().st_ino in self.dirty:
            raise AssertionError(f"{path.name} is published before its bytes are on the device")
        self.folders.add(folder)

    def replace(self, source: Path, target: Path) -> None:
        self._named(source, target.parent)
        super().replace(source, target)

    def link(self, source: Path, target: Path) -> None:
        self._named(source, target.parent)
        super().link(source, target)

    def exchange(self, first: Path, second: Path) -> None:
        self._named(second, first.parent)
        super().exchange(first, second)


def events_of(path: Path) -> list[int]:
    """What any other program would read: the numbers of the events."""
    return [event["seq"] for event in json.loads(path.read_bytes())["events"]]


class CrashCase(StoreCase):
    """A record in one of the states that an append can meet, copied anew for every crash."""

    STATES = ("short", "long without spare", "long", "long without exchange", "edited")

    def prepare(self, state: str, place: Path) -> None:
        """Make the record in the folder `place`."""
        place.mkdir()
        store = self.open(state, place)
        create(store)
        for seq in range(1, 4):
            store.append(ID, note(store, {"role": "qa", "status": "x", "text": 'é"\\]}\u2028'}), expected_seq=seq)
        if state == "long without spare":
            spare_path(store.load(ID).path).unlink()
        if state == "edited":
            path = store.load(ID).path
            path.write_text(json.dumps(json.loads(path.read_bytes()), indent=1))

    def open(self, state: str, place: Path, disk: Disk | None = None) -> RecordStore:
        """The store that works on it."""
        return open_store(place, disk=disk, alternate_from=0 if state.startswith("long") else 1 << 30)

    def copy(self, state: str) -> Path:
        """A fresh copy of a prepared workspace."""
        base, place = self.root / state, self.root / "copy"
        if not base.exists():
            self.prepare(state, base)
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(base, place)
        return place

    def check(self, state: str, place: Path) -> None:
        """The record is whole, before or after the append, and goes on."""
        path = place / ".teams_runtime" / "requests" / f"{ID}.json"
        seen = len(events_of(path))
        self.assertEqual(list(range(1, seen + 1)), events_of(path))
        self.assertIn(seen, (4, 5))
        store = self.open(state, place)
        record = store.load(ID)
        for _ in range(3):
            record = store.append(ID, note(store), expected_seq=record.seq)
        self.assertEqual(list(range(1, seen + 4)), events_of(path))
        history = open_history(path, follow_links=False)
        self.assertTrue(isinstance(history, IndexedHistory) and history.index.count == seen + 3)


class CrashTest(CrashCase):
    def test_an_append_may_be_cut_anywhere(self) -> None:
        """At every step of an append to a record in every state."""
        tried = 0
        for state in self.STATES:
            for steps in stops(partial(self._append, state), exchanges=self._exchanges(state)):
                with self.assertRaises(Crash):
                    self._append(state, CrashDisk(steps, exchanges=self._exchanges(state)))
                self.check(state, self.root / "copy")
                tried += 1
        self.assertGreater(tried, 100)
        if FULL:
            sys.stderr.write(f"{tried} crashes of an append, every record whole; ")

    def test_a_creation_may_be_cut_anywhere(self) -> None:
        """There is no record, or a whole one; a second try makes it or finds it."""
        for steps in stops(lambda disk: create(self._empty(disk)), exchanges=True):
            with self.assertRaises(Crash):
                create(self._empty(CrashDisk(steps, exchanges=True)))
            store = open_store(self.root / "empty")
            path = self.root / "empty" / ".teams_runtime" / "requests" / f"{ID}.json"
            record = store.load(ID) if path.exists() else create(store)
            self.assertEqual([1], events_of(path))
            self.assertEqual(2, store.append(ID, note(store), expected_seq=record.seq).seq)

    def _append(self, state: str, disk: CrashDisk) -> None:
        store = self.open(state, self.copy(state), disk)
        store.append(ID, note(store, {"n": 1}), expected_seq=4)

    def _empty(self, disk: CrashDisk) -> RecordStore:
        shutil.rmtree(self.root / "empty", ignore_errors=True)
        (self.root / "empty").mkdir()
        return open_store(self.root / "empty", disk=disk)

    def _exchanges(self, state: str) -> bool:
        return state != "long without exchange"


def stops(use: Callable[[CrashDisk], object], *, exchanges: bool) -> Iterator[int]:
    """Yield the numbers of steps after which to crash: every system call; of a write every byte, or some of them."""
    disk = CrashDisk(ENDLESS, exchanges=exchanges)
    use(disk)
    starts = [ENDLESS - left for left in (*disk.calls, disk.left)]
    for start, end in pairwise(starts):
        some = {start, min(start + 1, end - 1), end - 1, *range(start, end, (end - start) // 16 + 1)}
        yield from range(start, end) if FULL else sorted(some)


class FaultTest(CrashCase):
    def test_an_append_may_fail_anywhere(self) -> None:
        """Each system call fails once, with each error: one line, a whole record, and a retry stores the event once."""
        for state in self.STATES:
            for number in (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EDQUOT):
                self._fail_each(state, number)

    def _fail_each(self, state: str, number: int) -> None:
        failing = 0
        while True:
            failing += 1
            place = self.copy(state)
            disk = FaultDisk(failing, number)
            store = self.open(state, place, disk)
            event = note(store, {"n": 1})
            try:
                store.append(ID, event, expected_seq=4)
            except TeamsRuntimeError as error:
                self.assertIn(os.strerror(number), str(error))
                self.assertEqual(5, append_retrying(self.open(state, place), event).seq)
                self.check(state, place)
            if disk.failing > 0:
                return


class OrderTest(CrashCase):
    def test_names_are_given_to_synced_bytes_and_success_comes_last(self) -> None:
        """A power cut can take away nothing that was reported."""
        for state in self.STATES:
            with self.subTest(state):
                self.prepare(state, self.root / state)
                disk = OrderDisk()
                store = self.open(state, self.root / state, disk)
                for seq in range(4, 8):
                    store.append(ID, note(store), expected_seq=seq)
                    self.assertEqual((set(), set()), (disk.folders, disk.dirty))


@skipUnless(ROOT, "only root can mount file systems")
class FileSystemTest(CrashCase):
    def test_tmpfs(self) -> None:
        """A record in memory."""
        self.mounted(["-t", "tmpfs", "tmpfs"], self.grow)

    def test_overlayfs(self) -> None:
        """A record in a container's file system, also one that came with its image."""
        base = self.root / "memory"
        base.mkdir()
        self.mount(["-t", "tmpfs", "tmpfs", base], base)
        for name in ("lower", "upper", "work"):
            (base / name).mkdir()
        self.prepare("long", base / "lower" / "image")
        folders = f"lowerdir={base / 'lower'},upperdir={base / 'upper'},workdir={base / 'work'}"
        self.mounted(["-t", "overlay", "overlay", "-o", folders], self.grow)

    def mounted(self, arguments: list[str], use: Callable[[Path], None]) -> None:
        """Mount a file system and use it."""
        place = self.root / "mounted"
        place.mkdir()
        self.mount([*arguments, place], place)
        use(place)

    def mount(self, arguments: list[str | Path], place: Path) -> None:
        """Mount a file system for the rest of the test."""
        if subprocess.run(["mount", *arguments], check=False, capture_output=True).returncode:
            self.skipTest("mounting is not allowed here")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", place], check=True))

    def grow(self, place: Path) -> None:
        """Lengthen a short and a long record, and one that is there already."""
        for state in ("short", "long"):
            self.prepare(state, place / state)
        if not (place / "image").exists():
            self.prepare("long", place / "image")
        for name in ("short", "long", "image"):
            store = self.open(name.replace("image", "long"), place / name)
            for seq in range(4, 12):
                store.append(ID, note(store), expected_seq=seq)
            path = store.load(ID).path
            self.assertEqual(list(range(1, 13)), events_of(path))
            self.assertEqual(name != "short", spare_path(path).exists())
