"""Sub-agents: what they are made of, and how one runs as a part of its parent's tool call.

A sub-agent has a state of its own, kept inside the parent's under the id of the call. It stops with
the parent and for the same reasons: what it waits for is what the parent waits for, and the replies
are handed to it in place.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from sagents_app.engine.agent import Agent
from sagents_app.engine.chat_model import ChatModel
from sagents_app.engine.errors import Misconfigured, ObserverFailed, ToolError
from sagents_app.engine.events import CallFailed, Custom, Event, UsageReported
from sagents_app.engine.interrupts import (
    Halt,
    Interrupt,
    MultipleInterrupts,
    SubAgentInterrupt,
    leaves,
    open_call_ids,
)
from sagents_app.engine.messages import Message, ToolResult
from sagents_app.engine.middleware import Middleware
from sagents_app.engine.outcomes import Cancelled, Completed, Failed, Interrupted, Outcome, Paused
from sagents_app.engine.state import AgentState
from sagents_app.engine.tools import Tool, ToolContext, ToolOutput
from sagents_app.engine.turn import CutOff, Setup, Suspended

BOILERPLATE = """You carry out one bounded task for another agent. You do not speak with a user:
nobody reads what you say but that agent, and it reads only your final answer."""
MOST_NAME, MOST_DESCRIPTION, MOST_PROMPT = 100, 500, 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgent:
    """A kind of sub-agent: either `agent`, built already, or what one is built of.

    Raises:
        Misconfigured: a name, description, prompt or target that cannot work.
    """

    name: str
    """1 to 100 characters; what the model calls it by."""
    description: str
    """1 to 500 characters; when to use it."""
    agent: Agent | None = None
    system_prompt: str = ""
    """Up to 10,000 characters; follows the sub-agents' boilerplate."""
    tools: tuple[Tool, ...] = ()
    model: ChatModel | None = None
    """None: the parent's."""
    middlewares: tuple[Middleware, ...] = ()
    instructions: str = ""
    """How to use it; the parent's model gets them when it asks."""
    display_text: str = ""
    """What pages call its tasks; empty: the name."""
    initial_messages: tuple[Message, ...] = ()
    """Messages before each task."""
    until_tool: str | tuple[str, ...] | None = None
    until_tool_success: str | tuple[str, ...] | None = None
    max_runs: int | None = None
    """Model calls of a task, over its interrupts and pauses; None: the agent's own."""
    confidential: bool = field(default=False)
    """Whether nobody but the parent hears of its messages and tools."""

    def __post_init__(self) -> None:
        texts = (
            ("name", self.name, MOST_NAME),
            ("description", self.description, MOST_DESCRIPTION),
        )
        for key, text, most in texts:
            if not isinstance(text, str) or not 1 <= len(text) <= most:
                raise Misconfigured(f"sub-agent {self.name!r}: {key} is a text of 1 to {most}")
        for key, text in (
            ("system_prompt", self.system_prompt),
            ("instructions", self.instructions),
        ):
            if not isinstance(text, str) or len(text) > MOST_PROMPT:
                raise Misconfigured(f"sub-agent {self.name!r}: {key} is a text up to {MOST_PROMPT}")
        if self.agent is None and not self.system_prompt:
            raise Misconfigured(f"sub-agent {self.name!r} needs a system_prompt or an agent")
        if self.until_tool is not None and self.until_tool_success is not None:
            raise Misconfigured(f"sub-agent {self.name!r}: only one of the until_tool options")
        if not all(isinstance(message, Message) for message in self.initial_messages):
            raise Misconfigured(f"sub-agent {self.name!r}: initial_messages holds only messages")

    def build(self, parent: Setup) -> Agent:
        """Return the agent that does its tasks."""
        if self.agent is not None:
            return self.agent.with_run_sync(parent.run_sync)
        models = (self.model,) if self.model is not None else parent.models
        return _child(parent, self.name, models, self.system_prompt, self.tools, self.middlewares)


def general_purpose(parent: Setup, system_prompt: str) -> Agent:
    """Return an agent with the parent's model, tools and middlewares, for a task of any kind."""
    provided = {one.name for middleware in parent.middlewares for one in middleware.tools()}
    tools = tuple(one for name, one in parent.tools.items() if name not in provided)
    heirs = _heirs(parent, tools)
    return _child(parent, "general-purpose", parent.models, system_prompt, tools, heirs)


def _heirs(parent: Setup, tools: tuple[Tool, ...]) -> tuple[Middleware, ...]:
    names = {one.name: one for one in tools}
    for middleware in parent.middlewares:
        if middleware.inherited(names) is not None:
            names |= {one.name: one for one in middleware.tools()}
    inherited = (middleware.inherited(names) for middleware in parent.middlewares)
    return tuple(middleware for middleware in inherited if middleware is not None)


def _child(
    parent: Setup,
    name: str,
    models: tuple[ChatModel, ...],
    system_prompt: str,
    tools: tuple[Tool, ...],
    middlewares: tuple[Middleware, ...],
) -> Agent:
    return Agent(
        name=name,
        model=models[0],
        fallback_models=models[1:],
        system_prompt="\n\n".join(filter(None, (BOILERPLATE, system_prompt))),
        tools=tools,
        middlewares=middlewares,
        tool_context=parent.tool_context,
        scope=parent.scope,
        run_sync=parent.run_sync,
        max_tool_failures=parent.max_tool_failures,
        max_seconds=parent.max_seconds,
        max_tokens=parent.max_tokens,
    )


async def run_task(
    agent: Agent, kind: SubAgent, instructions: str, context: ToolContext, emit: Any = None
) -> ToolOutput:
    """Run a task, or go on with the one that the parent's state holds for this call.

    Raises:
        ToolError: the task failed; the text says how.
    """
    stored = context.state.sub_agents.get(context.call_id)
    targets = {"until_tool": kind.until_tool, "until_tool_success": kind.until_tool_success}
    options: dict[str, Any] = {**targets, "max_runs": kind.max_runs}
    if stored is None:
        state = AgentState((*kind.initial_messages, Message.user(instructions)))
        execute = functools.partial(agent.execute, state, **options)
    elif stored.interrupt is None:
        execute = functools.partial(agent.execute, stored, **options)
    else:
        wanted = open_call_ids(stored.interrupt)
        replies = {key: one for key, one in context.state.decisions.items() if key in wanted}
        execute = functools.partial(agent.resume, stored, replies, **options)
    if context.delegate is None:
        raise ToolError("a task runs only inside an agent's turn")
    path = (context.agent_name, kind.name)
    observe = functools.partial(_observe, emit, kind, path, context.call_id)
    return _answer(await context.delegate(execute, observe), kind, path, context.call_id)


def _answer(outcome: Outcome, kind: SubAgent, path: tuple[str, ...], call_id: str) -> ToolOutput:
    """Return how the parent's call goes on after the sub-agent stopped."""
    forget: Mapping[str, Any] = {"sub_agents": {call_id: None}}
    match outcome:
        case Completed(state=state, tool_result=result):
            return replace(_completed(state, result, kind), state=forget)
        case Interrupted(state=state, interrupt=interrupt):
            halts = [leaf for leaf in leaves(interrupt) if isinstance(leaf, Halt)]
            if halts:
                return ToolOutput(_parents_halt(halts, kind.name, call_id), state=forget)
            waits: Interrupt = SubAgentInterrupt(
                kind.name, path=_path(path, interrupt), inner=interrupt
            )
            return ToolOutput(waits, state={"sub_agents": {call_id: state}})
        case Paused(state=state, reason=reason):
            raise Suspended(reason=reason, state={"sub_agents": {call_id: state}})
        case Cancelled():
            raise CutOff("cancelled inside a task")
        case Failed(error=ObserverFailed() as error):
            raise error  # the host's journal or observer, which is the parent's too
        case Failed(error=error):
            raise ToolError(f"Task {kind.name!r} failed ({error.type}): {error}")
        case _:
            assert_never(outcome)


def _completed(state: AgentState, result: ToolResult | None, kind: SubAgent) -> ToolOutput:
    if result is not None:
        if result.is_error:
            raise ToolError(f"Task {kind.name!r} failed: {result.text}")
        return ToolOutput(result.content, processed=result)
    last = state.messages[-1]
    if last.status != "complete":
        raise ToolError(f"Task {kind.name!r} failed ({last.status}): its answer is cut off")
    return ToolOutput(last.text)


def _parents_halt(halts: list[Halt], task: str, call_id: str) -> Interrupt:
    """Return the halts as the parent's own, each with its message and the task it came from."""
    own = tuple(
        replace(halt, tool_call_id=call_id, source_task=halt.source_task or task) for halt in halts
    )
    return own[0] if len(own) == 1 else MultipleInterrupts(own)


def _path(path: tuple[str, ...], interrupt: Interrupt) -> tuple[str, ...]:
    inner = interrupt.path[1:] if isinstance(interrupt, SubAgentInterrupt) else ()
    return (*path, *inner)


async def _observe(
    emit: Any, kind: SubAgent, path: tuple[str, ...], call_id: str, event: Event
) -> None:
    """Pass on what a sub-agent spends, and, unless it is confidential, what it does."""
    if emit is None:
        return
    if isinstance(event, (UsageReported, CallFailed)):
        await emit(event)
    elif not kind.confidential:
        name = type(event).__name__
        await emit(Custom("sub_agent", {"path": list(path), "call_id": call_id, "event": name}))
