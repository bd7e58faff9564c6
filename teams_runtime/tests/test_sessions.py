"""Which conversation a turn goes on with, and when it is left; every rule with the projection on and off."""

from __future__ import annotations

import json
import tempfile
import unittest
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from teams_runtime.providers.base import TurnResult, Usage
from teams_runtime.runtime.base_runtime import TurnReport
from teams_runtime.runtime.sessions import Party, SessionBook
from teams_runtime.shared.errors import FailureKind, ProviderError
from teams_runtime.shared.models import PromptContextRuntimeConfig, RoleConfig, SessionsConfig
from teams_runtime.shared.paths import WorkspacePaths
from teams_runtime.tests.listening_provider import ListeningProvider
from teams_runtime.tests.role_answers import answer

GOOD = json.dumps(answer("build", request_id="r1"))
QA = Party("r1", "qa", "codex", "m-1")


def reply(session: str, tokens: int | None = None) -> TurnResult:
    """An answer given in a conversation."""
    return TurnResult(GOOD, session_id=session, usage=Usage(input_tokens=tokens))


class SessionCase(unittest.TestCase):
    def setUp(self) -> None:
        root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.paths = WorkspacePaths(root)
        self.paths.state.mkdir()
        self.now = datetime(2026, 12, 4, tzinfo=UTC)

    def tick(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def book(self, sprint_id: str = "sprint-1", **settings: Any) -> SessionBook:
        """The book as one process has it."""
        return SessionBook(self.paths, SessionsConfig(**settings), sprint_id, self.tick)

    def turn(self, book: SessionBook, answered_in: str, *, party: Party = QA, tokens: int | None = None) -> str | None:
        """One turn with one call; return the conversation that the call was to go on with."""
        with book.open(party) as session:
            asked = session.session_id
            session.used(reply(answered_in, tokens))
        return asked

    def archived(self) -> list[dict[str, Any]]:
        """What the archive tells, oldest first."""
        files = sorted((self.paths.sessions / "archive").glob("*.json"))
        return [json.loads(file.read_text(encoding="utf-8")) for file in files]

    def kept(self) -> Path:
        """The one file of a conversation that goes on."""
        (file,) = (*self.paths.sessions.glob("sprint/*.json"), *self.paths.sessions.glob("requests/*/*.json"))
        return file


class ScopeTest(SessionCase):
    """What the scopes mean."""

    def test_scope_turn_starts_afresh_and_writes_nothing(self) -> None:
        """The default: the prompt is all that the model is given."""
        book = self.book()
        self.assertEqual([None, None], [self.turn(book, "s-1"), self.turn(book, "s-2")])
        self.assertFalse(self.paths.sessions.exists())

    def test_scope_request_goes_on_within_one_request_only(self) -> None:
        """Another request, and another role, has a conversation of its own; another process sees the same."""
        other, planner = Party("r2", "qa", "codex", "m-1"), Party("r1", "planner", "codex", "m-1")
        first = [self.turn(self.book(scope="request"), name, party=party)
                 for name, party in (("s-1", QA), ("s-2", other), ("s-3", planner))]  # fmt: skip
        again = [self.turn(self.book(scope="request"), name, party=party)
                 for name, party in (("s-1", QA), ("s-2", other), ("s-3", planner))]  # fmt: skip
        self.assertEqual(([None] * 3, ["s-1", "s-2", "s-3"]), (first, again))

    def test_scope_sprint_goes_on_over_requests_until_the_sprint_changes(self) -> None:
        """The old metadata is archived, with the reason, and nothing of it is lost."""
        other = Party("r2", "qa", "codex", "m-1")
        asked = [
            self.turn(self.book(scope="sprint"), "s-1", tokens=10),
            self.turn(self.book(scope="sprint"), "s-1", party=other, tokens=5),
            self.turn(self.book("sprint-2", scope="sprint"), "s-2"),
        ]
        self.assertEqual([None, "s-1", None], asked)
        (old,) = self.archived()
        told = {key: old[key] for key in ("session_id", "sprint_id", "turns", "input_tokens", "reason", "ended_at")}
        self.assertEqual(["s-1", "sprint-1", 2, 15, "sprint_changed"], list(told.values())[:5])
        self.assertEqual("sprint-2", json.loads(self.kept().read_text("utf-8"))["sprint_id"])

    def test_files_are_private_and_hold_no_content(self) -> None:
        """Names and counts only."""
        self.turn(self.book(scope="sprint"), "s-1")
        self.assertEqual(0o600, self.kept().stat().st_mode & 0o777)
        self.assertEqual(0o700, self.kept().parent.stat().st_mode & 0o777)
        self.assertNotIn("summary", self.kept().read_text("utf-8"))


class RolloverTest(SessionCase):
    """When a conversation is left."""

    def test_it_is_left_after_so_many_turns(self) -> None:
        book = self.book(scope="request", max_turns=2)
        asked = [self.turn(book, name) for name in ("s-1", "s-1", "s-2", "s-2", "s-3")]
        self.assertEqual([None, "s-1", None, "s-2", None], asked)
        self.assertEqual(["max_turns", "max_turns"], [old["reason"] for old in self.archived()])

    def test_it_is_left_after_so_many_input_tokens(self) -> None:
        """All calls of all its turns count, repairs included; what is not told counts nothing."""
        book = self.book(scope="sprint", max_input_tokens=100)
        with book.open(QA) as session:
            session.used(reply("s-1", 60))
            session.used(reply("s-1", 39))
        self.assertEqual("s-1", self.turn(book, "s-1", tokens=None))
        self.assertEqual("s-1", self.turn(book, "s-1", tokens=1))
        self.assertIsNone(self.turn(book, "s-2"))
        self.assertEqual([("max_input_tokens", 100)], [(old["reason"], old["input_tokens"]) for old in self.archived()])

    def test_another_provider_or_model_begins_afresh(self) -> None:
        """A conversation belongs to who kept it."""
        book = self.book(scope="request")
        self.turn(book, "s-1")
        self.assertIsNone(self.turn(book, "s-2", party=Party("r1", "qa", "claude", "m-1")))
        self.assertIsNone(self.turn(book, "s-3", party=Party("r1", "qa", "claude", "m-2")))
        self.assertEqual(["provider_changed", "model_changed"], [old["reason"] for old in self.archived()])

    def test_one_that_the_provider_does_not_know_any_more_is_replaced_with_a_log_line(self) -> None:
        """The provider began a new one; its turns are counted from there."""
        book = self.book(scope="request")
        self.turn(book, "s-1", tokens=7)
        with self.assertLogs("teams_runtime.runtime.sessions", "WARNING") as logs:
            self.assertEqual("s-1", self.turn(book, "s-9", tokens=3))
        self.assertIn("session of qa", logs.output[0])
        self.assertEqual(["unknown_to_provider"], [old["reason"] for old in self.archived()])
        now = json.loads(self.kept().read_text("utf-8"))
        self.assertEqual(("s-9", 1, 3), (now["session_id"], now["turns"], now["input_tokens"]))

    def test_a_second_turn_at_the_same_time_has_a_conversation_of_its_own(self) -> None:
        """Two turns in one conversation would answer each other's questions."""
        book = self.book(scope="sprint")
        self.turn(book, "s-1")
        with book.open(QA) as session:
            self.assertIsNone(self.turn(self.book(scope="sprint"), "s-2"))
            session.used(reply("s-1"))
        self.assertEqual("s-1", self.turn(book, "s-1"))

    def test_a_turn_that_fails_leaves_the_conversation_as_it_was(self) -> None:
        book = self.book(scope="request")
        self.turn(book, "s-1")
        with self.assertRaises(KeyError), book.open(QA):
            raise KeyError
        self.assertEqual("s-1", self.turn(book, "s-1"))


class HostileFileTest(SessionCase):
    """A file that is not ours is no reason to stop."""

    def test_a_file_that_tells_of_no_session_begins_a_fresh_one_with_a_log_line(self) -> None:
        self.turn(self.book(scope="request"), "s-1")
        file = self.kept()
        good = json.loads(file.read_text("utf-8"))
        odd = {
            "empty": b"",
            "binary": b"\x00\xff\xfe",
            "half": file.read_bytes()[:40],
            "a list": b"[]",
            "deep": b"[" * 10_000,
            "huge": b" " * 100_000 + b"{}",
            "an option for an id": json.dumps(good | {"session_id": "--help"}).encode(),
            "a path for an id": json.dumps(good | {"session_id": "../../etc/passwd"}).encode(),
            "a number for an id": json.dumps(good | {"session_id": 5}).encode(),
            "negative turns": json.dumps(good | {"turns": -1}).encode(),
            "true for turns": json.dumps(good | {"turns": True}).encode(),
        }
        for case, blob in odd.items():
            with self.subTest(case), self.assertLogs("teams_runtime.runtime.sessions", "WARNING"):
                file.write_bytes(blob)
                self.assertIsNone(self.turn(self.book(scope="request"), "s-2"))
            self.assertEqual("s-2", json.loads(file.read_text("utf-8"))["session_id"])

    def test_what_this_version_does_not_know_in_a_file_is_no_harm(self) -> None:
        self.turn(self.book(scope="request"), "s-1")
        file = self.kept()
        file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | {"later": 1}), encoding="utf-8")
        self.assertEqual("s-1", self.turn(self.book(scope="request"), "s-1"))

    def test_a_planted_link_is_not_written_through(self) -> None:
        self.turn(self.book(scope="request"), "s-1")
        outside = self.paths.root / "outside.json"
        file = self.kept()
        outside.write_bytes(file.read_bytes())
        file.unlink()
        Path(file).symlink_to(outside)
        before = outside.read_bytes()
        self.turn(self.book(scope="request"), "s-1")
        self.assertEqual(before, outside.read_bytes())

    def test_an_id_that_no_client_can_be_given_again_is_not_kept(self) -> None:
        book = self.book(scope="request")
        self.turn(book, "-rf /")
        self.assertIsNone(self.turn(book, "s-1"))


class TurnTest(SessionCase):
    """A whole turn in a session."""

    def run_turns(self, projection: PromptContextRuntimeConfig, book: SessionBook, *replies: Any) -> ListeningProvider:
        """Run turns until no reply is left; each gets one."""
        provider = ListeningProvider(*replies)
        while len(provider.calls) < len(replies):
            provider.turn("developer", "build", projection, role_config=RoleConfig(model="m-1"), sessions=book)
        return provider

    def test_rollover_is_the_same_with_the_projection_on_and_off(self) -> None:
        """What a prompt shows and how long a conversation lasts have nothing to do with each other."""
        asked = []
        for number, enabled in enumerate((True, False)):
            book = self.book(f"sprint-{number}", scope="sprint", max_turns=2)
            projection = PromptContextRuntimeConfig(enabled=enabled)
            replies = [reply(f"{enabled}-1"), reply(f"{enabled}-1"), reply(f"{enabled}-2")]
            provider = self.run_turns(projection, book, *replies)
            asked.append([call.session and call.session.removeprefix(f"{enabled}-") for call in provider.calls])
        self.assertEqual([[None, "1", None]] * 2, asked)

    def test_a_resumed_conversation_still_gets_the_whole_prompt(self) -> None:
        provider = self.run_turns(PromptContextRuntimeConfig(), self.book(scope="request"), reply("s-1"), reply("s-1"))
        first, second = provider.calls
        self.assertEqual((None, "s-1"), (first.session, second.session))
        self.assertEqual(first.prompt, second.prompt)

    def test_a_conversation_that_has_grown_too_long_is_left_and_the_turn_goes_on(self) -> None:
        """What earlier turns piled up is the cause, so the same prompt may fit in a fresh one; it is tried once."""
        book = self.book(scope="request")
        full = ProviderError(FailureKind.CONTEXT_WINDOW, "the prompt of 9 characters does not fit: 8 fit")
        self.run_turns(PromptContextRuntimeConfig(), book, reply("s-1"))
        provider = ListeningProvider(full, reply("s-2"))
        outcome = provider.turn(
            "developer", "build", PromptContextRuntimeConfig(), role_config=RoleConfig(model="m-1"), sessions=book
        )
        self.assertIsInstance(outcome, TurnReport)
        self.assertEqual(["s-1", None], [call.session for call in provider.calls])
        self.assertEqual(["context_window"], [old["reason"] for old in self.archived()])


if __name__ == "__main__":
    unittest.main()
