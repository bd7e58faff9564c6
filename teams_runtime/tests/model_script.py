"""Role models that follow a script: what a scripted team does by itself, done through the tools of a real client."""

from __future__ import annotations

import base64
import json
import re
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from teams_runtime.providers.base import TurnRequest
from teams_runtime.providers.scripted import Action, Script, ScriptTurn
from teams_runtime.tests.model_talk import Ask, Call, Move, Say
from teams_runtime.workflows.roles.contract import STEP_ROLES
from teams_runtime.workflows.roles.prompt import REPAIR

_TURN = re.compile(r'Request "([^"]+)", step (\w+), visit (\d+)\.')
_SHELLS: Mapping[str, Callable[[str], Mapping[str, Any]]] = {
    "exec_command": lambda line: {"cmd": line},
    "shell_command": lambda line: {"command": line},
    "shell": lambda line: {"command": ["bash", "-lc", line]},
    "Bash": lambda line: {"command": line, "description": "Do the next piece of work"},
    "run_shell_command": lambda line: {"command": line, "description": "Do the next piece of work"},
}
"""The tools by which clients run a command line, and the arguments that each takes."""
_ANSWER_TOOLS = ("StructuredOutput", "final_result")
"""The tools by which some clients take an answer that keeps to a schema."""
_REPLACE = (
    "import base64, json, pathlib, sys; a = json.loads(base64.b64decode(sys.argv[1])); p = pathlib.Path(a['path']); "
    "t = p.read_text(); assert t.count(a['old']) == 1 or a['new'] in t; p.write_text(t.replace(a['old'], a['new']))"
)


def shell_call(ask: Ask, line: str, tool: str | None = None) -> Call | None:
    """Return the call that runs a command line by the tool that the client offers; None where it offers none."""
    for name, arguments in _SHELLS.items():
        if name in ask.tools and tool in {None, name}:
            return Call(name, arguments(line))
    return None


class TeamModel:
    """Plays all roles of a team from one script.

    Args:
        script: the answers; an entry's actions become calls of the client's own tools.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self._repairs: dict[tuple[str, ...], list[str]] = {}
        self._lock = threading.Lock()

    def move(self, ask: Ask) -> Move:
        """Return the next move: the next action of the entry that fits, or its answer when all are done."""
        found = [(match, text) for text in ask.texts for match in _TURN.finditer(text)]
        if not found:
            return Say("A title")  # clients ask for more than what a user says
        match, prompt = found[-1]
        request = self._request(match, prompt)
        entry = next((turn for turn in self._script.turns if turn.fits(request)), None)
        if entry is None:
            return Say(f"The script has no answer for {request.role} at {request.step}.")
        moves = [call for action in entry.actions for call in calls_for(action, ask)] + _finals(entry, request, ask)
        return moves[min(len(ask.called), len(moves) - 1)]

    def _request(self, match: re.Match[str], prompt: str) -> TurnRequest:
        request_id, step, visit = match[1], match[2], int(match[3])
        attempt = 0
        if REPAIR in prompt:
            with self._lock:
                repairs = self._repairs.setdefault((request_id, step, match[3]), [])
                if prompt not in repairs:
                    repairs.append(prompt)
                attempt = repairs.index(prompt) + 1
        return TurnRequest(
            request_id=request_id, role=STEP_ROLES[step], step=step, visit=visit, attempt=attempt, prompt="",
            worktree=Path(), write_access="none", deadline_seconds=1.0,
        )  # fmt: skip


def calls_for(action: Action, ask: Ask) -> Sequence[Call]:
    """Return the tool calls that do one action of a script; none where the client offers no tool for it."""
    if action.write and "Write" in ask.tools:
        return [Call("Write", {"file_path": action.write.path, "content": action.write.text})]
    if action.write and "write_file" in ask.tools:
        return [Call("write_file", {"file_path": action.write.path, "content": action.write.text})]
    if action.replace and "Edit" in ask.tools:
        path = action.replace.path
        change = {"file_path": path, "old_string": action.replace.old, "new_string": action.replace.new}
        return [Call("Read", {"file_path": path}), Call("Edit", change)]
    if action.replace and "replace" in ask.tools:
        path = action.replace.path
        change = {"file_path": path, "old_string": action.replace.old, "new_string": action.replace.new}
        return [Call("replace", {**change, "instruction": "Make the change"})]
    call = shell_call(ask, _line(action))
    return [call] if call else []


def _line(action: Action) -> str:
    """Return the command line that does one action."""
    if action.write:
        content = base64.b64encode(action.write.text.encode()).decode()
        path = shlex.quote(action.write.path)
        return f'mkdir -p "$(dirname {path})" && echo {content} | base64 -d > {path}'
    if action.replace:
        given = base64.b64encode(json.dumps(action.replace.model_dump()).encode()).decode()
        return f"python3 -c {shlex.quote(_REPLACE)} {given}"
    if action.delete:
        return f"rm -f {shlex.quote(action.delete.path)}"
    return shlex.join(action.run or ())


def _finals(entry: ScriptTurn, request: TurnRequest, ask: Ask) -> list[Move]:
    answer = entry.answer_for(request)
    tool = next((name for name in _ANSWER_TOOLS if name in ask.tools), None)
    if tool is None or entry.answer is None:
        return [Say(answer)]
    schema = ask.tools[tool].get("input_schema") or ask.tools[tool].get("parameters") or {}
    return [Call(tool, _filled(json.loads(answer), schema)), Say("Done.")]


def _filled(answer: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer with only the keys that a schema knows, as a model would that keeps to it."""
    known = schema.get("properties")
    return {key: value for key, value in answer.items() if known is None or key in known}
