"""Reads a YAML file into a value of a model, or tells everything that is wrong with the file at once."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from teams_runtime.shared.config_schema import known_keys, requirement, schema_at
from teams_runtime.shared.errors import ConfigError
from teams_runtime.shared.models import RULE
from teams_runtime.shared.yaml_tree import Entry, Node, Problem, Source, read_yaml, shown, shown_key

MAX_BYTES = 1 << 20
"""Size limit of a file: 1 MiB."""

Loc = tuple[str | int, ...]
"""Where a value stands: keys, and positions in lists."""


Model = TypeVar("Model", bound=BaseModel)


def load_yaml_file(path: Path, model: type[Model], *, hint: str = "") -> Model:
    """Return the value that a YAML or JSON file holds; what it leaves out has the model's default.

    Args:
        path: the file; problems name it by its last part.
        model: what it must hold: a mapping with the model's fields.
        hint: the end of the sentence when the file is missing.

    Raises:
        ConfigError: the file is missing, cannot be read or breaks a rule. Every problem is told, in file order, as
            `FILE:LINE:COL: KEY must …, got VALUE`; lines and columns (in characters) count from 1.
    """
    file = _File(path, hint)
    source = Source(file.text())
    node, problems = read_yaml(source)
    if node is None or (node.empty and not problems):
        node = Node(0, entries={})
    if node.entries is None:
        problems = [*problems, Problem(node.start, f"the file must hold a mapping, got {shown(node.data())}")]
        raise file.error(source, problems)
    value, found = _validate(node, model)
    if value is None or problems or found:
        raise file.error(source, [*problems, *found])
    return value


@dataclass(frozen=True, slots=True)
class _File:
    """A file whose content is not trusted yet."""

    path: Path
    hint: str

    def error(self, source: Source, problems: Sequence[Problem]) -> ConfigError:
        told = dict.fromkeys(sorted(problems))
        return ConfigError([f"{self.path.name}:{source.place(each.index)}: {each.text}" for each in told])

    def text(self) -> str:
        content = self._bytes()
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            before = content[: error.start].decode("utf-8-sig")
            place = Source(before).place(len(before))
            byte = f"0x{content[error.start]:02x}"
            message = f"{self.path.name}:{place}: the file must be UTF-8 text, got the byte {byte}"
            raise ConfigError([message]) from error

    def _bytes(self) -> bytes:
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as file:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise self._unusable("must be a regular file, got another kind of file")
                content = file.read(MAX_BYTES + 1)
        except FileNotFoundError as error:
            raise self._unusable(f"must exist, got no such file{self.hint}") from error
        except IsADirectoryError as error:
            raise self._unusable("must be a regular file, got a folder") from error
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise self._unusable(f"must be readable, got: {reason or error}") from error
        if len(content) > MAX_BYTES:
            raise self._unusable(f"must hold at most {MAX_BYTES} bytes (1 MiB), got more")
        return content

    def _unusable(self, reason: str) -> ConfigError:
        return ConfigError([f"{self.path.name}:1:1: the file {reason} ({shown(str(self.path.parent))})"])


def _validate(root: Node, model: type[Model]) -> tuple[Model | None, list[Problem]]:
    try:
        return model.model_validate(root.data()), []
    except ValidationError as error:
        details = error.errors(include_url=False)
    teller = _Teller(root, model.model_json_schema(), frozenset(detail["loc"] for detail in details))
    return None, [problem for detail in details if (problem := teller.problem(detail))]


@dataclass(frozen=True, slots=True)
class _Teller:
    """Says pydantic's findings in this project's words, with the place of the value in the text."""

    root: Node
    schema: dict[str, Any]
    locs: frozenset[Loc]

    def problem(self, detail: ErrorDetails) -> Problem | None:
        """Return the finding as a problem, or None when others say it better."""
        loc = detail["loc"]
        if detail["type"] == "extra_forbidden":
            return self._unknown(loc)
        if loc[-1] == "[key]":
            return self._unknown(loc[:-1])
        told_elsewhere = {
            "too_short": self._has_inner(loc),  # pydantic counts only the items that are well
            "string_unicode": True,  # the reader of the text has told it
        }
        if told_elsewhere.get(detail["type"]):
            return None
        return self._wrong(loc, detail)

    def _has_inner(self, loc: Loc) -> bool:
        return any(len(other) > len(loc) and other[: len(loc)] == loc for other in self.locs)

    def _wrong(self, loc: Loc, detail: ErrorDetails) -> Problem:
        context = detail.get("ctx", {})
        loc = context.get("at", loc)  # a rule between sections names its place itself
        if detail["type"] == RULE:
            told = detail["msg"]
        elif detail["type"] == "finite_number":
            told = "must be a finite number"
        else:
            told = f"must be {requirement(schema_at(self.schema, loc))}"
        key = _key_text(loc)
        sentence = told if told.startswith(f"{key} ") else f"{key} {told}"
        aside = f" ({context['other']} is {shown(context['other_value'])})" if "other" in context else ""
        return Problem(
            self._start(loc, context), f"{sentence}, got {shown(context.get('got', detail['input']))}{aside}"
        )

    def _start(self, loc: Loc, context: dict[str, Any]) -> int:
        """Return where the value stands: a missing one at its key, a default at the key that it clashes with."""
        entry = self._entry(loc) or self._entry((*loc[:-1], context.get("other", "")))
        if entry is None:
            return self.root.start
        return entry.key.start if entry.value.empty else entry.value.start

    def _unknown(self, loc: Loc) -> Problem:
        entry = self._entry(loc)
        section, name = loc[:-1], str(loc[-1])
        known = known_keys(schema_at(self.schema, section))
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "known are " + ", ".join(known)
        where = _key_text(section) or "the file"
        index = entry.key.start if entry else self.root.start
        return Problem(index, f"{where} must hold only known keys, got {shown_key(name)}; {hint}")

    def _entry(self, loc: Loc) -> Entry | None:
        entry: Entry | None = Entry(self.root, self.root)
        for part in loc:
            entry = _inner(entry.value, part) if entry else None
        return entry


def _inner(node: Node, part: str | int) -> Entry | None:
    if isinstance(part, str):
        return node.entries.get(part) if node.entries is not None else None
    return Entry(node.items[part], node.items[part]) if node.items is not None else None


def _key_text(loc: Loc) -> str:
    """Return a place as people write it.

    >>> _key_text(("repository", "owned_paths", 0))
    'repository.owned_paths[0]'
    """
    return "".join(f"[{part}]" if isinstance(part, int) else f".{shown_key(part)}" for part in loc).removeprefix(".")
