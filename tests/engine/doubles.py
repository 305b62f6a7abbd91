"""What engine tests share: short ways to write histories, and doubles of a host's seams."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from sagents_app.engine import AgentState, Message, Tool, ToolCall, ToolResult, tool
from sagents_app.engine.events import Event


def call(call_id: str = "c1", name: str = "note", **arguments: Any) -> ToolCall:
    return ToolCall(call_id, name, arguments)


def calling(*calls: ToolCall, text: str | None = None) -> Message:
    return Message.assistant(text, tool_calls=calls)


def asked(*messages: Message, text: str = "hi", **fields: Any) -> AgentState:
    """A state that begins with what the user says, with `messages` behind it."""
    return AgentState((Message.user(text), *messages), **fields)


def shape(messages: Iterable[Message] | AgentState) -> list[str]:
    """A history by role: U, S, A, A(c1,c2), T(c1,c2)."""
    known = messages.messages if isinstance(messages, AgentState) else messages
    return [_shape(message) for message in known]


def _shape(message: Message) -> str:
    ids = [one.call_id for one in message.tool_calls]
    ids += [one.tool_call_id for one in message.tool_results]
    return message.role[0].upper() + (f"({','.join(ids)})" if ids else "")


def texts(messages: Iterable[Message]) -> list[str]:
    return [message.text for message in messages]


def results(state: AgentState) -> dict[str, ToolResult]:
    return {
        result.tool_call_id: result for message in state.messages for result in message.tool_results
    }


def told(state: AgentState) -> dict[str, str]:
    """What the model reads of each call's result."""
    return {call_id: result.text for call_id, result in results(state).items()}


class Notes:
    """A tool `note(text)` that keeps what it was called with, in order."""

    def __init__(self, name: str = "note", **options: Any) -> None:
        self.taken: list[str] = []

        async def note(text: str = "") -> str:
            """Take a note."""
            self.taken.append(text)
            return f"noted {text}".strip()

        self.tool: Tool = tool(name=name, **options)(note)


class Journal:
    """A host's journal in memory; `log` holds what it was told, `stored` what it knows already."""

    def __init__(self, *stored: ToolResult, fails_on: str | None = None) -> None:
        self.log: list[tuple[str, str]] = []
        self.stored = {result.tool_call_id: result for result in stored}
        self.calls: dict[str, ToolCall] = {}
        self.results: dict[str, ToolResult] = {}
        self.fails_on = fails_on

    async def begin(self, call: ToolCall) -> ToolResult | None:
        self._note("begin", call)
        self.calls[call.call_id] = call
        return self.stored.get(call.call_id)

    async def finish(self, call: ToolCall, result: ToolResult) -> None:
        self._note("finish", call)
        self.results[call.call_id] = result

    def _note(self, what: str, call: ToolCall) -> None:
        if self.fails_on in (what, f"{what} {call.call_id}"):
            raise ConnectionError("no database")
        self.log.append((what, call.call_id))


class Events:
    """A host's observer that keeps every event, in order."""

    def __init__(self) -> None:
        self.seen: list[Event] = []

    async def __call__(self, event: Event) -> None:
        self.seen.append(event)

    @property
    def names(self) -> list[str]:
        return [type(event).__name__ for event in self.seen]


class Switch:
    """Says no until it is turned on; a host's `should_cancel`."""

    def __init__(self) -> None:
        self.on = False

    def __call__(self) -> bool:
        return self.on


class Gate:
    """A place where a tool waits until the test lets it go on; `reached` says that it is there."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def wait(self) -> None:
        self.reached.set()
        await self.opened.wait()
