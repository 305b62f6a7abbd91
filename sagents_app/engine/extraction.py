"""Answers out of outcomes: a demanded tool's value, its arguments, the final text.

`extract` runs an agent for the sake of one structured value; the readers take the outcome of any
turn, or a state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sagents_app.engine.agent import Agent
from sagents_app.engine.errors import InvalidArguments, Misconfigured, NoAnswer
from sagents_app.engine.messages import Message, ToolCall, ToolResult
from sagents_app.engine.outcomes import Cancelled, Completed, Failed, Interrupted, Outcome, Paused
from sagents_app.engine.state import AgentState
from sagents_app.engine.tools import Tool


async def extract(
    agent: Agent,
    state: AgentState,
    *,
    until_tool: str | Iterable[str] | None = None,
    until_tool_success: str | Iterable[str] | None = None,
    max_runs: int = 5,
    **options: Any,
) -> Any:
    """Run a turn until a demanded tool was called, and return what was asked for with it.

    That is the tool's `processed` value, else its typed arguments as a mapping (as they were sent,
    where they do not fit the tool's schema). `options` are those of `Agent.execute`.

    Raises:
        Misconfigured: not exactly one of `until_tool` and `until_tool_success`.
        TurnError: the turn failed, with its own error.
        NoAnswer: the turn was interrupted, paused or cancelled; `type` says which.
    """
    if until_tool is None and until_tool_success is None:
        raise Misconfigured("extract needs until_tool or until_tool_success")
    outcome = await agent.execute(
        state,
        until_tool=until_tool,
        until_tool_success=until_tool_success,
        max_runs=max_runs,
        **options,
    )
    result = tool_result(outcome)
    if result.processed_content is not None:
        return result.processed_content
    return tool_arguments(outcome, agent.tools)


def tool_result(source: Outcome | AgentState, name: str | None = None) -> ToolResult:
    """Return the demanded tool's result, else the newest that is no placeholder (of tool `name`).

    Raises:
        TurnError: the turn failed, with its own error.
        NoAnswer: there is none, or the turn did not complete.
    """
    state = _completed(source)
    demanded = source.tool_result if isinstance(source, Completed) else None
    if demanded is not None and name in (None, demanded.name):
        return demanded
    for message in reversed(state.messages):
        for result in reversed(message.tool_results):
            if not result.is_interrupt and name in (None, result.name):
                return result
    raise NoAnswer("no tool has a result", type="no_tool_result", outcome=source)


def tool_arguments(
    source: Outcome | AgentState, tools: Mapping[str, Tool] | None = None
) -> dict[str, Any]:
    """Return the arguments of the demanded tool's call, else of the last call that was made.

    With the agent's `tools` they are typed, by parameter name; without, or where they do not fit
    the schema, they are JSON values as the model sent them.

    Raises:
        TurnError: the turn failed, with its own error.
        NoAnswer: no tool was called, or the turn did not complete.
    """
    state = _completed(source)
    demanded = source.tool_result if isinstance(source, Completed) else None
    call = _last_call(state.messages, None if demanded is None else demanded.tool_call_id)
    if call is None:
        raise NoAnswer("no tool was called", type="no_tool_arguments", outcome=source)
    tool = (tools or {}).get(call.name)
    try:
        return call.arguments if tool is None or call.problem is not None else tool.validate(call)
    except InvalidArguments:
        return call.arguments


def processed(source: Outcome | AgentState, name: str | None = None) -> Any:
    """Return the native value that a tool attached to the result, None where it attached none.

    Raises:
        TurnError: the turn failed, with its own error.
        NoAnswer: no tool has a result, or the turn did not complete.
    """
    return tool_result(source, name).processed_content


def final_text(source: Outcome | AgentState) -> str:
    """Return the text of the answer that ends the turn; empty where it holds no text.

    Raises:
        TurnError: the turn failed, with its own error.
        NoAnswer: the history ends in no answer, or in one that was cut off.
    """
    state = _completed(source)
    last = state.messages[-1] if state.messages else None
    if last is None or last.role != "assistant" or last.tool_calls:
        raise NoAnswer("the history ends in no answer", type="no_text", outcome=source)
    if last.status != "complete":
        text = f"the answer is incomplete ({last.status})"
        raise NoAnswer(text, type="no_text", outcome=source)
    return last.text


def _completed(source: Outcome | AgentState) -> AgentState:
    """Return the state of a turn that completed, or raise what says why it did not."""
    match source:
        case AgentState():
            return source
        case Completed(state=state):
            return state
        case Failed(error=error):
            raise error
        case Interrupted(interrupt=interrupt):
            text = f"the turn waits for a person ({interrupt.type})"
            raise NoAnswer(text, type="interrupted", outcome=source)
        case Paused(reason=reason):
            text = f"the turn was paused ({reason!r})"
            raise NoAnswer(text, type="paused", outcome=source)
        case Cancelled():
            raise NoAnswer("the turn was cancelled", type="cancelled", outcome=source)
        case _:
            raise Misconfigured(f"expected an outcome or a state, got {source!r:.200}")


def _last_call(messages: Iterable[Message], call_id: str | None) -> ToolCall | None:
    for message in reversed(tuple(messages)):
        for call in reversed(message.tool_calls):
            if call_id in (None, call.call_id):
                return call
    return None
