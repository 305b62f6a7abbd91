"""The adapter: what leaves, where to, and what it refuses at construction."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sagents_app.engine import ChatModel, Misconfigured
from sagents_app.engine.chat_models import _http
from sagents_app.engine.chat_models.openai import OpenAIChat
from tests.engine.chat_models.wire import Server, answer, recorded, streamed

HELLO = recorded("openai/text.sse")


@pytest.fixture(autouse=True)
async def _closed_clients() -> AsyncIterator[None]:
    yield
    await _http.close_clients()


async def sent(**given: Any) -> Any:
    """The request that leaves."""
    server = Server(answer(HELLO))
    await streamed(OpenAIChat("m", http=server.http(), **given))
    return server.requests[0]


@pytest.mark.parametrize(
    ("base_url", "address"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
        ("http://localhost:11434/v1/", "http://localhost:11434/v1/chat/completions"),
        (
            "https://x.openai.azure.com/openai/deployments/d?api-version=1",
            "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=1",
        ),
    ],
)
async def test_a_call_goes_below_the_base_url(base_url: str, address: str) -> None:
    request = await sent(base_url=base_url)
    assert str(request.url) == address
    assert request.method == "POST"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["accept"] == "text/event-stream"


async def test_headers_of_the_caller_are_sent() -> None:
    request = await sent(api_key="k", headers={"HTTP-Referer": "https://example.org"})
    assert request.headers["http-referer"] == "https://example.org"


@pytest.mark.parametrize(
    ("base_url", "given", "field"),
    [
        ("https://api.openai.com/v1", {}, "max_completion_tokens"),
        ("http://localhost:8000/v1", {}, "max_tokens"),
        (
            "http://localhost:8000/v1",
            {"max_tokens_field": "max_completion_tokens"},
            "max_completion_tokens",
        ),
    ],
)
async def test_the_limit_is_called_what_the_server_calls_it(
    base_url: str, given: Any, field: str
) -> None:
    server = Server(answer(HELLO))
    model = OpenAIChat("m", base_url=base_url, http=server.http(), max_tokens=7, **given)
    await streamed(model)
    assert server.bodies[0][field] == 7


def test_mistral_gets_call_ids_of_its_length() -> None:
    assert OpenAIChat("m", base_url="https://api.mistral.ai/v1").options.call_id_length == 9


def test_the_adapter_is_a_chat_model_with_a_name() -> None:
    model = OpenAIChat("gpt-5", api_key="k")
    assert isinstance(model, ChatModel)
    assert model.name == "openai:gpt-5"
    assert repr(model) == "<OpenAIChat openai:gpt-5 at https://api.openai.com/v1>"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model_name": " "}, "a model's name is a text"),
        ({"base_url": "localhost:11434"}, "starts with http:// or https://"),
        ({"base_url": "https://"}, "names a host"),
        ({"base_url": "http://a:b:c"}, "no address"),
        ({"base_url": "https://user:hidden-word@host/v1"}, "user name or password"),
        ({"api_key": "hidden-word\n"}, "characters that no key has"),
        ({"api_key": " hidden-word"}, "begins or ends with a space"),
        ({"api_key": "hidden-wörd"}, "characters that no key has"),
        ({"temperatur": 1}, "unknown option 'temperatur'; known are temperature, top_p"),
        ({"temperature": "hot"}, "temperature is a number, got 'hot'"),
        ({"temperature": float("nan")}, "temperature is a number"),
        ({"max_tokens": True}, "max_tokens is a whole number"),
        ({"stop": "END"}, "stop is a tuple of texts"),
        ({"tool_choice": "maybe"}, "tool_choice is one of 'auto', 'none', 'required'"),
        ({"extra": 3}, "extra is a mapping"),
    ],
)
def test_a_wrong_configuration_is_refused_by_name(given: dict[str, Any], words: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        OpenAIChat(**{"model_name": "m", **given})
    assert words in str(caught.value)
    assert "hidden" not in str(caught.value)
