"""The step that runs a batch of tool calls: each at most once, results always in call order."""

from __future__ import annotations

import asyncio
import difflib
import functools
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from sagents_app.engine import canonical
from sagents_app.engine.decisions import Answer, Approve, Cancel, Decision, Edit, Reject, Respond
from sagents_app.engine.errors import InvalidArguments, ObserverFailed, ToolError
from sagents_app.engine.events import ToolFinished, ToolStarted
from sagents_app.engine.interrupts import (
    ActionRequest,
    ReviewConfig,
    UnknownOutcome,
    open_call_ids,
)
from sagents_app.engine.messages import TextPart, ToolCall, ToolResult
from sagents_app.engine.outcomes import Cancelled, Outcome, Paused
from sagents_app.engine.state import AgentState, open_calls
from sagents_app.engine.steps.approval import ask_about_open_calls, ask_gates, stop_for_approval
from sagents_app.engine.steps.ending import ANSWERED_BY_PERSON, ended
from sagents_app.engine.steps.results import propagate_state
from sagents_app.engine.tools import Tool, error_result, placeholder, result_of
from sagents_app.engine.turn import (
    CutOff,
    Suspended,
    Turn,
    being_cancelled,
    settle,
    undisturbed,
)

Stop = CutOff | Suspended
logger = logging.getLogger(__name__)
DECLINED = "A person declined this call. Do not repeat it."
EDITED = "A person changed the arguments before the call ran, to {arguments}."
REPEATED = (
    "A person declined an identical call, {call_id}, before. "
    "It was not run and nobody was asked again; do not repeat it."
)
UNDECIDED = "This call needs a person's approval, which it does not have; it was not run."
CANCELLED_BEFORE = "The turn was cancelled before this call was run."
FAILED_BEFORE = "The turn failed before this call was run."
CUT_OFF = "The turn was cancelled while this call ran; whether it took effect is not known."
BROKEN_OFF = "The turn ended while this call ran; whether it took effect is not known."
TIMED_OUT = "The tool did not finish within {timeout:g} s."


async def execute_tools(turn: Turn) -> Turn | Outcome:
    """Run the calls of the last batch that have no result; all results are one tool message.

    Whatever the mode, no gated call runs without an accepted decision or a stored verdict that it
    is free. A tool's exception becomes an error result; a call that cannot run is answered with the
    reason.
    """
    batch = open_calls(turn.state.messages)
    if batch is None or batch[1].status != "complete":
        return turn
    _, assistant, known = batch
    waiting = [call for call in assistant.tool_calls if call.call_id not in known]
    if not waiting:
        return turn
    undecided: dict[ToolCall, ReviewConfig] = {}
    if turn.setup.early_start:
        turn, undecided = await ask_about_open_calls(turn)
        waiting = [call for call in waiting if call not in undecided]
    results = dict(known)
    try:
        stops = await _run(turn, waiting, results)
    except BaseException as error:
        cause = CANCELLED_BEFORE if isinstance(error, asyncio.CancelledError) else FAILED_BEFORE
        _answer_rest(waiting, results, cause)
        turn.with_state(turn.state.put_results(results))
        raise
    cut_off = any(isinstance(stop, CutOff) for stop in stops)
    if cut_off:
        _answer_rest(waiting, results, CANCELLED_BEFORE)
    turn = await _settled(turn, assistant.tool_calls, results)
    if cut_off:
        settled = await propagate_state(turn)
        return Cancelled(ended(settled.state))
    suspended = [stop for stop in stops if isinstance(stop, Suspended)]
    if suspended:
        return _paused(turn, suspended)
    return stop_for_approval(turn, undecided) if undecided else turn


def _paused(turn: Turn, suspended: list[Suspended]) -> Paused:
    state = turn.state
    for stop in suspended:
        state = state.merge(stop.state)
    return Paused(replace(state, pause_reason=suspended[0].reason), suspended[0].reason)


async def _settled(turn: Turn, calls: tuple[ToolCall, ...], results: dict[str, ToolResult]) -> Turn:
    """Append the results, forget what was decided about them, count a batch of only errors.

    A call that waits has been let past its gate, and is when it is run again. What was rejected is
    remembered for the rest of the turn.
    """
    state, whole = turn.state, len(results) == len(calls)
    if state.decisions or state.verdicts:
        waiting = {key: one.interrupt for key, one in results.items() if one.is_interrupt}
        open_ones = {key: value for key, value in state.verdicts.items() if key not in results}
        verdicts = {**open_ones, **dict.fromkeys(waiting, False)} if waiting else open_ones
        held = {key for one in waiting.values() if one is not None for key in open_call_ids(one)}
        decisions = {
            key: reply
            for key, reply in state.decisions.items()
            if key not in results and (key in held or not whole)
        }
        rejected = {**_rejected(state, calls, results), **state.rejected}
        turn = turn.with_state(
            replace(state, decisions=decisions, verdicts=verdicts, rejected=rejected)
        )
    failures = _failures(turn, results.values()) if whole else turn.state.tool_failures
    if failures != turn.state.tool_failures:
        turn = turn.with_state(replace(turn.state, tool_failures=failures))
    return await turn.put_results(results) if results else turn


def _rejected(
    state: AgentState, calls: tuple[ToolCall, ...], results: dict[str, ToolResult]
) -> dict[str, str]:
    """Return the ids of the calls of this batch that a person rejected, by fingerprint."""
    return {
        call.fingerprint: call.call_id
        for call in reversed(calls)
        if call.call_id in results and isinstance(state.decisions.get(call.call_id), Reject)
    }


def _failures(turn: Turn, results: Iterable[ToolResult]) -> int:
    """Return how many batches in a row failed; what people answered themselves does not count."""
    own = [result for result in results if result.decision not in ANSWERED_BY_PERSON]
    if not own:
        return turn.state.tool_failures
    return turn.state.tool_failures + 1 if all(result.is_error for result in own) else 0


def _answer_rest(calls: Iterable[ToolCall], results: dict[str, ToolResult], text: str) -> None:
    for call in calls:
        results.setdefault(call.call_id, error_result(call, text))


async def _run(
    turn: Turn, calls: list[ToolCall], results: dict[str, ToolResult]
) -> list[Stop | None]:
    """Fill `results`; return for each call what stopped the turn at it, if anything did."""
    if len(calls) == 1:
        return [await _run_into(turn, calls[0], results)]
    together = [call for call in calls if _is_parallel(turn, call)]
    alone = [call for call in calls if not _is_parallel(turn, call)]
    tasks = [asyncio.create_task(_run_into(turn, call, results)) for call in together]
    try:
        stops = [await _run_into(turn, call, results) for call in alone]
        return [*stops, *await asyncio.gather(*tasks)]
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _is_parallel(turn: Turn, call: ToolCall) -> bool:
    tool = turn.setup.tools.get(call.name)
    return tool is not None and tool.parallel


async def _run_into(turn: Turn, call: ToolCall, results: dict[str, ToolResult]) -> Stop | None:
    """Settle one call; return what stopped the turn at it, if anything did."""
    reply = turn.state.decisions.get(call.call_id)
    refused = await _refused(turn, call, reply)
    if refused is not None:
        results[call.call_id] = refused
        await _finish(turn, call, refused)
        return None
    if turn.cancelled:
        return CutOff("cancelled before it began")
    tool = turn.setup.tools[call.name]
    effective = (
        replace(call, arguments_json=reply.arguments_json) if isinstance(reply, Edit) else call
    )
    stored = await _begin(turn, effective)
    if stored is not None and not _has_its_replies(turn, stored):
        results[call.call_id] = stored
        return None
    if turn.listening:
        await turn.emit(ToolStarted(effective))
    try:
        result = await _call(turn, tool, effective)
    except Suspended as suspended:
        return suspended
    except CutOff as cut_off:
        results[call.call_id] = error_result(call, CUT_OFF)
        if turn.listening:
            await turn.emit(ToolFinished(call, results[call.call_id]))
        return cut_off
    except (asyncio.CancelledError, ObserverFailed):
        results[call.call_id] = error_result(call, BROKEN_OFF)
        raise
    results[call.call_id] = _told(result, reply)
    await _finish(turn, effective, results[call.call_id])
    return None


def _has_its_replies(turn: Turn, stored: ToolResult) -> bool:
    """Whether a stored placeholder is answered, so that the call goes on, or is run again."""
    return stored.interrupt is not None and all(
        call_id in turn.state.decisions for call_id in open_call_ids(stored.interrupt)
    )


async def _begin(turn: Turn, call: ToolCall) -> ToolResult | None:
    if turn.options.journal is None:
        return None
    try:
        return await turn.options.journal.begin(call)
    except Exception as error:
        raise ObserverFailed(
            f"the journal could not record the start of call {call.call_id!r}: {error}"
        ) from error


async def _finish(turn: Turn, call: ToolCall, result: ToolResult) -> None:
    if turn.options.journal is not None:
        try:
            await undisturbed(turn.options.journal.finish(call, result))
        except Exception as error:
            text = f"the journal could not record the result of call {call.call_id!r}: {error}"
            raise ObserverFailed(text) from error
    if turn.listening:
        await turn.emit(ToolFinished(call, result))


async def _call(turn: Turn, tool: Tool, call: ToolCall) -> ToolResult:
    """Run the tool's function within its time limit; whatever it raises becomes the result."""
    arguments = tool.validate(call)
    if tool.signature.context_name is not None:
        arguments[tool.signature.context_name] = turn.context(call)
    try:
        work = tool.function(**arguments) if tool.is_async else _in_thread(turn, tool, arguments)
        if tool.timeout is None:
            returned = await turn.uninterrupted(work)
        else:
            async with asyncio.timeout(tool.timeout) as limit:
                returned = await turn.uninterrupted(work)
    except TimeoutError as error:
        if tool.timeout is not None and limit.expired():
            return _timed_out(turn, tool, call)
        return error_result(call, _clean(error))
    except (CutOff, Suspended, ObserverFailed):
        raise
    except asyncio.CancelledError as error:
        if being_cancelled():
            raise
        return error_result(call, _clean(error))
    except ToolError as error:
        return error_result(call, canonical.to_text(error))
    except (Exception, SystemExit) as error:  # a tool that calls `sys.exit` ends no worker
        logger.exception("tool %r failed on call %s", tool.name, call.call_id)
        return error_result(call, _clean(error))
    return result_of(call, returned)


async def _in_thread(turn: Turn, tool: Tool, arguments: dict[str, Any]) -> Any:
    """Return what a sync tool returns, also where it only made a coroutine."""
    function = functools.partial(_contained, tool.function)
    return await settle(await turn.setup.run_sync(function, **arguments))


def _contained(function: Callable[..., Any], /, **arguments: Any) -> Any:
    """Call a sync tool; no future can carry `StopIteration`, so that it would never be done."""
    try:
        return function(**arguments)
    except StopIteration as error:
        raise RuntimeError("the tool raised StopIteration") from error


def _clean(error: BaseException) -> str:
    """Return an exception as the model may read it: its class and words, never a traceback."""
    words = canonical.to_text(error).strip()
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _timed_out(turn: Turn, tool: Tool, call: ToolCall) -> ToolResult:
    """Return the result of a call that ran out of time: an error if harmless, else a question."""
    text = TIMED_OUT.format(timeout=tool.timeout)
    if tool.read_only or tool.retry_safe:
        return error_result(call, text)
    request = ActionRequest(call.call_id, call.name, call.arguments_json, tool.display_text)
    return placeholder(
        call, UnknownOutcome(request, known=f"{text} Whether it took effect is not known.")
    )


async def _refused(turn: Turn, call: ToolCall, reply: Decision | None) -> ToolResult | None:
    """Return the answer to a call that does not run, None for one that does."""
    match reply:
        case Reject():
            note = f"{DECLINED} Their note: {reply.note}" if reply.note else DECLINED
            return error_result(call, note, decision="reject")
        case Respond():
            parts = result_of(call, reply.text).content
            return ToolResult(call.call_id, call.name, parts, decision="respond")
        case Cancel() | Answer():
            return error_result(call, DECLINED, decision="cancel")
        case _:
            answer = await _cannot_run(turn, call, reply)
            if answer is None or reply is None:
                return answer
            return replace(answer, decision=reply.type)


async def _cannot_run(
    turn: Turn, call: ToolCall, reply: Approve | Edit | None
) -> ToolResult | None:
    tool = turn.setup.tools.get(call.name)
    if tool is None:
        return error_result(call, _no_such_tool(call.name, turn.setup.tools))
    if call.problem is not None and not isinstance(reply, Edit):
        return error_result(
            call, f"{call.problem}. The call was not run; send it again with a JSON object."
        )
    effective = (
        replace(call, arguments_json=reply.arguments_json, problem=None)
        if isinstance(reply, Edit)
        else call
    )
    try:
        tool.validate(effective)
    except InvalidArguments as error:
        return error_result(call, f"The arguments do not fit; the call was not run.\n{error}")
    return None if reply is not None or await _is_free(turn, call) else _undecided(turn, call)


def _undecided(turn: Turn, call: ToolCall) -> ToolResult:
    """Return the answer to a gated call without a decision, which refers to an earlier one."""
    first = turn.state.rejected.get(call.fingerprint)
    if first is None:
        return error_result(call, UNDECIDED)
    return error_result(call, REPEATED.format(call_id=first), decision="repeated")


async def _is_free(turn: Turn, call: ToolCall) -> bool:
    """Whether no gate wants a decision about the call: by its stored verdict, else by asking."""
    if not turn.setup.hooks.needs_approval:
        return True
    asked = turn.state.verdicts.get(call.call_id)
    return await ask_gates(turn, call) is None if asked is None else not asked


def _no_such_tool(name: str, tools: Iterable[str]) -> str:
    names = tuple(tools)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"Tool {name!r} not found.{hint} Available are: {', '.join(names) or 'none'}."


def _told(result: ToolResult, reply: Decision | None) -> ToolResult:
    """Return the result with what the model has to know about the decision behind it."""
    if not isinstance(reply, Edit):
        return replace(result, decision=reply.type) if reply is not None else result
    told = EDITED.format(arguments=reply.arguments_json) + (
        f" Their note: {reply.note}" if reply.note else ""
    )
    note, expansion = TextPart(told), result.expansion
    if expansion is not None and expansion.result_content is not None:
        expansion = replace(expansion, result_content=(note, *expansion.result_content))
    content = (note, *result.content)
    return replace(result, content=content, expansion=expansion, decision="edit")
