"""A server that answers what a test tells it to, and remembers what it was asked."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hango_cli.main import main


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Say:
    """One answer; status 0 closes the connection without one."""

    body: bytes = b"{}"
    status: int = 200
    type: str = "application/json"


@dataclass
class Api:
    """Answers by method and path; the last answer of a list is given again and again."""

    url: str
    answers: dict[str, list[Say]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def on(self, request: str, *answers: Say | Any) -> None:
        """Answer `METHOD /path` with these, in turn; anything but a Say is sent as JSON."""
        self.answers[request] = [
            a if isinstance(a, Say) else Say(json.dumps(a).encode()) for a in answers
        ]

    def answer(self, asked: Asked) -> Say:
        self.asked.append(asked)
        answers = self.answers.get(f"{asked.method} {asked.path}")
        if answers is None:
            return Say(b'{"title": "no such thing", "reason": "NOT_FOUND"}', 404)
        return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
def api() -> Iterator[Api]:
    """The server."""

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(
                self.command,
                parts.path,
                dict(parse_qsl(parts.query)),
                headers,
                self.rfile.read(length),
            )
            answer = found.answer(asked)
            if answer.status == 0:
                self.close_connection = True
                return
            self.send_response(answer.status)
            self.send_header("content-type", answer.type)
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Api(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


Hango = Callable[..., Result]


@pytest.fixture
def hango(api: Api, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Hango:
    """Run the command with these arguments, against the server."""

    def run(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["hango", *arguments])
        monkeypatch.setenv("HANGO_URL", api.url)
        monkeypatch.setenv("HANGO_API_KEY", "hk_me")
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Result(int(ended.value.code or 0), captured.out, captured.err)

    return run
