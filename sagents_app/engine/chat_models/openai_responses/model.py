"""OpenAI's Responses API as a chat model."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from sagents_app.engine.chat_model import ModelRequest
from sagents_app.engine.chat_models import _http, _options, connection
from sagents_app.engine.chat_models.openai_responses import decode, encode
from sagents_app.engine.chat_models.openai_responses.options import ResponsesOptions
from sagents_app.engine.deltas import Delta

BASE_URL = "https://api.openai.com/v1"


class OpenAIResponses:
    """A model behind `<base_url>/responses`.

    `options` are the fields of `ResponsesOptions`.
    """

    def __init__(
        self,
        model_name: str,
        *,
        base_url: str = BASE_URL,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        http: connection.HttpOptions | None = None,
        **options: Any,
    ) -> None:
        self.name = f"openai-responses:{connection.checked_name(model_name)}"
        self.base_url = connection.checked_url(base_url, of=self.name)
        self.options = _options.checked(ResponsesOptions, options, of=self.name)
        self._model_name = model_name
        self._endpoint = connection.Endpoint(
            model=self.name,
            url=connection.joined(self.base_url, "/responses"),
            key=connection.checked_key(api_key, of=self.name),
            headers=dict(headers or {}),
            http=http or connection.HttpOptions(),
        )

    def __repr__(self) -> str:
        return f"<OpenAIResponses {self.name} at {self.base_url}>"

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the reply in batches of deltas; see `ChatModel.stream`."""
        body = functools.partial(encode.body, self._model_name, request, self.options)
        decoder = functools.partial(decode.ResponsesDecoder, self._endpoint.secrets)
        return _http.stream_reply(self._endpoint, body, decoder)
