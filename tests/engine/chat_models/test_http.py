"""Calls over HTTP: errors by kind, retries, bounds, and streams that are let go at once."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from sagents_app.engine.chat_models import _http
from sagents_app.engine.chat_models.openai import OpenAIChat
from sagents_app.engine.deltas import AttemptFailed, TextDelta
from sagents_app.engine.errors import (
    AuthenticationFailed,
    BadRequest,
    ConnectionFailed,
    ContextTooLong,
    ModelError,
    ModelTimeout,
    Overloaded,
    ProtocolError,
    RateLimited,
    StreamDied,
)
from tests.engine.chat_models.wire import (
    EVENT_STREAM,
    Pieces,
    Server,
    answer,
    asking,
    failures,
    folded,
    json_answer,
    recorded,
    sse,
    status_of,
    streamed,
)
from tests.engine.doubles import Gate

KEY = "made-up-key-0123456789"
HELLO = recorded("openai/text.sse")
BEGUN = sse({"choices": [{"index": 0, "delta": {"content": "Once upon"}}]}, done=False)


@pytest.fixture(autouse=True)
async def _closed_clients() -> AsyncIterator[None]:
    yield
    await _http.close_clients()


def model(server: Server, **http: Any) -> OpenAIChat:
    return OpenAIChat("m", api_key=KEY, http=server.http(**http))


async def error_of(server: Server, **http: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await streamed(model(server, **http))
    assert KEY not in str(caught.value)
    return caught.value


def subclasses(kind: type[Any]) -> set[type[Any]]:
    return {kind}.union(*(subclasses(one) for one in kind.__subclasses__()))


HTTPX = sorted(
    {
        one
        for name in dir(httpx)
        if isinstance(root := getattr(httpx, name), type) and issubclass(root, Exception)
        for one in subclasses(root)
    },
    key=lambda kind: kind.__name__,
)


def made(kind: type[Any]) -> Exception:
    request = httpx.Request("POST", "https://example.org")
    if kind is httpx.HTTPStatusError:
        return httpx.HTTPStatusError("boom", request=request, response=httpx.Response(503))
    if issubclass(kind, httpx.StreamError) and kind is not httpx.StreamError:
        return kind()  # type: ignore[no-any-return]  # these take no words
    return kind("boom")  # type: ignore[no-any-return]  # an exception


@pytest.mark.parametrize("kind", HTTPX, ids=lambda kind: kind.__name__)
async def test_every_exception_of_httpx_is_an_error_of_the_engine(kind: type[Any]) -> None:
    assert len(HTTPX) > 20
    error = await error_of(Server(made(kind)), attempts=1)
    assert type(error) is not ModelError
    assert error.__cause__ is None
    assert error.__context__ is None  # httpx's exceptions carry the request, and so the key


@dataclass(frozen=True)
class Failure:
    """What httpx raises before an answer has begun, and what it means."""

    raised: Exception
    error: type[ModelError]
    phase: str | None = None


FAILURES = [
    Failure(httpx.ConnectTimeout("t"), ModelTimeout, "connect"),
    Failure(httpx.ReadTimeout("t"), ModelTimeout, "read"),
    Failure(httpx.WriteTimeout("t"), ModelTimeout, "write"),
    Failure(httpx.PoolTimeout("t"), ModelTimeout, "pool"),
    Failure(httpx.ConnectError("refused"), ConnectionFailed),
    Failure(httpx.ProxyError("407"), ConnectionFailed),
    Failure(httpx.RemoteProtocolError("gone"), ConnectionFailed),
    Failure(httpx.LocalProtocolError(f"Illegal header value b'{KEY}'"), BadRequest),
]


@pytest.mark.parametrize("case", FAILURES, ids=lambda case: type(case.raised).__name__)
async def test_a_failure_before_the_answer_keeps_its_kind(case: Failure) -> None:
    error = await error_of(Server(case.raised), attempts=1)
    assert type(error) is case.error
    assert getattr(error, "phase", None) == case.phase


async def test_a_connection_that_breaks_inside_the_reply_is_a_dead_stream() -> None:
    for broken in (httpx.ReadError("reset"), httpx.RemoteProtocolError("incomplete")):
        error = await error_of(Server(Pieces(BEGUN, broken).answer), attempts=1)
        assert type(error) is StreamDied
    error = await error_of(Server(Pieces(BEGUN).answer), attempts=1)
    assert type(error) is StreamDied
    error = await error_of(Server(Pieces(BEGUN, 'data: {"choi').answer), attempts=1)
    assert type(error) is StreamDied
    error = await error_of(Server(Pieces(BEGUN, httpx.ReadTimeout("t")).answer), attempts=1)
    assert isinstance(error, ModelTimeout)


async def test_a_connection_that_breaks_behind_a_whole_reply_breaks_nothing() -> None:
    text = sse(
        {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}, done=False
    )
    deltas = await streamed(model(Server(Pieces(text, httpx.ReadError("reset")).answer)))
    assert folded(deltas).text == "a"


async def test_a_retry_announces_itself_and_voids_what_was_streamed() -> None:
    server = Server(
        Pieces(BEGUN, httpx.ReadError("reset")).answer,
        json_answer({"error": {"message": "overloaded"}}, 529),
        answer(HELLO),
    )
    deltas = await streamed(model(server))
    assert failures(deltas) == ["stream_error", "overloaded"]
    assert deltas[0] == TextDelta("Once upon")
    assert isinstance(deltas[1], AttemptFailed)
    assert deltas[1].model == "openai:m"
    assert folded(deltas).text == "Hello, world"
    assert server.bodies[0] == server.bodies[1] == server.bodies[2]


async def test_the_last_try_raises_its_error() -> None:
    server = Server(json_answer({}, 503))
    stream = model(server, attempts=3).stream(asking())
    announced = [await anext(stream), await anext(stream)]
    with pytest.raises(Overloaded):
        await anext(stream)
    assert len(server.requests) == 3
    assert [failures(batch) for batch in announced] == [["overloaded"], ["overloaded"]]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
async def test_what_no_retry_helps_is_not_tried_again(status: int) -> None:
    server = Server(json_answer({"error": {"message": "no"}}, status))
    assert not (await error_of(server)).retryable
    assert len(server.requests) == 1


async def test_the_wait_that_is_asked_for_is_kept() -> None:
    server = Server(json_answer({}, 429, retry_after_ms="60"), answer(HELLO))
    loop = asyncio.get_running_loop()
    begun = loop.time()
    deltas = await streamed(model(server))
    assert loop.time() - begun >= 0.06
    assert failures(deltas) == ["rate_limited"]


async def test_a_wait_beyond_the_bound_is_raised_at_once() -> None:
    server = Server(json_answer({}, 429, retry_after="3600"), answer(HELLO))
    error = await error_of(server)
    assert isinstance(error, RateLimited)
    assert error.retry_after == 3600
    assert len(server.requests) == 1


async def test_waits_double_with_jitter_up_to_their_bound() -> None:
    options = _http.HttpOptions(first_wait=1.0, longest_wait=5.0)
    for attempt, least, most in ((1, 1.0, 2.0), (2, 2.0, 3.0), (3, 4.0, 5.0), (9, 5.0, 5.0)):
        state: Any = _State(attempt)
        waits = {_http._wait(state, options) for _ in range(20)}
        assert least <= min(waits) <= max(waits) <= most
    asked: Any = _State(1, RateLimited("r", retry_after=30.0))
    assert _http._wait(asked, options) == 30.0


async def test_a_cancel_ends_the_wait_for_the_next_try() -> None:
    server = Server(json_answer({}, 429, retry_after="50"))
    stream = model(server).stream(asking())
    async with aclosing(stream):
        (failed,) = await anext(stream)
        assert isinstance(failed, AttemptFailed)
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)  # it begins to wait
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert len(server.requests) == 1


async def test_closing_the_stream_lets_the_provider_go_at_once() -> None:
    stopped = asyncio.Event()
    body = Pieces(BEGUN, stopped.wait)
    stream = model(Server(body.answer)).stream(asking())
    async with aclosing(stream):
        assert await anext(stream) == [TextDelta("Once upon")]
        assert not body.closed
    assert body.closed


async def test_cancelling_in_the_middle_lets_the_provider_go_at_once() -> None:
    silent = Gate()
    body = Pieces(BEGUN, silent.wait)
    stream = model(Server(body.answer)).stream(asking())
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream))
    await silent.reached.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert body.closed


@dataclass(frozen=True)
class Nonsense:
    """An answer that is no reply, and what is said about it."""

    name: str
    response: Any
    error: type[ModelError]
    words: str


HTML = "<!doctype html><html><head><title>Welcome to nginx!</title></head></html>"
NONSENSE = [
    Nonsense("a page", answer(HTML, content_type="text/html"), ProtocolError, "Welcome to nginx!"),
    Nonsense("a page for a stream", answer(HTML), ProtocolError, "an HTML page"),
    Nonsense("nothing", answer("", content_type=""), ProtocolError, "expected an event stream"),
    Nonsense("a sentence", answer("hello?", content_type="text/plain"), ProtocolError, "hello?"),
    Nonsense("204", answer("", 204), ProtocolError, "HTTP 204"),
    Nonsense(
        "JSON that is none", answer("{", content_type="application/json"), ProtocolError, "is not"
    ),
    Nonsense("other JSON", json_answer({"hello": 1}, 200), ProtocolError, "no choice"),
    Nonsense("a list", json_answer([1], 200), ProtocolError, "expected a chunk"),
    Nonsense(
        "an error in a good answer",
        json_answer({"error": {"message": "no", "code": 401}}, 200),
        AuthenticationFailed,
        "no",
    ),
    Nonsense("broken events", answer(BEGUN + "data: {oops\n\n"), ProtocolError, "{oops"),
    Nonsense("only comments", answer(": keep-alive\n\n" * 3), StreamDied, "ended"),
    Nonsense(
        "a redirect",
        answer("", 307, location="https://example.org/v1?key=1"),
        BadRequest,
        "https://example.org/v1;",
    ),
    Nonsense("a redirect to nowhere", answer("", 304), BadRequest, "HTTP 304"),
    Nonsense(
        "a wrong key",
        json_answer({"error": {"message": f"Wrong: {KEY}"}}, 401),
        AuthenticationFailed,
        "Wrong: ***",
    ),
    Nonsense(
        "too long",
        json_answer({"error": {"code": "context_length_exceeded"}}, 400),
        ContextTooLong,
        "HTTP 400",
    ),
    Nonsense(
        "broken compression",
        lambda r: httpx.Response(
            200, headers={**EVENT_STREAM, "content-encoding": "gzip"}, stream=Pieces(b"oops")
        ),
        ProtocolError,
        "compression",
    ),
]


@pytest.mark.parametrize("case", NONSENSE, ids=lambda case: case.name)
async def test_nonsense_is_an_error_that_says_what_came(case: Nonsense) -> None:
    error = await error_of(Server(case.response), attempts=1)
    assert type(error) is case.error
    assert case.words in str(error)


WHOLE = {
    "choices": [{"index": 0, "message": {"content": "Hello there."}, "finish_reason": "stop"}],
}


async def test_a_reply_that_comes_at_once_is_read_to_its_end() -> None:
    deltas = await streamed(model(Server(json_answer(WHOLE, 200))))
    assert folded(deltas).text == "Hello there."
    assert status_of(deltas) == "complete"


async def test_a_reply_that_comes_at_once_is_bounded_too() -> None:
    error = await error_of(Server(json_answer(WHOLE, 200)), attempts=1, max_reply_bytes=20)
    assert type(error) is ProtocolError
    assert str(error) == "the reply is longer than 20 bytes"


async def test_a_request_that_is_no_json_is_refused_before_it_leaves() -> None:
    server = Server(answer(HELLO))
    asked = OpenAIChat("m", api_key=KEY, http=server.http(), extra={"top_k": float("nan")})
    with pytest.raises(BadRequest, match="the request is no JSON"):
        await streamed(asked)
    assert server.requests == []


async def test_an_answer_over_http2_whose_stream_is_out_of_reach_is_closed_alone() -> None:
    body = Pieces(HELLO)
    told = httpx.Response(200, headers=EVENT_STREAM, stream=body, extensions={"stream_id": 1})
    assert status_of(await streamed(model(Server(told)))) == "complete"
    assert body.closed


async def test_a_reply_without_end_is_given_up() -> None:
    chunk = sse({"choices": [{"index": 0, "delta": {"content": "x" * 1000}}]}, done=False)
    error = await error_of(Server(Pieces(*[chunk] * 100).answer), max_reply_chars=50_000)
    assert isinstance(error, ProtocolError)
    assert "more than 50000 characters" in str(error)
    error = await error_of(Server(Pieces(*[chunk] * 100).answer), max_reply_bytes=50_000)
    assert "longer than 50000 bytes" in str(error)
    endless = Pieces(*["data: " + "x" * 1000] * 100)  # one line that never ends
    assert "longer" in str(await error_of(Server(endless.answer), max_reply_bytes=50_000))


@pytest.mark.parametrize("megabytes", [50])
async def test_a_reply_of_fifty_megabytes_is_refused_early(megabytes: int) -> None:
    sent = 0

    class Huge(httpx.AsyncByteStream):
        async def __aiter__(self) -> Any:
            nonlocal sent
            chunk = sse(
                {"choices": [{"index": 0, "delta": {"content": "x" * 1_000_000}}]}, done=False
            )
            for _ in range(megabytes):
                sent += 1
                yield chunk.encode()

    error = await error_of(Server(httpx.Response(200, headers=EVENT_STREAM, stream=Huge())))
    assert isinstance(error, ProtocolError)
    assert sent < 10


async def test_the_body_of_an_error_is_read_up_to_a_bound() -> None:
    body = Pieces(*["x" * 10_000] * 1000)
    error = await error_of(Server(httpx.Response(400, stream=body)))
    assert isinstance(error, BadRequest)
    assert len(str(error)) < 600


@pytest.mark.parametrize(
    "pieces",
    [
        [HELLO[i : i + 7] for i in range(0, len(HELLO), 7)],
        [HELLO.replace("\n", "\r\n")],
        [HELLO.replace("\n", "\r")],
        ["\ufeff" + HELLO.partition("\n")[2]],
        [HELLO.rstrip("\n")],
        [HELLO.replace("\n\n", "\n\n: keep-alive\n\nevent: ping\n\n")],
        [HELLO, "data: {after the end\n\n"],
    ],
    ids=["in pieces", "CRLF", "CR", "with a mark", "open at the end", "with pings", "with more"],
)
async def test_the_form_of_the_stream_does_not_matter(pieces: list[str]) -> None:
    deltas = await streamed(model(Server(Pieces(*pieces).answer), attempts=1))
    assert folded(deltas).text == "Hello, world"


async def test_letters_that_are_cut_by_the_network_are_whole() -> None:
    text = sse(
        {"choices": [{"index": 0, "delta": {"content": "Größe €"}, "finish_reason": "stop"}]}
    )
    data = json.dumps(json.loads(text.splitlines()[0][6:]), ensure_ascii=False).encode()
    pieces = [b"data: ", *(data[i : i + 1] for i in range(len(data))), b"\n\n"]
    deltas = await streamed(model(Server(Pieces(*pieces).answer), attempts=1))
    assert folded(deltas).text == "Größe €"


async def test_an_event_stream_by_another_name_is_read() -> None:
    for kind in ("text/plain", "application/octet-stream", ""):
        deltas = await streamed(model(Server(answer(HELLO, content_type=kind))))
        assert folded(deltas).text == "Hello, world"


async def test_the_key_leaves_in_its_header_and_shows_itself_nowhere_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    server = Server(answer(HELLO))
    asked = model(server)
    await streamed(asked)
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    shown = f"{asked!r} {vars(asked)!r} {caplog.text} {_http._clients!r}"
    assert "openai:m" in shown
    assert KEY not in shown
    with pytest.raises(TypeError):
        asked._endpoint.key.__reduce__()  # type: ignore[union-attr]  # there is a key


async def test_calls_share_a_client_on_their_loop() -> None:
    server = Server(answer(HELLO))
    options = server.http()
    first = OpenAIChat("m", api_key=KEY, http=options)
    second = OpenAIChat("n", base_url="http://localhost:1/v1", http=options)
    await streamed(first)
    await streamed(second)
    assert "authorization" not in server.requests[1].headers
    own = [key for key in _http._clients if key[1] is options]
    assert len(own) == 1
    await _http.close_clients()
    assert not [key for key in _http._clients if key[1] is options]


def test_clients_of_closed_loops_are_forgotten() -> None:
    for _ in range(3):
        asyncio.run(streamed(model(Server(answer(HELLO)))))
    assert sum(loop.is_closed() for loop, _ in _http._clients) <= 1


@pytest.mark.parametrize(
    ("variable", "value"),
    [("HTTPS_PROXY", "ftp://user:hidden-pass@proxy"), ("SSL_CERT_FILE", "/nowhere.pem")],
)
async def test_unusable_proxies_and_certificates_are_told(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(BadRequest, match="proxy or certificate") as caught:
        await streamed(OpenAIChat("m", http=_http.HttpOptions(attempts=1, pool_timeout=0.25)))
    assert "hidden-pass" not in str(caught.value)


class _State:
    """The part of a retry's state that a wait is computed from."""

    def __init__(self, attempt_number: int, error: Exception | None = None) -> None:
        self.attempt_number = attempt_number
        self.outcome = self
        self._error = error

    def exception(self) -> Exception | None:
        return self._error
