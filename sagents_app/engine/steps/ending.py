"""Steps that decide whether a turn goes on: pause, budgets, demanded tool, another round."""

from __future__ import annotations

import time
from dataclasses import replace

from sagents_app.engine.errors import (
    BudgetExceeded,
    FailureLimitExceeded,
    Misconfigured,
    UntilToolNotCalled,
)
from sagents_app.engine.messages import Message
from sagents_app.engine.outcomes import Completed, Failed, Outcome, Paused
from sagents_app.engine.state import AgentState, open_calls
from sagents_app.engine.turn import Step, Turn, last_batch_results

ANSWERED_BY_PERSON = ("reject", "respond", "cancel")


async def check_pause(turn: Turn) -> Turn | Outcome:
    """Pause where the host asks for it, unless the last reply ends the turn anyway."""
    if turn.options.should_pause is None:
        return turn
    reason = turn.options.should_pause()
    if reason is False or (turn.state.messages and not needs_response(turn.state)):
        return turn
    cause = None if reason is True or reason is None else reason
    return Paused(replace(turn.state, pause_reason=cause), cause)


def check_max_runs(limit: int | None = None) -> Step:
    """Return a step that fails a turn which needs a call beyond `limit` (None: the turn's own).

    The calls up to the limit are really usable, and the tools of the last one run. Also holds the
    limits of tokens, seconds and failing batches that the agent was given.

    Raises:
        Misconfigured: the limit is not a number above 0.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise Misconfigured(f"max_runs is a number above 0, got {limit!r}")

    async def check_budget(turn: Turn) -> Turn | Outcome:
        error = over_budget(turn, limit)
        return turn if error is None else Failed(ended(turn.state), error)

    return check_budget


def over_budget(
    turn: Turn, limit: int | None = None
) -> BudgetExceeded | FailureLimitExceeded | None:
    """Return the error of a turn that may not call the model once more, None where it may."""
    setup, state = turn.setup, turn.state
    most = turn.options.max_runs if limit is None else limit
    if state.runs_used >= most:
        text = f"Max number of automated turns reached ({state.runs_used}/{most}) without an end."
        return BudgetExceeded(text, limit=most, used=state.runs_used)
    if setup.max_tokens is not None and state.tokens_used >= setup.max_tokens:
        text = f"the turn's tokens are used up ({state.tokens_used}/{setup.max_tokens})"
        return BudgetExceeded(text, limit=setup.max_tokens, used=state.tokens_used, budget="tokens")
    if (
        setup.max_seconds is not None
        and (spent := time.monotonic() - turn.drive.started) >= setup.max_seconds
    ):
        text = f"the turn's time is used up ({spent:.1f}/{setup.max_seconds} s)"
        return BudgetExceeded(text, limit=setup.max_seconds, used=spent, budget="seconds")
    failures = turn.drive.failures
    if setup.max_tool_failures is not None and failures >= setup.max_tool_failures:
        return FailureLimitExceeded(
            f"{failures} tool batches in a row brought only errors", failures=failures
        )
    return None


async def check_until_tool(turn: Turn) -> Turn | Outcome:
    """End the turn once a demanded tool has its own result; a person's word does not count."""
    if not turn.options.until_tool:
        return turn
    for result in last_batch_results(turn.state.messages):
        wanted = (
            result.name in turn.options.until_tool and result.decision not in ANSWERED_BY_PERSON
        )
        if (
            wanted
            and not result.is_interrupt
            and not (turn.options.require_tool_success and result.is_error)
        ):
            return Completed(ended(turn.state), result)
    return turn


async def continue_or_done(turn: Turn) -> Turn | Outcome:
    """Go another round where the model has something to answer; otherwise complete the turn."""
    if needs_response(turn.state):
        return turn
    names = turn.options.until_tool
    if names:
        error = UntilToolNotCalled(
            f"the model stopped without calling {' or '.join(names)}", names=names
        )
        return Failed(ended(turn.state), error)
    return Completed(ended(turn.state))


def needs_response(state: AgentState) -> bool:
    """Whether the history waits: for calls to run, or for results or words to be answered."""
    last = state.messages[-1]
    batch = open_calls(state.messages)
    if batch is not None:
        return batch[1].status == "complete"
    return last.role != "assistant"


def ended(state: AgentState) -> AgentState:
    """Return the state between two turns: nothing is counted, decided or waited for."""
    return AgentState(state.messages, state.todos, state.metadata)


def last_reply(turn: Turn) -> Message | None:
    """Return the assistant message that ends the history, or whose results do."""
    batch = open_calls(turn.state.messages)
    if batch is not None:
        return batch[1]
    last = turn.state.messages[-1] if turn.state.messages else None
    return last if last is not None and last.role == "assistant" else None
