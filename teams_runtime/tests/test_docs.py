"""The docs keep their word: their Python examples run, the exact example is exact, and their links lead somewhere."""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import re
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml import YAML

from teams_runtime.shared.errors import FailureKind
from teams_runtime.shared.models import ROLES, PromptContextRuntimeConfig
from teams_runtime.shared.prompt_context import project_request, render_notice

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})\s*(\S*)")
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)>\s]+)>?[^)]*\)|^\[[^\]]+\]:\s+(\S+)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")


class Block(NamedTuple):
    """One fenced block: the heading it stands under, its language, the line its text starts at (1-based), its text."""

    heading: str
    language: str
    line: int
    text: str


def pages() -> list[Path]:
    """Every page for readers: the Markdown files of the root folder and of docs."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def read(page: Path) -> tuple[list[str], list[Block]]:
    """Return a page's lines outside fenced blocks, and its blocks."""
    prose: list[str] = []
    blocks: list[Block] = []
    heading, fence, language, start = "", "", "", 0
    body: list[str] = []
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        match = FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence) and not match[2]:
                blocks.append(Block(heading, language, start, "\n".join(body) + "\n"))
                fence = ""
            else:
                body.append(line)
        elif match:
            fence, language, start, body = match[1], match[2], number + 1, []
        else:
            prose.append(line)
            found = HEADING.match(line)
            heading = found[1] if found else heading
    if fence:
        raise AssertionError(f"{page}: the block that starts at line {start} is never closed")
    return prose, blocks


def anchors(page: Path) -> set[str]:
    """Return what can stand after `#` in a link to a page: its headings, lower case, without punctuation."""
    titles = [match[1] for line in read(page)[0] if (match := HEADING.match(line))]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(page: Path) -> Iterator[str]:
    """Yield the relative links of a page; what stands in code is not a link."""
    for line in read(page)[0]:
        for match in LINK.finditer(re.sub(r"(`+).*?\1", "", line)):
            target = match[1] or match[2]
            if not re.match(r"[a-z][a-z0-9+.-]*:", target, re.IGNORECASE):
                yield target


def leads_somewhere(page: Path, link: str) -> bool:
    """Return whether a relative link names a file of the project and, in a page, one of its headings."""
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not (target.is_relative_to(ROOT) and target.exists()):
        return False
    return not anchor or target.suffix != ".md" or anchor in anchors(target)


def run(page: Path, block: Block, names: dict[str, Any]) -> None:
    """Run one Python block, as a session when it holds prompts, else as a program; later blocks see its names."""
    where = f"{page.relative_to(ROOT)}:{block.line}"
    if ">>>" not in block.text:
        exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)  # noqa: S102 - our own pages
        return
    session = doctest.DocTestParser().get_doctest(block.text, names, where, str(page), block.line - 1)
    said = io.StringIO()
    if doctest.DocTestRunner(verbose=False).run(session, out=said.write, clear_globs=False).failed:
        raise AssertionError(said.getvalue())
    names.update(session.globs)


class Docs(unittest.TestCase):
    def test_every_python_example_runs(self) -> None:
        for page in pages():
            names: dict[str, Any] = {"__name__": "example"}
            for block in (block for block in read(page)[1] if block.language == "python"):
                with (
                    self.subTest(page=str(page.relative_to(ROOT)), line=block.line),
                    tempfile.TemporaryDirectory() as folder,
                    contextlib.chdir(folder),
                    contextlib.redirect_stdout(io.StringIO()),
                ):
                    run(page, block, names)

    def test_every_relative_link_leads_somewhere(self) -> None:
        for page in pages():
            dead = [link for link in links(page) if not leads_somewhere(page, link)]
            self.assertEqual([], dead, str(page.relative_to(ROOT)))

    def test_the_exact_example_of_the_specification_is_exact(self) -> None:
        blocks = read(ROOT / "docs" / "specification.md")[1]
        config, record, shown = (block.text for block in blocks if block.heading == "An exact example")
        section = YAML(typ="safe").load(config)["prompt_context"]
        projection = project_request(json.loads(record), PromptContextRuntimeConfig(**section))
        self.assertEqual(shown, "\n".join(projection.event_lines()) + "\n\n" + render_notice(projection))

    def test_the_defaults_in_the_specification_are_the_defaults(self) -> None:
        blocks = read(ROOT / "docs" / "specification.md")[1]
        (text,) = (block.text for block in blocks if block.heading == "prompt_context" and block.language == "yaml")
        self.assertEqual({"prompt_context": PromptContextRuntimeConfig().model_dump()}, YAML(typ="safe").load(text))

    def test_the_glossary_names_every_kind_of_failure_once_and_every_role(self) -> None:
        text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
        failures = re.findall(r"^- `(\w+)`:", text.partition("## Kinds of failure")[2], re.MULTILINE)
        self.assertEqual(list(FailureKind), failures)
        self.assertEqual([], [role for role in ROLES if role not in text])


if __name__ == "__main__":
    unittest.main()
