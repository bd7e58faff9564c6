"""The size limits of `docs/implementation.md`, held against every Python file of the repository."""

from __future__ import annotations

import ast
import unittest
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE_LINES = 499
FUNCTION_LINES = 60
CLASS_LINES = 300
NESTING = 3
COMPLEXITY = 15

Function = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.With, ast.AsyncWith, ast.Match)
BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension, ast.match_case)


def lines_of(node: Function | ast.ClassDef) -> int:
    """Return how many lines a function or class has, decorators and its own docstring not counted."""
    total = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node, clean=False) is None:
        return total
    return total - ((first.end_lineno or first.lineno) - first.lineno + 1)


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes inside a function, without those of functions and classes defined in it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, Function | ast.ClassDef):
            yield child
            yield from own_nodes(child)


def nesting_of(node: ast.AST, depth: int = 0) -> int:
    """Return how deep blocks lie in each other; an `elif` is as deep as its `if`."""
    deepest = depth
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef):
            continue
        is_elif = isinstance(node, ast.If) and [child] == node.orelse and isinstance(child, ast.If)
        inner = depth + (isinstance(child, BLOCKS) and not is_elif)
        deepest = max(deepest, nesting_of(child, inner))
    return deepest


def complexity_of(node: ast.AST) -> int:
    """Return 1 plus the number of branches: conditions, loops, cases, handlers and comprehensions."""
    return 1 + sum(isinstance(child, BRANCHES) for child in own_nodes(node))


def offences(name: str, source: str) -> Iterator[str]:
    """Yield one sentence for each limit that a file breaks, with the name of the offender."""
    lines = len(source.splitlines())
    if lines > FILE_LINES:
        yield f"{name}: {lines} lines, at most {FILE_LINES}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            measures = [("lines", lines_of(node), CLASS_LINES)]
        elif isinstance(node, Function):
            measures = [
                ("lines", lines_of(node), FUNCTION_LINES),
                ("nested blocks", nesting_of(node), NESTING),
                ("complexity", complexity_of(node), COMPLEXITY),
            ]
        else:
            continue
        for what, value, most in measures:
            if value > most:
                yield f"{name}:{node.lineno} {node.name}: {what} {value}, at most {most}"


def files() -> list[Path]:
    """Return every file that the limits hold for."""
    found = [path for folder in ("teams_runtime", "benchmarks", "examples") for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in found if "templates" not in path.relative_to(ROOT).parts)


class LimitsTest(unittest.TestCase):
    def test_every_file_keeps_the_limits(self) -> None:
        found = [
            offence
            for path in files()
            for offence in offences(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
        ]
        self.assertEqual([], found, "\n" + "\n".join(found))
        self.assertIn(Path(__file__).resolve(), files())


class FindingTest(unittest.TestCase):
    """The check above finds what it is there for, and names it."""

    def assert_offence(self, expected: str, source: str) -> None:
        self.assertEqual([expected] if expected else [], list(offences("a.py", source)))

    def test_a_file_of_500_lines_is_too_long(self) -> None:
        self.assert_offence("a.py: 500 lines, at most 499", "\n" * 500)
        self.assert_offence("", "\n" * 499)

    def test_a_function_of_61_lines_is_too_long_and_its_docstring_is_not_counted(self) -> None:
        document = '    """A\n    long\n    one."""\n'
        self.assert_offence("a.py:1 f: lines 61, at most 60", "def f():\n" + document + "    x = 1\n" * 60)
        self.assert_offence("", "def f():\n" + document + "    x = 1\n" * 59)

    def test_a_class_of_301_lines_is_too_long(self) -> None:
        self.assert_offence("a.py:1 C: lines 301, at most 300", "class C:\n" + "    x = 1\n" * 300)
        self.assert_offence("", "class C:\n" + "    x = 1\n" * 299)

    def test_blocks_four_deep_are_too_deep_and_elif_is_no_deeper(self) -> None:
        deep = "def f():\n for a in b:\n  if a:\n   while a:\n    {}\n"
        self.assert_offence("a.py:1 f: nested blocks 4, at most 3", deep.format("with a: pass"))
        self.assert_offence("", deep.format("pass"))
        self.assert_offence("", "def f():\n if a: pass\n" + " elif b: pass\n" * 8)

    def test_sixteen_ways_are_too_many(self) -> None:
        self.assert_offence("a.py:1 f: complexity 16, at most 15", "def f():\n" + "    if a and b: pass\n" * 15)
        self.assert_offence("", "def f():\n" + "    if a and b: pass\n" * 14)
