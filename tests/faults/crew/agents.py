"""Agents that do what a person's words say, and wait at a gate where a file of its name lies.

A person writes names of tools, in order; the agent calls them one by one, then says "Done.". What
tools really did is a line each in `CREW_DIR/effects`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from sagents_app.engine import Agent, FunctionModel, ModelRequest, ToolContext, tool
from sagents_app.engine.deltas import Delta, FinishDelta, TextDelta, ToolCallDelta
from sagents_app.engine.middlewares import HumanInTheLoop
from sagents_app.models import Conversation
from sagents_app.services import agents

DIRECTORY = Path(os.environ.get("CREW_DIR", "."))


def arrive(gate: str) -> bool:
    """Say that somebody is at the gate; whether it is closed."""
    closed = DIRECTORY / f"{gate}.closed"
    if closed.exists():
        (DIRECTORY / f"{gate}.reached").touch()
    return closed.exists()


def take_effect(name: str, ctx: ToolContext) -> str:
    with (DIRECTORY / "effects").open("a") as effects:
        effects.write(f"{name} {ctx.idempotency_key}\n")
    while arrive(name):
        time.sleep(0.01)
    return f"{name} done"


@tool
def send(ctx: ToolContext) -> str:
    """Send a mail, which cannot be taken back."""
    return take_effect("send", ctx)


@tool(retry_safe=True)
def put(ctx: ToolContext) -> str:
    """Put a value, which may be done twice."""
    return take_effect("put", ctx)


@tool
def pay(ctx: ToolContext) -> str:
    """Pay, once a person agrees."""
    return take_effect("pay", ctx)


async def answer(request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
    """Call the next tool that the person's last words name, or say that all is done."""
    last = next(n for n in range(len(request.messages) - 1, -1, -1) if is_said(request, n))
    words = request.messages[last].text.split()
    called = sum(message.role == "assistant" for message in request.messages[last:])
    if called < len(words) and words[called] in ("send", "put", "pay"):
        yield (ToolCallDelta(index=0, name=words[called], arguments="{}"),)
    else:
        yield (TextDelta("Almost "),)
        while arrive("model"):  # noqa: ASYNC110  # opened by another process
            await asyncio.sleep(0.01)
        yield (TextDelta("done."),)
    yield (FinishDelta(),)


def is_said(request: ModelRequest, index: int) -> bool:
    return request.messages[index].role == "user"


@agents.register("crew")
def build(conversation: Conversation) -> Agent:
    return Agent(
        model=FunctionModel(answer),
        tools=[send, put, pay],
        middlewares=[HumanInTheLoop({"pay": True})],
    )
