"""A conversation with a program is bounded in every way, and nothing of the program is left after it."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import unittest
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from teams_runtime.processes.conversation import Conversation, converse
from teams_runtime.processes.supervisor import child_environment
from teams_runtime.shared.errors import ProcessCancelledError, ProcessDeadlineError, ProcessError

LONG = 60.0
"""A deadline that no test reaches."""
ECHO = "import sys\nfor line in sys.stdin: print('you said', line.strip(), flush=True)"


class ConversationCase(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def talk(self, code: str, **settings: Any) -> Conversation:
        """Begin a conversation with a Python program; it ends with the test."""
        given: dict[str, Any] = {
            "cwd": self.folder,
            "environment": child_environment(os.environ),
            "deadline_seconds": LONG,
            "grace_seconds": 0.3,
        }
        return self.enterContext(converse([sys.executable, "-c", code], **given | settings))

    def lines(self, talk: Conversation) -> list[bytes]:
        """Everything that the program still says."""
        found = []
        while (line := talk.receive()) is not None:
            found.append(line)
        return found


class LineTest(ConversationCase):
    """What is heard."""

    def test_it_goes_back_and_forth(self) -> None:
        talk = self.talk(ECHO)
        talk.send("one\n")
        self.assertEqual(b"you said one", talk.receive())
        talk.send("two\n")
        self.assertEqual(b"you said two", talk.receive())
        talk.close_input()
        self.assertIsNone(talk.receive())

    def test_what_stands_after_the_last_line_break_is_a_line_too(self) -> None:
        talk = self.talk("print('a\\n\\nb', end='')")
        self.assertEqual([b"a", b"", b"b"], self.lines(talk))
        self.assertIsNone(talk.receive())

    def test_a_large_input_and_a_large_output_do_not_wait_for_each_other(self) -> None:
        """The program writes before it reads, more than any pipe holds."""
        code = "import sys\nprint('x' * 3_000_000, flush=True)\nprint(len(sys.stdin.read()))"
        talk = self.talk(code)
        talk.send("y" * 3_000_000)
        talk.close_input()
        self.assertEqual([3_000_000, b"3000000"], [len(talk.receive() or b""), talk.receive()])

    def test_a_line_of_20_megabytes_arrives_whole(self) -> None:
        """A client puts a whole answer, or a file, on one line."""
        talk = self.talk("print('z' * 20_000_000)")
        self.assertEqual(20_000_000, len(talk.receive() or b""))

    def test_a_line_over_the_limit_ends_the_conversation_and_is_not_kept(self) -> None:
        talk = self.talk("print('z' * 5_000_000)", line_limit_bytes=1_000_000)
        with self.assertRaisesRegex(ProcessError, "longer than the limit"):
            talk.receive()

    def test_the_error_output_is_kept_bounded_and_never_blocks(self) -> None:
        talk = self.talk("import sys\nsys.stderr.write('e' * 2_000_000 + 'the end')\nprint('done')")
        self.assertEqual([b"done"], self.lines(talk))
        self.assertTrue(talk.stderr.endswith("the end"))
        self.assertLess(len(talk.stderr), 300_000)

    def test_a_program_that_closed_its_input_can_still_be_heard(self) -> None:
        """What is sent to it is lost, and that is all."""
        talk = self.talk("import os, time\nos.close(0)\nprint('closed', flush=True)\ntime.sleep(0.1)\nprint('on')")
        self.assertEqual(b"closed", talk.receive())
        talk.send("x" * 1_000_000)
        self.assertEqual([b"on"], self.lines(talk))


class EndTest(ConversationCase):
    """How it ends."""

    def test_the_exit_code_is_known_after_the_block(self) -> None:
        for code, expected in (("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", -9)):
            with converse([sys.executable, "-c", code], cwd=self.folder, environment={}, deadline_seconds=LONG) as talk:
                self.assertIsNone(talk.receive())
                self.assertIsNone(talk.exit_code)
            self.assertEqual(expected, talk.exit_code)

    def test_the_deadline_holds_for_the_whole_conversation(self) -> None:
        """However often the program says something."""
        talk = self.talk("import time\nwhile True: print('on', flush=True); time.sleep(0.01)", deadline_seconds=0.5)
        with self.assertRaises(ProcessDeadlineError):
            self.lines(talk)

    def test_one_line_can_have_a_deadline_of_its_own(self) -> None:
        talk = self.talk(ECHO)
        with self.assertRaises(ProcessDeadlineError):
            talk.receive(0.05)
        talk.send("still here\n")
        self.assertEqual(b"you said still here", talk.receive())

    def test_it_can_be_cancelled_from_another_thread(self) -> None:
        cancelled = threading.Event()
        talk = self.talk("import time; time.sleep(600)", cancelled=cancelled)
        timer = threading.Timer(0.2, cancelled.set)
        timer.start()
        self.addCleanup(timer.join)
        with self.assertRaises(ProcessCancelledError):
            talk.receive()

    def test_nothing_of_the_program_is_left_however_the_block_ends(self) -> None:
        """A child in a session of its own that ignores TERM, after a normal end and after an exception."""
        code = (
            "import os, signal, subprocess, sys, time\n"
            "child = subprocess.Popen([sys.executable, '-c', 'import signal, time;"
            " signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)'],"
            " start_new_session=True, stdout=subprocess.PIPE)\n"
            "child.stdout.readline()\n"
            "print(child.pid, flush=True)\n"
        )
        for failure in (None, KeyError()):
            with self.subTest(failure):
                child = self.child_of(code, failure)
                self.assertFalse(psutil.pid_exists(child))

    def child_of(self, code: str, failure: KeyError | None) -> int:
        """Talk with a program until it told its child, and leave the block normally or by an exception."""
        settings: dict[str, Any] = {"environment": child_environment(os.environ), "deadline_seconds": LONG}
        child = 0
        with (
            suppress(KeyError),
            converse([sys.executable, "-c", code], cwd=self.folder, grace_seconds=0.2, **settings) as talk,
        ):
            child = int(talk.receive() or b"0")
            self.assertTrue(psutil.pid_exists(child))
            if failure:
                raise failure
        return child

    def test_a_program_that_is_not_there_is_told(self) -> None:
        with (
            self.assertRaisesRegex(ProcessError, "'/no/such/program' cannot be started: no such program"),
            converse(["/no/such/program"], cwd=self.folder, environment={}, deadline_seconds=LONG),
        ):
            self.fail("not reached")


if __name__ == "__main__":
    unittest.main()
