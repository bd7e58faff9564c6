"""Programs are bounded in time and output, and nothing of them is left; real processes throughout."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from teams_runtime.processes.descendants import MARK, PLACE_MARK, end_orphans, family, place_mark
from teams_runtime.processes.supervisor import ProcessResult, child_environment, run_process
from teams_runtime.shared.errors import ProcessError

LINUX = sys.platform == "linux"
LONG = 60.0
"""A deadline that no test reaches."""

DAEMON = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        {clear}
        open("pid.tmp", "w").write(str(os.getpid()))
        os.rename("pid.tmp", "daemon.pid")
        time.sleep(600)
    os._exit(0)
while not os.path.exists("daemon.pid"):
    time.sleep(0.005)
print("leader done", flush=True)
"""


class ProcessCase(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_python(
        self, code: str, *, deadline: float = LONG, stdin: bytes | None = None, limit: int = 1 << 20
    ) -> ProcessResult:
        return run_process(
            [sys.executable, "-c", code],
            cwd=self.folder,
            environment=child_environment(os.environ),
            deadline_seconds=deadline,
            stdin=stdin,
            output_limit_bytes=limit,
            grace_seconds=0.3,
        )

    def run_shell(self, code: str, *, deadline: float = LONG) -> ProcessResult:
        return run_process(
            ["sh", "-c", code],
            cwd=self.folder,
            environment={"PATH": os.environ["PATH"]},
            deadline_seconds=deadline,
            grace_seconds=0.3,
        )

    def daemon_gone(self) -> bool:
        return not psutil.pid_exists(int((self.folder / "daemon.pid").read_text()))


class EndTest(ProcessCase):
    """What a command starts ends with it."""

    def test_output_and_exit_code_come_back(self) -> None:
        """Both streams and the exit code of a program are given as they are."""
        result = self.run_python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
        self.assertEqual((3, b"out\n", b"err\n"), (result.exit_code, result.stdout, result.stderr))
        self.assertEqual((False, False), (result.timed_out, result.truncated))

    def test_a_signal_is_a_negative_exit_code(self) -> None:
        """A program that kills itself is told from one that exits."""
        result = self.run_python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
        self.assertEqual(-signal.SIGKILL, result.exit_code)

    @unittest.skipUnless(LINUX, "needs a subreaper, which only Linux has")
    def test_a_daemon_that_ignores_term_ends_with_its_command(self) -> None:
        """setsid, double fork and an ignored SIGTERM let no background process outlive normal completion."""
        result = self.run_python(DAEMON.format(clear=""))
        self.assertEqual((0, b"leader done\n"), (result.exit_code, result.stdout))
        self.assertTrue(self.daemon_gone())

    @unittest.skipUnless(LINUX, "needs a subreaper, which only Linux has")
    def test_a_daemon_ends_at_the_deadline(self) -> None:
        """At the deadline the daemon ends together with a leader that would sleep on."""
        daemon = "trap '' TERM; echo $$ > pid; mv pid daemon.pid; while :; do sleep 1; done"
        wait = "while [ ! -e daemon.pid ]; do sleep 0.01; done; echo leader done; sleep 600"
        result = self.run_shell(f'(setsid sh -c "{daemon.replace("$", chr(92) + "$")}" &) ; {wait}', deadline=1.0)
        self.assertTrue(result.timed_out)
        self.assertEqual(b"leader done\n", result.stdout)
        self.assertTrue(self.daemon_gone())

    @unittest.skipUnless(LINUX, "needs a subreaper, which only Linux has")
    def test_a_daemon_without_its_environment_ends_too(self) -> None:
        """A process that threw away the mark in its environment is still found."""
        code = "import os, time\nos.closerange(0, 3)\nopen('pid.tmp', 'w').write(str(os.getpid()))\n"
        code += "os.rename('pid.tmp', 'daemon.pid')\ntime.sleep(600)"
        start = f"os.execve(sys.executable, [sys.executable, '-c', {code!r}], {{}})"
        self.run_python(DAEMON.format(clear=start))
        self.assertTrue(self.daemon_gone())

    def test_a_leader_that_ignores_term_is_killed(self) -> None:
        """TERM is asked first, KILL decides."""
        result = self.run_shell("trap '' TERM; while :; do sleep 1; done", deadline=0.5)
        self.assertEqual((True, -signal.SIGKILL), (result.timed_out, result.exit_code))

    def test_term_lets_a_program_end_by_itself(self) -> None:
        """A program may tidy up within the grace time, and what it then says is kept."""
        result = self.run_shell("trap 'echo tidy; exit 7' TERM; sleep 600 & wait", deadline=0.5)
        self.assertEqual((True, 7, b"tidy\n"), (result.timed_out, result.exit_code, result.stdout))

    def test_a_child_that_closes_its_output_and_sleeps_meets_the_deadline(self) -> None:
        """The end of the output is not the end of the program."""
        result = self.run_python("import os, time; os.close(1); os.close(2); time.sleep(600)", deadline=0.5)
        self.assertEqual((True, b""), (result.timed_out, result.stdout))

    def test_a_background_child_that_holds_the_output_does_not_hold_the_call(self) -> None:
        """A `sleep &` that keeps the pipe open ends with its shell."""
        result = self.run_shell("sleep 600 & echo done")
        self.assertEqual((False, b"done\n"), (result.timed_out, result.stdout))

    def test_fifty_runs_leave_no_child_and_no_file_open(self) -> None:
        """Nothing adds up over many runs, ended by themselves or at the deadline."""
        me = psutil.Process()
        before = (len(me.children(recursive=True)), me.num_fds())
        for number in range(50):
            argv = ["sleep", "600"] if number % 10 == 0 else ["sh", "-c", "sleep 600 & exit 0"]
            run_process(argv, cwd=self.folder, environment={"PATH": os.environ["PATH"]}, deadline_seconds=0.05)
        self.assertEqual(before, (len(me.children(recursive=True)), me.num_fds()))

    @unittest.skipUnless(LINUX, "needs a subreaper, which only Linux has")
    def test_the_process_is_a_subreaper_only_while_commands_run(self) -> None:
        """What was set before the first run is put back after the last."""

        def subreaper() -> int:
            value = ctypes.c_int(-1)
            ctypes.CDLL(None).prctl(37, ctypes.byref(value), 0, 0, 0)
            return value.value

        self.assertEqual(0, subreaper())
        with family():
            self.assertEqual(1, subreaper())
        self.assertEqual(0, subreaper())

    def test_runs_side_by_side_do_not_end_each_other(self) -> None:
        """A short run that ends leaves the children of a longer one alone."""
        results: list[ProcessResult] = []
        fifo = self.folder / "go"
        os.mkfifo(fifo)
        wait = "while [ ! -s heard ]; do sleep 0.01; done; cat heard"
        code = f"(setsid sh -c 'read word < go; echo heard > heard' &) ; {wait}"

        def long_run() -> None:
            results.append(self.run_shell(code))

        thread = threading.Thread(target=long_run)
        thread.start()
        with fifo.open("w") as go:  # opens once the long run's orphan reads
            self.run_python("pass")
            go.write("go\n")
        thread.join(LONG)
        self.assertEqual([(0, b"heard\n")], [(result.exit_code, result.stdout) for result in results])


class PipeTest(ProcessCase):
    """No pipe can hold a call up or fill the memory."""

    def test_a_flood_is_kept_by_its_first_and_last_part(self) -> None:
        """200 MB on both streams: the head, the tail and the count of what lies between."""
        code = "import sys\nb = b'x' * (1 << 20)\nw = sys.stdout.buffer.write\nw(b'first')\n"
        code += "for _ in range(200): w(b)\nw(b'last')\nsys.stderr.write('e' * 300000)"
        result = self.run_python(code, limit=1000)
        self.assertTrue(result.truncated)
        self.assertTrue(result.stdout.startswith(b"firstxxx") and result.stdout.endswith(b"xxxlast"))
        self.assertIn(b"\n[%d bytes left out]\n" % (200 * (1 << 20) + 9 - 1000), result.stdout)

    def test_output_of_exactly_the_limit_is_whole(self) -> None:
        """The limit itself is not too much."""
        for size, truncated in ((1000, False), (1001, True)):
            with self.subTest(size=size):
                result = self.run_python(f"print('y' * {size}, end='')", limit=1000)
                self.assertEqual(truncated, result.truncated)

    def test_input_of_any_size_is_written_while_output_is_read(self) -> None:
        """A child that echoes 5 MB deadlocks neither side."""
        data = os.urandom(5 << 20)
        result = self.run_python("import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)",
                                 stdin=data, limit=16 << 20)  # fmt: skip
        self.assertEqual(data, result.stdout)

    def test_a_child_that_never_reads_its_input_is_no_obstacle(self) -> None:
        """Neither one that exits nor one that sleeps till the deadline."""
        reads_a_page = "import os, time; os.read(0, 4096); time.sleep(600)"
        cases = (("pass", LONG, False), ("import time; time.sleep(600)", 0.5, True), (reads_a_page, 0.5, True))
        for code, deadline, timed_out in cases:
            with self.subTest(code=code):
                result = self.run_python(code, stdin=b"z" * (1 << 20), deadline=deadline)
                self.assertEqual(timed_out, result.timed_out)

    def test_no_input_is_an_empty_input(self) -> None:
        """A child never reads the terminal of its parent."""
        for stdin in (None, b""):
            with self.subTest(stdin=stdin):
                self.assertEqual(b"b''", self.run_python("import sys; print(sys.stdin.buffer.read(), end='')",
                                                         stdin=stdin).stdout)  # fmt: skip


class StartTest(ProcessCase):
    """What cannot start says why, in one line with a remedy."""

    def test_what_cannot_start_is_one_clear_line(self) -> None:
        """A missing program, one without permission, one of a strange format, a missing folder, a NUL."""
        plain = self.folder / "plain"
        plain.write_text("no program")
        odd = self.folder / "odd"
        odd.write_bytes(b"\0\1\2")
        odd.chmod(0o700)
        cases: tuple[tuple[list[str], Path, str], ...] = (
            (
                ["no-such-program-here"],
                self.folder,
                "'no-such-program-here' cannot be started: no such program; install",
            ),
            ([str(plain)], self.folder, "permission denied; make it executable"),
            ([str(odd)], self.folder, "Exec format error; check the program"),
            (["true"], self.folder / "gone", "gone' it should run in is not there"),
            (["true", "a\0b"], self.folder, "embedded null byte"),
            ([], self.folder, "'' cannot be started"),
        )
        for argv, cwd, words in cases:
            with self.subTest(argv=argv), self.assertRaises(ProcessError) as caught:
                run_process(argv, cwd=cwd, environment={"PATH": "/usr/bin:/bin"}, deadline_seconds=LONG)
            self.assertIn(words, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))

    def test_a_child_sees_the_given_environment_only(self) -> None:
        """Nothing of the parent's environment leaks, but for the marks of the run."""
        result = self.run_python("import os; print(sorted(os.environ))")
        allowed = {*child_environment(os.environ), MARK, PLACE_MARK, "LC_CTYPE"}
        self.assertLessEqual(set(eval(result.stdout)), allowed)  # noqa: S307 - a list printed by the line above

    def test_the_allow_list_holds_no_keys(self) -> None:
        """Only the listed names, every LC_*, and what is asked for by name."""
        source = {"PATH": "p", "LC_TIME": "C", "OPENAI_API_KEY": "k", "GIT_DIR": "/x", "SSH_AUTH_SOCK": "s"}
        self.assertEqual({"PATH": "p", "LC_TIME": "C"}, child_environment(source))
        self.assertEqual("s", child_environment(source, ["SSH_AUTH_SOCK"])["SSH_AUTH_SOCK"])


@unittest.skipUnless(LINUX, "environments of other processes are read on Linux")
class OrphanTest(ProcessCase):
    """What a process that was killed left behind."""

    def started_by(self, starter: int) -> psutil.Process:
        """A program that says it was started here by a process of that number."""
        space, _, digest = (part for part in place_mark(self.folder).split("-"))
        environment = child_environment(os.environ) | {PLACE_MARK: f"{space}-{starter}-{digest}"}
        program = subprocess.Popen(["sleep", "600"], cwd=self.folder, env=environment, start_new_session=True)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        return psutil.Process(program.pid)

    def dead(self) -> int:
        """The number of a process that has ended."""
        gone = subprocess.Popen(["true"])
        gone.wait()
        return gone.pid

    def test_it_is_ended_in_its_own_folder_only(self) -> None:
        program = self.started_by(self.dead())
        with tempfile.TemporaryDirectory() as other:
            self.assertEqual(0, end_orphans(Path(other), 0.5, 5))
        self.assertEqual(1, end_orphans(self.folder, 0.5, 5))
        self.assertFalse(program.is_running() and program.status() != psutil.STATUS_ZOMBIE)

    def test_what_a_living_process_has_started_is_never_touched(self) -> None:
        program = self.started_by(os.getpid())
        self.assertEqual(0, end_orphans(self.folder, 0.5, 5))
        self.assertTrue(program.is_running())


if __name__ == "__main__":
    unittest.main()
