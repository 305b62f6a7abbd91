"""The adapter: what leaves, and where to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from sagents_app.engine import ChatModel, Misconfigured
from sagents_app.engine.chat_models import _http
from sagents_app.engine.chat_models.google import GoogleChat
from tests.engine.chat_models.wire import Server, answer, folded, recorded, streamed

KEY = "made-up-0123456789"
OWN = "https://generativelanguage.googleapis.com"


@pytest.fixture(autouse=True)
async def _closed_clients() -> AsyncIterator[None]:
    yield
    await _http.close_clients()


@pytest.mark.parametrize(
    ("name", "given", "address"),
    [
        ("gemini-3-pro", {}, f"{OWN}/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"),
        ("tunedModels/x", {}, f"{OWN}/v1beta/tunedModels/x:streamGenerateContent?alt=sse"),
        (
            "a?b#c",
            {"base_url": "http://localhost:1/v1beta/"},
            "http://localhost:1/v1beta/models/a%3Fb%23c:streamGenerateContent?alt=sse",
        ),
    ],
)
async def test_a_call_carries_its_key_in_a_header(name: str, given: Any, address: str) -> None:
    server = Server(answer(recorded("google/text.sse")))
    model = GoogleChat(name, api_key=KEY, http=server.http(), **given)
    assert folded(await streamed(model)).text == "Hello, world"
    (request,) = server.requests
    assert str(request.url) == address
    assert request.headers["x-goog-api-key"] == KEY
    assert KEY not in f"{model!r} {vars(model)!r}"


@pytest.mark.parametrize(
    ("name", "signs"),
    [
        ("gemini-2.5-flash", False),
        ("gemini-1.5-pro", False),
        ("models/gemini-2.0-flash", False),
        ("gemini-3-pro-preview", True),
        ("gemini-flash-latest", True),
    ],
)
def test_calls_are_signed_for_the_models_that_demand_it(name: str, signs: bool) -> None:
    assert GoogleChat(name)._signs_calls is signs


def test_the_adapter_is_a_chat_model_and_refuses_what_is_wrong() -> None:
    model = GoogleChat("gemini-3-pro")
    assert isinstance(model, ChatModel)
    assert model.name == "google:gemini-3-pro"
    with pytest.raises(Misconfigured, match="unknown option 'top'"):
        GoogleChat("m", top=1)
    with pytest.raises(Misconfigured, match="a model's name is a text"):
        GoogleChat("")
