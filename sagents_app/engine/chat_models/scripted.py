"""Models without a network, for tests and demonstrations."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, cast

from sagents_app.engine.chat_model import ModelRequest
from sagents_app.engine.deltas import Delta, FinishDelta, ReplyDelta, TextDelta
from sagents_app.engine.errors import Misconfigured, ModelError
from sagents_app.engine.messages import Message

Reply = str | Message | Exception | Sequence[Delta] | Callable[[ModelRequest], Any]


class FunctionModel:
    """A model that is a sync or async function of the request, answering like a scripted reply."""

    def __init__(
        self, function: Callable[[ModelRequest], Any | Awaitable[Any]], *, name: str = "function"
    ) -> None:
        if not callable(function):
            raise Misconfigured(
                f"a FunctionModel takes a function of the request, got {function!r:.200}"
            )
        self.name = name
        self._function = function

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield what the function answers."""
        answer: Any = self._function(request)
        if inspect.isasyncgen(answer):
            async for given in cast("AsyncGenerator[Sequence[Delta]]", answer):
                yield given
            return
        for batch in _batches(await answer if inspect.isawaitable(answer) else answer):
            yield batch


class ScriptedModel:
    """A model that gives `replies` in turn, one a call, and records every request in `requests`.

    A reply is a text, a `Message`, an exception to raise, a list of deltas, or a function of the
    request that answers one of these. An exception in a list of deltas is raised at its place; a
    list that does not end in one or in a `FinishDelta` ends well. A call beyond the script is a
    mistake of the test and ends the turn as `Failed`.
    """

    def __init__(self, *replies: Reply, name: str = "scripted") -> None:
        self.name = name
        self.requests: list[ModelRequest] = []
        """The requests so far, in order, each as it was when the call was made."""
        self._replies = replies

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the next reply."""
        index = len(self.requests)
        self.requests.append(request)
        if index >= len(self._replies):
            raise ModelError(
                f"the script has {len(self._replies)} replies, and call {index + 1} was made"
            )
        reply: Any = self._replies[index]
        if callable(reply) and not isinstance(reply, (Message, Exception)):
            reply = reply(request)
        for batch in _batches(await reply if inspect.isawaitable(reply) else reply):
            yield batch


def _deltas(reply: Sequence[Any]) -> Iterator[Sequence[Delta]]:
    for delta in reply:
        if isinstance(delta, Exception):
            raise delta
        yield (delta,)
    if not reply or not isinstance(reply[-1], (FinishDelta, ReplyDelta)):
        yield (FinishDelta(),)


def _batches(reply: Any) -> Iterable[Sequence[Delta]]:
    if isinstance(reply, Exception):
        raise reply
    if isinstance(reply, str):
        return [(TextDelta(reply), FinishDelta())]
    if isinstance(reply, Message):
        return [(ReplyDelta(reply),)]
    if isinstance(reply, Sequence):
        return _deltas(reply)
    raise Misconfigured(f"a reply is a text, a Message, deltas or an exception, got {reply!r:.200}")
