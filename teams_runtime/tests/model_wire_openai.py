"""OpenAI's two wires: Responses and Chat Completions."""

from __future__ import annotations

import itertools
import json
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
    Say,
    Trouble,
    halves,
    texts_of,
)

_NUMBERS = itertools.count(1)
_ERRORS = {
    "err400": ("invalid_request_error", "bad_request", "The request is not valid."),
    "err401": ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    "err403": ("permission_error", "forbidden", "This key may not do that."),
    "err404": ("invalid_request_error", "model_not_found", "The model does not exist or you have no access to it."),
    "err429": ("rate_limit_error", "rate_limit_exceeded", "Rate limit reached. Try again in 1s."),
    "quota": ("insufficient_quota", "insufficient_quota", "You exceeded your current quota, check your plan."),
    "err500": ("server_error", "server_error", "Something went wrong here."),
    "err503": ("server_error", "service_unavailable", "The service is overloaded."),
    "err529": ("server_error", "overloaded", "Overloaded."),
    "ctx": ("invalid_request_error", "context_length_exceeded", "Your input exceeds the context window of this model."),
}


def error(trouble: Trouble) -> dict[str, Any]:
    """Return the body of an error of either wire."""
    kind, code, message = _ERRORS[trouble.name]
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


class Responses:
    """`POST …/responses`."""

    overflow_in_stream = True

    @staticmethod
    def ask(body: Mapping[str, Any]) -> Ask:
        """Read a request."""
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given or []
        texts: list[str] = []
        called: list[str] = []
        for item in items:
            if item.get("role") == "user":
                texts.extend(texts_of(item.get("content")))
                called.clear()
            elif str(item.get("type")).endswith("_call"):
                called.append(item.get("name", item["type"]))
        choice = body.get("tool_choice")
        return Ask(
            texts=tuple(texts),
            tools={str(tool.get("name") or tool.get("type")): tool for tool in _flat(body.get("tools") or [])},
            called=tuple(called),
            schema=((body.get("text") or {}).get("format") or {}).get("schema"),
            forced=choice.get("name") if isinstance(choice, Mapping) else None,
            stream=bool(body.get("stream")),
            model=str(body.get("model")),
        )

    error = staticmethod(error)

    @staticmethod
    def failed_in_stream(trouble: Trouble) -> tuple[Piece, ...]:
        """Return an error as the stream itself tells it, after a good beginning."""
        told = error(trouble)["error"]
        failed: dict[str, Any] = {"id": "resp_0", "object": "response", "status": "failed", "output": [], "usage": None}
        failed["error"] = {"code": told["code"], "message": told["message"]}
        return (_event("response.created", response={"id": "resp_0"}), _event("response.failed", response=failed))

    @staticmethod
    def reply(ask: Ask, move: Move) -> Reply:
        """Put a move on the wire."""
        number = next(_NUMBERS)
        item = _item(ask, move, number)
        begun = {"id": f"resp_{number}", "object": "response", "created_at": 0, "model": ask.model, "output": [],
                 "status": "in_progress", "parallel_tool_calls": False, "tool_choice": "auto", "tools": [],
                 "error": None, "incomplete_details": None, "instructions": None, "metadata": {}}  # fmt: skip
        usage = {"input_tokens": INPUT_TOKENS, "input_tokens_details": {"cached_tokens": CACHED_TOKENS},
                 "output_tokens": OUTPUT_TOKENS, "output_tokens_details": {"reasoning_tokens": REASONING_TOKENS},
                 "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS}  # fmt: skip
        done = {**begun, "status": "completed", "output": [item], "usage": usage}
        place = {"output_index": 0, "item_id": item["id"]}
        opening = [
            _event("response.created", response=begun),
            _event("response.output_item.added", output_index=0, item={**item, "status": "in_progress", "content": []}
                   if item["type"] == "message" else {**item, "status": "in_progress"}),
        ]  # fmt: skip
        closing = [
            _event("response.output_item.done", output_index=0, item=item),
            _event("response.completed", response=done),
        ]
        if isinstance(move, Say) and not move.refusal:
            first, second = halves(move.text)
            opening += [
                _event("response.content_part.added", **place, content_index=0,
                       part={"type": "output_text", "text": "", "annotations": []}),
                _event("response.output_text.delta", **place, content_index=0, delta=first),
            ]  # fmt: skip
            closing[:0] = [
                _event("response.output_text.delta", **place, content_index=0, delta=second),
                _event("response.output_text.done", **place, content_index=0, text=move.text),
            ]
        return Reply(done, tuple(opening), tuple(closing))


def _flat(tools: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the tools with those of every namespace beside the others."""
    return [inner for tool in tools for inner in (tool["tools"] if tool.get("type") == "namespace" else [tool])]


def _item(ask: Ask, move: Move, number: int) -> dict[str, Any]:
    if isinstance(move, Say):
        part = {"type": "output_text", "text": move.text, "annotations": []}
        part = {"type": "refusal", "refusal": move.text} if move.refusal else part
        return {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [part]}
    base = {"call_id": f"call_{number}", "name": move.tool, "status": "completed"}
    if ask.tools.get(move.tool, {}).get("type") == "custom":
        return {"type": "custom_tool_call", "id": f"ctc_{number}", "input": move.arguments, **base}
    return {"type": "function_call", "id": f"fc_{number}", "arguments": json.dumps(move.arguments), **base}


def _event(name: str, **parts: Any) -> Piece:
    return Piece({"type": name, "sequence_number": next(_NUMBERS), **parts}, name)


class Chat:
    """`POST …/chat/completions`."""

    overflow_in_stream = False

    @staticmethod
    def ask(body: Mapping[str, Any]) -> Ask:
        """Read a request."""
        texts: list[str] = []
        called: list[str] = []
        for message in body.get("messages") or []:
            if message.get("role") == "user":
                texts.extend(texts_of(message.get("content")))
                called.clear()
            called.extend(call["function"]["name"] for call in message.get("tool_calls") or [])
        choice = body.get("tool_choice")
        wanted = (body.get("response_format") or {}).get("json_schema") or {}
        return Ask(
            texts=tuple(texts),
            tools={tool["function"]["name"]: tool["function"] for tool in body.get("tools") or []},
            called=tuple(called),
            schema=wanted.get("schema"),
            forced=choice["function"]["name"] if isinstance(choice, Mapping) else None,
            stream=bool(body.get("stream")),
            model=str(body.get("model")),
        )

    error = staticmethod(error)

    @staticmethod
    def failed_in_stream(trouble: Trouble) -> tuple[Piece, ...]:
        """Return an error as the stream itself tells it."""
        return (Piece(error(trouble)),)

    @staticmethod
    def reply(ask: Ask, move: Move) -> Reply:
        """Put a move on the wire."""
        number = next(_NUMBERS)
        base = {"id": f"chatcmpl-{number}", "created": 0, "model": ask.model}
        usage = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS,
                 "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
                 "prompt_tokens_details": {"cached_tokens": CACHED_TOKENS},
                 "completion_tokens_details": {"reasoning_tokens": REASONING_TOKENS}}  # fmt: skip

        def chunk(delta: Mapping[str, Any], finish: str | None = None) -> Piece:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            return Piece({**base, "object": "chat.completion.chunk", "choices": [choice]})

        if isinstance(move, Call):
            function = {"name": move.tool, "arguments": json.dumps(move.arguments)}
            call = {"id": f"call_{number}", "type": "function", "function": function}
            message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
            finish = "tool_calls"
            opening = [chunk({"role": "assistant", "tool_calls": [{**call, "index": 0}]})]
            closing = []
        else:
            finish = "content_filter" if move.refusal else "stop"
            message = {"role": "assistant", "content": move.text}
            first, second = halves(move.text)
            opening, closing = [chunk({"role": "assistant", "content": first})], [chunk({"content": second})]
        choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        closing += [
            chunk({}, finish),
            Piece({**base, "object": "chat.completion.chunk", "choices": [], "usage": usage}),
            Piece("[DONE]"),
        ]
        body = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
        return Reply(body, tuple(opening), tuple(closing))
