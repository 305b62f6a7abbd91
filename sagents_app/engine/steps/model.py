"""The step that calls the model: a sendable history out, a reply with usable call ids in."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace

from sagents_app.engine.chat_model import ChatModel, ModelRequest
from sagents_app.engine.deltas import Accumulator, AttemptFailed, Delta, ReplyDelta, ToolCallDelta
from sagents_app.engine.errors import ModelError, ModelsExhausted, ProtocolError, TurnError
from sagents_app.engine.events import (
    CallFailed,
    Deltas,
    ReplyRestarted,
    ToolCallSeen,
    UsageReported,
)
from sagents_app.engine.history import History
from sagents_app.engine.interrupts import Interrupt
from sagents_app.engine.messages import (
    PARTS,
    USABLE_CALL_ID,
    Message,
    StreamFailure,
    ToolCall,
    ToolResult,
    fresh_id,
)
from sagents_app.engine.outcomes import Cancelled, Failed, Outcome
from sagents_app.engine.state import AgentState, open_calls
from sagents_app.engine.steps.budget import over_budget, refused
from sagents_app.engine.steps.ending import ended
from sagents_app.engine.steps.results import stop_for
from sagents_app.engine.tools import error_result
from sagents_app.engine.turn import CutOff, Turn, call_hooks, settle

logger = logging.getLogger(__name__)
LONGEST_CALL_ID = 64
UNANSWERED = "This call was never run: the turn ended before it."
CUT_SHORT = "The reply was cut off ({status}) before this call was complete; it was not run."
HOOK_FAILED = "The turn failed before this call was run."
CANCELLED_CALL = "The turn was cancelled before this call was run."


async def call_model(turn: Turn) -> Turn | Outcome:
    """Call the model once and append its reply; refuses a call beyond the budget.

    What is sent is repaired without touching the history: a call without a result gets one that
    states the cause, right behind its message. A reply that was cut off has its calls answered,
    never run.
    """
    error = over_budget(turn)
    if error is not None:
        return refused(turn, error)
    if turn.setup.hooks.before_model:
        prepared = await call_hooks(turn, turn.setup.hooks.before_model)
        if isinstance(prepared, Interrupt):
            return stop_for(turn, prepared)
        turn = prepared
    request = ModelRequest(
        turn.setup.system_prompt, sendable(turn), tuple(turn.setup.tools.values())
    )
    folded = Accumulator()
    try:
        model = await _stream(turn, request, folded)
    except CutOff:
        return await _cancelled(turn, folded)
    except ModelError as failure:
        return await _died(turn, folded, failure)
    return await _replied(turn, model, folded.message())


async def _replied(turn: Turn, model: ChatModel, reply: Message) -> Turn | Outcome:
    if reply.usage is not None and turn.listening:
        await turn.emit(UsageReported(reply.usage, model.name))
    turn = await _append(turn, reply)
    reply = turn.state.messages[-1]
    if reply.status != "complete" and reply.tool_calls:
        turn = await _answer(turn, reply, CUT_SHORT.format(status=reply.status))
    return await _after_model(turn) if turn.setup.hooks.after_model else turn


async def _after_model(turn: Turn) -> Turn | Outcome:
    """Pass the reply through the hooks; where one fails, no later turn may run its calls."""
    try:
        after = await call_hooks(turn, turn.setup.hooks.after_model)
    except TurnError:
        turn = turn.with_state(turn.drive.state)
        batch = open_calls(turn.state.messages)
        if batch is not None and not batch[2]:
            await _answer(turn, batch[1], HOOK_FAILED)
        raise
    return stop_for(turn, after) if isinstance(after, Interrupt) else after


async def _stream(turn: Turn, request: ModelRequest, folded: Accumulator) -> ChatModel:
    """Fold the reply of the first model that answers; deltas of a failed one are void."""
    attempts: list[tuple[str, ModelError]] = []
    for model in turn.setup.models:
        if attempts:
            await _restart(turn, folded)
            if turn.setup.before_fallback is not None:
                await settle(turn.setup.before_fallback(model, request))
        try:
            await _stream_one(turn, model, request, folded)
        except ModelError as error:
            attempts.append((model.name, error))
            await turn.emit(CallFailed(model.name, error))
        else:
            return model
    last = attempts[-1][1]
    if len(attempts) == 1:
        raise last
    raise ModelsExhausted(tuple(attempts)) from last


async def _stream_one(
    turn: Turn, model: ChatModel, request: ModelRequest, folded: Accumulator
) -> None:
    stream = model.stream(request)
    async with aclosing(stream) as batches:
        try:
            while True:
                if turn.cancelled:
                    raise CutOff("cancelled between deltas")
                try:
                    batch = await turn.uninterrupted(anext(batches))
                except StopAsyncIteration:
                    break
                await _fold(turn, model, batch, folded)
        except (ModelError, CutOff):
            raise
        except TurnError:
            raise
        except Exception as error:
            raise ProtocolError(
                f"the model's stream failed: {str(error) or type(error).__name__}"
            ) from error
    if folded.reply is None and folded.finish is None:
        raise ProtocolError("the reply ended without saying that it was finished")


async def _fold(turn: Turn, model: ChatModel, batch: Iterable[Delta], folded: Accumulator) -> None:
    shown: list[Delta] = []
    for delta in batch:
        if isinstance(delta, AttemptFailed):
            await turn.emit(CallFailed(model.name, delta.error))
            await _restart(turn, folded)
            shown.clear()
            continue
        if turn.listening and isinstance(delta, ToolCallDelta) and folded.begins_call(delta):
            await turn.emit(ToolCallSeen(delta.name, delta.index, delta.call_id))
        folded.add(delta)
        if not isinstance(delta, ReplyDelta):
            shown.append(delta)
    if shown and turn.listening:
        await turn.emit(Deltas(tuple(shown)))


async def _restart(turn: Turn, folded: Accumulator) -> None:
    shown = not folded.is_empty
    folded.reset()
    if shown:
        await turn.emit(ReplyRestarted())


async def _cancelled(turn: Turn, folded: Accumulator) -> Outcome:
    partial = folded.message(cancelled=True)
    if partial.content or partial.tool_calls:
        turn = await _append(turn, partial)
        if turn.state.messages[-1].tool_calls:
            turn = await _answer(turn, turn.state.messages[-1], CANCELLED_CALL)
    return Cancelled(ended(turn.state))


async def _died(turn: Turn, folded: Accumulator, error: ModelError) -> Outcome:
    """Fail, keeping what had been streamed as a message marked `stream_error`."""
    partial = folded.message(failure=StreamFailure(error.type, str(error)))
    if partial.content or partial.tool_calls:
        turn = await _append(turn, partial)
        if partial.tool_calls:
            turn = await _answer(
                turn, turn.state.messages[-1], CUT_SHORT.format(status="stream_error")
            )
    return Failed(ended(turn.state), error)


async def _append(turn: Turn, reply: Message) -> Turn:
    """Append a reply whose call ids are unique in the conversation, and count it."""
    used = _used_ids(turn)
    within = turn.options.within
    calls = tuple(_with_unique_id(call, used, within) for call in reply.tool_calls)
    if calls != reply.tool_calls or not _is_usable(reply):
        content = tuple(part for part in reply.content if isinstance(part, PARTS))
        reply = replace(
            reply,
            role="assistant",
            content=content,
            tool_calls=calls,
            tool_results=(),
            id=reply.id or fresh_id(),
        )
    state = turn.state
    tokens = state.tokens_used + (reply.usage.total_tokens if reply.usage else 0)
    counted = AgentState(
        state.messages,
        state.todos,
        state.metadata,
        None,
        None,
        state.decisions,
        state.verdicts,
        state.runs_used + 1,
        tokens,
        state.sub_agents,
        state.tool_failures,
        state.granted,
        state.rejected,
    )
    return await turn.with_state(counted).add_message(reply)


def _is_usable(reply: Message) -> bool:
    """Whether a reply is an assistant message with nothing in it that does not belong there."""
    return (
        reply.role == "assistant"
        and bool(reply.id)
        and not reply.tool_results
        and all(isinstance(part, PARTS) for part in reply.content)
    )


async def _answer(turn: Turn, reply: Message, text: str) -> Turn:
    return await turn.put_results(
        {call.call_id: error_result(call, text) for call in reply.tool_calls}
    )


def _used_ids(turn: Turn) -> set[str]:
    """Return the call ids of the conversation, collected once a drive."""
    drive = turn.drive
    if drive.used_ids is None:
        drive.used_ids = {
            call.call_id for message in turn.state.messages for call in message.tool_calls
        }
    return drive.used_ids


def _with_unique_id(call: ToolCall, used: set[str], within: str | None) -> ToolCall:
    call_id = call.call_id if isinstance(call.call_id, str) else ""
    if within is not None:
        return _prefixed(call, call_id, used, within)
    if USABLE_CALL_ID.fullmatch(call_id) and call_id not in used:
        used.add(call_id)
        return call
    fresh = f"call_{fresh_id()}"
    used.add(fresh)
    return replace(call, call_id=fresh, provider_id=call.provider_id or call_id or None)


def _prefixed(call: ToolCall, call_id: str, used: set[str], within: str) -> ToolCall:
    """Return a sub-agent's call under an id that the parent's call begins, or a hash of it."""
    inner = f"{within}-{call_id}"
    if len(inner) > LONGEST_CALL_ID:
        inner = f"{hashlib.sha256(within.encode()).hexdigest()[:16]}-{call_id}"
    if not USABLE_CALL_ID.fullmatch(inner) or not call_id or inner in used:
        inner = f"{hashlib.sha256(within.encode()).hexdigest()[:16]}-{fresh_id()}"
    used.add(inner)
    return replace(call, call_id=inner, provider_id=call.provider_id or call_id or None)


def sendable(turn: Turn) -> Sequence[Message]:
    """Return the history as it may be sent: each call with one result, right behind it.

    Incremental: each message is checked once a drive, and a history without faults is returned as
    it is.
    """
    drive, messages = turn.drive, turn.state.messages
    total = len(messages)
    index = drive.seen
    while index < total:
        index = _check(turn, messages, index)
    drive.seen = total
    return drive.wire if drive.patches else messages


def _check(turn: Turn, messages: Sequence[Message], index: int) -> int:
    """Check the message at `index`, and the results behind it; return the index to go on from."""
    message = messages[index]
    if message.role == "assistant" and message.tool_calls:
        behind = index + 1
        found: dict[str, ToolResult] = {}
        while behind < len(messages) and messages[behind].role == "tool":
            for result in messages[behind].tool_results:
                found.setdefault(result.tool_call_id, result)
            behind += 1
        _check_batch(turn, message, found, messages[index + 1 : behind], index)
        return behind
    if message.role == "tool":
        _patch(turn, messages, index)  # results without their calls: no provider takes them
    elif turn.drive.patches:
        turn.drive.wire = turn.drive.wire.append(message)
    return index + 1


def _check_batch(
    turn: Turn,
    message: Message,
    found: dict[str, ToolResult],
    behind: Sequence[Message],
    index: int,
) -> None:
    ids = [call.call_id for call in message.tool_calls]
    if len(behind) == 1 and [result.tool_call_id for result in behind[0].tool_results] == ids:
        if turn.drive.patches:
            turn.drive.wire = turn.drive.wire.append(message, *behind)
        return
    messages = turn.state.messages
    _patch(turn, messages, index)
    if missing := [call_id for call_id in ids if call_id not in found]:
        found |= _further_on(messages, index + 1 + len(behind), missing)
    results = [
        found.get(call.call_id) or error_result(call, UNANSWERED) for call in message.tool_calls
    ]
    turn.drive.wire = turn.drive.wire.append(message, Message.tool(*results))


def _further_on(
    messages: Sequence[Message], start: int, call_ids: Iterable[str]
) -> dict[str, ToolResult]:
    """Return results that stand behind other messages, up to where their call's id is used again.

    Such a call did run, and to say that it did not would be a lie.
    """
    wanted = set(call_ids)
    found: dict[str, ToolResult] = {}
    for index in range(start, len(messages)):
        message = messages[index]
        wanted.difference_update(call.call_id for call in message.tool_calls)
        for result in message.tool_results:
            if result.tool_call_id in wanted:
                found.setdefault(result.tool_call_id, result)
    return found


def _patch(turn: Turn, messages: Sequence[Message], index: int) -> None:
    """Begin, with the first fault at `index`, to keep a repaired copy beside the history."""
    if not turn.drive.patches:
        turn.drive.wire = History(messages[:index])
    turn.drive.patches += 1
