"""The engine as one peer of the peers' harness; `benchmarks/peers.py` puts it there.

It has no database of its own: what is durable is the Django app's work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

# the harness's own module, which holds the texts, the tools and the plan of every peer
from common import (  # type: ignore[import-not-found]
    DELTA,
    FINAL_TEXT,
    FREE_TOOLS,
    STEP_TEXT,
    SYSTEM,
    USER,
    Adapter,
    Plan,
    chunks_of_text,
    counted,
    dumps,
    next_step,
)

from sagents_app.engine import Agent, AgentState, Message, ModelRequest, TextPart, ToolCall, tool
from sagents_app.engine.deltas import Delta, FinishDelta, ReplyDelta, TextDelta, ToolCallDelta
from sagents_app.engine.events import Deltas, Event


def answering(function: Any) -> Any:
    """A tool of the harness as an async one, which needs no thread."""
    import functools

    run = counted(function)

    @functools.wraps(function)
    async def work(**arguments: Any) -> str:
        return str(run(**arguments))

    return tool(work)


TOOLS = [answering(function) for function in FREE_TOOLS]


class Script:
    """A model that takes its next step from the last result's call."""

    name = "script"

    def __init__(self, plan: Any, *, streaming: bool) -> None:
        self.plan, self.streaming = plan, streaming

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        if self.plan.stream_deltas:
            for _ in range(self.plan.stream_deltas):
                await asyncio.sleep(0)
                yield (TextDelta(DELTA),)
            yield (FinishDelta(),)
            return
        last = request.messages[-1]
        results = last.tool_results
        # an id that the engine keeps is one of letters, digits, "_" and "-"
        step = next_step(results[-1].tool_call_id.replace("-", ".") if results else None)
        is_last = step >= self.plan.steps
        text = FINAL_TEXT if is_last else STEP_TEXT
        calls = [] if is_last else self.plan.calls(step)
        if not self.streaming:
            made = [ToolCall(one.replace(".", "-"), name, given) for one, name, given in calls]
            yield (ReplyDelta(Message.assistant(TextPart(text), tool_calls=made)),)
            return
        for chunk in chunks_of_text(text):
            await asyncio.sleep(0)
            yield (TextDelta(chunk),)
        for index, (one, name, given) in enumerate(calls):
            call_id = one.replace(".", "-")
            yield (ToolCallDelta(index=index, call_id=call_id, name=name, arguments=dumps(given)),)
        yield (FinishDelta(),)


class Sagents(Adapter):  # type: ignore[misc]
    name = "sagents"
    backends = ("memory",)
    unsupported = dict.fromkeys(("sqlite", "postgres"), "the Django app stores, not the engine")
    imports = "from sagents_app.engine import Agent, AgentState, Approve, Message, tool"

    def agent(self, plan: Any, *, streaming: bool = False) -> Agent:
        return Agent(
            model=Script(plan, streaming=streaming),
            system_prompt=SYSTEM,
            tools=TOOLS,
            max_runs=plan.steps + 5,
        )

    async def turn(self, conv: str, plan: Any) -> str:
        outcome = await self.agent(plan).execute(AgentState((Message.user(USER),)))
        return outcome.state.messages[-1].text

    async def turn_streaming(self, conv: str, plan: Any) -> tuple[str, int]:
        seen = 0

        def count(event: Event) -> None:
            nonlocal seen
            if isinstance(event, Deltas):
                seen += sum(isinstance(delta, TextDelta) for delta in event.items)

        state = AgentState((Message.user(USER),))
        outcome = await self.agent(plan, streaming=True).execute(state, on_event=count)
        return outcome.state.messages[-1].text, seen

    async def stream(self, n: int) -> AsyncIterator[str]:
        queue: asyncio.Queue[Event | None] = asyncio.Queue(maxsize=64)

        async def produce() -> None:
            agent = self.agent(Plan(steps=0, stream_deltas=n))
            await agent.execute(AgentState((Message.user(USER),)), on_event=queue.put)
            await queue.put(None)

        producer = asyncio.create_task(produce())
        while (event := await queue.get()) is not None:
            if isinstance(event, Deltas):
                for delta in event.items:
                    if isinstance(delta, TextDelta):
                        yield delta.text
        await producer


ADAPTER = Sagents
