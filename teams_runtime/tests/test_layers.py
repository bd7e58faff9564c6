"""Who may import whom: the table in `docs/implementation.md`, held against every import of the package."""

from __future__ import annotations

import ast
import re
import unittest
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from teams_runtime import models
from teams_runtime.shared import models as shared_models

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "teams_runtime"
ROW = re.compile(r"\| `([\w.]+)` \| [^|]+ \| ([^|]+) \|")


def read_table(text: str) -> dict[str, frozenset[str]]:
    """Return the layers of the table under `## Layers`, each with those that it may import."""
    section = text.partition("\n## Layers\n")[2].partition("\n## ")[0]
    return {row[1]: frozenset(re.findall(r"`([\w.]+)`", row[2])) for row in ROW.finditer(section)}


def module_name(path: Path, root: Path) -> str:
    """Return the dotted name of a module file."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def read_modules(root: Path) -> dict[str, ast.Module]:
    """Return every module of the package by name; tests and templates are left out."""
    files = (root / PACKAGE).rglob("*.py")
    code = [path for path in files if not {"tests", "templates"} & set(path.relative_to(root).parts)]
    return {module_name(path, root): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(code)}


def imported_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the dotted name of everything that a module imports, at the top or inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def resolve(name: str, modules: Mapping[str, object]) -> str | None:
    """Return the module of ours that an imported name lies in; None when it is foreign.

    A name of ours that is in no known module stays as it is, so that it is told as a breach.
    """
    if name.partition(".")[0] != PACKAGE:
        return None
    parent = name.rpartition(".")[0]
    return parent if name not in modules and parent in modules else name


def imports(modules: Mapping[str, ast.Module]) -> Iterator[tuple[str, int, str]]:
    """Yield every import between modules of ours: importer, line, imported."""
    for name, tree in modules.items():
        for line, target in imported_names(tree):
            found = resolve(target, modules)
            if found is not None and found != name:
                yield name, line, found


def layer_of(module: str, layers: Mapping[str, object]) -> str | None:
    """Return the layer of the table that a module belongs to."""
    inner = module.removeprefix(f"{PACKAGE}.")
    fitting = [layer for layer in layers if inner == layer or inner.startswith(f"{layer}.")]
    return max(fitting, key=len, default=None)


def breaches(modules: Mapping[str, ast.Module], layers: Mapping[str, frozenset[str]]) -> list[str]:
    """Return one sentence for each import that the table does not allow."""
    found = []
    for importer, line, imported in imports(modules):
        source, target = layer_of(importer, layers), layer_of(imported, layers)
        allowed = imported == PACKAGE or (
            source is not None and target is not None and (source == target or target in layers[source])
        )
        if not allowed:
            found.append(f"{importer} (line {line}) may not import {imported}")
    return found


def cycle(modules: Mapping[str, ast.Module]) -> list[str]:
    """Return the modules of one import cycle, in order; empty when there is none."""
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for importer, _, imported in imports(modules):
        graph[importer].add(imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def package_of(**sources: str) -> dict[str, ast.Module]:
    """Return a made-up package: `__` in a name stands for a dot."""
    return {f"{PACKAGE}.{name.replace('__', '.')}": ast.parse(source) for name, source in sources.items()}


class LayersTest(unittest.TestCase):
    def setUp(self) -> None:
        self.layers = read_table((ROOT / "docs" / "implementation.md").read_text(encoding="utf-8"))
        self.modules = read_modules(ROOT)

    def test_no_import_breaks_the_table(self) -> None:
        self.assertEqual([], breaches(self.modules, self.layers))

    def test_there_is_no_import_cycle(self) -> None:
        self.assertEqual([], cycle(self.modules))

    def test_the_facade_gives_the_values_of_shared_and_nothing_else(self) -> None:
        """`teams_runtime.models` is what users import; a name that goes, or comes, is a change for them."""
        self.assertEqual(["PromptContextRuntimeConfig", "TeamRuntimeConfig"], models.__all__)
        for name in models.__all__:
            self.assertIs(getattr(shared_models, name), getattr(models, name))

    def test_every_module_has_a_layer(self) -> None:
        bare = (PACKAGE, f"{PACKAGE}.workflows")  # they hold nothing but their docstring and the version
        lost = [name for name in self.modules if name not in bare and layer_of(name, self.layers) is None]
        self.assertEqual([], lost)
        self.assertEqual([], [edge for edge in imports(self.modules) if edge[0] in bare])

    def test_the_table_is_whole(self) -> None:
        """It names only layers of its own, exactly those that exist, and the layers themselves form no cycle."""
        self.assertEqual(frozenset(), frozenset[str]().union(*self.layers.values()) - set(self.layers))
        self.assertEqual(set(self.layers), {layer_of(name, self.layers) for name in self.modules} - {None})
        TopologicalSorter(self.layers).prepare()


class FindingTest(unittest.TestCase):
    """The checks above find what they are there for."""

    def setUp(self) -> None:
        every = frozenset({"shared", "store"})
        self.layers: dict[str, frozenset[str]] = {"shared": frozenset(), "store": frozenset({"shared"}), "cli": every}

    def test_a_breach_is_found_at_the_top_and_inside_functions(self) -> None:
        for source in ("import teams_runtime.store.records", "def f():\n    from teams_runtime.store import records"):
            with self.subTest(source):
                found = breaches(package_of(shared__a=source, store__records=""), self.layers)
                self.assertEqual(1, len(found))
                self.assertRegex(
                    found[0], r"teams_runtime\.shared\.a \(line [12]\) may not import teams_runtime\.store"
                )

    def test_what_the_table_does_not_know_is_a_breach(self) -> None:
        modules = package_of(
            cli__a="from teams_runtime.tests.test_x import y", odd="import teams_runtime.shared.a", shared__a=""
        )
        self.assertEqual(2, len(breaches(modules, self.layers)))

    def test_what_is_allowed_is_no_breach(self) -> None:
        source = "import json\nfrom teams_runtime import __version__\nfrom teams_runtime.shared.a import b"
        modules = {PACKAGE: ast.parse(""), **package_of(store__a=source, shared__a="")}
        self.assertEqual([], breaches(modules, self.layers))

    def test_a_cycle_is_found(self) -> None:
        modules = package_of(
            shared__a="import teams_runtime.shared.b", shared__b="def f():\n    from teams_runtime.shared.a import x"
        )
        self.assertIn("teams_runtime.shared.a", cycle(modules))
