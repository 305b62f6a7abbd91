"""The recorder: what a running turn tells, as rows under the lease's token.

It is the engine's journal and observer in one. Messages are held back until the next transaction
that has to be made anyway: one before a batch's tools and one for each result; deltas are flushed
together about every 40 ms. Everything is written by the thread that waits for the run.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError

from sagents_app.engine import Agent, AgentState, Message, ToolCall, ToolResult
from sagents_app.engine import events as engine_events
from sagents_app.engine.deltas import Delta
from sagents_app.engine.usage import TokenUsage
from sagents_app.models import Conversation, Run
from sagents_app.services import display, journal, states, streams
from sagents_app.services import ledger as ledgers
from sagents_app.services.background import Jobs
from sagents_app.services.errors import LeaseLost
from sagents_app.services.lease import Held
from sagents_app.services.ledger import Ledger

T = TypeVar("T")
logger = logging.getLogger(__name__)
FLUSH_SECONDS = 0.04
GIVE_UP = (LeaseLost, Conversation.DoesNotExist, OperationalError, InterfaceError)
"""After these the run is not this worker's to end: it writes nothing more."""
STATE_CHANGES = ("todos", "metadata", "sub_agents")


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction writes."""

    messages: dict[int, Message]
    items: list[Callable[[Ledger], Any]]
    """Rows and events, in the order in which they came."""
    state: AgentState | None


class Recorder:
    """Writes one drive of a run, beginning with the stored `state`.

    `again` are calls of unknown outcome that a person wants to be run again.
    """

    def __init__(
        self,
        *,
        run: Run,
        lease: Held,
        jobs: Jobs,
        agent: Agent,
        state: AgentState,
        again: frozenset[str] = frozenset(),
    ) -> None:
        self.usage = TokenUsage()
        self.model_calls = 0
        self.failure: Exception | None = None
        """Why this worker may not go on, once it may not."""
        self._run, self._lease, self._jobs, self._again = run, lease, jobs, again
        self._agent = agent
        self._labels = {name: tool.display_text for name, tool in agent.tools.items()}
        self._state, self._state_changed = state, False
        self._count = len(state.messages)
        self._touched: dict[int, Message] = {}
        self._messages: dict[int, Message] = {}
        self._pending: list[Callable[[Ledger], Any]] = []
        self._told: set[str] = set()
        self._begun: set[str] | None = None
        self._calls: ledgers.CallRows = {}
        self._stream, self._offset = uuid.uuid4().hex, 0
        self._deltas: list[Delta] = []
        self._streamed = False
        self._flushed = 0.0
        self._timer: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    async def begin(self, call: ToolCall) -> ToolResult | None:
        """Record that a tool starts, with everything before it, in one transaction."""
        return await self._record(functools.partial(self._begin, call))

    async def finish(self, call: ToolCall, result: ToolResult) -> None:
        """Record a result with its rows and events, in one transaction."""
        self._told.add(call.call_id)
        await self._record(lambda book: journal.finish_call(book, self._run, call, result))

    async def on_event(self, event: engine_events.Event) -> None:
        """Take note of what happens; deltas go out within the flush window."""
        if self.failure is not None:
            raise self.failure
        match event:
            case engine_events.Deltas(items=items):
                self._deltas.extend(items)
                await self._flush_soon()
            case engine_events.MessageAdded(message=message):
                await self._add(message)
            case engine_events.MessageReplaced(index=index, message=message):
                self._replace(index, message)
            case engine_events.ReplyRestarted():
                self._pending.append(functools.partial(self._void, self._stream))
                self._next_stream()
            case engine_events.UsageReported(usage=usage):
                self.usage += usage
                self._tell(event)
            case _:
                self._tell(event)

    async def close(self) -> None:
        """Stop the timer; what is left is written with the run's end."""
        if self._timer is not None:
            self._timer.cancel()
            await asyncio.gather(self._timer, return_exceptions=True)

    def write_rest(self, book: Ledger, messages: Sequence[Message]) -> None:
        """Write what was held back, and those of the turn's last messages that no event told of."""
        for position in range(min(self._touched, default=self._count), len(messages)):
            message = messages[position]
            if self._touched.get(position) != message:
                self._keep(position, message)
                self._settle(message)
        _write(book, self._take())

    def _begin(self, call: ToolCall, book: Ledger) -> ToolResult | None:
        if self._begun is None:
            self._begun = journal.begun_calls(book.conversation)
        return journal.begin_call(
            book,
            self._run,
            call,
            tools=self._agent.tools,
            again=self._again,
            begun=self._begun,
        )

    async def _add(self, message: Message) -> None:
        self._keep(self._count, message)
        self._count += 1
        if message.role == "tool":
            self._settle(message)
        if message.role == "assistant":
            self.model_calls += 1
            shown = await self._agent.display_message(message)
            self._pending.append(functools.partial(self._show, shown, self._stream))
            self._next_stream()

    def _replace(self, index: int, message: Message) -> None:
        before = self._touched.get(index)
        if before is None and index < len(self._state.messages):
            before = self._state.messages[index]
        for old, new in zip(before.tool_results if before else (), message.tool_results):  # noqa: B905  # a result may have come or gone
            if old.state_update and new.state_update is None:
                changes = {k: v for k, v in old.state_update.items() if k in STATE_CHANGES}
                self._state, self._state_changed = self._state.merge(changes), True
        self._keep(index, message)
        self._settle(message)

    def _keep(self, position: int, message: Message) -> None:
        self._messages[position] = self._touched[position] = message

    def _settle(self, message: Message) -> None:
        """Have the rows of results settled that do not come through the journal."""
        results = [one for one in message.tool_results if one.tool_call_id not in self._told]
        if results:
            cancelled = self._lease.cancel.is_set()
            self._pending.append(
                functools.partial(_settle_rows, results=results, cancelled=cancelled)
            )

    def _tell(self, event: engine_events.Event) -> None:
        """Have an event told that changes no row."""
        told = _told(event)
        if told is None:
            return
        type_, payload = told
        if isinstance(event, engine_events.ToolCallSeen):
            label = self._labels.get(event.name, event.name)
            payload = {"stream": self._stream, **payload, "display_text": label}
        self._pending.append(lambda book: book.event(type_, payload))

    def _next_stream(self) -> None:
        self._deltas.clear()
        self._stream, self._offset = uuid.uuid4().hex, 0

    async def _flush_soon(self) -> None:
        if time.monotonic() - self._flushed >= FLUSH_SECONDS:
            await self._flush()
        elif self._timer is None or self._timer.done():
            self._timer = asyncio.create_task(self._flush_later())

    async def _flush_later(self) -> None:
        await asyncio.sleep(FLUSH_SECONDS)
        try:
            await self._flush()
        except Exception:  # kept in `failure`, or put back for the next write to fail on
            logger.debug("a flush of run %s failed", self._run.pk, exc_info=True)

    async def _flush(self) -> None:
        if self._deltas:
            self._flushed = time.monotonic()
            await self._record(_nothing_more)

    async def _record(self, write: Callable[[Ledger], T]) -> T:
        """Write what waits, then `write`, in one transaction, whoever is cancelled meanwhile.

        Raises:
            LeaseLost: somebody else drives the conversation.
        """
        recorded = asyncio.ensure_future(self._recorded(write))
        try:
            return await asyncio.shield(recorded)
        except asyncio.CancelledError:
            await asyncio.gather(recorded, return_exceptions=True)  # `failure` keeps what it raised
            raise

    async def _recorded(self, write: Callable[[Ledger], T]) -> T:
        async with self._writing:
            if self.failure is not None:
                raise self.failure
            batch = self._take()
            try:
                return await self._jobs.run(self._transact, batch, write)
            except GIVE_UP as error:
                self.failure = error
                raise
            except Exception:
                self._put_back(batch)
                raise

    def _take(self) -> Batch:
        """Return what waits, in the order in which it came; it waits no more."""
        deltas, self._deltas = self._deltas, []
        payload = streams.payload_of(deltas, stream=self._stream, offset=self._offset)
        if payload is not None:
            self._offset += len(payload["text"])
            self._pending.append(functools.partial(self._write_deltas, payload))
        batch = Batch(self._messages, self._pending, self._state if self._state_changed else None)
        self._messages, self._pending, self._state_changed = {}, [], False
        return batch

    def _put_back(self, batch: Batch) -> None:
        self._messages = {**batch.messages, **self._messages}
        self._pending = [*batch.items, *self._pending]
        self._state_changed = self._state_changed or batch.state is not None

    def _transact(self, batch: Batch, write: Callable[[Ledger], T]) -> T:
        with ledgers.write(
            self._run.conversation_id,
            token=self._lease.token,
            run_id=self._run.pk,
            calls=self._calls,
        ) as book:
            _write(book, batch)
            return write(book)

    def _write_deltas(self, payload: dict[str, Any], book: Ledger) -> None:
        book.event("deltas", payload)
        self._streamed = True

    def _show(self, message: Message, stream: str, book: Ledger) -> None:
        for row in display.rows_of(message, self._labels):
            book.show(row)
        self._end_stream(book, stream, void=False)

    def _void(self, stream: str, book: Ledger) -> None:
        self._end_stream(book, stream, void=True)

    def _end_stream(self, book: Ledger, stream: str, *, void: bool) -> None:
        book.event("stream_ended", {"stream": stream, "void": void})
        if self._streamed:
            streams.prune(book.conversation)
            self._streamed = False


def _told(event: engine_events.Event) -> tuple[str, dict[str, Any]] | None:
    """Return what pages hear of an event; a tool's start and end come through the journal."""
    match event:
        case engine_events.ToolCallSeen(name=name, index=index):
            return "tool_call_identified", {"index": index, "name": name}
        case engine_events.UsageReported(usage=usage, model=model):
            tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
            return "token_usage", {"model": model, **tokens}
        case engine_events.CallFailed(model=model, error=error):
            return "model_call_failed", {"model": model, "error_type": error.type}
        case engine_events.TodosChanged(todos=todos):
            plan = [{"id": t.id, "content": t.content, "status": t.status} for t in todos]
            return "todos_updated", {"todos": plan}
        case engine_events.Custom(name=name, data=data):
            return "custom", {"name": name, "data": data}
        case _:
            return None


def _write(book: Ledger, batch: Batch) -> None:
    if batch.messages:
        states.save_messages(book, batch.messages)
    if batch.state is not None:
        states.save_rest(book, batch.state)
    for item in batch.items:
        item(book)


def _settle_rows(book: Ledger, *, results: list[ToolResult], cancelled: bool) -> None:
    journal.settle_rows(book, results, cancelled=cancelled)


def _nothing_more(book: Ledger) -> None:
    """Write nothing beside what waits."""
