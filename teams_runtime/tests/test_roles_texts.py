"""The Markdown that roles are given: short, there for every role, and open to a project's own charters."""

from __future__ import annotations

import doctest
import unittest
from dataclasses import replace

from teams_runtime.shared.errors import InputError
from teams_runtime.shared.models import ROLES
from teams_runtime.workflows.roles import answer_text, data, issues, parsing, texts
from teams_runtime.workflows.roles.texts import MAX_CHARTER_CHARACTERS, load_texts


class BuiltIn(unittest.TestCase):
    def test_every_role_has_a_charter_of_at_most_900_characters(self) -> None:
        built_in = load_texts({})
        self.assertEqual(set(ROLES), set(built_in.charters))
        for role in ROLES:
            with self.subTest(role):
                self.assertTrue(built_in.charter(role).startswith("# "))
                self.assertLessEqual(len(built_in.charter(role)), 900)

    def test_the_house_rules_have_at_most_700_characters(self) -> None:
        self.assertTrue(1 <= len(load_texts({}).house_rules) <= 700)

    def test_only_the_developer_may_change_files(self) -> None:
        built_in = load_texts({})
        readers = {role for role in ROLES if "change no file" in built_in.charter(role).lower()}
        self.assertEqual(set(ROLES) - {"developer"}, readers)

    def test_the_examples_in_the_docstrings_hold(self) -> None:
        for module in (answer_text, data, issues, parsing, texts):
            with self.subTest(module.__name__):
                self.assertEqual(0, doctest.testmod(module).failed)


class OwnCharters(unittest.TestCase):
    def test_an_own_charter_replaces_that_role_and_no_other(self) -> None:
        own = load_texts({"qa": "Only look."})
        self.assertEqual("Only look.", own.charter("qa"))
        self.assertEqual(load_texts({}).charter("developer"), own.charter("developer"))

    def test_mark_blanks_and_line_ends_of_an_editor_do_not_reach_the_prompt(self) -> None:
        self.assertEqual("a\nb\u2028c", load_texts({"qa": "\ufeff a\r\nb\u2028c \n"}).charter("qa"))

    def test_an_override_that_cannot_be_used_is_refused(self) -> None:
        for role, text, reason in (
            ("tester", "x", "got 'tester'"),
            ("qa", " \n", "got 0"),
            ("qa", "x" * (MAX_CHARTER_CHARACTERS + 1), "got 20001"),
        ):
            with self.subTest(reason), self.assertRaisesRegex(InputError, reason):
                load_texts({role: text})

    def test_the_longest_charter_is_taken(self) -> None:
        self.assertEqual(MAX_CHARTER_CHARACTERS, len(load_texts({"qa": "x" * MAX_CHARTER_CHARACTERS}).charter("qa")))


class Hash(unittest.TestCase):
    def test_it_changes_with_the_roles_charter_and_the_house_rules_only(self) -> None:
        before = load_texts({})
        other = load_texts({"planner": "Plan."})
        self.assertEqual(before.sha256("qa"), other.sha256("qa"))
        self.assertNotEqual(before.sha256("planner"), other.sha256("planner"))
        self.assertNotEqual(before.sha256("qa"), replace(before, house_rules="none").sha256("qa"))
