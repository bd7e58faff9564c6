"""Google's wire: generateContent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teams_runtime.tests.model_talk import (
    CACHED_TOKENS,
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    REASONING_TOKENS,
    Ask,
    Call,
    Move,
    Piece,
    Reply,
    Trouble,
    halves,
    texts_of,
)

_ERRORS = {
    "err400": ("INVALID_ARGUMENT", "The request is not valid."),
    "err401": ("UNAUTHENTICATED", "API key not valid."),
    "err403": ("PERMISSION_DENIED", "This key may not do that."),
    "err404": ("NOT_FOUND", "models/nope is not found."),
    "err429": ("RESOURCE_EXHAUSTED", "Rate limit reached."),
    "quota": ("RESOURCE_EXHAUSTED", "You exceeded your current quota, check your plan and billing details."),
    "err500": ("INTERNAL", "Something went wrong here."),
    "err503": ("UNAVAILABLE", "The service is overloaded."),
    "err529": ("UNAVAILABLE", "Overloaded."),
    "ctx": (
        "INVALID_ARGUMENT",
        "The input token count (2500000) exceeds the maximum number of tokens allowed (1048576).",
    ),
}


class GenerateContent:
    """`POST …/models/MODEL:generateContent`, and the same streamed."""

    overflow_in_stream = False

    @staticmethod
    def ask(body: Mapping[str, Any]) -> Ask:
        """Read a request; whether it streams and which model is asked stands in the address."""
        texts: list[str] = []
        called: list[str] = []
        for content in body.get("contents") or []:
            parts = content.get("parts") or []
            if content.get("role", "user") == "user" and not any("functionResponse" in part for part in parts):
                texts.extend(texts_of(parts))
                called.clear()
            called.extend(part["functionCall"]["name"] for part in parts if "functionCall" in part)
        settings = body.get("generationConfig") or {}
        tools = [one for tool in body.get("tools") or [] for one in tool.get("functionDeclarations") or []]
        return Ask(
            texts=tuple(texts),
            tools={tool["name"]: tool for tool in tools},
            called=tuple(called),
            schema=settings.get("responseJsonSchema") or settings.get("responseSchema"),
            forced=None,
            stream=bool(body.get("stream")),
            model=str(body.get("model")),
        )

    @staticmethod
    def error(trouble: Trouble) -> dict[str, Any]:
        """Return the body of an error."""
        name, message = _ERRORS[trouble.name]
        return {"error": {"code": trouble.status, "message": message, "status": name}}

    @staticmethod
    def failed_in_stream(trouble: Trouble) -> tuple[Piece, ...]:
        """Return an error as the stream itself tells it."""
        return (Piece(GenerateContent.error(trouble)),)

    @staticmethod
    def reply(ask: Ask, move: Move) -> Reply:
        """Put a move on the wire; this vendor counts reasoning tokens beside the output, not in it."""
        usage = {"promptTokenCount": INPUT_TOKENS, "cachedContentTokenCount": CACHED_TOKENS,
                 "candidatesTokenCount": OUTPUT_TOKENS - REASONING_TOKENS, "thoughtsTokenCount": REASONING_TOKENS,
                 "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS}  # fmt: skip

        def told(part: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
            candidate: dict[str, Any] = {"content": {"role": "model", "parts": [part]}, "index": 0}
            whole: dict[str, Any] = {"candidates": [candidate], "modelVersion": ask.model, "responseId": "r0"}
            if finish is not None:
                candidate["finishReason"], whole["usageMetadata"] = finish, usage
            return whole

        if isinstance(move, Call):
            part = {"functionCall": {"name": move.tool, "args": move.arguments}}
            body = told(part, "STOP")
            return Reply(body, (), (Piece(body),))
        finish = "SAFETY" if move.refusal else "STOP"
        first, second = halves(move.text)
        return Reply(
            told({"text": move.text}, finish), (Piece(told({"text": first})),), (Piece(told({"text": second}, finish)),)
        )
