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

Plan = str | tuple[str, str, dict[str, Any]]
"""What to do next: a text to say, or words before a tool call, its name and its arguments."""


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
        return _after(last.tool_results[-1], words)
    return _begin(words)


def _begin(words: str) -> Plan:
    number = _number(words)
    if number is None:
        return HELLO
    if _says(words, "charge", "twice", "dispute", "bank", "fraud"):
        return "Let me check that payment first.", "check_dispute", {"number": number}
    if _says(words, "delete", "erase", "remove"):
        text = f"Deleting order {number} is final, so a colleague has to look at it first."
        return text, "delete_order", {"number": number}
    return f"Let me look up order {number}.", "look_up_order", {"number": number}


def _after(result: ToolResult, words: str) -> Plan:
    if result.decision == "reject":
        return f"A colleague looked at it and declined.\n\n> {_note(result)}\n\nI did not do it."
    if result.is_error:
        return f"That did not work: {result.text}"
    if result.name == "look_up_order":
        return _about(json.loads(result.text), words)
    if result.decision == "edit":
        return f"{_last_line(result)} A colleague changed my request before it was carried out."
    return f"{_last_line(result)} Is there anything else?"


def _about(order: dict[str, Any], words: str) -> Plan:
    left = Decimal(order["total"]) - Decimal(order["refunded"])
    if not _says(words, "refund", "money back", "return", "broken"):
        table = f"| Order | Item | Total | Status |\n|---|---|---|---|\n| {order['number']} "
        table += f"| {order['item']} | {order['total']} € | {order['status']} |"
        return f"Here it is:\n\n{table}\n\nTell me if you want a refund."
    if left <= 0:
        return f"Order {order['number']} has been refunded already."
    text = f"I can refund the {order['item']}, but a colleague has to approve it. One moment."
    arguments = {"number": order["number"], "amount": str(left), "reason": words[:200]}
    return text, "refund", arguments


def _spoken(planned: Plan) -> Iterator[Delta]:
    """Yield a plan the way that a provider streams it: word by word, arguments in fragments."""
    if isinstance(planned, str):
        yield from (TextDelta(word) for word in re.findall(r"\S+\s*|\s+", planned))
        return
    text, name, arguments = planned
    yield from (TextDelta(word) for word in re.findall(r"\S+\s*", text))
    yield ToolCallDelta(index=0, name=name)
    for fragment in re.findall(r".{1,24}", json.dumps(arguments), re.DOTALL):
        yield ToolCallDelta(index=0, arguments=fragment)


def _number(words: str) -> str | None:
    found = re.search(r"\b\d{3,6}\b", words)
    return found.group() if found else None


def _says(words: str, *signs: str) -> bool:
    return any(sign in words.lower() for sign in signs)


def _note(result: ToolResult) -> str:
    _, _, note = result.text.partition("Their note: ")
    return note or "They left no note."


def _last_line(result: ToolResult) -> str:
    return result.text.splitlines()[-1]
