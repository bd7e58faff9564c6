"""Anthropic's wire: Messages."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

from teams_runtime.tests.model_talk import (
    CACHED_TOKENS,
    CONTEXT_TOKENS,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    Ask,
    Call,
    Move,
    Piece,
    Reply,
    Trouble,
    halves,
    texts_of,
)

_NUMBERS = itertools.count(1)
_ERRORS = {
    "err400": ("invalid_request_error", "The request is not valid."),
    "err401": ("authentication_error", "invalid x-api-key"),
    "err403": ("permission_error", "This key may not do that."),
    "err404": ("not_found_error", "model: no such model"),
    "err429": ("rate_limit_error", "Rate limit reached."),
    "quota": ("invalid_request_error", "Your credit balance is too low to access the API."),
    "err500": ("api_error", "Something went wrong here."),
    "err503": ("overloaded_error", "The service is overloaded."),
    "err529": ("overloaded_error", "Overloaded"),
    "ctx": (
        "invalid_request_error",
        f"prompt is too long: {CONTEXT_TOKENS + 50_000} tokens > {CONTEXT_TOKENS} maximum",
    ),
}


class Messages:
    """`POST …/v1/messages`."""

    overflow_in_stream = False

    @staticmethod
    def ask(body: Mapping[str, Any]) -> Ask:
        """Read a request."""
        texts: list[str] = []
        called: list[str] = []
        for message in body.get("messages") or []:
            content = message.get("content")
            parts = content if isinstance(content, list) else []
            if message.get("role") == "user" and not any(part.get("type") == "tool_result" for part in parts):
                texts.extend(texts_of(content))
                called.clear()
            called.extend(part["name"] for part in parts if part.get("type") == "tool_use")
        wanted = body.get("output_format") or (body.get("output_config") or {}).get("format") or {}
        return Ask(
            texts=tuple(texts),
            tools={tool["name"]: tool for tool in body.get("tools") or []},
            called=tuple(called),
            schema=wanted.get("schema"),
            forced=(body.get("tool_choice") or {}).get("name"),
            stream=bool(body.get("stream")),
            model=str(body.get("model")),
        )

    @staticmethod
    def error(trouble: Trouble) -> dict[str, Any]:
        """Return the body of an error."""
        kind, message = _ERRORS[trouble.name]
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_0"}

    @staticmethod
    def failed_in_stream(trouble: Trouble) -> tuple[Piece, ...]:
        """Return an error as the stream itself tells it."""
        return (Piece(Messages.error(trouble), "error"),)

    @staticmethod
    def reply(ask: Ask, move: Move) -> Reply:
        """Put a move on the wire; this vendor counts cached tokens beside the input, not in it."""
        number = next(_NUMBERS)
        usage = {"input_tokens": INPUT_TOKENS - CACHED_TOKENS, "cache_creation_input_tokens": 0,
                 "cache_read_input_tokens": CACHED_TOKENS, "output_tokens": OUTPUT_TOKENS}  # fmt: skip
        base: dict[str, Any] = {
                "id": f"msg_{number}", "type": "message", "role": "assistant", "model": ask.model, "content": [],
                "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}  # fmt: skip
        block, stop, deltas = _block(move, number)
        opening = [
            _event("message_start", message=base),
            _event("content_block_start", index=0, content_block={**block, "text": ""} if "text" in block
                   else {**block, "input": {}}),
            _event("content_block_delta", index=0, delta=deltas[0]),
        ]  # fmt: skip
        closing = [_event("content_block_delta", index=0, delta=delta) for delta in deltas[1:]] + [
            _event("content_block_stop", index=0),
            _event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage=usage),
            _event("message_stop"),
        ]
        return Reply({**base, "content": [block], "stop_reason": stop, "usage": usage}, tuple(opening), tuple(closing))


def _block(move: Move, number: int) -> tuple[dict[str, Any], str, list[dict[str, Any]]]:
    """Return a move as a block, why the model stopped, and the block in pieces."""
    if isinstance(move, Call):
        block = {"type": "tool_use", "id": f"toolu_{number:06d}", "name": move.tool, "input": move.arguments}
        return block, "tool_use", [{"type": "input_json_delta", "partial_json": json.dumps(move.arguments)}]
    stop = "refusal" if move.refusal else "end_turn"
    return (
        {"type": "text", "text": move.text},
        stop,
        [{"type": "text_delta", "text": half} for half in halves(move.text)],
    )


def _event(name: str, **parts: Any) -> Piece:
    return Piece({"type": name, **parts}, name)
