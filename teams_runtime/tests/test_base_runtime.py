"""One turn: what each call is given, what it leaves behind, and how the turn ends."""

from __future__ import annotations

import json
import unittest
from typing import Any

from teams_runtime.providers.base import TurnResult, Usage
from teams_runtime.runtime.base_runtime import TurnFailure, TurnReport
from teams_runtime.shared.errors import FailureKind, ProviderError
from teams_runtime.shared.models import PromptContextRuntimeConfig, RoleConfig
from teams_runtime.tests.listening_provider import ListeningProvider
from teams_runtime.tests.role_answers import answer
from teams_runtime.workflows.roles.contract import PromptKind, answer_schema

GOOD = json.dumps(answer("build", request_id="r1"))
DOWN = ProviderError(FailureKind.OVERLOADED, "the provider is busy", remedy="try again later")


def build(provider: ListeningProvider, **settings: Any) -> TurnReport | TurnFailure:
    """Run a developer's turn."""
    return provider.turn("developer", "build", PromptContextRuntimeConfig(), **settings)


class CallTest(unittest.TestCase):
    """What the provider is given."""

    def test_a_call_carries_the_roles_settings_and_the_schema_of_its_answer(self) -> None:
        """Deadline, model and effort come from the config; a provider that can enforce a schema is given one."""
        provider = ListeningProvider(GOOD)
        build(provider, role_config=RoleConfig(model="m-1", reasoning="low", timeout_seconds=7.0))
        (call,) = provider.calls
        self.assertEqual(("m-1", "low", 7.0), (call.model, call.reasoning, call.deadline_seconds))
        self.assertEqual(answer_schema("developer", PromptKind.ROLE_TASK), call.schema)

    def test_only_a_step_that_writes_may_write(self) -> None:
        """The provider is told which it is, so that it can close the worktree itself."""
        for writes, access in ((True, "worktree"), (False, "none")):
            provider = ListeningProvider(GOOD)
            build(provider, writes=writes)
            self.assertEqual(access, provider.calls[0].write_access)

    def test_a_turn_begins_a_session_and_its_repairs_stay_in_it(self) -> None:
        """The first call has none; a repair goes on with the one that the call before it told."""
        provider = ListeningProvider(TurnResult("no", session_id="s-1"), TurnResult(GOOD, session_id="s-1"))
        build(provider)
        self.assertEqual([None, "s-1"], [call.session for call in provider.calls])
        self.assertEqual([0, 1], [call.attempt for call in provider.calls])


class ManifestTest(unittest.TestCase):
    """What a call leaves behind."""

    def test_every_call_leaves_one_manifest_with_its_outcome(self) -> None:
        """Refused, answered and failed calls alike."""
        cases = {
            ("rejected", "ok"): ListeningProvider("no", GOOD),
            ("rejected", "overloaded"): ListeningProvider("no", DOWN),
        }
        for outcomes, provider in cases.items():
            with self.subTest(outcomes):
                build(provider)
                self.assertEqual(outcomes, tuple(one.outcome for one in provider.written))
                self.assertEqual(["role_task", "contract_repair"], [one.kind for one in provider.written])

    def test_a_manifest_counts_what_the_prompt_showed_and_the_answer_held(self) -> None:
        """Sizes are those of the texts; tokens are the provider's own."""
        provider = ListeningProvider(TurnResult(GOOD, usage=Usage(input_tokens=70, cached_input_tokens=60)))
        build(provider)
        (one,) = provider.written
        self.assertEqual((len(provider.calls[0].prompt), len(GOOD)), (one.characters, one.answer_characters))
        self.assertEqual((100, 12), (one.total_events, one.included_events))
        self.assertEqual((70, 60, None), (one.input_tokens, one.cached_input_tokens, one.output_tokens))


class EndTest(unittest.TestCase):
    """How a turn ends."""

    def test_what_a_turn_spent_is_the_sum_of_its_calls(self) -> None:
        """What no call told stays unknown; what one call told is not lost by another that tells nothing."""
        refused = TurnResult("no", usage=Usage(input_tokens=100, output_tokens=10, cost_usd=0.5))
        for last, spent in (
            (TurnResult(GOOD, usage=Usage(input_tokens=5, cost_usd=0.25)), (2, 115, 0.75)),
            (GOOD, (2, 110, 0.5)),
            (DOWN, (2, 110, 0.5)),
        ):
            outcome = build(ListeningProvider(refused, last))
            self.assertEqual(spent, (outcome.spent.calls, outcome.spent.tokens, outcome.spent.cost_usd))
        self.assertEqual((1, None, None), tuple(build(ListeningProvider(GOOD)).spent.payload().values())[:3])

    def test_an_answer_that_stays_invalid_fails_the_turn_after_the_allowed_repairs(self) -> None:
        """Never more than two repairs, and fewer where the config says so."""
        for repairs in (0, 1, 2):
            provider = ListeningProvider(*["no"] * 4)
            outcome = build(provider, max_repairs=repairs)
            assert isinstance(outcome, TurnFailure)
            self.assertEqual((repairs + 1, FailureKind.CONTRACT), (len(provider.calls), outcome.kind))
            self.assertIn("one JSON object", outcome.issues[0])

    def test_a_failed_call_ends_the_turn_with_its_kind_and_remedy(self) -> None:
        """A repair is for answers; a call that failed is the workflow's to ask about."""
        provider = ListeningProvider(DOWN)
        outcome = build(provider)
        assert isinstance(outcome, TurnFailure)
        self.assertEqual((1, FailureKind.OVERLOADED, ()), (len(provider.calls), outcome.kind, outcome.issues))
        self.assertIn("try again later", outcome.remedy)

    def test_what_a_role_was_not_allowed_to_do_is_told_of_all_its_calls(self) -> None:
        """Also when the answer of the call was refused."""
        outcome = build(ListeningProvider(TurnResult("no", denials=("a",)), TurnResult(GOOD, denials=("b",))))
        assert isinstance(outcome, TurnReport)
        self.assertEqual(("a", "b"), outcome.denials)


if __name__ == "__main__":
    unittest.main()
