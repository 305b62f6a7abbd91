"""The adapter: what leaves, where to, and what it refuses at construction."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sagents_app.engine import ChatModel, Misconfigured
from sagents_app.engine.chat_models import _http
from sagents_app.engine.chat_models.anthropic import AnthropicChat
from sagents_app.engine.errors import Overloaded
from tests.engine.chat_models.wire import Server, answer, failures, folded, recorded, streamed

KEY = "made-up-0123456789"


@pytest.fixture(autouse=True)
async def _closed_clients() -> AsyncIterator[None]:
    yield
    await _http.close_clients()


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ({}, "https://api.anthropic.com/v1/messages"),
        ({"base_url": "http://localhost:1/v1/"}, "http://localhost:1/v1/messages"),
        ({"base_url": "http://localhost:1/proxy"}, "http://localhost:1/proxy/v1/messages"),
    ],
)
async def test_a_call_carries_its_key_and_version(given: Any, address: str) -> None:
    server = Server(answer(recorded("anthropic/text.sse")))
    model = AnthropicChat("m", api_key=KEY, http=server.http(), **given)
    assert folded(await streamed(model)).text == "Hello, world"
    (request,) = server.requests
    assert str(request.url) == address
    assert request.headers["x-api-key"] == KEY
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in request.headers
    assert KEY not in f"{model!r} {vars(model)!r}"


async def test_an_error_inside_the_stream_is_tried_again() -> None:
    server = Server(
        answer(recorded("anthropic/overloaded.sse")), answer(recorded("anthropic/text.sse"))
    )
    deltas = await streamed(AnthropicChat("m", http=server.http()))
    assert failures(deltas) == ["overloaded"]
    with pytest.raises(Overloaded):
        await streamed(
            AnthropicChat(
                "m", http=Server(answer(recorded("anthropic/overloaded.sse"))).http(attempts=1)
            )
        )


def test_the_adapter_is_a_chat_model_with_a_name() -> None:
    model = AnthropicChat("claude-sonnet-4-6", api_key=KEY)
    assert isinstance(model, ChatModel)
    assert model.name == "anthropic:claude-sonnet-4-6"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model_name": ""}, "a model's name is a text"),
        ({"thinking_budget": 10}, "from 1024 up and below max_tokens"),
        ({"thinking_budget": 9000}, "below max_tokens (8192), got 9000"),
        ({"thinking_budget": 2000, "thinking": "adaptive"}, "exclude each other"),
        ({"cache": "2h"}, "cache is one of '5m', '1h', 'off'"),
        ({"max_token": 1}, "unknown option 'max_token'"),
    ],
)
def test_a_wrong_configuration_is_refused_by_name(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        AnthropicChat(**{"model_name": "m", **given})
    assert words in str(caught.value)


def test_a_budget_for_thinking_fits_below_the_reply() -> None:
    model = AnthropicChat("m", thinking_budget=1024)
    assert model.options.thinking_budget == 1024
