"""Every prompt of a turn comes from one projection, and stays small whatever the history's length."""

from __future__ import annotations

import unittest
from pathlib import Path
from typing import Any

from teams_runtime.runtime.turn_prompt import Turn, TurnPrompts
from teams_runtime.shared.models import PromptContextRuntimeConfig
from teams_runtime.store.records import Record
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


def hundred_events() -> Record:
    """Return a record of 100 events of about 400 characters, its newest evidence of four roles outside the tail."""

    def event(number: int) -> dict[str, Any]:
        role = {3: "research", 11: "planner", 40: "architect", 41: "qa"}.get(number)
        payload: dict[str, Any] = {"text": f"canary-{number:03d} " + "x" * 300}
        return {
            "seq": number + 1,
            "type": "role_report" if role else "note",
            "actor": role or "orchestrator",
            "summary": f"event {number}",
            "payload": payload | ({"role": role, "status": "completed"} if role else {}),
        }

    events = [event(number) for number in range(100)]
    result = {"seq": 42, "summary": "event 41", **events[41]["payload"]}
    return Record(Path("r1.json"), {"request_id": "r1", "scope": "Do it", "events": events, "result": result})


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

    def test_a_hundred_events_shrink_to_sixteen_and_a_third(self) -> None:
        """At most 16 events and 30 % of the characters of the whole history, with older evidence among them."""
        for kind in PromptKind:
            with self.subTest(kind=kind):
                text, _ = build(kind, PromptContextRuntimeConfig())
                whole, _ = build(kind, PromptContextRuntimeConfig(enabled=False))
                self.assertLessEqual(text.count("canary-"), 16)
                self.assertLessEqual(len(text), 0.30 * len(whole))
                self.assertIn("canary-003", text)

    def test_disabled_shows_every_event(self) -> None:
        """`enabled: false` is the rollback: the whole history in every kind, and no notice."""
        for kind in PromptKind:
            with self.subTest(kind=kind):
                text, _ = build(kind, PromptContextRuntimeConfig(enabled=False))
                self.assertEqual(100, text.count("canary-"))
                self.assertNotIn("omitted_events", text)

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
