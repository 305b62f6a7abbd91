"""An answer as it is read: what decodes it, and the bounds of how much is read. Pure of HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, Protocol

from sagents_app.engine.chat_models.connection import HttpOptions
from sagents_app.engine.deltas import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from sagents_app.engine.errors import ProtocolError, StreamDied


class Decoder(Protocol):
    """Makes deltas of one answer of a provider; pure."""

    @property
    def is_finished(self) -> bool:
        """Whether the reply is whole, though more may follow, such as its usage."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether the closing mark has come; nothing after it counts."""
        ...

    def feed(self, event: str, data: str) -> Sequence[Delta]:
        """Return what one event of the stream adds.

        Raises:
            ModelError: the event is an error, or not what the protocol promises.
        """
        ...

    def whole(self, body: Any) -> Sequence[Delta]:
        """Return what a JSON answer holds, from a server that does not stream.

        Raises:
            ModelError: as `feed`.
        """
        ...

    def end(self) -> Sequence[Delta]:
        """Return the closing deltas, the last one a `FinishDelta`.

        Raises:
            StreamDied: the answer ended in the middle.
        """
        ...


class Texts:
    """An answer as `EventSource` reads it: bounded, and an event stream whatever it calls itself.

    Servers and proxies exist that send events as `text/plain`; whether it is a stream is seen from
    what it says.
    """

    headers = {"content-type": "text/event-stream"}  # noqa: RUF012  # the part of a response's

    def __init__(self, texts: AsyncIterator[str], longest: int) -> None:
        self._texts = texts
        self._longest = longest
        self.head = ""
        """The beginning, to be told where it is no stream."""
        self.has_ended = False

    @property
    def is_stream(self) -> bool:
        """Whether it began as an event stream does."""
        return self.head.lstrip("\ufeff\r\n").startswith(("data:", "event:", "id:", "retry:", ":"))

    async def aiter_text(self) -> AsyncGenerator[str]:
        """Yield the texts as they come.

        Raises:
            ProtocolError: they are more than the bound.
        """
        length = 0
        async for text in self._texts:
            length += len(text)
            if length > self._longest:
                raise ProtocolError(f"the reply is longer than {self._longest} bytes")
            if len(self.head) < 1000:
                self.head += text[:1000]
            yield text
        self.has_ended = True
        yield "\n\n"  # some servers leave the last event open


def fed(decoder: Decoder, event: Any, texts: Texts) -> Sequence[Delta]:
    """Return what an event adds; one that breaks off with the stream is no nonsense of the server.

    Raises:
        ModelError: as `Decoder.feed`.
        StreamDied: the stream ended inside the event.
    """
    try:
        return decoder.feed(event.event, event.data)
    except ProtocolError as error:
        if texts.has_ended:
            raise StreamDied(f"the reply ended inside an event ({error})") from None
        raise


def counted(
    deltas: Sequence[Delta], chars: int, options: HttpOptions
) -> tuple[Sequence[Delta], int]:
    """Return the deltas, and the characters of the reply with theirs.

    Raises:
        ProtocolError: they are more than the bound.
    """
    for delta in deltas:
        match delta:
            case TextDelta() | ThinkingDelta():
                chars += len(delta.text)
            case ToolCallDelta(arguments=str() as arguments):
                chars += len(arguments)
            case _:
                pass
    if chars > options.max_reply_chars:
        raise ProtocolError(f"the reply holds more than {options.max_reply_chars} characters")
    return deltas, chars
