"""The adapters against a server of their protocols that this project did not write."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from aimock_pytest import AIMockServer, NodeManager

from sagents_app.engine import (
    Agent,
    Approve,
    Completed,
    Failed,
    Interrupted,
    Message,
    Reject,
    tool,
)
from sagents_app.engine.chat_models import connection
from sagents_app.engine.chat_models.anthropic import AnthropicChat
from sagents_app.engine.chat_models.connection import HttpOptions
from sagents_app.engine.chat_models.google import GoogleChat
from sagents_app.engine.chat_models.openai import OpenAIChat
from sagents_app.engine.chat_models.openai_responses import OpenAIResponses
from sagents_app.engine.deltas import TextDelta, ToolCallDelta
from sagents_app.engine.errors import ConnectionFailed, ModelError, ProtocolError, StreamDied
from sagents_app.engine.middlewares import HumanInTheLoop
from tests import programs
from tests.engine.chat_models.wire import (
    asking,
    calls_of,
    failures,
    folded,
    get_weather,
    status_of,
    streamed,
)
from tests.engine.doubles import Events, asked, told

pytestmark = pytest.mark.node

LINES = "It is sunny in Paris, and it will stay so for the rest of the week."


@dataclass(frozen=True)
class Provider:
    """An adapter, made for a server at an address."""

    name: str
    make: Callable[[str, HttpOptions], Any]


PROVIDERS = [
    Provider("openai", lambda url, http: OpenAIChat("gpt-4o", base_url=f"{url}/v1", http=http)),
    Provider(
        "openai-responses",
        lambda url, http: OpenAIResponses("gpt-5", base_url=f"{url}/v1", http=http),
    ),
    Provider("anthropic", lambda url, http: AnthropicChat("claude", base_url=url, http=http)),
    Provider("google", lambda url, http: GoogleChat("gemini-3-pro", base_url=url, http=http)),
]


@pytest.fixture(scope="module")
def server() -> Iterator[AIMockServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIMOCK_CLI_PATH", str(programs.AIMOCK))
        server = AIMockServer(NodeManager(), port=0)
        server.start()
    process = server._proc
    yield server
    server.stop()
    if process and process.stdout:
        process.stdout.close()  # which its stop leaves open


@pytest.fixture(params=PROVIDERS, ids=lambda provider: provider.name)
async def model(request: Any, server: AIMockServer) -> AsyncIterator[Any]:
    server.reset()
    yield request.param.make(server.url, HttpOptions(first_wait=0.0))
    await connection.close_connections()


def weather(city: str = "Paris") -> dict[str, Any]:
    return {"toolCalls": [{"name": "get_weather", "arguments": f'{{"city": "{city}"}}'}]}


async def test_text_arrives_piece_by_piece(model: Any, server: AIMockServer) -> None:
    server.on_message("hi", {"content": LINES}, chunkSize=5)
    deltas = await streamed(model)
    pieces = [delta.text for delta in deltas if isinstance(delta, TextDelta)]
    assert len(pieces) > 5
    assert "".join(pieces) == LINES
    assert status_of(deltas) == "complete"
    assert folded(deltas).usage is not None


async def test_arguments_arrive_piece_by_piece(model: Any, server: AIMockServer) -> None:
    calls = [*weather("Paris")["toolCalls"], *weather("Bogotá")["toolCalls"]]
    server.on_message("hi", {"toolCalls": calls}, chunkSize=4)
    deltas = await streamed(model, asking(tools=[get_weather]))
    assert sum(isinstance(delta, ToolCallDelta) for delta in deltas) >= 2
    message = folded(deltas)
    assert [call[1:] for call in calls_of(message)] == [
        ("get_weather", '{"city":"Paris"}'),
        ("get_weather", '{"city":"Bogotá"}'),
    ]


@pytest.mark.parametrize(
    "decision", [Approve(), Reject(note="too warm")], ids=["approve", "reject"]
)
async def test_a_turn_with_a_gated_tool_goes_through(
    model: Any, server: AIMockServer, decision: Any
) -> None:
    asked_for: list[str] = []

    @tool
    async def get_weather(city: str) -> str:
        """Say what the weather is like."""
        asked_for.append(city)
        return "sunny"

    server.on_message("hi", weather(), hasToolResult=False, chunkSize=4)
    server.on_message("hi", {"content": LINES}, hasToolResult=True, chunkSize=9)
    agent = Agent(
        model=model, tools=[get_weather], middlewares=[HumanInTheLoop({"get_weather": True})]
    )
    events = Events()
    outcome = await agent.execute(asked(), on_event=events)
    assert isinstance(outcome, Interrupted)
    (call,) = outcome.state.messages[-1].tool_calls
    assert "ToolCallSeen" in events.names
    assert asked_for == []
    outcome = await agent.resume(outcome.state, {call.call_id: decision})
    assert isinstance(outcome, Completed)
    assert outcome.state.messages[-1].text == LINES
    assert asked_for == (["Paris"] if decision == Approve() else [])
    if decision != Approve():
        assert "too warm" in told(outcome.state)[call.call_id]


async def test_a_second_turn_goes_on_behind_the_first(model: Any, server: AIMockServer) -> None:
    server.on_message("hi", weather(), hasToolResult=False)
    server.on_message("hi", {"content": LINES}, hasToolResult=True)
    server.on_message("thanks", {"content": "You are welcome."})
    agent = Agent(model=model, tools=[get_weather])
    outcome = await agent.execute(asked())
    assert isinstance(outcome, Completed)
    outcome = await agent.execute(outcome.state.add_message(Message.user("thanks")))
    assert isinstance(outcome, Completed)
    assert outcome.state.messages[-1].text == "You are welcome."


async def test_an_error_of_the_server_is_tried_again(model: Any, server: AIMockServer) -> None:
    server.on_message("hi", {"content": LINES})
    server.next_error(429, {"message": "slow down", "type": "rate_limit_error"})
    deltas = await streamed(model)
    assert failures(deltas) == ["rate_limited"]
    assert folded(deltas).text == LINES


async def test_an_error_of_ours_keeps_the_servers_words(model: Any, server: AIMockServer) -> None:
    server.on_message(
        "hi", {"error": {"message": "unknown model", "type": "not_found_error"}, "status": 404}
    )
    with pytest.raises(ModelError, match="unknown model") as caught:
        await streamed(model)
    assert caught.value.type == "bad_request"


async def test_a_server_that_drops_the_connection_fails_the_turn(
    model: Any, server: AIMockServer
) -> None:
    server.on_message("hi", {"content": LINES}, chunkSize=5, disconnectAfterMs=1, latency=5)
    outcome = await Agent(model=model).execute(asked())
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, (StreamDied, ConnectionFailed))


async def test_a_server_that_answers_nonsense_fails_the_turn(
    model: Any, server: AIMockServer
) -> None:
    server.on_message("hi", {"content": LINES}, chaos={"malformedRate": 1})
    outcome = await Agent(model=model).execute(asked())
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, ProtocolError)
    server.reset()
    server.on_message("hi", {"content": LINES})
    again = await Agent(model=model).execute(outcome.state)
    assert isinstance(again, Completed)


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)
async def test_a_server_that_is_down_fails_the_turn(provider: Provider) -> None:
    url = f"http://127.0.0.1:{programs.free_port()}"
    model = provider.make(url, HttpOptions(first_wait=0.0))
    outcome = await Agent(model=model).execute(asked())
    await connection.close_connections()
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.error, ConnectionFailed)
    assert [message.role for message in outcome.state.messages] == ["user"]
