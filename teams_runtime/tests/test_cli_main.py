"""The command itself: help without weight, errors on one line, exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import click

from teams_runtime import __version__
from teams_runtime.cli.main import VERBS, LazyGroup, Verb, execute
from teams_runtime.shared.errors import ConfigError, FailureKind, InputError, ProviderError

COMMAND = (sys.executable, "-m", "teams_runtime")


def teams_runtime(*arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the real command in its own process, in a folder without a workspace unless one is given."""
    with tempfile.TemporaryDirectory() as empty:
        return subprocess.run(
            [*COMMAND, *arguments], cwd=folder or empty, capture_output=True, text=True, timeout=60, check=False
        )


def failing(error: BaseException) -> click.Command:
    """Return a command that raises `error`."""

    @click.command()
    @click.option("--json", is_flag=True)
    def command(json: bool) -> None:  # noqa: ARG001
        raise error

    return command


def executed(command: click.Command, *arguments: str) -> tuple[int, str, str]:
    """Return the exit code, the standard output and the error output of a command run in this process."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = execute(command, list(arguments))
    return code, out.getvalue(), err.getvalue()


class HelpTest(unittest.TestCase):
    def test_help_names_every_verb_in_the_order_of_the_table(self) -> None:
        shown = teams_runtime("--help")
        names = [line.split()[0] for line in shown.stdout.partition("Commands:\n")[2].splitlines() if line[:3] > "   "]
        self.assertEqual(list(VERBS), [name for name in names if name in VERBS])
        self.assertEqual(0, shown.returncode)

    def test_help_loads_nothing_heavy(self) -> None:
        """Only click: `--help` must answer at once."""
        script = (
            "import sys; from teams_runtime.cli.main import main\n"
            "try: main(['--help'])\nexcept SystemExit: pass\n"
            "print(sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
        )
        result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
        for heavy in ("pydantic", "ruamel", "rich", "msgspec", "psutil", "filelock"):
            self.assertNotIn(repr(heavy), result.stderr)

    def test_help_does_not_need_a_verbs_module(self) -> None:
        group = LazyGroup("teams-runtime", verbs={"gone": Verb("teams_runtime.cli.nowhere:gone", "Is not there.")})
        code, out, _ = executed(group, "--help")
        self.assertEqual(0, code)
        self.assertIn("gone  Is not there.", out)

    def test_every_verb_can_be_loaded_and_has_json(self) -> None:
        group = LazyGroup("teams-runtime", verbs=VERBS)
        for name in VERBS:
            with self.subTest(name):
                command = group.get_command(click.Context(group), name)
                assert command is not None
                leaves = command.commands.values() if isinstance(command, click.Group) else (command,)
                self.assertTrue(all("--json" in parameter_names(leaf) for leaf in leaves))

    def test_version_is_the_packages(self) -> None:
        self.assertEqual(f"teams-runtime, version {__version__}\n", teams_runtime("--version").stdout)

    def test_no_argument_shows_the_help(self) -> None:
        shown = teams_runtime()
        self.assertIn("Commands:\n", shown.stderr)
        self.assertEqual(2, shown.returncode)


def parameter_names(command: click.Command) -> list[str]:
    """Return every spelling of a command's parameters."""
    return [name for parameter in command.params for name in parameter.opts]


class ErrorsTest(unittest.TestCase):
    def test_a_user_error_is_one_line_and_exit_code_2(self) -> None:
        code, out, err = executed(failing(InputError("a\nb \x1b[31m")))
        self.assertEqual((2, "", "a\\nb \\x1b[31m\n"), (code, out, err))

    def test_every_problem_of_a_config_is_one_line(self) -> None:
        code, _, err = executed(failing(ConfigError(["f:1:1: a", "f:2:1: b"])))
        self.assertEqual((2, "f:1:1: a\nf:2:1: b\n"), (code, err))

    def test_a_providers_failure_ends_with_1_and_tells_the_remedy(self) -> None:
        error = ProviderError(FailureKind.SERVER, "the provider failed", remedy="try again")
        self.assertEqual((1, "", "the provider failed; try again\n"), executed(failing(error)))

    def test_with_json_an_error_is_one_object(self) -> None:
        _, out, err = executed(failing(InputError("a é")), "--json")
        self.assertEqual({"error": {"type": "InputError", "message": "a é"}}, json.loads(err))
        self.assertEqual((1, ""), (err.count("\n"), out))

    def test_an_interrupt_ends_with_130(self) -> None:
        self.assertEqual(130, executed(failing(KeyboardInterrupt()))[0])

    def test_a_bug_is_not_hidden(self) -> None:
        with self.assertRaises(ZeroDivisionError):
            executed(failing(ZeroDivisionError()))

    def test_a_usage_error_is_one_line_that_names_the_help(self) -> None:
        table = {
            ("confg",): "teams-runtime: No such command 'confg'. Did you mean 'config'? See `teams-runtime --help`.\n",
            ("zzz",): "teams-runtime: No such command 'zzz'. See `teams-runtime --help`.\n",
            ("--zz",): "teams-runtime: No such option '--zz'. See `teams-runtime --help`.\n",
        }
        for arguments, expected in table.items():
            result = teams_runtime(*arguments)
            with self.subTest(arguments):
                self.assertEqual((2, "", expected), (result.returncode, result.stdout, result.stderr))

    def test_a_reader_that_goes_away_gives_no_traceback(self) -> None:
        command = f"{sys.executable} -m teams_runtime config schema | head -c 1"
        result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(("{", ""), (result.stdout, result.stderr))
