"""The journal of tool calls: what began, what finished, and what nobody knows.

A call is recorded before its tool starts and finished the moment that it returns, with its
transcript row and its events, in one transaction each. Whoever drives the conversation next reads
what is known from here and runs nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from django.utils import timezone

from sagents_app.engine import (
    AgentState,
    Approve,
    Edit,
    ToolCall,
    ToolResult,
    UnknownOutcome,
    canonical,
    serialize,
)
from sagents_app.engine.interrupts import ActionRequest
from sagents_app.engine.state import open_calls
from sagents_app.engine.tools import Tool, error_result, placeholder
from sagents_app.models import Conversation, DisplayMessage, Interrupt, Run, ToolExecution
from sagents_app.services import display
from sagents_app.services.ledger import Ledger

Tools = Mapping[str, Tool]
UNKNOWN = "A worker began this call and was lost; whether it took effect is not known."
NOT_RUN = "This call was not run: the turn ended before it."
LONGEST_TOLD = 2_000
OPEN = (
    DisplayMessage.Status.PENDING,
    DisplayMessage.Status.EXECUTING,
    DisplayMessage.Status.INTERRUPTED,
)


def begin_call(
    book: Ledger,
    run: Run,
    call: ToolCall,
    *,
    tools: Tools,
    again: frozenset[str],
    begun: set[str],
) -> ToolResult | None:
    """Record that a call starts; a returned result is what is known of it, and nothing runs.

    `again` are calls of unknown outcome that a person wants to be run again; `begun` are the calls
    that the journal has, and grows.
    """
    now, started = timezone.now(), ToolExecution.Status.STARTED
    if call.call_id in begun:
        execution = ToolExecution.objects.get(conversation=book.conversation, call_id=call.call_id)
        known = _known(execution, call, tools, again)
        if known is not None:
            return known
        execution.status, execution.attempts = started, execution.attempts + 1
        execution.run_id, execution.started_at = run.pk, now
        execution.arguments = call.arguments_json
        execution.save()
    else:
        ToolExecution.objects.create(
            conversation=book.conversation,
            run_id=run.pk,
            call_id=call.call_id,
            tool_name=call.name[:64],
            arguments=call.arguments_json,
            started_at=now,
        )
        begun.add(call.call_id)
    _progress(book, call.call_id, call.name, DisplayMessage.Status.EXECUTING)
    return None


def begun_calls(conversation: Conversation) -> set[str]:
    """Return the ids of all calls that the journal has."""
    found = ToolExecution.objects.filter(conversation=conversation)
    return set(found.values_list("call_id", flat=True))


def finish_call(book: Ledger, run: Run, call: ToolCall, result: ToolResult) -> None:
    """Record what became of a call, begun or not, with its row and its events."""
    stored, now = serialize.dump_result(result), timezone.now()
    executions = ToolExecution.objects.filter(conversation=book.conversation, call_id=call.call_id)
    finished = ToolExecution.Status.FINISHED
    if not executions.update(status=finished, result=stored, finished_at=now):
        ToolExecution.objects.create(
            conversation=book.conversation,
            run_id=run.pk,
            call_id=call.call_id,
            tool_name=call.name[:64],
            arguments=call.arguments_json,
            status=finished,
            result=stored,
            started_at=now,
            finished_at=now,
        )
    elif result.decision in (Approve.type, Edit.type):
        executed = executions.values_list("arguments", flat=True).get()
        Interrupt.objects.filter(
            conversation=book.conversation,
            tool_call_id=call.call_id,
            status__in=(Interrupt.Status.APPROVED, Interrupt.Status.EDITED),
        ).update(executed_arguments=executed)
    settle_row(book, result)


def settle_row(book: Ledger, result: ToolResult, *, cancelled: bool = False) -> None:
    """Bring a call's transcript row to where its result says, with a row for the result.

    A call without a row of its own, such as one inside a sub-agent, is only told of.
    """
    status = display.status_of(result)
    if cancelled and status == DisplayMessage.Status.FAILED:
        status = DisplayMessage.Status.CANCELLED
    row = _progress(book, result.tool_call_id, result.name, status, result)
    if row is not None and not result.is_interrupt:
        book.show(display.result_row(result))


def settle_rows(book: Ledger, results: Iterable[ToolResult], *, cancelled: bool = False) -> None:
    """Settle those calls of which the journal did not tell: declined, answered, cut off."""
    final = {result.tool_call_id: result for result in results if not result.is_interrupt}
    for call_id, row in book.rows_of_calls(final).items():
        if row.status in OPEN:
            settle_row(book, final[call_id], cancelled=cancelled)


def close_rows(book: Ledger) -> None:
    """Close the rows of calls that will never be run: the turn is over without them."""
    rows = DisplayMessage.objects.filter(
        conversation=book.conversation,
        content_type=DisplayMessage.Kind.TOOL_CALL,
        status__in=OPEN,
    )
    for row in rows:
        name = row.content.get("name", "")
        _progress(book, row.tool_call_id, name, DisplayMessage.Status.CANCELLED)


def answer_open_calls(book: Ledger, state: AgentState) -> AgentState:
    """Return the state whose open calls are answered with what the journal knows of them.

    For a turn that was cut off and is not gone on with.
    """
    assistant, results = _last_batch(state)
    missing = [call for call in assistant if call.call_id not in results]
    if not missing:
        return state
    known = executions_of(book.conversation, missing)
    answers = {call.call_id: _answer(call, known.get(call.call_id)) for call in missing}
    closed = state.put_results({**results, **answers})
    settle_rows(book, answers.values(), cancelled=True)
    return AgentState(closed.messages, closed.todos, closed.metadata)


def ask_about_lost_calls(conversation: Conversation, state: AgentState, tools: Tools) -> AgentState:
    """Return the state in which approved calls of unknown outcome wait for a person.

    The approval was for one execution: a call that began under it and was lost is not run again on
    the strength of it.
    """
    assistant, results = _last_batch(state)
    decided = [
        call
        for call in assistant
        if call.call_id in state.decisions and call.call_id not in results
    ]
    lost = {
        call_id: execution
        for call_id, execution in executions_of(conversation, decided).items()
        if execution.status == ToolExecution.Status.STARTED and not _is_safe(execution, tools)
    }
    if not lost:
        return state
    waiting = {
        call.call_id: _unknown(call, lost[call.call_id].arguments, tools)
        for call in decided
        if call.call_id in lost
    }
    left = {key: value for key, value in state.decisions.items() if key not in lost}
    return replace(state.put_results({**results, **waiting}), decisions=left)


def run_again(conversation: Conversation, state: AgentState) -> tuple[AgentState, frozenset[str]]:
    """Return the accepted state, and its calls of unknown outcome that are to be run again.

    They run with the arguments with which they were begun, which a reviewer may have edited.
    """
    assistant, results = _last_batch(state)
    again = [
        call
        for call in assistant
        if isinstance(state.decisions.get(call.call_id), Approve)
        and (known := results.get(call.call_id)) is not None
        and isinstance(known.interrupt, UnknownOutcome)
    ]
    if not again:
        return state, frozenset()
    begun = executions_of(conversation, again)
    ids = frozenset(call.call_id for call in again)
    edited = {
        call.call_id: Edit(canonical.parse(begun[call.call_id].arguments))
        for call in again
        if call.call_id in begun and begun[call.call_id].arguments != call.arguments_json
    }
    left = {call_id: result for call_id, result in results.items() if call_id not in ids}
    decisions = {**state.decisions, **edited}
    return replace(state.put_results(left), decisions=decisions), ids


def executions_of(
    conversation: Conversation, calls: Iterable[ToolCall]
) -> dict[str, ToolExecution]:
    """Return the journal's records of calls, by call id."""
    ids = [call.call_id for call in calls]
    if not ids:
        return {}
    found = ToolExecution.objects.filter(conversation=conversation, call_id__in=ids)
    return {execution.call_id: execution for execution in found}


def _last_batch(state: AgentState) -> tuple[tuple[ToolCall, ...], dict[str, ToolResult]]:
    batch = open_calls(state.messages)
    return ((), {}) if batch is None else (batch[1].tool_calls, batch[2])


def _known(
    execution: ToolExecution, call: ToolCall, tools: Tools, again: frozenset[str]
) -> ToolResult | None:
    if execution.status == ToolExecution.Status.FINISHED:
        result = serialize.load_result(execution.result)
        return None if result.is_interrupt and call.call_id in again else result
    if call.call_id in again or _is_safe(execution, tools):
        return None
    return _unknown(call, execution.arguments, tools)


def _is_safe(execution: ToolExecution, tools: Tools) -> bool:
    tool = tools.get(execution.tool_name)
    return tool is not None and (tool.retry_safe or tool.read_only)


def _unknown(call: ToolCall, arguments: str, tools: Tools) -> ToolResult:
    tool = tools.get(call.name)
    label = tool.display_text if tool is not None else call.name
    request = ActionRequest(call.call_id, call.name, arguments, label)
    return placeholder(call, UnknownOutcome(request, known=UNKNOWN))


def _answer(call: ToolCall, execution: ToolExecution | None) -> ToolResult:
    if execution is None:
        return error_result(call, NOT_RUN)
    if execution.status == ToolExecution.Status.FINISHED:
        return serialize.load_result(execution.result)
    return error_result(call, UNKNOWN)


def _progress(
    book: Ledger, call_id: str, name: str, status: str, result: ToolResult | None = None
) -> DisplayMessage | None:
    """Tell how far a call is, and change its row if it has one."""
    payload: dict[str, Any] = {"call_id": call_id, "name": name, "status": str(status)}
    told = {} if result is None else {"result": result.text[:LONGEST_TOLD]}
    row = book.row_of_call(call_id)
    if row is not None:
        payload["display_text"] = row.content.get("display_text", name)
    book.event("tool_execution_update", payload | told)
    if row is not None:
        book.update_row(row, status=status, metadata={**row.metadata, **told})
    return row
