"""The `teams-runtime` command: finds the verb, loads only what that verb needs, turns errors into one line."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, NoReturn

import click

from teams_runtime import __version__
from teams_runtime.cli.ending import Ended, ended_by_signals
from teams_runtime.cli.output import error_json, one_line, silence
from teams_runtime.shared.errors import ConfigError, ProviderError, TeamsRuntimeError, UserError

PROGRAM = "teams-runtime"
EXIT_USER = 2
"""The user can mend it."""
EXIT_FAILED = 1
"""Something else failed that is not a bug: a provider, a process, or the reader of our output went away."""
EXIT_SIGNAL = 128
"""Shells add the number of the signal that ended a program to this."""


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a verb's code lies and what `--help` says of it without loading that code.

    Attributes:
        target: `module:attribute` of a click command.
        help: one line.
    """

    target: str
    help: str


VERBS: dict[str, Verb] = {
    "init": Verb("teams_runtime.cli.init:init", "Make a workspace: a config file and a state folder."),
    "demo": Verb("teams_runtime.cli.demo:demo", "Watch a whole team fix a real defect, offline."),
    "run": Verb("teams_runtime.cli.run:run", "File a request and let the team work on it."),
    "resume": Verb("teams_runtime.cli.run:resume", "Go on with a request that stopped."),
    "answer": Verb("teams_runtime.cli.run:answer", "Answer the question a request waits with, and go on."),
    "list": Verb("teams_runtime.cli.list:list_requests", "List the requests, newest first."),
    "show": Verb("teams_runtime.cli.show:show", "Show a request and its events."),
    "prompt": Verb("teams_runtime.cli.prompt:prompt", "Show the exact text a role is shown, and why."),
    "verify": Verb("teams_runtime.cli.verify:verify", "Check that a record is whole and says what happened."),
    "export": Verb("teams_runtime.cli.carry:export", "Write a record to a plain file."),
    "import": Verb("teams_runtime.cli.carry:take_in", "Make a record of a plain file."),
    "prune": Verb("teams_runtime.cli.prune:prune", "Show what requests take on disk, and remove them."),
    "config": Verb("teams_runtime.cli.config:config", "Check the config file, or write its JSON Schema."),
}
"""Every verb, in the order of `--help`."""


class LazyGroup(click.Group):
    """A group whose commands are loaded when they run, never for a listing.

    Args:
        verbs: the commands by name.
    """

    def __init__(self, name: str, *, verbs: Mapping[str, Verb], **settings: object) -> None:
        super().__init__(name, **settings)  # type: ignore[arg-type]
        self.verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names in the order of the table."""
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load and return one command; None when there is no such name."""
        verb = self.verbs.get(cmd_name)
        if verb is None:
            return None
        module, _, attribute = verb.target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first argument names; a mistyped name is told with the name it is near to."""
        name = args[0]
        if name not in self.verbs and not name.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(name, self.verbs, n=1)
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands' part of `--help` from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.help) for name, verb in self.verbs.items()])


cli = LazyGroup(
    PROGRAM,
    verbs=VERBS,
    help="A durable runtime for a team of model roles that work a request on a git repository.",
    epilog="Every command has --help, and --json for one line of JSON.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
cli = click.version_option(__version__, prog_name=PROGRAM)(cli)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process.

    Exit codes: 0 all went well; 2 the user can mend it (one line on stderr, for a config file one a problem);
    1 something else failed; 128 and the signal's number when one ended it.

    Args:
        arguments: without the program's name; the process's own by default.
    """
    unwritten: OSError | None = None
    with ended_by_signals():
        try:
            code = execute(cli, sys.argv[1:] if arguments is None else list(arguments))
        except BrokenPipeError:
            code = EXIT_FAILED
        except OSError as error:
            if not _printing(error):  # a bug
                raise
            code, unwritten = EXIT_USER, error
    failure = unwritten or _flush(sys.stdout)
    if failure is not None:
        silence(sys.stdout)
        code = EXIT_FAILED if isinstance(failure, BrokenPipeError) else EXIT_USER
        if code == EXIT_USER:
            _complain(f"standard output: cannot be written: {failure.strerror}")
    if _flush(sys.stderr) is not None:
        silence(sys.stderr)
    sys.exit(code)


def _printing(error: OSError) -> bool:
    """Return whether click failed to print, as it does help and version by itself."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith("click.")


def _flush(stream: IO[str] | None) -> OSError | None:
    """Write out what is left for a stream and return why that failed; a closed stream is written nothing."""
    try:
        if stream is not None:
            stream.flush()
    except OSError as error:
        return error
    return None


def _complain(text: str) -> None:
    """Print on standard error, which may be full or gone itself."""
    with suppress(OSError):
        click.echo(text, err=True)


def execute(command: click.Command, arguments: list[str]) -> int:
    """Run a command, print its error if it has one, and return the exit code."""
    try:
        code = command.main(args=arguments, prog_name=PROGRAM, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except (click.ClickException, TeamsRuntimeError) as error:
        return _tell(error, as_json="--json" in arguments)
    except SystemExit as end:
        code = end.code
    except Ended as end:
        return EXIT_SIGNAL + end.number
    except (click.Abort, KeyboardInterrupt):
        return EXIT_SIGNAL + signal.SIGINT
    return code if isinstance(code, int) else 0


def _tell(error: click.ClickException | TeamsRuntimeError, *, as_json: bool) -> int:
    """Print an error on stderr, one line each, and return the exit code that it stands for."""
    lines = _lines(error)
    if as_json:
        _complain(error_json(type(error).__name__, "\n".join(lines)))
    else:
        _complain("\n".join(lines))
    if isinstance(error, click.ClickException):
        return error.exit_code
    return EXIT_USER if isinstance(error, UserError) else EXIT_FAILED


def _lines(error: click.ClickException | TeamsRuntimeError) -> list[str]:
    if isinstance(error, ConfigError):
        return [one_line(problem) for problem in error.problems]
    if isinstance(error, ProviderError):
        return [one_line(f"{error}; {error.remedy}")]
    if not isinstance(error, click.ClickException):
        return [one_line(str(error))]
    context = error.ctx if isinstance(error, click.UsageError) else None
    place = context.command_path if context else PROGRAM
    return [one_line(f"{place}: {error.format_message()} See `{place} --help`.")]
