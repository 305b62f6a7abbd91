"""The adapter: what leaves, and where to."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sagents_app.engine import ChatModel, Misconfigured
from sagents_app.engine.chat_models import _http
from sagents_app.engine.chat_models.openai_responses import OpenAIResponses
from tests.engine.chat_models.wire import Server, answer, folded, recorded, streamed

KEY = "made-up-0123456789"


@pytest.fixture(autouse=True)
async def _closed_clients() -> AsyncIterator[None]:
    yield
    await _http.close_clients()


async def test_a_call_goes_below_the_base_url_with_its_key() -> None:
    server = Server(answer(recorded("openai_responses/text.sse")))
    model = OpenAIResponses("gpt-5", api_key=KEY, http=server.http())
    assert folded(await streamed(model)).text == "Hello, world"
    (request,) = server.requests
    assert str(request.url) == "https://api.openai.com/v1/responses"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in f"{model!r} {vars(model)!r}"


def test_the_adapter_is_a_chat_model_and_refuses_what_is_wrong() -> None:
    model = OpenAIResponses("gpt-5")
    assert isinstance(model, ChatModel)
    assert model.name == "openai-responses:gpt-5"
    with pytest.raises(Misconfigured, match="unknown option 'stop'"):
        OpenAIResponses("m", stop=("a",))
    with pytest.raises(Misconfigured, match="a model's name is a text"):
        OpenAIResponses("")
