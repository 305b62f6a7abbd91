"""The recorder: what a running turn tells, as rows under the lease's token.

It is the engine's journal and observer in one. Messages are held back until the next transaction
that has to be made anyway: one before a batch's tools and one for each result; deltas are flushed
together about every 40 ms. Everything is written by the thread that waits for the run.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from sagents_app.engine import Message, ToolCall, ToolResult, UnknownOutcome, serialize
from sagents_app.engine import events as engine_events
from sagents_app.engine.deltas import Delta, TextDelta, ThinkingDelta, ToolCallDelta
from sagents_app.engine.interrupts import ActionRequest
from sagents_app.engine.tools import Tool, placeholder
from sagents_app.engine.usage import TokenUsage
from sagents_app.models import (
    AgentMessage,
    DisplayMessage,
    Event,
    Interrupt,
    Run,
    ToolExecution,
)
from sagents_app.services import display
from sagents_app.services import ledger as ledgers
from sagents_app.services.background import Jobs
from sagents_app.services.lease import Held
from sagents_app.services.ledger import Ledger

FLUSH_SECONDS = 0.04
UNKNOWN = "A worker began this call and was lost; whether it took effect is not known."


class Recorder:
    """Writes one drive of a run.

    `stored` is how many messages the conversation has as rows; `again` are calls of unknown outcome
    that a person wants to be run again.
    """

    def __init__(
        self,
        *,
        run: Run,
        lease: Held,
        jobs: Jobs,
        tools: Mapping[str, Tool],
        stored: int,
        again: frozenset[str] = frozenset(),
    ) -> None:
        self.run = run
        self.lease = lease
        self.usage = TokenUsage()
        self.model_calls = 0
        self.touched: dict[int, Message] = {}
        """Messages that this drive added or replaced, by position."""
        self._jobs = jobs
        self._tools = tools
        self._labels = {name: tool.display_text for name, tool in tools.items()}
        self._count = stored
        self._again = again
        self._messages: dict[int, Message] = {}
        self._pending: list[Any] = []
        self._stream = uuid.uuid4().hex
        self._offset = 0
        self._deltas: list[Delta] = []
        self._flushed = 0.0
        self._timer: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    async def begin(self, call: ToolCall) -> ToolResult | None:
        """Record that a tool starts, with everything before it, in one transaction."""
        async with self._writing:
            return await self._jobs.run(self._begin, call)

    async def finish(self, call: ToolCall, result: ToolResult) -> None:
        """Record a result with its rows and events, in one transaction."""
        async with self._writing:
            await self._jobs.run(self._finish, call, result)

    async def on_event(self, event: engine_events.Event) -> None:
        """Take note of what happens; deltas go out within the flush window."""
        match event:
            case engine_events.Deltas(items=items):
                self._deltas.extend(items)
                await self._flush_soon()
            case engine_events.MessageAdded(message=message):
                self._add(message)
            case engine_events.MessageReplaced(index=index, message=message):
                self._messages[index] = self.touched[index] = message
            case engine_events.UsageReported(usage=usage):
                self.usage += usage
                self.model_calls += 1
            case engine_events.ToolCallSeen(name=name):
                label = self._labels.get(name, "")
                payload = {"stream": self._stream, "name": name, "display_text": label}
                self._pending.append(("tool_call_identified", payload))
            case engine_events.ReplyRestarted():
                self._restart()
            case engine_events.CallFailed(model=model, error=error):
                payload = {"model": model, "error_type": error.type, "error": str(error)[:500]}
                self._pending.append(("model_call_failed", payload))
            case engine_events.TodosChanged(todos=todos):
                listed = [{"id": t.id, "content": t.content, "status": t.status} for t in todos]
                self._pending.append(("todos_updated", {"todos": listed}))
            case engine_events.Custom(name=name, data=data):
                self._pending.append(("custom", {"name": name, "data": data}))
            case _:
                pass  # a tool's start and end come through the journal

    async def close(self) -> None:
        """Stop the timer; what is left is written with the run's end."""
        if self._timer is not None:
            self._timer.cancel()
            await asyncio.gather(self._timer, return_exceptions=True)

    def write_rest(self, book: Ledger) -> None:
        """Write what was held back, in the ledger's transaction."""
        self._write(book)

    def reconcile(self, book: Ledger, messages: Any) -> None:
        """Write those of the turn's last messages that no event told of, such as a failure's."""
        for position in range(min(self.touched, default=self._count), len(messages)):
            if self.touched.get(position) != messages[position]:
                self._messages[position] = self.touched[position] = messages[position]
        self._write(book)

    def _add(self, message: Message) -> None:
        self._messages[self._count] = self.touched[self._count] = message
        self._count += 1
        if message.role == "assistant":
            self._pending.append(message)
            self._pending.append(("stream_ended", {"stream": self._stream}))
            self._restart()

    def _restart(self) -> None:
        self._deltas.clear()
        self._stream, self._offset = uuid.uuid4().hex, 0

    async def _flush_soon(self) -> None:
        if time.monotonic() - self._flushed >= FLUSH_SECONDS:
            await self._flush()
        elif self._timer is None or self._timer.done():
            self._timer = asyncio.create_task(self._flush_later())

    async def _flush_later(self) -> None:
        await asyncio.sleep(FLUSH_SECONDS)
        await self._flush()

    async def _flush(self) -> None:
        async with self._writing:
            if self._deltas:
                self._flushed = time.monotonic()
                await self._jobs.run(self._write_deltas)

    def _write_deltas(self) -> None:
        with self._ledger() as book:
            self._write(book)

    def _ledger(self) -> Any:
        return ledgers.write(self.run.conversation_id, token=self.lease.token, run_id=self.run.pk)

    def _begin(self, call: ToolCall) -> ToolResult | None:
        with self._ledger() as book:
            self._write(book)
            known = ToolExecution.objects.filter(
                conversation_id=self.run.conversation_id, call_id=call.call_id
            ).first()
            if known is not None:
                stored = self._stored(known, call)
                if stored is not None:
                    return stored
                known.status, known.attempts = ToolExecution.Status.STARTED, known.attempts + 1
                known.arguments, known.started_at = call.arguments_json, timezone.now()
                known.run_id = self.run.pk
                known.save()
            else:
                ToolExecution.objects.create(
                    conversation_id=self.run.conversation_id,
                    run_id=self.run.pk,
                    call_id=call.call_id,
                    tool_name=call.name[:64],
                    arguments=call.arguments_json,
                    started_at=timezone.now(),
                )
            self._progress(book, call, DisplayMessage.Status.EXECUTING)
        return None

    def _stored(self, known: ToolExecution, call: ToolCall) -> ToolResult | None:
        """Return what the journal knows of a call that began before; None: run it."""
        if known.status == ToolExecution.Status.FINISHED:
            result = serialize.load_result(known.result)
            return None if result.is_interrupt and call.call_id in self._again else result
        tool = self._tools.get(call.name)
        safe = tool is not None and (tool.retry_safe or tool.read_only)
        if safe or call.call_id in self._again:
            return None
        label = self._labels.get(call.name, "")
        request = ActionRequest(call.call_id, call.name, call.arguments_json, label)
        return placeholder(call, UnknownOutcome(request, known=UNKNOWN))

    def _finish(self, call: ToolCall, result: ToolResult) -> None:
        with self._ledger() as book:
            self._write(book)
            stored, now = serialize.dump_result(result), timezone.now()
            execution, created = ToolExecution.objects.get_or_create(
                conversation_id=self.run.conversation_id,
                call_id=call.call_id,
                defaults={
                    "run_id": self.run.pk,
                    "tool_name": call.name[:64],
                    "arguments": call.arguments_json,
                    "status": ToolExecution.Status.FINISHED,
                    "result": stored,
                    "started_at": now,
                    "finished_at": now,
                },
            )
            if not created:
                ToolExecution.objects.filter(pk=execution.pk).update(
                    status=ToolExecution.Status.FINISHED, result=stored, finished_at=now
                )
                Interrupt.objects.filter(
                    conversation_id=self.run.conversation_id,
                    tool_call_id=call.call_id,
                    status__in=(Interrupt.Status.APPROVED, Interrupt.Status.EDITED),
                ).update(executed_arguments=execution.arguments)
            self._progress(book, call, display.status_of(result), result)
            if not result.is_interrupt:
                book.show(display.result_row(result))

    def _progress(
        self, book: Ledger, call: ToolCall, status: str, result: ToolResult | None = None
    ) -> None:
        """Change the call's row in the transcript and tell of its progress."""
        row = (
            next((row for row in book.rows() if _is_row_of(row, call)), None)
            or DisplayMessage.objects.filter(
                conversation_id=self.run.conversation_id,
                content_type=DisplayMessage.Kind.TOOL_CALL,
                tool_call_id=call.call_id,
            ).first()
        )
        payload = {"call_id": call.call_id, "name": call.name, "status": str(status)}
        book.event("tool_execution_update", payload)
        if row is not None:
            told = {} if result is None else {"result": result.text[:2000]}
            book.update_row(row, status=status, metadata={**row.metadata, **told})

    def _write(self, book: Ledger) -> None:
        """Write messages, rows, events and deltas that wait, in the order in which they came."""
        if self._messages:
            AgentMessage.objects.bulk_create(
                [
                    AgentMessage(
                        conversation_id=self.run.conversation_id,
                        position=position,
                        data=serialize.dump_message(message),
                    )
                    for position, message in self._messages.items()
                ],
                update_conflicts=True,
                unique_fields=("conversation", "position"),
                update_fields=("data",),
            )
            self._messages.clear()
        for item in self._pending:
            if isinstance(item, Message):
                self._show(book, item)
            else:
                book.event(*item)
        self._pending.clear()
        self._write_stream(book)

    def _show(self, book: Ledger, message: Message) -> None:
        for row in display.rows_of(message, self._labels):
            book.show(row)
        Event.objects.filter(conversation_id=self.run.conversation_id, type="deltas").delete()

    def _write_stream(self, book: Ledger) -> None:
        if not self._deltas:
            return
        text = "".join(delta.text for delta in self._deltas if isinstance(delta, TextDelta))
        thinking = "".join(delta.text for delta in self._deltas if isinstance(delta, ThinkingDelta))
        calls = [
            {"index": delta.index, "name": delta.name, "arguments": delta.arguments}
            for delta in self._deltas
            if isinstance(delta, ToolCallDelta)
        ]
        self._deltas.clear()
        if not (text or thinking or calls):
            return
        payload: dict[str, Any] = {"stream": self._stream, "offset": self._offset, "text": text}
        payload |= {"thinking": thinking} if thinking else {}
        payload |= {"tool_calls": calls} if calls else {}
        self._offset += len(text)
        book.event("deltas", payload)


def _is_row_of(row: DisplayMessage, call: ToolCall) -> bool:
    return row.content_type == DisplayMessage.Kind.TOOL_CALL and row.tool_call_id == call.call_id
