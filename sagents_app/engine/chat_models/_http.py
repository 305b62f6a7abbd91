"""Calls to providers: the one place for httpx, httpx-sse and tenacity.

`stream_reply` posts JSON and passes the events of the answer to a provider's decoder. It translates
everything that can go wrong into the engine's errors, makes a failed call again where that helps,
and closes the provider's stream as soon as it is itself closed or cancelled.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, cast

import httpx
from httpx_sse import EventSource
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_exponential, wait_random

from sagents_app.engine.chat_models._answer import Decoder, Texts, counted, fed
from sagents_app.engine.chat_models._refusals import masked, read, refusal, shortened
from sagents_app.engine.chat_models.connection import Endpoint, HttpOptions
from sagents_app.engine.deltas import AttemptFailed, Delta
from sagents_app.engine.errors import (
    BadRequest,
    ConnectionFailed,
    ModelError,
    ModelTimeout,
    ProtocolError,
    StreamDied,
)

LONGEST_REFUSAL = 64 * 1024  # bytes that are read of an error's body
LONGEST_DRAIN = 0.25  # seconds for the end of a finished answer, so that its connection is kept
KEPT_CONNECTIONS = 50
KEPT_SECONDS = 60.0
PHASES: Mapping[type[httpx.TimeoutException], str] = {
    httpx.ConnectTimeout: "connect",
    httpx.ReadTimeout: "read",
    httpx.WriteTimeout: "write",
    httpx.PoolTimeout: "pool",
}
HTTPX_ERRORS = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, httpx.CookieConflict)


async def stream_reply(
    endpoint: Endpoint, body: Callable[[], Mapping[str, Any]], decoder: Callable[[], Decoder]
) -> AsyncGenerator[Sequence[Delta]]:
    """Yield the reply to what `body` encodes in batches; each try has a decoder of its own.

    Before a failed call is made again, and before the wait for that, it announces itself as
    `AttemptFailed`.

    Raises:
        ModelError: the last try failed, or a retry does not help.
    """
    content = _encoded(body())
    waits: list[float] = []
    failed: ModelError | None = None

    async def note(seconds: float) -> None:  # the wait is the generator's: it announces first
        waits.append(seconds)

    policy = AsyncRetrying(
        stop=stop_after_attempt(endpoint.http.attempts),
        wait=lambda state: _wait(state, endpoint.http),
        retry=retry_if_exception(lambda error: _may_retry(error, endpoint.http)),
        sleep=note,
        reraise=True,
    )
    async for attempt in policy:
        if failed is not None:
            yield (AttemptFailed(model=endpoint.model, error=failed),)
            await asyncio.sleep(waits[-1])
        with attempt:
            try:
                async with aclosing(_attempt(endpoint, content, decoder())) as batches:
                    async for batch in batches:
                        yield batch
            except ModelError as error:
                failed = error
                raise


async def close_clients() -> None:
    """Close the shared clients of the running loop, for the end of a process or a test."""
    loop = asyncio.get_running_loop()
    with _lock:
        own = [_clients.pop(key) for key in list(_clients) if key[0] is loop]
    for client in own:
        await client.aclose()


def translated(error: Exception, *, streaming: bool, secrets: Sequence[str] = ()) -> ModelError:
    """Return the engine's error for one of httpx; `streaming`: a good answer had begun."""
    words = shortened(masked(str(error), secrets)) or "no reason given"
    text = f"{type(error).__name__}: {words}"
    match error:
        case httpx.TimeoutException():
            phase = PHASES.get(type(error), "read")
            return ModelTimeout(f"no {phase} in time ({text})", phase=phase)
        case httpx.LocalProtocolError() | httpx.UnsupportedProtocol() | httpx.InvalidURL():
            # their words may repeat a header or an address whole
            return BadRequest(f"the request cannot be sent ({type(error).__name__})")
        case httpx.ProxyError():
            return ConnectionFailed(f"the proxy refused ({text})")
        case httpx.NetworkError() | httpx.RemoteProtocolError():
            if streaming:
                return StreamDied(f"the connection broke inside the reply ({text})")
            return ConnectionFailed(f"no connection ({text})")
        case httpx.DecodingError():
            return ProtocolError(f"the reply's compression is broken ({text})")
        case httpx.TooManyRedirects():
            return BadRequest(f"the address only redirects ({text})")
        case httpx.HTTPStatusError():
            return refusal(words, status=error.response.status_code, secrets=secrets)
        case httpx.TransportError():
            return ConnectionFailed(text)
        case _:
            return ProtocolError(text)


async def _attempt(
    endpoint: Endpoint, content: bytes, decoder: Decoder
) -> AsyncGenerator[Sequence[Delta]]:
    """Make the call once. No httpx error is chained: it carries the request, and so the key."""
    failure: ModelError | None = None
    answered = False
    try:
        async with _posted(endpoint, content) as response:
            answered = True
            async with aclosing(_decoded(endpoint, response, decoder)) as batches:
                async for batch in batches:
                    yield batch
    except HTTPX_ERRORS as error:
        failure = translated(error, streaming=answered, secrets=endpoint.secrets)
    if failure is not None:
        raise failure


async def _decoded(
    endpoint: Endpoint, response: httpx.Response, decoder: Decoder
) -> AsyncGenerator[Sequence[Delta]]:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind.endswith("json"):
        yield counted(decoder.whole(await _json(endpoint, response)), 0, endpoint.http)[0]
        yield decoder.end()
        return
    response.encoding = "utf-8"  # an event stream is nothing else
    texts = Texts(response.aiter_text(), endpoint.http.max_reply_bytes)
    chars = 0
    async with aclosing(EventSource(cast(httpx.Response, texts)).aiter_sse()) as events:
        try:
            async for event in events:
                if not event.data:
                    continue
                deltas, chars = counted(fed(decoder, event, texts), chars, endpoint.http)
                if deltas:
                    yield deltas
                if decoder.is_closed:
                    break
        except HTTPX_ERRORS:
            if not decoder.is_finished:
                raise
        if not (decoder.is_finished or decoder.is_closed) and not texts.is_stream:
            raise ProtocolError(
                f"expected an event stream, got {kind or 'an answer without a type'}: "
                + shortened(masked(read(texts.head).words, endpoint.secrets))
            )
        yield decoder.end()
        with suppress(TimeoutError, *HTTPX_ERRORS):
            async with asyncio.timeout(LONGEST_DRAIN):
                async for _ in events:
                    pass


@asynccontextmanager
async def _posted(endpoint: Endpoint, content: bytes) -> AsyncIterator[httpx.Response]:
    """Post, and give the answer if it is a good one.

    Raises:
        ModelError: the provider refused.
    """
    client = _client(endpoint.http)
    request = client.build_request(
        "POST",
        endpoint.url,
        content=content,
        headers={
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",  # a compressed stream arrives in lumps
            **endpoint.headers,
        },
    )
    response = await client.send(request, stream=True, auth=_KeyAuth(endpoint))
    try:
        if response.status_code != 200:
            raise await _refused(endpoint, response)
        yield response
    finally:
        await _closed(response)


async def _closed(response: httpx.Response) -> None:
    """Close the answer, and over HTTP/2 tell the provider to stop.

    httpcore forgets a stream that is closed before its end without a word to the server, which
    would go on to generate; the reset is sent through its connection, where it can be reached.
    """
    await response.aclose()
    stream_id = response.extensions.get("stream_id")
    if stream_id is None:
        return
    stream: Any = response.stream
    for name in ("_stream", "_httpcore_stream", "_stream"):
        stream = getattr(stream, name, None)
    connection = getattr(stream, "_connection", None)
    request = getattr(stream, "_request", None)
    if connection is not None:
        with suppress(Exception):  # the stream may have ended, or its connection
            connection._h2_state.reset_stream(stream_id, error_code=8)  # CANCEL
            await connection._write_outgoing_data(request)


async def _refused(endpoint: Endpoint, response: httpx.Response) -> ModelError:
    head = b""
    with suppress(*HTTPX_ERRORS):
        async for chunk in response.aiter_bytes():
            head += chunk
            if len(head) >= LONGEST_REFUSAL:
                break
    if response.has_redirect_location:
        target = response.headers["location"].partition("?")[0]
        return BadRequest(
            f"HTTP {response.status_code}: the address redirects to "
            f"{masked(shortened(target, 200), endpoint.secrets)}; use that as the base URL"
        )
    text = head[:LONGEST_REFUSAL].decode("utf-8", "replace")
    if 200 < response.status_code < 300:
        return ProtocolError(f"HTTP {response.status_code}: an answer without a reply")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = text
    return refusal(
        body, status=response.status_code, headers=response.headers, secrets=endpoint.secrets
    )


async def _json(endpoint: Endpoint, response: httpx.Response) -> Any:
    chunks: list[bytes] = []
    length = 0
    async for chunk in response.aiter_bytes():
        chunks.append(chunk)
        length += len(chunk)
        if length > endpoint.http.max_reply_bytes:
            raise ProtocolError(f"the reply is longer than {endpoint.http.max_reply_bytes} bytes")
    try:
        return json.loads(b"".join(chunks))
    except (ValueError, RecursionError):
        raise ProtocolError("the reply says that it is JSON, and is not") from None


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise BadRequest(f"the request is no JSON: {error}") from None
    return text.encode("utf-8", "replace")


def _may_retry(error: BaseException, options: HttpOptions) -> bool:
    return (
        isinstance(error, ModelError)
        and error.retryable
        and (error.retry_after or 0) <= options.longest_asked_wait
    )


def _wait(state: RetryCallState, options: HttpOptions) -> float:
    """Return the seconds before the next try: what the provider asks for, and never less."""
    doubled = wait_exponential(multiplier=options.first_wait, max=options.longest_wait)(state)
    jitter = wait_random(0, options.first_wait)(state)
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, ModelError) else None
    return max(asked or 0.0, min(doubled + jitter, options.longest_wait))


class _KeyAuth(httpx.Auth):
    """Puts the key into its header at the last moment, so that no local variable holds it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def auth_flow(self, request: httpx.Request) -> Any:
        endpoint = self._endpoint
        if endpoint.key is not None:
            request.headers[endpoint.key_header] = endpoint.key_prefix + endpoint.key.reveal()
        yield request


_clients: dict[tuple[asyncio.AbstractEventLoop, HttpOptions], httpx.AsyncClient] = {}
_lock = threading.Lock()


def _client(options: HttpOptions) -> httpx.AsyncClient:
    """Return the client that all calls with these options share on the running loop."""
    key = (asyncio.get_running_loop(), options)
    client = _clients.get(key)
    if client is None:
        with _lock:
            for known in [known for known in _clients if known[0].is_closed()]:
                del _clients[known]
            client = _clients[key] = _new_client(options)
    return client


def _new_client(options: HttpOptions) -> httpx.AsyncClient:
    try:
        return httpx.AsyncClient(
            http2=options.http2,
            transport=options.transport,
            follow_redirects=False,
            timeout=httpx.Timeout(
                connect=options.connect_timeout,
                read=options.read_timeout,
                write=options.write_timeout,
                pool=options.pool_timeout,
            ),
            limits=httpx.Limits(
                max_connections=options.max_connections,
                max_keepalive_connections=KEPT_CONNECTIONS,
                keepalive_expiry=KEPT_SECONDS,
            ),
        )
    except (OSError, ValueError, ImportError, httpx.InvalidURL) as error:
        raise BadRequest(
            "the proxy or certificate variables cannot be used: "
            f"{type(error).__name__} ({masked(shortened(str(error), 200))})"
        ) from None
