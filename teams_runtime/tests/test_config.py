"""What `team_runtime.yaml` may hold, and how its errors read."""

from __future__ import annotations

import os
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from teams_runtime.shared.config import load_team_runtime_config
from teams_runtime.shared.errors import ConfigError
from teams_runtime.shared.models import PromptContextRuntimeConfig, RoleConfig, TeamRuntimeConfig, stays_inside
from teams_runtime.shared.yaml_file import MAX_BYTES

KNOWN = "sprint, sessions, prompt_context, workflow, default_role, roles, providers, repository, version_control"


class ConfigCase(unittest.TestCase):
    """Loads texts from a real file."""

    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.file = self.root / "team_runtime.yaml"

    def load(self, text: str | bytes) -> TeamRuntimeConfig:
        self.file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_team_runtime_config(self.root)

    def problems(self, text: str | bytes) -> list[str]:
        with self.assertRaises(ConfigError) as caught:
            self.load(text)
        return [problem.removeprefix("team_runtime.yaml:") for problem in caught.exception.problems]

    def assert_problems(self, text: str | bytes, *expected: str) -> None:
        self.assertEqual(list(expected), self.problems(text))


class ValuesTest(ConfigCase):
    def test_what_is_left_out_has_its_default(self) -> None:
        for text in ("", "# only a comment\n", "---\n", "\ufeff", "sprint: {}\n", "prompt_context: {enabled: true}\n"):
            with self.subTest(text=text):
                self.assertEqual(TeamRuntimeConfig(), self.load(text))

    def test_every_section_takes_values(self) -> None:
        config = self.load(
            "sprint: {id: s2}\nprompt_context: {enabled: false, recent_events: 2, max_events: 3}\n"
            "workflow: {profile: lean, limits: {repairs: 0}, budgets: {turns: null, minutes: 1.5}}\n"
            "roles: {qa: {model: m, timeout_seconds: 60}}\nrepository: {owned_paths: [src, tests]}\n"
            "providers: {scripted: {script: team/script.yaml}}\nversion_control: {allow_hooks: true}\n"
        )
        expected = PromptContextRuntimeConfig(enabled=False, recent_events=2, max_events=3)
        self.assertEqual(expected, config.prompt_context)
        self.assertEqual(("src", "tests"), config.repository.owned_paths)
        self.assertEqual((60.0, 1800.0), (config.role("qa").timeout_seconds, config.role("planner").timeout_seconds))

    def test_bom_crlf_and_aliases_are_fine(self) -> None:
        config = self.load("\ufeffdefault_role: &d\r\n  model: m\r\nroles:\r\n  qa: *d\r\n")
        self.assertEqual(RoleConfig(model="m"), config.role("qa"))

    def test_words_are_read_as_yaml_1_2(self) -> None:
        """`on`, `yes` and `0o10` mean what YAML 1.2 says, never what 1.1 said."""
        self.assertEqual("on", self.load("sprint: {id: on}\n").sprint.id)
        self.assertEqual(8, self.load("prompt_context: {recent_events: 0o10}\n").prompt_context.recent_events)
        self.assert_problems(
            "prompt_context: {enabled: yes}\n", "1:27: prompt_context.enabled must be a boolean, got 'yes'"
        )

    def test_a_config_is_frozen(self) -> None:
        with self.assertRaises(ValidationError):
            self.load("").prompt_context.max_events = 3  # type: ignore[misc]


class PromptContextTest(ConfigCase):
    def test_a_bad_value_is_told_with_its_place(self) -> None:
        boolean, recent, most = (
            "prompt_context.enabled must be a boolean",
            "prompt_context.recent_events must be a positive integer",
            "prompt_context.max_events must be a positive integer",
        )
        table = {
            "prompt_context: 3\n": "1:17: prompt_context must be a mapping, got 3",
            "prompt_context:\n": "1:1: prompt_context must be a mapping, got null",
            "prompt_context: [1]\n": "1:17: prompt_context must be a mapping, got [1]",
            "prompt_context:\n  enabled: 1\n": f"2:12: {boolean}, got 1",
            "prompt_context:\n  enabled: null\n": f"2:12: {boolean}, got null",
            "prompt_context:\n  recent_events: true\n": f"2:18: {recent}, got true",
            "prompt_context:\n  recent_events: 8.0\n": f"2:18: {recent}, got 8.0",
            "prompt_context:\n  recent_events: -1\n": f"2:18: {recent}, got -1",
            "prompt_context:\n  max_events: 0\n": f"2:15: {most}, got 0",
            "prompt_context:\n  max_events: '16'\n": f"2:15: {most}, got '16'",
        }
        for text, expected in table.items():
            with self.subTest(text=text):
                self.assert_problems(text, expected)

    def test_the_tail_must_fit(self) -> None:
        """Also when one of the two is a default, and also next to another error of the section."""
        rule = "prompt_context.max_events must be greater than or equal to recent_events"
        text = "prompt_context:\n  enabled: 1\n  recent_events: 8\n  max_events: 4\n"
        self.assertIn(f"4:15: {rule}, got 4 (recent_events is 8)", self.problems(text))
        self.assert_problems("prompt_context: {recent_events: 20}\n", f"1:33: {rule}, got 16 (recent_events is 20)")
        self.assert_problems("prompt_context: {max_events: 7}\n", f"1:30: {rule}, got 7 (recent_events is 8)")

    def test_a_directly_built_bad_value_is_refused(self) -> None:
        table: dict[str, dict[str, object]] = {
            "prompt_context.enabled must be a boolean": {"enabled": 1},
            "prompt_context.recent_events must be a positive integer": {"recent_events": True},
            "prompt_context.max_events must be a positive integer": {"max_events": 0},
            "prompt_context.max_events must be greater than or equal to recent_events": {"recent_events": 17},
        }
        for sentence, values in table.items():
            with self.subTest(sentence), self.assertRaisesRegex(ValidationError, sentence):
                PromptContextRuntimeConfig.model_validate(values)


class SentencesTest(ConfigCase):
    def test_every_kind_of_value_has_its_sentence(self) -> None:
        seconds = "must be a positive number of at most 604800"
        leaving = "must be a relative path that stays in the workspace"
        outside = "must be a relative path that stays in the repository and out of .git"
        table = {
            "sprint: {id: ''}": "1:14: sprint.id must be a non-empty string of at most 128 characters, got ''",
            'sprint: {id: "a\\tb"}': "1:14: sprint.id must hold only printable characters, got 'a\\tb'",
            "workflow: {profile: big}": "1:21: workflow.profile must be one of 'full', 'lean', got 'big'",
            "workflow: {limits: {repairs: 3}}": "1:30: workflow.limits.repairs must be an integer from 0 to 2, got 3",
            "workflow: {budgets: {turns: 0}}": (
                "1:29: workflow.budgets.turns must be a positive integer, or null, got 0"
            ),
            "workflow: {budgets: {minutes: .inf}}": "1:31: workflow.budgets.minutes must be a finite number, got inf",
            "default_role: {timeout_seconds: 1e9}": f"1:33: default_role.timeout_seconds {seconds}, got 1000000000.0",
            "default_role: {charter: ../x}": f"1:25: default_role.charter {leaving}, got '../x'",
            "default_role: {provider: none}": "1:26: default_role.provider must be one of "
            "'scripted', 'codex', 'claude', 'acp', 'api', got 'none'",
            "roles: {qa: }": "1:9: roles.qa must be a mapping, got null",
            "roles: []": "1:8: roles must be a mapping, got []",
            "providers: {scripted: {script: /x}}": f"1:32: providers.scripted.script {leaving}, got '/x'",
            "repository: {owned_paths: []}": (
                "1:27: repository.owned_paths must be a non-empty list of non-empty strings, got []"
            ),
            "repository: {owned_paths: [1]}": "1:28: repository.owned_paths[0] must be a non-empty string, got 1",
            "repository: {owned_paths: [a/.GIT]}": f"1:28: repository.owned_paths[0] {outside}, got 'a/.GIT'",
            "repository: {verification_command: make}": (
                "1:36: repository.verification_command must be a list of non-empty strings, got 'make'"
            ),
            'repository: {path: "a\\0"}': "1:20: repository.path must hold no NUL character, got 'a\\x00'",
            "version_control: {allow_hooks: no}": "1:32: version_control.allow_hooks must be a boolean, got 'no'",
        }
        for text, expected in table.items():
            with self.subTest(text):
                self.assert_problems(text, expected)

    def test_an_endless_number_is_text(self) -> None:
        """Python refuses to read or show integers of thousands of digits; they never reach it."""
        for digits in ("9" * 5000, "0x" + "f" * 5000, "0." + "9" * 5000):
            (problem,) = self.problems(f"prompt_context: {{max_events: {digits}}}\n")
            expected = f"1:30: prompt_context.max_events must be a positive integer, got '{digits[:58]}…"
            with self.subTest(digits[:3]):
                self.assertEqual(expected, problem)

    def test_every_error_is_told_at_once_in_file_order(self) -> None:
        text = "sprint:\n  id: 5\nroles:\n  devloper: {}\nversion_control: {allow_hooks: 0}\nsprint: {}\n1: x\n"
        self.assert_problems(
            text,
            "2:7: sprint.id must be a non-empty string of at most 128 characters, got 5",
            "4:3: roles must hold only known keys, got devloper; did you mean developer?",
            "5:32: version_control.allow_hooks must be a boolean, got 0",
            "6:1: sprint must stand once, got it again (first on line 1)",
            "7:1: a key must be a string, got 1",
        )

    def test_an_unknown_key_is_met_with_the_near_or_the_known_ones(self) -> None:
        self.assert_problems(
            "prompt_contxt: {}\n",
            "1:1: the file must hold only known keys, got prompt_contxt; did you mean prompt_context?",
        )
        self.assert_problems("zzz: 1\n", f"1:1: the file must hold only known keys, got zzz; known are {KNOWN}")
        self.assert_problems(
            "roles: {qa: {<<: {}}}\n",
            "1:14: roles.qa must hold only known keys, got '<<'; "
            "known are provider, model, reasoning, timeout_seconds, charter",
        )

    def test_several_duplicates_are_told_together(self) -> None:
        self.assert_problems(
            "sprint: {id: a, id: b}\nroles: {}\nroles: {}\n",
            "1:17: sprint.id must stand once, got it again (first on line 1)",
            "3:1: roles must stand once, got it again (first on line 2)",
        )

    def test_a_shown_value_is_bounded_and_on_one_line(self) -> None:
        wide = ", ".join([f'"{"y" * 900}"'] * 900)
        table = {"long": '"' + "x" * 500_000 + '"', "wide": f"[[{wide}]]", "control": '"\\x85\\u202e\\n"'}
        for name, value in table.items():
            with self.subTest(name):
                (problem,) = self.problems(f"prompt_context: {value}\n")
                self.assertLessEqual(len(problem), len("1:17: prompt_context must be a mapping, got ") + 60)
                self.assertTrue(problem.isprintable())


class FaultyFileTest(ConfigCase):
    def test_a_text_that_is_no_config_gives_one_clear_line(self) -> None:
        deep = "the file must be nested at most 32 deep, got"
        yaml = "the file must be valid YAML, got"
        table: dict[str | bytes, str] = {
            "[1, 2]": "1:1: the file must hold a mapping, got [1, 2]",
            "text": "1:1: the file must hold a mapping, got 'text'",
            "null": "1:1: the file must hold a mapping, got null",
            "sprint: {}\n---\nsprint: {}\n": "2:1: the file must hold one YAML document, got the start of another",
            "sprint:\n\tid: x\n": f"2:1: {yaml} an error: a tab where only spaces may indent",
            "sprint: [1": f"1:11: {yaml} an error: expected ',' or ']', but got '<stream end>'",
            'sprint: "\\U99999999"': (
                f"1:1: {yaml} what the reader cannot take: Python int too large to convert to C int"
            ),
            "sprint: *a": "1:9: an alias must name an anchor that ended before it, got '*a'",
            "sprint: &a [*a]": "1:13: an alias must name an anchor that ended before it, got '*a'",
            "sprint: &a {}\nroles: &a [*a]": "2:12: an alias must name an anchor that ended before it, got '*a'",
            "sprint: !!map {}": "1:9: a value must have no tag, got 'tag:yaml.org,2002:map'",
            "sprint: {id: !x a}": "1:14: a value must have no tag, got '!x'",
            'sprint: {id: "\\ud800"}': "1:14: a text must hold only Unicode characters, got '\\ud800'",
            "%YAML 1.1\n---\n{}": "2:1: the file must be YAML 1.2, got a %YAML 1.1 directive before this line",
            "[" * 100_000: f"1:33: {deep} one level more",
            "- " * 100_000: f"1:65: {deep} one level more",
            "[" + "1," * 20_000 + "]": "1:20002: the file must hold at most 10000 values, got more",
            "sprint: {id: a\0}": "1:15: the file must be printable text, got '\\x00'",
            b"# \xc3\xa9\r\nsprint: \xff\n": "2:9: the file must be UTF-8 text, got the byte 0xff",
        }
        for text, expected in table.items():
            with self.subTest(text[:40]):
                self.assert_problems(text, expected)

    def test_an_explicit_python_tag_builds_nothing(self) -> None:
        target = self.root / "made"
        text = f"sprint: !!python/object/apply:os.mkdir ['{target}']\n"
        self.assertIn("a value must have no tag", "\n".join(self.problems(text)))
        self.assertFalse(target.exists())

    def test_an_alias_bomb_is_refused(self) -> None:
        lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 20))]
        self.assertIn("the file must hold at most 10000 values", self.problems("\n".join(lines))[-1])

    def test_a_chain_of_aliases_cannot_nest_without_bound(self) -> None:
        lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 100))]
        self.assertIn("nested at most 32 deep, got an alias that goes deeper", self.problems("\n".join(lines))[-1])

    def test_line_ends_and_wide_characters_count_as_editors_count_them(self) -> None:
        """A line separator (U+2028) ends no line, CRLF ends one, an emoji is one character, a byte order mark none."""
        self.assert_problems("\ufeffroles: 1\r\n", "1:8: roles must be a mapping, got 1")
        self.assert_problems(
            "# \u2028\r\nsprint: {id: '\U0001f642'} \r\nroles: 1\r\n", "3:8: roles must be a mapping, got 1"
        )
        self.assertIn("1:22: roles.qa must be a mapping, got 1", self.problems("roles: {'\U0001f642': {}, qa: 1}\n"))

    def test_the_size_limit_is_named(self) -> None:
        self.load(b"#" * MAX_BYTES)
        self.assertIn("at most 1048576 bytes (1 MiB), got more", self.problems(b"#" * (MAX_BYTES + 1))[0])

    def test_what_is_no_readable_file_gives_one_line(self) -> None:
        def link_to_itself(path: Path) -> None:
            path.symlink_to(path)

        def nothing(_: Path) -> None: ...

        table: dict[str, Callable[[Path], None]] = {
            "must exist, got no such file; `teams-runtime init` makes one": nothing,
            "must be a regular file, got a folder": Path.mkdir,
            "must be a regular file, got another kind of file": os.mkfifo,
            "must be readable, got: Too many levels of symbolic links": link_to_itself,
        }
        for number, (expected, make) in enumerate(table.items()):
            root = self.root / str(number)
            root.mkdir()
            make(root / "team_runtime.yaml")
            with self.subTest(expected), self.assertRaises(ConfigError) as caught:
                load_team_runtime_config(root)
            (problem,) = caught.exception.problems
            self.assertTrue(problem.startswith(f"team_runtime.yaml:1:1: the file {expected}"), problem)

    @unittest.skipIf(os.geteuid() == 0, "root may read every file")
    def test_a_file_without_read_permission_gives_one_line(self) -> None:
        self.file.touch(mode=0o000)
        with self.assertRaisesRegex(ConfigError, "must be readable, got: Permission denied"):
            load_team_runtime_config(self.root)


class PathsTest(unittest.TestCase):
    def test_a_path_stays_inside_or_not(self) -> None:
        table = {".": True, "a/../b": True, "a/..": True, "..": False, "a/../../b": False, "/a": False, "./../a": False}
        self.assertEqual(table, {path: stays_inside(path) for path in table})


KEYS = [
    "prompt_context",
    "enabled",
    "recent_events",
    "max_events",
    "roles",
    "qa",
    "repository",
    "owned_paths",
    "x",
    "<<",
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5).map(repr),
    st.sampled_from(["&a", "*a", "!"]),
)
TREES = st.recursive(
    SCALARS.map(str),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(st.tuples(st.sampled_from(KEYS), inner), max_size=4).map(
            lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
        ),
    ),
    max_leaves=12,
)


class AnyTextTest(ConfigCase):
    @settings(max_examples=300, deadline=None)
    @given(st.one_of(TREES, st.text(), st.text(alphabet="{}[]&*!|>%'\"#-:,?~ \n\tab01", max_size=40), st.binary()))
    @example("? a")
    @example("%YAML 1." + "9" * 5000 + "\n---\na: 1")
    @example("k" * 2000 + ": 1")
    def test_any_text_gives_a_config_or_a_config_error(self, text: str | bytes) -> None:
        """Nothing else ever escapes, and every problem is one printable line with a place."""
        content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        try:
            self.load(content)
        except ConfigError as error:
            for problem in error.problems:
                self.assertRegex(problem, r"\Ateam_runtime\.yaml:[1-9]\d*:[1-9]\d*: \S")
                self.assertTrue(problem.isprintable(), problem)
