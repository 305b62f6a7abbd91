"""The step that holds a turn to its budgets, and what happens where one is used up."""

from __future__ import annotations

import time

from sagents_app.engine.errors import BudgetExceeded, FailureLimitExceeded, Misconfigured
from sagents_app.engine.interrupts import BudgetRequest
from sagents_app.engine.outcomes import Failed, Interrupted, Outcome
from sagents_app.engine.steps.ending import ended, needs_response
from sagents_app.engine.steps.results import stop_for
from sagents_app.engine.turn import Step, Turn

GRANTABLE = ("runs", "tokens")


def check_max_runs(limit: int | None = None) -> Step:
    """Return a step that stops a turn which needs a call beyond `limit` (None: the turn's own).

    The calls up to the limit are really usable, and the tools of the last one run. Also holds the
    limits of tokens, seconds and failing batches that the agent was given.

    Raises:
        Misconfigured: the limit is not a number above 0.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise Misconfigured(f"max_runs is a number above 0, got {limit!r}")

    async def check_budget(turn: Turn) -> Turn | Outcome:
        error = over_budget(turn, limit)
        return turn if error is None or not needs_response(turn.state) else refused(turn, error)

    return check_budget


def over_budget(
    turn: Turn, limit: int | None = None
) -> BudgetExceeded | FailureLimitExceeded | None:
    """Return the error of a turn that may not call the model once more, None where it may."""
    setup, state = turn.setup, turn.state
    most = turn.options.max_runs if limit is None else limit
    if state.granted:
        most += state.granted.get("runs", 0)
    if state.runs_used >= most:
        text = f"Max number of automated turns reached ({state.runs_used}/{most}) without an end."
        return BudgetExceeded(text, limit=most, used=state.runs_used)
    if setup.max_tokens is not None:
        most = setup.max_tokens + state.granted.get("tokens", 0)
        if state.tokens_used >= most:
            text = f"the turn's tokens are used up ({state.tokens_used}/{most})"
            return BudgetExceeded(text, limit=most, used=state.tokens_used, budget="tokens")
    if (
        setup.max_seconds is not None
        and (spent := time.monotonic() - turn.drive.started) >= setup.max_seconds
    ):
        text = f"the turn's time is used up ({spent:.1f}/{setup.max_seconds} s)"
        return BudgetExceeded(text, limit=setup.max_seconds, used=spent, budget="seconds")
    failures = state.tool_failures
    if setup.max_tool_failures is not None and failures >= setup.max_tool_failures:
        return FailureLimitExceeded(
            f"{failures} tool batches in a row brought only errors", failures=failures
        )
    return None


def refused(turn: Turn, error: BudgetExceeded | FailureLimitExceeded) -> Failed | Interrupted:
    """Fail a turn that is over its budget, or ask a person for more where the agent does.

    A sub-agent never asks: its task fails, and the parent's model decides what to do about it.
    """
    asks = turn.setup.ask_when_over_budget and turn.options.within is None
    if asks and isinstance(error, BudgetExceeded) and error.budget in GRANTABLE:
        limit, used = int(error.limit), int(error.used)
        return stop_for(turn, BudgetRequest(limit, used=used, budget=error.budget))
    return Failed(ended(turn.state), error)
