"""Recorded answers of providers, and short ways to play them to an adapter."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import httpx
from httpx_sse import EventSource

from sagents_app.engine import Message, ModelRequest, Tool, tool
from sagents_app.engine.chat_models.connection import HttpOptions
from sagents_app.engine.deltas import Accumulator, AttemptFailed, Delta, FinishDelta

RECORDED = Path(__file__).parent / "wire"
EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8"}


def recorded(name: str) -> str:
    """An answer that a provider's documentation, or a report about a server, shows.

    The file begins with comments of the event stream format, which say where it is from.
    """
    text = (RECORDED / name).read_text()
    assert text.startswith(": origin: "), f"{name} does not say where it is from"
    return text


def events_of(text: str) -> list[tuple[str, str]]:
    """The (event, data) of a stream, as a decoder gets them."""
    response = httpx.Response(200, headers=EVENT_STREAM, text=text)
    return [(event.event, event.data) for event in EventSource(response).iter_sse() if event.data]


def sse(*chunks: Any, done: bool = True) -> str:
    """A stream of JSON chunks, as OpenAI closes it."""
    lines = [f"data: {chunk if isinstance(chunk, str) else json.dumps(chunk)}" for chunk in chunks]
    return "".join(f"{line}\n\n" for line in [*lines, *(["data: [DONE]"] if done else [])])


def decoded(decoder: Any, text: str) -> list[Delta]:
    """What a decoder makes of a whole stream, its end included."""
    deltas: list[Delta] = []
    for event, data in events_of(text):
        deltas.extend(decoder.feed(event, data))
        if decoder.is_closed:
            break
    deltas.extend(decoder.end())
    return deltas


def folded(deltas: Iterable[Delta]) -> Message:
    """The message that deltas make."""
    accumulator = Accumulator()
    for delta in deltas:
        accumulator.add(delta)
    return accumulator.message()


def calls_of(message: Message) -> list[tuple[str, str, str]]:
    """The calls of a message as (id, name, arguments)."""
    return [(call.call_id, call.name, call.arguments_json) for call in message.tool_calls]


def asking(*messages: Message, system: str = "", tools: Sequence[Tool] = ()) -> ModelRequest:
    return ModelRequest(system, messages or (Message.user("hi"),), tuple(tools))


async def streamed(model: Any, request: ModelRequest | None = None) -> list[Delta]:
    """Every delta of a call, in order."""
    deltas: list[Delta] = []
    async for batch in model.stream(request or asking()):
        deltas.extend(batch)
    return deltas


def failures(deltas: Iterable[Delta]) -> list[str]:
    """The types of the errors of tries that were made again."""
    return [delta.error.type for delta in deltas if isinstance(delta, AttemptFailed)]


def status_of(deltas: Sequence[Delta]) -> str:
    assert isinstance(deltas[-1], FinishDelta)
    assert sum(isinstance(delta, FinishDelta) for delta in deltas) == 1
    return deltas[-1].status


class Server:
    """A provider in memory: gives `answers` in turn, the last one for ever, and keeps requests."""

    def __init__(self, *answers: httpx.Response | Exception | Callable[[httpx.Request], Any]):
        self.requests: list[httpx.Request] = []
        self._answers = answers

    def http(self, **options: Any) -> HttpOptions:
        transport = httpx.MockTransport(self._answer)
        return HttpOptions(**{"first_wait": 0.0, **options}, transport=transport)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.requests]

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        answer = self._answers[min(len(self.requests), len(self._answers) - 1)]
        self.requests.append(request)
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            made: httpx.Response = answer(request)
            return made
        return answer


def answer(text: str, status: int = 200, **headers: str) -> Callable[[httpx.Request], Any]:
    """An answer that can be given more than once."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: httpx.Response(
        status, headers={**EVENT_STREAM, **named}, content=text.encode()
    )


def json_answer(body: Any, status: int = 400, **headers: str) -> Callable[[httpx.Request], Any]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: httpx.Response(status, json=body, headers=named)


class Pieces(httpx.AsyncByteStream):
    """A body in pieces; an exception among them breaks it, `closed` says that it was let go."""

    def __init__(self, *pieces: str | bytes | Exception | Callable[[], Any]) -> None:
        self.closed = False
        self._pieces = pieces

    async def __aiter__(self) -> Any:
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            if callable(piece):
                await piece()
                continue
            yield piece.encode() if isinstance(piece, str) else piece

    async def aclose(self) -> None:
        self.closed = True

    @property
    def answer(self) -> httpx.Response:
        return httpx.Response(200, headers=EVENT_STREAM, stream=self)


@tool
async def get_weather(city: str) -> str:
    """Say what the weather is like.

    Args:
        city: The name of a city.
    """
    return f"sunny in {city}"


@tool
async def refund(order_id: str, amount: int = 5) -> str:
    """Refund an order."""
    return f"refunded {amount} for {order_id}"
