"""The demonstration's model: a script that reacts to a person's words, with no key and no network.

It is a function of the history alone, so it keeps its place over an approval, a restart and a
second turn. It never pretends to be more than it is.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from decimal import Decimal
from typing import Any

from sagents_app.engine import FunctionModel, ModelRequest, ToolResult
from sagents_app.engine.deltas import Delta, FinishDelta, TextDelta, ToolCallDelta

TYPING_PAUSE = 0.03
"""Seconds between two words, so that a reader can see the answer stream."""

HELLO = """Hello! I am the **scripted demo model** of this shop: a few rules, no AI. Set \
`SAGENTS_MODEL` to talk to a real one.

Here is what you can try:

- "Where is order **1002**?": I look it up, freely.
- "Please refund order **1001**": I ask, and a *reviewer* has to approve it.
- "Delete order **1003**": the same, and nobody can edit that one.
- "My card was charged twice for order **1004**": I have to stop there.
"""

Call = tuple[str, dict[str, Any]]
Plan = str | tuple[str, list[Call]]
"""What to do next: a text to say, or words before tool calls, each a name and its arguments."""


def demo_model(*, typing_pause: float = TYPING_PAUSE) -> FunctionModel:
    """Return the demonstration's model."""

    async def answer(request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        for delta in _spoken(plan(request)):
            yield (delta,)
            await asyncio.sleep(typing_pause)
        yield (FinishDelta(),)

    return FunctionModel(answer, name="scripted demo")


def plan(request: ModelRequest) -> Plan:
    """Return what the script does next, by the last message and the person's last words."""
    words = next((m.text for m in reversed(request.messages) if m.role == "user"), "")
    last = request.messages[-1]
    if last.role == "tool":
        return _after(last.tool_results, words)
    return _begin(words)


def _begin(words: str) -> Plan:
    numbers = list(dict.fromkeys(re.findall(r"\b\d{3,6}\b", words)))
    if not numbers:
        return HELLO
    calls: list[dict[str, Any]] = [{"number": number} for number in numbers]
    named = " and ".join(numbers)
    if _says(words, "charge", "twice", "dispute", "bank", "fraud"):
        return "Let me check that payment first.", [("check_dispute", calls[0])]
    if _says(words, "delete", "erase", "remove"):
        text = f"Deleting order {named} is final, so a colleague has to look at it first."
        return text, [("delete_order", call) for call in calls]
    return f"Let me look up order {named}.", [("look_up_order", call) for call in calls]


def _after(results: Sequence[ToolResult], words: str) -> Plan:
    orders = [
        json.loads(result.text)
        for result in results
        if result.name == "look_up_order" and not result.is_error
    ]
    open_orders = [order for order in orders if _left(order) > 0]
    if open_orders and _says(words, "refund", "money back", "return", "broken"):
        items = " and ".join(order["item"] for order in open_orders)
        text = f"I can refund the {items}, but a colleague has to approve it. One moment."
        return text, [("refund", _refund(order, words)) for order in open_orders]
    told = [_told(result) for result in results if result.name != "look_up_order"]
    told += [f"That did not work: {r.text}" for r in results if r.is_error and not told]
    if orders:
        told.append(_table(orders))
    return "\n\n".join(told)


def _told(result: ToolResult) -> str:
    if result.decision == "reject":
        return f"A colleague looked at it and declined.\n\n> {_note(result)}\n\nI did not do it."
    if result.is_error:
        return f"That did not work: {result.text}"
    if result.decision == "edit":
        return f"{_last_line(result)} A colleague changed my request before it was carried out."
    return f"{_last_line(result)} Is there anything else?"


def _table(orders: list[dict[str, Any]]) -> str:
    rows = [f"| {o['number']} | {o['item']} | {o['total']} € | {o['status']} |" for o in orders]
    lines = ["| Order | Item | Total | Status |", "|---|---|---|---|", *rows]
    done = [order["number"] for order in orders if _left(order) <= 0]
    if len(done) == len(orders):
        end = f"Order {' and '.join(done)} has been refunded already."
    else:
        end = "Tell me if you want a refund."
    return "\n".join(["Here it is:", "", *lines, "", end])


def _left(order: dict[str, Any]) -> Decimal:
    return Decimal(order["total"]) - Decimal(order["refunded"])


def _refund(order: dict[str, Any], words: str) -> dict[str, Any]:
    return {"number": order["number"], "amount": str(_left(order)), "reason": words[:200]}


def _spoken(planned: Plan) -> Iterator[Delta]:
    """Yield a plan the way that a provider streams it: word by word, arguments in fragments."""
    text, calls = (planned, []) if isinstance(planned, str) else planned
    yield from (TextDelta(word) for word in re.findall(r"\S+\s*|\s+", text))
    for index, (name, arguments) in enumerate(calls):
        yield ToolCallDelta(index=index, name=name)
        for fragment in re.findall(r".{1,24}", json.dumps(arguments), re.DOTALL):
            yield ToolCallDelta(index=index, arguments=fragment)


def _says(words: str, *signs: str) -> bool:
    return any(sign in words.lower() for sign in signs)


def _note(result: ToolResult) -> str:
    _, _, note = result.text.partition("Their note: ")
    return note or "They left no note."


def _last_line(result: ToolResult) -> str:
    return result.text.splitlines()[-1]
