"""The step that asks before anything runs."""

from __future__ import annotations

import logging
from dataclasses import replace

from sagents_app.engine.errors import InvalidArguments
from sagents_app.engine.interrupts import (
    ActionRequest,
    ApprovalRequest,
    MultipleInterrupts,
    ReviewConfig,
)
from sagents_app.engine.messages import ToolCall
from sagents_app.engine.outcomes import Interrupted, Outcome
from sagents_app.engine.state import open_calls
from sagents_app.engine.steps.results import stop_for
from sagents_app.engine.turn import Turn, last_batch_results, settle

logger = logging.getLogger(__name__)


async def check_approval(turn: Turn) -> Turn | Outcome:
    """Stop for the calls of the last batch that need a decision and have none.

    Comes before the tools, so that nothing of the batch has run when a person looks at it; with
    `early_start` the turn goes on as long as a call of the batch may run. Each call's gate is asked
    once; the verdict is kept in the state until the call has its result.
    """
    if not turn.setup.hooks.needs_approval:
        return turn
    turn, waiting = await ask_about_open_calls(turn)
    if not waiting:
        return turn
    if turn.setup.early_start and len(waiting) < len(_open_calls(turn)):
        return turn
    return stop_for_approval(turn, waiting)


def stop_for_approval(turn: Turn, undecided: dict[ToolCall, ReviewConfig]) -> Interrupted:
    """Stop for the approvals that are open, and for what calls that ran early wait for."""
    raised = [result.interrupt for result in last_batch_results(turn.state.messages)]
    waiting = (
        *(interrupt for interrupt in raised if interrupt is not None),
        approval_request(turn, undecided),
    )
    return stop_for(turn, waiting[0] if len(waiting) == 1 else MultipleInterrupts(waiting))


async def ask_about_open_calls(turn: Turn) -> tuple[Turn, dict[ToolCall, ReviewConfig]]:
    """Return the turn with every open call's verdict, and the calls that wait, with their rules.

    A call whose like was rejected in this turn does not wait, unless its rule says so.
    """
    verdicts = dict(turn.state.verdicts)
    waiting: dict[ToolCall, ReviewConfig] = {}
    for call in _open_calls(turn):
        if call.call_id in turn.state.decisions or verdicts.get(call.call_id) is False:
            continue
        config = await ask_gates(turn, call)
        verdicts[call.call_id] = config is not None
        if config is not None and not _repeated(turn, call, config):
            waiting[call] = config
    if verdicts != turn.state.verdicts:
        turn = turn.with_state(replace(turn.state, verdicts=verdicts))
    return turn, waiting


def approval_request(turn: Turn, waiting: dict[ToolCall, ReviewConfig]) -> ApprovalRequest:
    """Return the interrupt that shows the waiting calls to a reviewer."""
    configs: dict[str, ReviewConfig] = {}
    for call, config in waiting.items():
        known = configs.get(call.name, config)
        configs[call.name] = config if known == config else known.narrowed(config)
    return ApprovalRequest(
        action_requests=tuple(_action_request(turn, call) for call in waiting),
        review_configs=configs,
    )


async def ask_gates(turn: Turn, call: ToolCall) -> ReviewConfig | None:
    """Return the rule of the first gate that asks about a runnable call.

    A gate that raises, or answers something else than a rule, None or False, asks.
    """
    tool = turn.setup.tools.get(call.name)
    if tool is None or call.problem is not None:
        return None
    try:
        tool.validate(call)
    except InvalidArguments:
        return None
    for gate in turn.setup.hooks.needs_approval:
        try:
            config = await settle(gate(call, turn.context(call)))
        except Exception:
            logger.exception("the gate of tool %r failed, so a person is asked", call.name)
            return ReviewConfig()
        if config is not None and config is not False:
            return config if isinstance(config, ReviewConfig) else ReviewConfig()
    return None


def _repeated(turn: Turn, call: ToolCall, config: ReviewConfig) -> bool:
    return config.repeat_after_reject == "refuse" and call.fingerprint in turn.state.rejected


def _open_calls(turn: Turn) -> tuple[ToolCall, ...]:
    batch = open_calls(turn.state.messages)
    if batch is None or batch[1].status != "complete":
        return ()
    _, assistant, results = batch
    return tuple(call for call in assistant.tool_calls if call.call_id not in results)


def _action_request(turn: Turn, call: ToolCall) -> ActionRequest:
    label = turn.setup.tools[call.name].display_text
    return ActionRequest(call.call_id, call.name, call.arguments_json, label)
