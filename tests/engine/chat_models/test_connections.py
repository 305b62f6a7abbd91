"""Real connections to servers of Node: pooled, HTTP/2, through proxies, and let go at once."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest

from sagents_app.engine.chat_models import _http
from sagents_app.engine.chat_models.connection import HttpOptions
from sagents_app.engine.chat_models.openai import OpenAIChat
from sagents_app.engine.deltas import TextDelta
from sagents_app.engine.errors import ConnectionFailed
from tests import programs
from tests.engine.chat_models.wire import asking, folded, streamed

pytestmark = pytest.mark.node
KEY = "made-up-key-0123456789"
SCRIPT = Path(__file__).parent / "peer.mjs"


class Peer:
    """A server in a process of its own; `told` is what it says next."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.port = port

    async def told(self, what: str) -> dict[str, Any]:
        async with asyncio.timeout(5):
            while True:
                line: dict[str, Any] = json.loads(await _line(self.process))
                if line["what"] == what:
                    return line


async def _line(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    return await process.stdout.readline()


Start = Callable[..., Awaitable[Peer]]


@pytest.fixture
async def start(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.lower(), raising=False)
    processes: list[asyncio.subprocess.Process] = []

    async def started(mode: str, *arguments: str) -> Peer:
        process = await asyncio.create_subprocess_exec(
            programs.node_program() or "node", str(SCRIPT), mode, *arguments, stdout=subprocess.PIPE
        )
        processes.append(process)
        return Peer(process, json.loads(await _line(process))["port"])

    yield started
    await _http.close_clients()
    for process in processes:
        process.kill()
        await process.communicate()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for localhost that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    pem, key = str(folder / "cert.pem"), str(folder / "key.pem")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    subprocess.run([*new, *subject, "-out", pem, "-keyout", key], check=True, capture_output=True)
    return pem, key


def model(peer: Peer, path: str = "v1", scheme: str = "http", **http: Any) -> OpenAIChat:
    return OpenAIChat(
        "m",
        base_url=f"{scheme}://localhost:{peer.port}/{path}",
        api_key=KEY,
        http=HttpOptions(**{"attempts": 1, **http}),
    )


def over_http2() -> HttpOptions:
    """HTTP/2 at once, as no provider speaks it without TLS."""
    return HttpOptions(attempts=1, transport=httpx.AsyncHTTPTransport(http1=False, http2=True))


async def test_a_connection_is_kept_for_the_next_call(start: Start) -> None:
    peer = await start("h1")
    asked = model(peer)
    for _ in range(3):
        assert folded(await streamed(asked)).text == "Once upon a time"
    assert len({(await peer.told("asked"))["port"] for _ in range(3)}) == 1


@pytest.mark.parametrize("mode", ["h1", "h2c"])
async def test_closing_a_stream_reaches_the_provider_at_once(start: Start, mode: str) -> None:
    peer = await start(mode)
    asked = model(peer, "slow")
    if mode == "h2c":
        asked = OpenAIChat("m", base_url=asked.base_url, http=over_http2())
    stream = asked.stream(asking())
    async with aclosing(stream):
        assert await anext(stream) == [TextDelta("Once upon")]
    closed = await peer.told("closed")
    assert not closed["whole"]
    assert closed["code"] in (None, 8)  # HTTP/2's CANCEL


@pytest.mark.parametrize("mode", ["h1", "h2c"])
async def test_cancelling_a_call_reaches_the_provider_at_once(start: Start, mode: str) -> None:
    peer = await start(mode)
    asked = model(peer, "slow")
    if mode == "h2c":
        asked = OpenAIChat("m", base_url=asked.base_url, http=over_http2())
    begun = asyncio.Event()

    async def listen() -> None:
        async for _ in asked.stream(asking()):
            begun.set()

    listening = asyncio.ensure_future(listen())
    await begun.wait()
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    assert not (await peer.told("closed"))["whole"]


async def test_streams_that_share_a_connection_outlive_each_other(start: Start) -> None:
    peer = await start("h2c")
    options = over_http2()
    base_url = f"http://localhost:{peer.port}"
    slow = OpenAIChat("m", base_url=f"{base_url}/slow", http=options)
    quick = OpenAIChat("m", base_url=f"{base_url}/v1", http=options)
    for _ in range(3):
        kept = slow.stream(asking())
        given_up = slow.stream(asking())
        await anext(kept)
        await anext(given_up)
        await given_up.aclose()
        assert folded(await streamed(quick)).text == "Once upon a time"
        await kept.aclose()
    ports = {(await peer.told("asked"))["port"] for _ in range(9)}
    assert len(ports) == 1


async def test_more_streams_may_be_given_up_than_a_connection_has(start: Start) -> None:
    """The server's limit counts streams that it has not been told of."""
    peer = await start("h2c")
    asked = OpenAIChat("m", base_url=f"http://localhost:{peer.port}/slow", http=over_http2())
    for _ in range(150):
        stream = asked.stream(asking())
        await anext(stream)
        await stream.aclose()
    ports = {(await peer.told("asked"))["port"] for _ in range(150)}
    assert len(ports) == 1


async def test_a_certificate_of_ones_own_is_trusted_by_its_variable(
    start: Start, certificate: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = await start("tls", *certificate)
    with pytest.raises(ConnectionFailed, match="CERTIFICATE_VERIFY_FAILED"):
        await streamed(model(peer, scheme="https"))
    await _http.close_clients()
    monkeypatch.setenv("SSL_CERT_FILE", certificate[0])
    assert folded(await streamed(model(peer, scheme="https"))).text == "Once upon a time"
    assert (await peer.told("asked"))["version"] == "1.1"
    assert folded(await streamed(model(peer, scheme="https", http2=True))).text
    assert (await peer.told("asked"))["version"] == "2.0"


async def test_a_proxy_is_used_and_left_out_by_its_variables(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = await start("h1")
    monkeypatch.setenv("HTTP_PROXY", f"http://localhost:{proxy.port}")
    asked = OpenAIChat("m", base_url="http://provider.invalid/v1", http=HttpOptions(attempts=1))
    assert folded(await streamed(asked)).text == "Once upon a time"
    asked_for = await proxy.told("asked")
    assert asked_for["url"] == "http://provider.invalid/v1/chat/completions"
    await _http.close_clients()
    monkeypatch.setenv("NO_PROXY", "localhost")
    assert folded(await streamed(model(proxy))).text == "Once upon a time"
    assert (await proxy.told("asked"))["url"] == "/v1/chat/completions"


@pytest.mark.parametrize("mode", ["h1", "h2c"])
async def test_no_library_logs_the_key(
    start: Start, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    peer = await start(mode)
    http = over_http2() if mode == "h2c" else HttpOptions(attempts=1)
    asked = OpenAIChat("m", base_url=f"http://localhost:{peer.port}", api_key=KEY, http=http)
    await streamed(asked)
    assert "HTTP Request" in caplog.text
    assert KEY not in caplog.text


async def test_a_name_that_does_not_resolve_is_no_connection(start: Start) -> None:
    asked = OpenAIChat("m", base_url="http://provider.invalid/v1", http=HttpOptions(attempts=1))
    with pytest.raises(ConnectionFailed, match="no connection"):
        await streamed(asked)
