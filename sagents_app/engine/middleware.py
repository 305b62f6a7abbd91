"""The interface of a middleware: every hook is optional. Implementations are in `middlewares/`."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from sagents_app.engine import decisions
from sagents_app.engine.decisions import Decision
from sagents_app.engine.events import Event
from sagents_app.engine.interrupts import Interrupt, ReviewConfig
from sagents_app.engine.messages import Message, ToolCall, ToolResult
from sagents_app.engine.state import AgentState
from sagents_app.engine.tools import Tool, ToolContext

Resumed = ToolResult | AgentState | Interrupt | None
Reply = Decision | Mapping[str, Decision]
Verdict = ReviewConfig | bool | None
Gate = Callable[[ToolCall, ToolContext], Any]


class Middleware:
    """A capability added to an agent. Hooks marked so may be sync or async.

    A hook of the turn that raises ends the turn as `Failed`; an observer (`on_event`) that raises
    is logged.
    """

    early_start = False
    """Whether free and approved calls run while a sibling still waits for its decision."""

    @property
    def key(self) -> str:
        """Where its own state is kept in `metadata`, and its address for messages from outside."""
        return type(self).__name__

    def system_prompt(self) -> str | Iterable[str]:
        """Return what is added to the system prompt; several texts are joined by a blank line."""
        return ""

    def tools(self) -> Iterable[Tool]:
        """Return the tools that come with the capability, in order."""
        return ()

    def check(self, tools: Mapping[str, Tool]) -> None:
        """Check the configuration against the agent's tools, by name.

        Raises:
            Misconfigured: naming tool and key.
        """

    def attach(self, setup: Any) -> None:
        """Learn what the whole agent is made of (a `turn.Setup`), once it is."""

    def inherited(self, tools: Mapping[str, Tool]) -> Middleware | None:
        """Return what a sub-agent with `tools` inherits in this one's place; None: nothing."""
        return self

    def before_turn(self, state: AgentState) -> AgentState | Awaitable[AgentState]:
        """Return the state to begin a turn with (sync or async, in stack order)."""
        return state

    def before_model(self, state: AgentState) -> AgentState | Awaitable[AgentState]:
        """Return the state for the next model call (sync or async, in stack order)."""
        return state

    def after_model(
        self, state: AgentState
    ) -> AgentState | Interrupt | Awaitable[AgentState | Interrupt]:
        """Return the state after a reply, or an interrupt (sync or async, reverse order)."""
        return state

    def needs_approval(self, call: ToolCall) -> Verdict | Awaitable[Verdict]:
        """Return the rule under which a valid call waits for a decision; None or False: none.

        Sync or async, and asked once a call; raising, or answering anything else, means "ask". A
        gate that needs more than the call takes the call's `ToolContext` as a second argument.
        """
        return None

    def restorable_interrupt(self, interrupt: Interrupt) -> bool:
        """Whether this middleware takes care of `interrupt` after a restart."""
        return False

    def check_reply(self, interrupt: Interrupt, reply: Decision) -> None:
        """Check a reply to an interrupt of this middleware's; pure.

        Raises:
            InvalidResume: naming what was expected.
        """
        decisions.check_reply(interrupt, reply)

    def setup_inside(self, interrupt: Interrupt) -> Any:
        """Return the `turn.Setup` of the agent inside an interrupt of this middleware's, if any."""
        return None

    def agent_named(self, name: str) -> Any:
        """Return the agent of that name that this middleware hands work to, if any."""
        return None

    def handle_resume(
        self, interrupt: Interrupt, reply: Reply, state: AgentState
    ) -> Resumed | Awaitable[Resumed]:
        """Settle an interrupt of this middleware's (sync or async).

        `reply` is the decision, or, for an interrupt with members, decisions by call id. Answers
        the result of the call that raised it (or, where no call did, the state to go on with), an
        interrupt to go on waiting for, or None: not mine.
        """
        return None

    def on_event(self, event: Event) -> Awaitable[None] | None:
        """Observe (sync or async); what it raises is logged and goes no further."""
        return None

    def transform_display_message(self, message: Message) -> Message | Awaitable[Message]:
        """Return the message as the transcript should show it; the state keeps the original.

        Sync or async, in stack order; one that fails is logged and passed over.
        """
        return message

    def handle_message(self, payload: Any, state: AgentState) -> AgentState | Awaitable[AgentState]:
        """Return the state after a message from outside for `key` (sync or async).

        One that fails is logged, and the state stays as it was.
        """
        return state


def overrides(middleware: Middleware, hook: str) -> bool:
    """Whether the middleware has its own version of `hook`, so that nobody calls the empty one."""
    return getattr(type(middleware), hook) is not getattr(Middleware, hook)


def gate_of(middleware: Middleware) -> Gate:
    """Return the middleware's `needs_approval` as a function of call and context."""
    hook: Callable[..., Any] = middleware.needs_approval
    if len(inspect.signature(hook).parameters) > 1:
        return hook
    return lambda call, _: hook(call)
