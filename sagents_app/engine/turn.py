"""A turn: the frozen value that is pushed through a mode's steps, and what it carries along."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from sagents_app.engine.chat_model import ChatModel
from sagents_app.engine.errors import EngineError, HookFailed, ObserverFailed, TurnError
from sagents_app.engine.events import Event, MessageAdded, MessageReplaced
from sagents_app.engine.history import History
from sagents_app.engine.interrupts import Interrupt
from sagents_app.engine.messages import Message, ToolCall, ToolResult
from sagents_app.engine.middleware import Middleware
from sagents_app.engine.outcomes import Outcome
from sagents_app.engine.state import AgentState, in_call_order, open_calls
from sagents_app.engine.tools import RunSync, Tool, ToolContext

logger = logging.getLogger(__name__)
T = TypeVar("T")
CANCEL_GRACE = 1.0  # seconds that work may take to stop
CANCEL_POLL = 0.1  # seconds between two questions to `should_cancel`


class Journal(Protocol):
    """The host's record of tool calls. Both methods return only when the record is durable.

    A call that has begun and never finished was cut off: whether it took effect is not known.
    """

    async def begin(self, call: ToolCall) -> ToolResult | None:
        """Record that `call` is about to run; a returned result is used and nothing runs.

        Only where that result is a placeholder which a person has answered since, it does run.
        """
        ...

    async def finish(self, call: ToolCall, result: ToolResult) -> None:
        """Record what became of `call`, before anything else happens.

        Also of a call that never began, because a person declined it or it cannot be run.
        """
        ...


class Suspended(EngineError):
    """A tool has to be run again later, from the state it leaves; never leaves the engine."""

    type = "suspended"

    def __init__(self, *, reason: Any, state: Mapping[str, Any]) -> None:
        super().__init__("the tool was suspended")
        self.reason = reason
        self.state = state


class CutOff(EngineError):
    """Something was still under way when the turn was cancelled; never leaves the engine."""

    type = "cut_off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The hooks that an agent's middlewares really have, in the order in which they are called."""

    before_turn: tuple[Callable[..., Any], ...] = ()
    before_model: tuple[Callable[..., Any], ...] = ()
    after_model: tuple[Callable[..., Any], ...] = ()
    needs_approval: tuple[Callable[..., Any], ...] = ()
    on_event: tuple[Callable[..., Any], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What an agent is made of, as the steps need it. Never stored."""

    name: str
    models: tuple[ChatModel, ...]
    system_prompt: str
    tools: Mapping[str, Tool]
    middlewares: tuple[Middleware, ...]
    hooks: Hooks
    run_sync: RunSync
    tool_context: Mapping[str, Any]
    scope: Any
    before_fallback: Callable[..., Any] | None
    early_start: bool
    """Whether calls that may run do not wait for their siblings' decisions."""
    ask_when_over_budget: bool
    max_tool_failures: int | None
    max_seconds: float | None
    max_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How one turn is driven; a mode sees these."""

    max_runs: int = 50
    until_tool: tuple[str, ...] = ()
    require_tool_success: bool = False
    should_pause: Callable[[], Any] | None = None
    should_cancel: Callable[[], bool] | None = None
    journal: Journal | None = None
    on_event: Callable[[Event], Any] | None = None
    conversation_id: str | None = None
    acting_user: Any = None
    within: str | None = None
    """The call of another agent inside which this turn runs; prefixes its call ids."""


class Drive:
    """The mutable scratch of one drive of a turn; none of it is stored."""

    __slots__ = (
        "cancel_signal",
        "patches",
        "seen",
        "started",
        "state",
        "used_ids",
        "wire",
    )

    def __init__(self, state: AgentState) -> None:
        self.state = state
        self.used_ids: set[str] | None = None
        self.seen = 0
        self.patches = 0
        self.wire = History()
        self.started = time.monotonic()
        self.cancel_signal: asyncio.Future[None] | None = None

    def forget(self, index: int) -> None:
        """Check the history from message `index` again before it is sent."""
        if index < self.seen:
            self.seen, self.patches, self.wire = 0, 0, History()


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn on its way through the steps. Steps return another one, or an outcome."""

    setup: Setup
    state: AgentState
    options: Options
    drive: Drive = field(repr=False)

    def with_state(self, state: AgentState) -> Turn:
        """Return the turn with `state`, which is also what a failure from here on keeps."""
        self.drive.state = state
        return Turn(self.setup, state, self.options, self.drive)

    async def add_message(self, message: Message) -> Turn:
        """Return the turn with `message` at the end of its history, and tell of it."""
        state = self.state
        # a constructor, since this is the hot path and `replace` takes twice as long
        turn = self.with_state(
            AgentState(
                state.history().append(message),
                state.todos,
                state.metadata,
                state.interrupt,
                state.pause_reason,
                state.decisions,
                state.verdicts,
                state.runs_used,
                state.tokens_used,
                state.sub_agents,
                state.tool_failures,
                state.granted,
                state.rejected,
            )
        )
        if self.listening:
            await self.emit(MessageAdded(message))
        return turn

    async def replace_message(self, index: int, message: Message) -> Turn:
        """Return the turn with another message at `index`, and tell of it."""
        self.drive.forget(index)
        turn = self.with_state(self.state.replace_message(index, message))
        if self.listening:
            await self.emit(MessageReplaced(index, message))
        return turn

    async def put_results(self, results: Mapping[str, ToolResult]) -> Turn:
        """Return the turn whose last batch has these results, in call order."""
        batch = open_calls(self.state.messages)
        if batch is None:
            return self
        index, assistant, known = batch
        ordered = in_call_order(assistant, results)
        if index + 1 == len(self.state.messages):
            return await self.add_message(Message.tool(*ordered))
        if ordered == tuple(known.values()):
            return self
        return await self.replace_message(
            index + 1, replace(self.state.messages[index + 1], tool_results=ordered)
        )

    @property
    def listening(self) -> bool:
        """Whether anybody hears events, so that none is built for nobody."""
        return self.options.on_event is not None or bool(self.setup.hooks.on_event)

    async def emit(self, event: Event) -> None:
        """Tell middlewares and host, in this order.

        Raises:
            ObserverFailed: the host's observer raised; a middleware's is only logged.
        """
        for observe in self.setup.hooks.on_event:
            try:
                await settle(observe(event))
            except Exception:
                logger.exception("a middleware's on_event failed on %s", type(event).__name__)
        if self.options.on_event is not None:
            try:
                await settle(self.options.on_event(event))
            except Exception as error:
                raise ObserverFailed(
                    f"on_event failed on {type(event).__name__}: {error}"
                ) from error

    @property
    def cancelled(self) -> bool:
        """Whether the turn has been asked to stop for good."""
        asked = self.options.should_cancel
        return asked is not None and (
            bool(self.drive.cancel_signal and self.drive.cancel_signal.done()) or asked()
        )

    async def uninterrupted(self, work: Awaitable[T]) -> T:
        """Await `work`, giving it up when the turn is cancelled.

        Raises:
            CutOff: the turn was cancelled before `work` was done.
        """
        signal = self.drive.cancel_signal
        if signal is None:
            return await work
        task: asyncio.Future[T] = asyncio.ensure_future(work)
        try:
            await asyncio.wait((task, signal), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=CANCEL_GRACE)
        if not task.done() or (task.cancelled() and signal.done()):
            raise CutOff("cancelled while it was under way")
        return task.result()

    def context(self, call: ToolCall) -> ToolContext:
        """Return what a tool may know when it runs `call`."""
        conversation = self.options.conversation_id
        return ToolContext(
            state=self.state,
            call_id=call.call_id,
            idempotency_key=f"{conversation}:{call.call_id}" if conversation else call.call_id,
            agent_name=self.setup.name,
            conversation_id=conversation,
            scope=self.setup.scope,
            acting_user=self.options.acting_user,
            tool_context=self.setup.tool_context,
            emit=self.emit,
            delegate=functools.partial(_delegate, self, call),
        )


Step = Callable[[Turn], Awaitable[Turn | Outcome]]
Mode = Callable[[Turn], Awaitable[Outcome]]


async def undisturbed(work: Awaitable[T]) -> T:
    """Await `work` to its end, also where the task is cancelled meanwhile; then that is raised."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def being_cancelled() -> bool:
    """Whether somebody cancelled the running task, rather than that a tool raised the error."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def settle(value: Any) -> Any:
    """Return what a sync or async hook answered."""
    return await value if inspect.isawaitable(value) else value


async def call_hooks(turn: Turn, hooks: Sequence[Callable[..., Any]]) -> Turn | Interrupt:
    """Pass the state through `hooks`; an interrupt that one of them answers ends the row.

    Raises:
        HookFailed: a hook raised, or answered something else.
    """
    for hook in hooks:
        owner = type(getattr(hook, "__self__", hook)).__name__
        try:
            answer = await settle(hook(turn.state))
        except TurnError:
            raise
        except Exception as error:
            raise HookFailed(f"{owner}.{hook.__name__} failed: {error}") from error
        if isinstance(answer, Interrupt):
            return answer
        if not isinstance(answer, AgentState):
            raise HookFailed(
                f"{owner}.{hook.__name__} has to return an AgentState, got {answer!r:.200}"
            )
        turn = turn.with_state(answer)
    return turn


async def _delegate(
    turn: Turn, call: ToolCall, execute: Callable[..., Awaitable[T]], on_event: Any = None
) -> T:
    """Run another agent's `execute` or `resume`, with arguments bound, as a part of `call`."""
    options = turn.options
    return await execute(
        should_pause=options.should_pause,
        should_cancel=None if options.should_cancel is None else lambda: turn.cancelled,
        journal=options.journal,
        on_event=on_event,
        conversation_id=options.conversation_id,
        acting_user=options.acting_user,
        within=call.call_id,
    )


async def watch_cancel(should_cancel: Callable[[], bool], signal: asyncio.Future[None]) -> None:
    """Ask `should_cancel` until it says yes, then wake whatever the turn is waiting for."""
    while True:
        if should_cancel():
            signal.set_result(None)
            return
        await asyncio.sleep(CANCEL_POLL)


def last_batch_results(messages: Sequence[Message]) -> Iterable[ToolResult]:
    """Return the results of the tool message that ends the history, if one does."""
    return messages[-1].tool_results if messages and messages[-1].role == "tool" else ()
