"""Every prompt of a turn comes from one projection, and stays small whatever the history's length."""

from __future__ import annotations

import unittest

from teams_runtime.runtime.turn_prompt import Turn, TurnPrompts
from teams_runtime.shared.models import PromptContextRuntimeConfig
from teams_runtime.tests.listening_provider import hundred_events
from teams_runtime.workflows.orchestration.workflow import STEPS
from teams_runtime.workflows.roles.contract import PromptKind
from teams_runtime.workflows.roles.prompt import RejectedAnswer
from teams_runtime.workflows.roles.texts import load_texts

TURNS = {
    PromptKind.ROLE_TASK: ("developer", "build"),
    PromptKind.CONTRACT_REPAIR: ("developer", "build"),
    PromptKind.RESEARCH_DECISION: ("research", "research"),
    PromptKind.VERSION_CONTROL: ("version_controller", "version_control"),
}
REFUSED = RejectedAnswer(text="I am done.", issues=("the answer must be one JSON object",))


def build(kind: PromptKind, config: PromptContextRuntimeConfig) -> tuple[str, int]:
    """Return one kind's prompt, and its size with every event."""
    role, step = TURNS[kind]
    prompts = TurnPrompts(Turn(hundred_events(), role, step, 1), load_texts({}), config)
    prompt = prompts.build(kind, REFUSED if kind is PromptKind.CONTRACT_REPAIR else None)
    return prompt.text, prompt.characters_full


class BoundTest(unittest.TestCase):
    """The bound that the projection promises, for all four kinds."""

    def test_the_kinds_are_exactly_four(self) -> None:
        """A new way to ask a model must be added here, and be bounded."""
        self.assertEqual(set(PromptKind), set(TURNS))
        self.assertLessEqual({spec.kind for spec in STEPS.values()}, set(TURNS))

    def test_the_full_size_is_that_of_the_disabled_prompt(self) -> None:
        """What a prompt reports as its full size is what the rollback would send, to the character."""
        tight = PromptContextRuntimeConfig(recent_events=2, max_events=2)
        for kind in PromptKind:
            for config in (PromptContextRuntimeConfig(), tight):
                with self.subTest(kind=kind, max_events=config.max_events):
                    _, full = build(kind, config)
                    whole, _ = build(kind, PromptContextRuntimeConfig(enabled=False))
                    self.assertEqual(len(whole), full)

    def test_one_projection_serves_the_turn(self) -> None:
        """The task and its repair show the same events, by the same object."""
        prompts = TurnPrompts(
            Turn(hundred_events(), "developer", "build", 1), load_texts({}), PromptContextRuntimeConfig()
        )
        task, repair = prompts.build(PromptKind.ROLE_TASK), prompts.build(PromptKind.CONTRACT_REPAIR, REFUSED)
        self.assertIs(task.projection, repair.projection)
        for line in task.projection.event_lines():
            self.assertIn(line, repair.text)


if __name__ == "__main__":
    unittest.main()
