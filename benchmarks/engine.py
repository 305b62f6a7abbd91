"""What the engine costs by itself: scripted turns with a model in the process that answers at once.

usage: python benchmarks/engine.py [--quick] [--write]

A minimal LangGraph graph runs beside it, interleaved in the same run, where LangGraph is installed.
`--write` puts the table into docs/benchmarks.md. See README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import gc
import importlib.metadata
import importlib.util
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sagents_app.engine import (  # noqa: E402  # the engine of this checkout, installed or not
    Agent,
    AgentState,
    Completed,
    Message,
    ModelRequest,
    TextPart,
    ToolCall,
    tool,
)
from sagents_app.engine.deltas import (  # noqa: E402
    Delta,
    FinishDelta,
    ReplyDelta,
    TextDelta,
    ToolCallDelta,
)
from sagents_app.engine.events import Deltas, Event  # noqa: E402

USER = "Please look up the accounts and prepare what is needed for the monthly close. " * 2
STEP = "I will look up the next account before I go on with the close. "
FINAL = "All accounts were looked up and the monthly close is prepared. Done."
FOUND = "account={}; status=open; balance=1234.56; currency=EUR; note=" + "n" * 300
CHUNKS = 10  # text deltas of one reply
BATCH = 16  # deltas that arrive together, as in one read from a socket
SIZES = (50, 200, 800, 3200)
WORD = "word "


def step_of(call_id: str | None) -> int:
    """The step to take, from the id of the last result; the same cost whatever the history."""
    return 0 if call_id is None else int(call_id[1:]) + 1


def chunks(text: str) -> Iterator[str]:
    width = max(1, len(text) // CHUNKS)
    return (text[at : at + width] for at in range(0, len(text), width))


# the engine


class Script:
    """A model that proposes `steps` calls, one a reply, and then ends."""

    name = "script"

    def __init__(self, steps: int, *, streaming: bool = False) -> None:
        self.steps = steps
        self.streaming = streaming

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        last = request.messages[-1]
        step = step_of(last.tool_results[-1].tool_call_id if last.tool_results else None)
        is_last = step >= self.steps
        if not self.streaming:
            calls = () if is_last else (ToolCall(f"c{step}", "look_up", {"key": f"acc-{step}"}),)
            text = FINAL if is_last else STEP
            yield (ReplyDelta(Message.assistant(TextPart(text), tool_calls=calls)),)
            return
        for text in chunks(FINAL if is_last else STEP):
            await asyncio.sleep(0)
            yield (TextDelta(text),)
        if not is_last:
            arguments = f'{{"key":"acc-{step}"}}'
            yield (ToolCallDelta(index=0, call_id=f"c{step}", name="look_up", arguments=arguments),)
        yield (FinishDelta(),)


class Words:
    """A model that streams `count` words, `batch` of them at a time."""

    name = "words"

    def __init__(self, count: int, batch: int) -> None:
        self.count, self.batch = count, batch

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        for at in range(0, self.count, self.batch):
            await asyncio.sleep(0)
            yield [TextDelta(WORD)] * min(self.batch, self.count - at)
        yield (FinishDelta(),)


@tool(name="look_up")
async def look_up(key: str) -> str:
    """Look up one account by its key."""
    return FOUND.format(key)


@tool(name="look_up")
def look_up_in_thread(key: str) -> str:
    """Look up one account by its key."""
    return FOUND.format(key)


async def turn(steps: int, *, in_thread: bool = False, streaming: bool = False) -> float:
    """Seconds of one turn of `steps` tool calls."""
    used = look_up_in_thread if in_thread else look_up
    agent = Agent(model=Script(steps, streaming=streaming), tools=[used], max_runs=steps + 5)
    seen = 0

    def count(event: Event) -> None:
        nonlocal seen
        if isinstance(event, Deltas):
            seen += sum(isinstance(delta, TextDelta) for delta in event.items)

    state = AgentState((Message.user(USER),))
    started = time.perf_counter()
    outcome = await agent.execute(state, on_event=count if streaming else None)
    spent = time.perf_counter() - started
    expect(isinstance(outcome, Completed), outcome)
    expect(outcome.state.messages[-1].text.replace("\n", "") == FINAL, outcome)
    expect(len(outcome.state.messages) == 2 * steps + 2, len(outcome.state.messages))
    expect(not streaming or seen >= CHUNKS * (steps + 1), seen)
    return spent


async def words(count: int, batch: int) -> float:
    """Seconds until a consumer behind a queue has every delta of one reply."""
    queue: asyncio.Queue[Event | None] = asyncio.Queue(maxsize=64)
    agent = Agent(model=Words(count, batch))

    async def produce() -> None:
        await agent.execute(AgentState((Message.user(USER),)), on_event=queue.put)
        await queue.put(None)

    started, seen = time.perf_counter(), 0
    producer = asyncio.create_task(produce())
    while (event := await queue.get()) is not None:
        if isinstance(event, Deltas):
            seen += sum(isinstance(delta, TextDelta) for delta in event.items)
    spent = time.perf_counter() - started
    await producer
    expect(seen == count, seen)
    return spent


# the peer: the leanest graph that a LangGraph user would write


def graph(steps: int, *, in_thread: bool = False, streaming: bool = False) -> Any:
    import json
    import operator
    from typing import Annotated

    from langgraph.config import get_stream_writer
    from langgraph.graph import END, START, StateGraph
    from typing_extensions import TypedDict

    fields: dict[str, Any] = {"messages": Annotated[list[Any], operator.add]}
    state_type = TypedDict("State", fields)  # type: ignore[misc]

    async def llm(state: dict[str, Any]) -> dict[str, Any]:
        last = state["messages"][-1]
        step = step_of(last.get("tool_call_id"))
        text = FINAL if step >= steps else STEP
        if streaming:
            write = get_stream_writer()
            for chunk in chunks(text):
                await asyncio.sleep(0)
                write(chunk)
        reply: dict[str, Any] = {"role": "assistant", "content": text}
        if step < steps:
            arguments = json.dumps({"key": f"acc-{step}"})
            reply["tool_calls"] = [{"id": f"c{step}", "arguments": arguments}]
        return {"messages": [reply]}

    async def tools(state: dict[str, Any]) -> dict[str, Any]:
        results = []
        for call in state["messages"][-1]["tool_calls"]:
            work = functools.partial(FOUND.format, json.loads(call["arguments"])["key"])
            content = await asyncio.to_thread(work) if in_thread else work()
            results.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        return {"messages": results}

    def after(state: dict[str, Any]) -> str:
        return "tools" if state["messages"][-1].get("tool_calls") else END

    made = StateGraph(state_type)
    made.add_node("llm", llm)
    made.add_node("tools", tools)
    made.add_edge(START, "llm")
    made.add_conditional_edges("llm", after, ["tools", END])
    made.add_edge("tools", "llm")
    return made.compile()


async def peer_turn(steps: int, *, in_thread: bool = False, streaming: bool = False) -> float:
    compiled = graph(steps, in_thread=in_thread, streaming=streaming)
    given = {"messages": [{"role": "user", "content": USER}]}
    config = {"recursion_limit": 2 * steps + 10}
    started, seen, last = time.perf_counter(), 0, ""
    if streaming:
        both = ["custom", "updates"]
        async for kind, event in compiled.astream(given, config, stream_mode=both):
            if kind == "custom":
                seen += 1
            elif "llm" in event:
                last = event["llm"]["messages"][-1]["content"]
    else:
        last = (await compiled.ainvoke(given, config))["messages"][-1]["content"]
    spent = time.perf_counter() - started
    expect(last == FINAL, last)
    expect(not streaming or seen >= CHUNKS * (steps + 1), seen)
    return spent


async def peer_words(count: int, batch: int) -> float:
    import operator
    from typing import Annotated

    from langgraph.config import get_stream_writer
    from langgraph.graph import END, START, StateGraph
    from typing_extensions import TypedDict

    fields: dict[str, Any] = {"messages": Annotated[list[Any], operator.add]}
    state_type = TypedDict("State", fields)  # type: ignore[misc]

    async def llm(state: dict[str, Any]) -> dict[str, Any]:
        write = get_stream_writer()
        for at in range(0, count, batch):
            await asyncio.sleep(0)
            for _ in range(min(batch, count - at)):
                write(WORD)
        return {"messages": [{"role": "assistant", "content": "x"}]}

    made = StateGraph(state_type)
    made.add_node("llm", llm)
    made.add_edge(START, "llm")
    made.add_edge("llm", END)
    compiled = made.compile()
    given = {"messages": [{"role": "user", "content": USER}]}
    started, seen = time.perf_counter(), 0
    async for _ in compiled.astream(given, stream_mode="custom"):
        seen += 1
    spent = time.perf_counter() - started
    expect(seen == count, seen)
    return spent


# import

IMPORT = """
import os, sys, time
started = time.perf_counter()
{code}
spent = time.perf_counter() - started
page = os.sysconf("SC_PAGE_SIZE")
memory = int(open("/proc/self/statm").read().split()[1]) * page / 2**20
print(spent, memory, "django" in sys.modules)
"""
NOTHING = "pass"
ENGINE = "import sagents_app.engine"
WITH_A_TOOL = (
    "from sagents_app.engine import tool\n@tool\ndef look_up(key: str) -> str:\n    return key"
)
PEER_IMPORT = "from langgraph.graph import StateGraph, START, END"


def imported(code: str) -> tuple[float, float]:
    """Seconds, and MiB of the process, of a fresh interpreter that runs `code`."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT.format(code=code)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    spent, memory, has_django = done.stdout.split()
    expect(has_django == "False" or code is PEER_IMPORT, "the engine has imported Django")
    return float(spent), float(memory)


# the run


@dataclass(frozen=True)
class Taken:
    """One measurement: seconds that went by, and seconds of CPU time."""

    seconds: float
    cpu: float


@dataclass(frozen=True)
class Scenario:
    """One row of the table: what is measured, in which unit, and what is wanted of it."""

    title: str
    goal: str
    unit: str
    ours: Callable[[], Awaitable[float]]
    peer: Callable[[], Awaitable[float]]
    repetitions: int
    per: int
    """Steps or deltas in one measurement."""

    def shown(self, taken: list[Taken]) -> str:
        if not taken:
            return ""
        best = min(one.seconds for one in taken)
        if self.unit == "deltas/s":
            return f"{self.per / best:,.0f}"
        return f"{best / self.per * 1e3:.3f}"


def turns(n: int, title: str, goal: str, repetitions: int, **how: Any) -> Scenario:
    ours, peer = functools.partial(turn, n, **how), functools.partial(peer_turn, n, **how)
    return Scenario(f"{title}, N={n}", goal, "ms a step", ours, peer, repetitions, n)


def scenarios(*, quick: bool) -> list[Scenario]:
    most = 3 if quick else 9
    rows = [
        turns(n, "S1 async tool", "<= 0.15", max(3, most - at), in_thread=False)
        for at, n in enumerate(SIZES)
    ]
    rows += [
        turns(n, "S1 sync tool in a thread", "<= 0.5", most, in_thread=True) for n in (50, 200)
    ]
    rows += [turns(n, "S1 streaming", "<= 0.36", most, streaming=True) for n in (50, 200)]
    for batch, told, goal in ((BATCH, f"in lists of {BATCH}", ">= 40,000"), (1, "one by one", "")):
        ours = functools.partial(words, 8000, batch)
        peer = functools.partial(peer_words, 8000, batch)
        rows.append(Scenario(f"S4 8,000 deltas {told}", goal, "deltas/s", ours, peer, most, 8000))
    return rows


async def measured(scenario: Scenario, *, with_peer: bool) -> tuple[list[Taken], list[Taken]]:
    """Our and the peer's measurements, taken in turn."""
    ours: list[Taken] = []
    theirs: list[Taken] = []
    for repetition in range(scenario.repetitions):
        order = [(scenario.ours, ours)]
        if with_peer and (scenario.per < 3200 or repetition < 2):
            order.append((scenario.peer, theirs))
        for measure, into in order if repetition % 2 else reversed(order):
            gc.collect()
            started = time.process_time()
            seconds = await measure()
            into.append(Taken(seconds, time.process_time() - started))
    return ours, theirs


def exponent(times: dict[int, float]) -> float:
    """The slope of log(CPU time of the turn) over log(N), by least squares; 1 is linear."""
    xs, ys = [math.log(n) for n in times], [math.log(spent) for spent in times.values()]
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    covered = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return covered / sum((x - mean_x) ** 2 for x in xs)


def expect(holds: bool, told: object) -> None:
    if not holds:
        raise SystemExit(f"the measurement is void: {told!r:.400}")


async def run(*, quick: bool) -> list[tuple[str, str, str, str, str]]:
    """Rows of the table: scenario, unit, ours, the peer's, goal."""
    with_peer = importlib.util.find_spec("langgraph") is not None
    rows: list[tuple[str, str, str, str, str]] = []
    for warm in (False, True):
        await turn(3, in_thread=warm, streaming=warm)
        if with_peer:
            await peer_turn(3, in_thread=warm, streaming=warm)
    by_size: dict[int, float] = {}
    peer_by_size: dict[int, float] = {}
    for scenario in scenarios(quick=quick):
        ours, theirs = await measured(scenario, with_peer=with_peer)
        if scenario.title.startswith("S1 async"):
            by_size[scenario.per] = min(one.cpu for one in ours)
            if theirs:
                peer_by_size[scenario.per] = min(one.cpu for one in theirs)
        row = scenario.shown(ours), scenario.shown(theirs)
        rows.append((scenario.title, scenario.unit, *row, scenario.goal))
        print(*rows[-1], sep="  ", flush=True)
    peer_exponent = f"{exponent(peer_by_size):.3f}" if peer_by_size else ""
    grown = (f"{exponent(by_size):.3f}", peer_exponent)
    rows.append((f"S1 async tool, N={SIZES[0]} to {SIZES[-1]}", "exponent", *grown, "<= 1.02"))
    return rows + imports(3 if quick else 7, with_peer=with_peer)


def imports(repetitions: int, *, with_peer: bool) -> list[tuple[str, str, str, str, str]]:
    codes = [NOTHING, ENGINE, WITH_A_TOOL, *([PEER_IMPORT] if with_peer else [])]
    taken: dict[str, list[tuple[float, float]]] = {code: [] for code in codes}
    for code in codes * repetitions:
        taken[code].append(imported(code))
    best = {code: min(found) for code, found in taken.items()}
    bare, peer = best[NOTHING][1], best.get(PEER_IMPORT)
    seconds = f"{peer[0]:.3f}" if peer else ""
    memory = f"{peer[1] - bare:.1f}" if peer else ""
    rows = []
    for code, what in ((ENGINE, "the engine alone"), (WITH_A_TOOL, "with a first tool")):
        spent, used = best[code]
        goal = "<= 0.35"
        rows.append((f"S6 import, {what}", "s", f"{spent:.3f}", seconds, goal))
        rows.append((f"S6 memory, {what}", "MiB", f"{used - bare:.1f}", memory, ""))
    return rows


def table(rows: list[tuple[str, str, str, str, str]]) -> str:
    head = "| scenario | unit | sagents | LangGraph | goal |\n|---|---|---:|---:|---|\n"
    return head + "\n".join(f"| {' | '.join(row)} |" for row in rows)


ABOUT = """# Benchmarks

What the engine costs by itself, with a model in the process that answers at once. Written by
`python benchmarks/engine.py --write`; how it is measured, and how to measure other frameworks
beside it, is in [benchmarks/README.md](../benchmarks/README.md).

{machine}

{table}

The best of the repetitions; the two columns were measured in turn, in one run, so that the
machine's other work falls on both: trust the ratios more than the times. The exponent is of CPU
time. The engine imports pydantic with its first tool, not before; no Django is imported at all,
which the run asserts. The peer is the leanest graph that a user of LangGraph would write: two
nodes, plain dictionaries, no checkpointer, no validation of arguments.
"""


def machine() -> str:
    peer = importlib.util.find_spec("langgraph")
    version = importlib.metadata.version("langgraph") if peer else "not installed"
    return (
        f"Python {platform.python_version()}, {os.cpu_count()} cores, shared with other work; "
        f"LangGraph {version}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    options = parser.parse_args()
    shown = table(asyncio.run(run(quick=options.quick)))
    print(machine(), shown, sep="\n")
    if options.write:
        text = ABOUT.format(machine=machine(), table=shown)
        (ROOT / "docs" / "benchmarks.md").write_text(text)


if __name__ == "__main__":
    main()
