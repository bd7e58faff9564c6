"""A model server on loopback that speaks the wires of OpenAI, Anthropic and Google, and fails in every way on demand.

The scenario stands in the address, so that one server serves every test at once and keeps no mode:
`http://127.0.0.1:PORT/s/SCENARIO,option=value/…`. It answers what a real model might, with fixed token counts.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol, Self
from urllib.parse import unquote, urlsplit

from teams_runtime.providers.scripted import Script
from teams_runtime.tests.model_script import TeamModel, shell_call
from teams_runtime.tests.model_talk import INPUT_TOKENS, Ask, Call, Move, Piece, Reply, Say, Trouble, fitting
from teams_runtime.tests.model_wire_anthropic import Messages
from teams_runtime.tests.model_wire_google import GenerateContent
from teams_runtime.tests.model_wire_openai import Chat, Responses

LONGEST_SECONDS = 120.0
"""How long a scenario may hang or pause at most."""
STATUSES = {
    **{f"err{status}": status for status in (400, 401, 403, 404, 429, 500, 503, 529)},
    "quota": 429,
    "ctx": 400,
}
"""The scenarios that answer with an error, and its HTTP status."""
PROSE = "I have looked at everything, and it seems fine to me."
_PLACE = re.compile(r"/s/([^/]+)(/.*)")


class Wire(Protocol):
    """One vendor's way to write requests and answers."""

    @property
    def overflow_in_stream(self) -> bool:
        """Whether a prompt that is too long is told in a stream that began well."""
        ...

    def ask(self, body: Mapping[str, Any], /) -> Ask:
        """Read a request."""
        ...

    def error(self, trouble: Trouble, /) -> Mapping[str, Any]:
        """Return the body of an error."""
        ...

    def failed_in_stream(self, trouble: Trouble, /) -> Sequence[Piece]:
        """Return an error as a stream tells it."""
        ...

    def reply(self, ask: Ask, move: Move, /) -> Reply:
        """Put a move on the wire."""
        ...


_WIRES: Mapping[str, Wire] = {
    "/responses": Responses(),
    "/chat/completions": Chat(),
    "/messages": Messages(),
    ":generatecontent": GenerateContent(),
    ":streamgeneratecontent": GenerateContent(),
}


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as it came in.

    Attributes:
        scenario: the part of the address that names it, options included.
        path: the vendor's own part of the address.
        headers: names in lower case.
        body: the JSON body; empty where there was none.
    """

    scenario: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


class ModelServer:
    """The server; used as a context manager, it listens on 127.0.0.1 while the block lasts.

    Args:
        script: what the role models of the scenario `team` do.
    """

    def __init__(self, script: Script | None = None) -> None:
        self.team = TeamModel(script) if script else None
        self.stopping = threading.Event()
        self._seen: list[Seen] = []
        self._failed: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._http = _Server(("127.0.0.1", 0), self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), name="model-server")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._http.server_address[1])

    def url(self, scenario: str) -> str:
        """Return the address of a scenario, without any vendor's own part."""
        return f"http://127.0.0.1:{self.port}/s/{scenario}"

    def openai(self, scenario: str) -> str:
        """Return the base_url for clients of OpenAI."""
        return f"{self.url(scenario)}/v1"

    def anthropic(self, scenario: str) -> str:
        """Return the base_url for clients of Anthropic."""
        return self.url(scenario)

    def google(self, scenario: str) -> str:
        """Return the base_url for clients of Google."""
        return self.url(scenario)

    @property
    def seen(self) -> list[Seen]:
        """Every request to a model so far, oldest first."""
        with self._lock:
            return list(self._seen)

    def seen_by(self, scenario: str) -> list[Seen]:
        """Return the requests of one scenario, options included in its name."""
        return [one for one in self.seen if one.scenario == scenario]

    def note(self, one: Seen) -> None:
        """Keep a request."""
        with self._lock:
            self._seen.append(one)

    def still_fails(self, scenario: str, times: int) -> bool:
        """Count a call of a scenario that fails at first, and return whether this one fails too."""
        with self._lock:
            self._failed[scenario] += 1
            return self._failed[scenario] <= times


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], model: ModelServer) -> None:
        super().__init__(address, _Handler)
        self.model = model


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = LONGEST_SECONDS
    server: _Server

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def handle_one_request(self) -> None:
        """Serve one request; a client that goes away is no fault. Between requests the server's end is watched for."""
        self.close_connection = True  # one connection, one request: nothing is left open when a test ends
        with contextlib.suppress(ConnectionError, TimeoutError):
            super().handle_one_request()
        self.close_connection = True

    def do_GET(self) -> None:
        """List the models."""
        model = {"id": "model-1", "object": "model", "type": "model", "created": 0, "owned_by": "tests",
                 "display_name": "model-1", "created_at": "2026-01-01T00:00:00Z"}  # fmt: skip
        listed = urlsplit(self.path).path.rstrip("/").endswith("/models")
        self._json({"object": "list", "data": [model], "has_more": False} if listed else {}, 200 if listed else 404)

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        """Answer a request to a model."""
        body = self._body()
        address = _PLACE.fullmatch(urlsplit(self.path).path)
        scenario, path = (unquote(address[1]), address[2]) if address else ("", self.path)
        low = path.lower()
        if low.endswith(("/count_tokens", ":counttokens")):
            self._json({"input_tokens": INPUT_TOKENS, "totalTokens": INPUT_TOKENS})
            return
        wire = next((wire for end, wire in _WIRES.items() if low.endswith(end)), None)
        if wire is None or not scenario:
            self._json({"error": {"message": "no such address", "type": "not_found"}}, 404)
            return
        if isinstance(wire, GenerateContent):
            body = {**body, "stream": "streamgenerate" in low, "model": path.rpartition("/")[2].partition(":")[0]}
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.model.note(Seen(scenario, path, headers, body))
        _Answer(self, wire, wire.ask(body), scenario).give()

    def _body(self) -> dict[str, Any]:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            raw = b"".join(self._chunks())
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            raw = gzip.decompress(raw)
        found = json.loads(raw) if raw else {}
        return found if isinstance(found, dict) else {}

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _json(self, value: Any, status: int = 200, **headers: str) -> None:
        self.send_whole(json.dumps(value).encode(), "application/json", status, **headers)

    def send_whole(self, data: bytes, kind: str, status: int = 200, **headers: str) -> None:
        """Send a whole answer."""
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), "Connection": "close"}.items():
            self.send_header(name, value)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def begin_stream(self) -> None:
        """Begin an answer in pieces."""
        self.send_response(200)
        for name, value in {"Content-Type": "text/event-stream", "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()

    def send_piece(self, piece: Piece) -> None:
        """Send one piece of it."""
        data = piece.data if isinstance(piece.data, str) else json.dumps(piece.data)
        head = f"event: {piece.event}\n" if piece.event else ""
        self.wfile.write(f"{head}data: {data}\n\n".encode())


class _Answer:
    """One answer, in the words of one wire and in the manner of one scenario."""

    def __init__(self, handler: _Handler, wire: Wire, ask: Ask, scenario: str) -> None:
        name, *options = scenario.split(",")
        self._handler, self._wire, self._ask = handler, wire, ask
        self._model = handler.server.model
        self._scenario, self._name = scenario, name
        self._options = dict(option.partition("=")[::2] for option in options)

    def give(self) -> None:
        """Send it."""
        name = self._name
        if name == "flaky":
            failing = self._model.still_fails(self._scenario, int(self._options.get("n", "2")))
            name = "err500" if failing else "text"
        if name in STATUSES:
            self._fail(Trouble(STATUSES[name], name))
        elif name == "html":
            self._handler.send_whole(b"<html><body>Log in to the proxy</body></html>", "text/html")
        elif name == "malformed":
            self._malformed()
        elif name == "hang":
            self._pause()
        else:
            self._send(self._wire.reply(self._ask, self._move(name)))

    def _move(self, name: str) -> Move:
        if name == "team":
            assert self._model.team is not None, "the scenario `team` needs a script"
            return self._model.team.move(self._ask)
        if name == "refuse":
            return Say("I cannot help with that.", refusal=True)
        if name == "prose":
            return Say(PROSE)
        if name == "huge":
            return Say("x" * (int(self._options.get("mb", "50")) * 1_000_000))
        if name == "tool" and (call := self._tool()):
            return call
        return self._final()

    def _tool(self) -> Call | None:
        if self._ask.called:
            return None
        wanted, line = self._options.get("tool"), _decoded(self._options.get("cmd64", ""))
        if "args64" in self._options:
            arguments = json.loads(_decoded(self._options["args64"]))
            return Call(wanted or "", arguments)
        return shell_call(self._ask, line or "echo edited >> notes.txt", wanted)

    def _final(self) -> Move:
        """Return the answer: the text of the scenario, else one that keeps to the schema that was asked for."""
        ask = self._ask
        tool = ask.forced or next((name for name in ("StructuredOutput", "final_result") if name in ask.tools), None)
        if tool and tool not in ask.called and "answer64" not in self._options:
            form = ask.tools[tool]
            return Call(tool, fitting(form.get("input_schema") or form.get("parameters") or {}))
        given = _decoded(self._options.get("answer64", ""))
        return Say(given or json.dumps(fitting(ask.schema) if ask.schema else {"summary": "a text"}))

    def _fail(self, trouble: Trouble) -> None:
        if trouble.name == "ctx" and self._wire.overflow_in_stream and self._ask.stream:
            self._handler.begin_stream()
            for piece in self._wire.failed_in_stream(trouble):
                self._handler.send_piece(piece)
            return
        headers = {"Retry_After": self._options.get("retry", "1")} if trouble.status == 429 else {}
        data = json.dumps(self._wire.error(trouble)).encode()
        self._handler.send_whole(data, "application/json", trouble.status, **headers)

    def _malformed(self) -> None:
        if not self._ask.stream:
            self._handler.send_whole(b"{this is not JSON", "application/json")
            return
        self._handler.begin_stream()
        for _ in range(3):
            self._handler.send_piece(Piece("{this is not JSON", "response.output_text.delta"))

    def _send(self, reply: Reply) -> None:
        if not self._ask.stream:
            if self._name == "slow":
                self._pause()
            cut = b"" if self._name != "drop" else json.dumps(reply.body).encode()[:40]
            self._handler.send_whole(cut or json.dumps(reply.body).encode(), "application/json")
            return
        self._handler.begin_stream()
        for piece in reply.opening:
            self._handler.send_piece(piece)
        if self._name == "drop":
            return
        if self._name == "slow":
            self._pause()
        for piece in reply.closing:
            self._handler.send_piece(piece)

    def _pause(self) -> None:
        self._model.stopping.wait(min(float(self._options.get("s", "120")), LONGEST_SECONDS))


def option64(text: str) -> str:
    """Return a text as an option of a scenario carries it."""
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decoded(value: str) -> str:
    return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).decode()
