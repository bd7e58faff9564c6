"""Where the command's words go and how it is ended: full disks, closed streams, steering characters, signals."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
import unittest
from contextlib import suppress

import psutil  # type: ignore[import-untyped]

from teams_runtime.tests.team_fixture import PLAN, TEAM, TeamCase, answer
from teams_runtime.tests.test_cli_main import COMMAND, teams_runtime

FULL = "standard output: cannot be written: No space left on device\n"


class StreamCase(TeamCase):
    """A test that runs the real command through a shell, so that streams can be full or closed."""

    def shell(self, tail: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `teams-runtime ARGUMENTS` with a redirection after it, in the workspace."""
        script = f'"$@" {tail}'
        command = ["bash", "-c", script, "bash", *COMMAND, *arguments]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, timeout=60, check=False)

    def only_record(self) -> dict[str, object]:
        """The workspace's one record."""
        (path,) = self.paths.requests.glob("*.json")
        found: dict[str, object] = json.loads(path.read_bytes())
        return found


class OutputTest(StreamCase):
    """What becomes of output that cannot be written."""

    def test_a_full_disk_is_one_line(self) -> None:
        """Short texts, texts longer than any buffer, and click's own."""
        for arguments in (("list",), ("config", "schema"), ("--help",), ("config", "check")):
            with self.subTest(arguments):
                done = self.shell(">/dev/full", *arguments)
                self.assertEqual((2, FULL), (done.returncode, done.stderr))

    def test_errors_that_cannot_be_told_keep_their_exit_code(self) -> None:
        self.assertEqual(2, self.shell("2>/dev/full", "show", "nothing").returncode)

    def test_closed_streams_are_no_failure(self) -> None:
        """There is nobody to tell; what was asked for is done."""
        for arguments in (("list",), ("run", "Mend total", "--profile", "lean")):
            with self.subTest(arguments):
                done = self.shell(">&-", *arguments)
                self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_a_closed_input_is_one_line(self) -> None:
        for arguments in (("run", "-"), ("run", "Mend total", "--body-file", "-")):
            with self.subTest(arguments):
                done = self.shell("<&-", *arguments)
                self.assertEqual((2, 1), (done.returncode, done.stderr.count("\n")), done.stderr)

    def test_a_view_that_nobody_reads_does_not_stop_the_work(self) -> None:
        """The reader goes away after the first line, or the log is on a full disk: the request is completed."""
        for tail in ("| head -n 1", ">/dev/full"):
            with self.subTest(tail):
                for path in self.paths.requests.glob("*.json"):
                    path.unlink()
                self.shell(tail, "run", "Mend total", "--profile", "lean")
                self.assertEqual("completed", self.only_record()["status"])

    def test_a_folder_that_is_gone_is_one_line(self) -> None:
        gone = self.root / "gone"
        for verb in ("list", "run x", "init", "demo", "config check"):
            with self.subTest(verb):
                gone.mkdir()
                command = f'cd gone && rmdir ../gone && "$@" {verb}'
                done = subprocess.run(
                    ["bash", "-c", command, "bash", *COMMAND],
                    cwd=self.root,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual((2, 1), (done.returncode, done.stderr.count("\n")), done.stderr)


class TerminalTest(TeamCase):
    """What a terminal is sent."""

    def test_words_of_a_role_cannot_steer_the_terminal(self) -> None:
        """Escape sequences, of one byte or two, come out escaped; elsewhere texts stay as they are."""
        self.write_script(answer("planner", status="blocked", error="which\x1b[31m total\u009b5m?"))
        teams_runtime("run", "Mend total", "--profile", "lean", folder=self.root)
        (path,) = self.paths.requests.glob("*.json")
        for arguments in (("show", path.stem), ("show", path.stem, "--events", "3"), ("prompt", path.stem)):
            with self.subTest(arguments):
                shown = self.on_a_terminal(*arguments)
                self.assertFalse({"\x1b", "\u009b"} & set(shown), shown)

    def on_a_terminal(self, *arguments: str) -> str:
        """Run a verb with a terminal as its output and return what came."""
        here, there = pty.openpty()
        runner = subprocess.Popen([*COMMAND, *arguments], cwd=self.root, stdout=there)
        os.close(there)
        parts = []
        while True:
            try:
                part = os.read(here, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            parts.append(part)
        os.close(here)
        self.assertEqual(0, runner.wait(60))
        return b"".join(parts).decode()


class SignalTest(TeamCase):
    """A run that is asked to end."""

    def test_what_a_run_started_ends_with_it(self) -> None:
        """TERM, HUP and Ctrl-C: no process of the turn is left, the line says how to go on, and that works."""
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            with self.subTest(number.name):
                self.write_script(PLAN, {**answer("developer"), "actions": [{"run": ["sh", "-c", "sleep 7777"]}]})
                runner = subprocess.Popen(
                    [*COMMAND, "run", "Mend total", "--profile", "lean"], cwd=self.root, text=True,
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                )  # fmt: skip
                sleeper = self.descendant(runner.pid, "7777")
                runner.send_signal(number)
                _, told = runner.communicate(timeout=30)
                self.assertEqual((128 + number, False), (runner.returncode, sleeper.is_running()))
                request_id = told.strip().rpartition(" ")[2]
                self.write_script(*TEAM)
                self.assertEqual(0, teams_runtime("resume", request_id, folder=self.root).returncode, told)

    def test_the_next_run_ends_what_a_killed_one_left(self) -> None:
        """After SIGKILL nothing of the lost turn goes on writing beside the new one."""
        self.write_script(PLAN, {**answer("developer"), "actions": [{"run": ["sh", "-c", "sleep 7777; touch late"]}]})
        command = [*COMMAND, "run", "Mend total", "--profile", "lean"]
        runner = subprocess.Popen(command, cwd=self.root, stdout=subprocess.DEVNULL)
        sleeper = self.descendant(runner.pid, "7777")
        runner.kill()
        runner.wait()
        self.assertTrue(sleeper.is_running())
        self.write_script(*TEAM)
        (path,) = self.paths.requests.glob("*.json")
        self.assertEqual(0, teams_runtime("resume", path.stem, folder=self.root).returncode)
        self.assertFalse(sleeper.is_running() and sleeper.status() != psutil.STATUS_ZOMBIE)

    def descendant(self, pid: int, argument: str) -> psutil.Process:
        """Wait for a `sleep` with an argument among what a process started, and return it."""
        limit = time.monotonic() + 30
        found: list[psutil.Process] = []
        while not found and time.monotonic() < limit:
            time.sleep(0.02)
            found = [one for one in psutil.Process(pid).children(recursive=True) if _is_sleep(one, argument)]
        self.assertTrue(found, f"no sleep {argument} was started")
        self.addCleanup(_kill, found[0])
        return found[0]


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.Error):
        process.kill()


def _is_sleep(process: psutil.Process, argument: str) -> bool:
    try:
        return bool(process.cmdline() == ["sleep", argument])
    except psutil.Error:
        return False


if __name__ == "__main__":
    unittest.main()
