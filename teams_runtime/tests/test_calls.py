"""A call is made again where that may help, within the role's deadline, and every try can be counted afterwards."""

from __future__ import annotations

import json
import unittest
from typing import Any

from teams_runtime.providers.base import TurnResult
from teams_runtime.runtime.base_runtime import TurnFailure, TurnReport
from teams_runtime.shared.errors import FAILURES, FailureKind, ProviderError
from teams_runtime.shared.models import PromptContextRuntimeConfig, RoleConfig
from teams_runtime.tests.listening_provider import ListeningProvider
from teams_runtime.tests.role_answers import answer
from teams_runtime.workflows.roles.contract import PromptKind, answer_schema

GOOD = json.dumps(answer("build", request_id="r1"))
MAY_PASS = {
    FailureKind.RATE_LIMIT,
    FailureKind.OVERLOADED,
    FailureKind.SERVER,
    FailureKind.NETWORK,
    FailureKind.PROTOCOL,
}


def failure(kind: FailureKind, **settings: Any) -> ProviderError:
    """A failed call."""
    return ProviderError(kind, "the call failed", **settings)


def build(provider: ListeningProvider, **settings: Any) -> TurnReport | TurnFailure:
    """Run a developer's turn."""
    return provider.turn("developer", "build", PromptContextRuntimeConfig(), **{"max_retries": 3} | settings)


class RetryTest(unittest.TestCase):
    """Which calls are made again, and how often."""

    def test_only_failures_that_may_pass_are_tried_again(self) -> None:
        """The table of kinds decides; a kind that nobody has judged does not exist."""
        self.assertEqual(set(FailureKind), set(FAILURES))
        for kind in FailureKind:
            with self.subTest(kind):
                provider = ListeningProvider(failure(kind), GOOD)
                outcome = build(provider)
                self.assertEqual(kind in MAY_PASS, isinstance(outcome, TurnReport))
                self.assertEqual(2 if kind in MAY_PASS else 1, len(provider.calls))

    def test_it_gives_up_after_the_configured_number_of_tries(self) -> None:
        """What a person is told is the last failure."""
        for retries in (0, 1, 3):
            provider = ListeningProvider(*[failure(FailureKind.SERVER)] * 5)
            outcome = build(provider, max_retries=retries)
            assert isinstance(outcome, TurnFailure)
            self.assertEqual((retries + 1, FailureKind.SERVER), (len(provider.calls), outcome.kind))
            self.assertEqual(retries + 1, outcome.spent.calls)

    def test_the_pauses_grow_and_a_provider_that_asks_for_more_gets_it(self) -> None:
        """1, 2, 4 seconds and up to one more by chance; a Retry-After of 30 is kept."""
        provider = ListeningProvider(
            failure(FailureKind.SERVER),
            failure(FailureKind.SERVER),
            failure(FailureKind.RATE_LIMIT, retry_after_seconds=30.0),
            GOOD,
        )
        build(provider)
        for pause, (least, most) in zip(provider.pauses, ((1, 2), (2, 3), (30, 30)), strict=True):
            self.assertTrue(least <= pause <= most, provider.pauses)
        self.assertIn("server: the call failed; tried again in", provider.told[0])

    def test_no_try_is_begun_that_would_start_after_the_deadline(self) -> None:
        """The deadline of a role is for a call with all its tries."""
        asked = failure(FailureKind.RATE_LIMIT, retry_after_seconds=30.0)
        provider = ListeningProvider(asked, GOOD)
        outcome = build(provider, role_config=RoleConfig(timeout_seconds=20.0))
        assert isinstance(outcome, TurnFailure)
        self.assertEqual((1, []), (len(provider.calls), provider.pauses))

    def test_a_later_try_has_what_is_left_of_the_deadline(self) -> None:
        """Never the whole of it again."""
        provider = ListeningProvider(failure(FailureKind.SERVER), GOOD)
        build(provider, role_config=RoleConfig(timeout_seconds=20.0))
        first, second = (call.deadline_seconds for call in provider.calls)
        self.assertEqual(20.0, first)
        self.assertLess(second, 20.0)

    def test_every_try_leaves_a_manifest_that_tells_which_it_was(self) -> None:
        """A failed try counts as a call; a repair counts its own tries."""
        provider = ListeningProvider(failure(FailureKind.NETWORK), "no", failure(FailureKind.OVERLOADED), GOOD)
        outcome = build(provider)
        told = [(one.attempt, one.retry, one.outcome) for one in provider.written]
        self.assertEqual([(0, 0, "network"), (0, 1, "rejected"), (1, 0, "overloaded"), (1, 1, "ok")], told)
        self.assertEqual(4, outcome.spent.calls)


class RequestTest(unittest.TestCase):
    """What a provider is given besides the prompt."""

    def test_the_schema_is_in_the_dialect_that_the_provider_takes(self) -> None:
        """None where it takes none; what came back is judged by the contract in every case."""
        for dialect, schema in {
            "none": None,
            "open": answer_schema("developer", PromptKind.ROLE_TASK),
            "closed": answer_schema("developer", PromptKind.ROLE_TASK, closed=True),
        }.items():
            with self.subTest(dialect):
                provider = ListeningProvider("no", GOOD)
                provider.schema_dialect = dialect  # type: ignore[assignment]
                self.assertIsInstance(build(provider), TurnReport)
                self.assertEqual([schema, schema], [call.schema for call in provider.calls])

    def test_tools_see_the_allowed_variables(self) -> None:
        """They are part of the request, so that every provider gives its tools the same."""
        provider = ListeningProvider(GOOD)
        build(provider)
        self.assertEqual({"PATH": "/usr/bin:/bin"}, provider.calls[0].environment)

    def test_the_manifest_names_the_model_that_answered(self) -> None:
        """A client may answer with another model than the config names."""
        provider = ListeningProvider(TurnResult(GOOD, model="m-2", tool_calls=3, denials=("a", "b")))
        build(provider, role_config=RoleConfig(model="m-1"))
        (one,) = provider.written
        self.assertEqual(("m-2", 3, 2), (one.model, one.tool_calls, one.denials))


class OverflowTest(unittest.TestCase):
    """A prompt that does not fit."""

    def test_a_person_is_told_how_many_events_the_prompt_shows_and_what_to_lower(self) -> None:
        """It is never made again unchanged, and nothing is cut from it silently."""
        error = ProviderError(FailureKind.CONTEXT_WINDOW, "the prompt of 9000 characters does not fit: 8000 fit")
        provider = ListeningProvider(error, GOOD)
        outcome = build(provider)
        assert isinstance(outcome, TurnFailure)
        self.assertEqual((1, FailureKind.CONTEXT_WINDOW), (len(provider.calls), outcome.kind))
        self.assertIn("9000 characters", outcome.remedy)
        self.assertIn("it shows 12 of 100 events; lower prompt_context.max_events", outcome.remedy)


if __name__ == "__main__":
    unittest.main()
