"""Going on after an interrupt: first every reply is checked, only then does anything happen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from sagents_app.engine.decisions import (
    Approve,
    Cancel,
    Decision,
    Edit,
    Reject,
    Respond,
    check_reply,
)
from sagents_app.engine.errors import (
    BudgetExceeded,
    HookFailed,
    InvalidArguments,
    InvalidResume,
    TurnError,
)
from sagents_app.engine.interrupts import (
    ApprovalRequest,
    BudgetRequest,
    Interrupt,
    SubAgentInterrupt,
    UnknownInterrupt,
    UnknownOutcome,
    has_halt,
    leaves,
    open_call_ids,
)
from sagents_app.engine.messages import TextPart, ToolCall, ToolResult
from sagents_app.engine.middleware import Middleware, overrides
from sagents_app.engine.outcomes import Failed, Outcome
from sagents_app.engine.state import AgentState, claims, open_calls
from sagents_app.engine.steps.ending import ended
from sagents_app.engine.steps.results import stop_for
from sagents_app.engine.tools import error_result, placeholder
from sagents_app.engine.turn import Setup, Turn, last_batch_results, settle

T = TypeVar("T")
NOT_DONE = "A person looked into it: this call was not carried out."
PUT_ASIDE = "The person did not want to answer. Do not ask again; wait for instructions."


def check_replies(setup: Setup, state: AgentState, replies: Mapping[str, Decision]) -> None:
    """Check that `replies` name every open call id, nothing else, and that each fits; pure.

    Where the agent starts early, some of the open approvals are enough.

    Raises:
        InvalidResume: saying what is open and what was expected.
    """
    interrupt = state.interrupt
    if interrupt is None:
        raise InvalidResume("nothing is open: the state waits for no reply")
    if has_halt(interrupt):
        raise InvalidResume(
            "the workflow was halted: a halt can be dismissed or followed by a new message"
        )
    wanted = open_call_ids(interrupt)
    if not isinstance(replies, Mapping):
        raise InvalidResume(f"replies are a mapping from call id to decision, got {replies!r:.200}")
    unknown = [repr(call_id) for call_id in replies if call_id not in wanted]
    missing = [repr(call_id) for call_id in wanted if call_id not in replies]
    if missing and replies and setup.early_start and _only_approvals(interrupt):
        missing = []
    if unknown or missing:
        parts = [f"not open: {', '.join(unknown)}"] if unknown else []
        parts += [f"without a reply: {', '.join(missing)}"] if missing else []
        raise InvalidResume(f"{'; '.join(parts)} (open are {', '.join(map(repr, wanted))})")
    _check(setup, interrupt, replies)


def _check(setup: Setup, interrupt: Interrupt, replies: Mapping[str, Decision]) -> None:
    """Check each reply with the tools and middlewares of the agent that waits for it."""
    if not interrupt.members:
        for call_id in open_call_ids(interrupt):
            if call_id in replies:
                _check_one(setup, interrupt, call_id, replies[call_id])
        return
    inner = setup
    if isinstance(interrupt, SubAgentInterrupt):
        owner = _owner(setup, interrupt)
        inner = (owner.setup_inside(interrupt) if owner is not None else None) or setup
    for member in interrupt.members:
        _check(inner, member, replies)


def _only_approvals(interrupt: Interrupt) -> bool:
    return all(isinstance(leaf, ApprovalRequest) for leaf in leaves(interrupt))


def accept(state: AgentState, replies: Mapping[str, Decision]) -> AgentState:
    """Return the state with the checked replies in it, waiting no more.

    An interrupt that no call raised stays beside its replies: it stands nowhere else, and it is
    settled when the turn goes on.
    """
    asked = state.interrupt
    own = asked if asked is not None and raised_by_no_call(asked) else None
    decisions = {**state.decisions, **replies}
    return replace(state, interrupt=own, pause_reason=None, decisions=decisions)


def is_accepted(state: AgentState) -> bool:
    """Whether the interrupt on the state has its replies, so that the turn may go on."""
    return state.interrupt is not None and all(
        call_id in state.decisions for call_id in open_call_ids(state.interrupt)
    )


async def settle_interrupts(turn: Turn) -> Turn | Outcome:
    """Give the accepted replies to whoever raised the last batch's interrupts."""
    results = {result.tool_call_id: result for result in last_batch_results(turn.state.messages)}
    waiting = [
        result
        for result in results.values()
        if result.is_interrupt and result.interrupt is not None
    ]
    for result in waiting:
        interrupt = result.interrupt
        if interrupt is None or not all(
            call_id in turn.state.decisions for call_id in open_call_ids(interrupt)
        ):
            continue
        call = _call_of(turn, result)
        replies = {call_id: turn.state.decisions[call_id] for call_id in open_call_ids(interrupt)}
        settled = await _settle_one(turn, call, interrupt, replies)
        keep = {} if settled is None else {call.call_id: settled}
        results = {
            call_id: known for call_id, known in results.items() if call_id != call.call_id
        } | keep
        turn = await turn.put_results(results)
        if settled is not None:
            turn = _forget(turn, replies)
    return turn


def _forget(turn: Turn, replies: Mapping[str, Decision]) -> Turn:
    left = {
        call_id: reply for call_id, reply in turn.state.decisions.items() if call_id not in replies
    }
    return turn.with_state(replace(turn.state, decisions=left))


def _call_of(turn: Turn, result: ToolResult) -> ToolCall:
    batch = open_calls(turn.state.messages)
    calls = batch[1].tool_calls if batch else ()
    return next(call for call in calls if call.call_id == result.tool_call_id)


async def _settle_one(
    turn: Turn, call: ToolCall, interrupt: Interrupt, replies: Mapping[str, Decision]
) -> ToolResult | None:
    """Return the call's result, or None: it is to be run again."""
    reply = next(iter(replies.values()))
    if isinstance(interrupt, SubAgentInterrupt):
        return None  # the call goes on where it stopped, with the replies that the state holds
    if isinstance(interrupt, UnknownOutcome):
        match reply:
            case Approve():
                return None
            case Respond(text=text):
                return ToolResult(call.call_id, call.name, (TextPart(text),), decision="respond")
            case _:
                note = (
                    f" Their note: {reply.note}" if isinstance(reply, Reject) and reply.note else ""
                )
                return error_result(call, NOT_DONE + note, decision="reject")
    answer = await _ask_owner(turn, interrupt, replies, ToolResult)
    if isinstance(answer, Interrupt):
        return placeholder(call, answer)
    return answer or error_result(call, PUT_ASIDE, decision="cancel")


async def settle_own(turn: Turn, interrupt: Interrupt) -> Turn | Outcome:
    """Give the reply to an interrupt that no call raised to the middleware that did."""
    replies = {call_id: turn.state.decisions[call_id] for call_id in open_call_ids(interrupt)}
    if isinstance(interrupt, BudgetRequest):
        return _settle_budget(_forget(turn, replies), interrupt, next(iter(replies.values())))
    answer = await _ask_owner(turn, interrupt, replies, AgentState)
    if isinstance(answer, Interrupt):
        return stop_for(turn, answer)
    return _forget(turn if answer is None else turn.with_state(answer), replies)


def _settle_budget(turn: Turn, request: BudgetRequest, reply: Decision) -> Turn | Outcome:
    """Grant as much again, or up to the edited limit; otherwise the turn fails after all."""
    granted = turn.state.granted.get(request.budget, 0)
    match reply:
        case Approve():
            more = request.limit - granted
        case Edit():
            more = int(reply.arguments["limit"]) - request.limit
        case _:
            note = f": {reply.note}" if isinstance(reply, Reject) and reply.note else ""
            text = f"A person granted no more {request.budget} ({request.used}/{request.limit})"
            error = BudgetExceeded(
                text + note, limit=request.limit, used=request.used, budget=request.budget
            )
            return Failed(ended(turn.state), error)
    grants = {**turn.state.granted, request.budget: granted + more}
    return turn.with_state(replace(turn.state, granted=grants))


async def _ask_owner(
    turn: Turn, interrupt: Interrupt, replies: Mapping[str, Decision], wanted: type[T]
) -> T | Interrupt | None:
    """Return what the first middleware that takes the interrupt makes of the replies."""
    reply = replies if interrupt.members else next(iter(replies.values()))
    for middleware in turn.setup.middlewares:
        if not overrides(middleware, "handle_resume"):
            continue
        name = f"{type(middleware).__name__}.handle_resume"
        try:
            answer = await settle(middleware.handle_resume(interrupt, reply, turn.state))
        except TurnError:
            raise
        except Exception as error:
            raise HookFailed(f"{name} failed: {error}") from error
        if answer is None:
            continue
        if isinstance(answer, (Interrupt, wanted)):
            return answer
        raise HookFailed(f"{name} has to return {wanted.__name__}, got {answer!r:.200}")
    return None


def raised_by_no_call(interrupt: Interrupt) -> bool:
    """Whether a hook raised it, so that no call waits for its result."""
    return (
        not interrupt.members
        and not isinstance(interrupt, ApprovalRequest)
        and interrupt.tool_call_id is None
    )


def _check_one(setup: Setup, leaf: Interrupt, call_id: str, reply: Decision) -> None:
    check_reply(leaf, reply, call_id=call_id)
    if isinstance(leaf, ApprovalRequest):
        if isinstance(reply, Edit):
            _check_edit(setup, leaf, call_id, reply)
        return
    if isinstance(leaf, (BudgetRequest, UnknownOutcome, UnknownInterrupt)):
        return
    owner = _owner(setup, leaf)
    if owner is None:
        if not isinstance(reply, Cancel):
            raise InvalidResume(
                f"No middleware handled the resume: none of the agent's claims {leaf.type!r}"
            )
        return
    owner.check_reply(leaf, reply)


def _owner(setup: Setup, leaf: Interrupt) -> Middleware | None:
    return next((one for one in setup.middlewares if claims(one, leaf)), None)


def _check_edit(setup: Setup, leaf: ApprovalRequest, call_id: str, reply: Edit) -> None:
    name = next(
        request.tool_name for request in leaf.action_requests if request.tool_call_id == call_id
    )
    tool = setup.tools.get(name)
    if tool is None:
        raise InvalidResume(f"tool {name!r} is gone, so the call can only be rejected")
    try:
        tool.validate(ToolCall(call_id, name, arguments_json=reply.arguments_json))
    except InvalidArguments as error:
        raise InvalidResume(f"the edited arguments of {name!r} do not fit: {error}") from error
