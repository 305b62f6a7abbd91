"""OpenAI's chat completions as a chat model, for OpenAI and every server of the protocol."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from sagents_app.engine.chat_model import ModelRequest
from sagents_app.engine.chat_models import _http, _options, connection
from sagents_app.engine.chat_models.openai import decode, encode
from sagents_app.engine.chat_models.openai.options import ChatOptions
from sagents_app.engine.deltas import Delta

BASE_URL = "https://api.openai.com/v1"
MISTRAL = "api.mistral.ai"


class OpenAIChat:
    """A model behind `<base_url>/chat/completions`: OpenAI, Ollama, vLLM, llama.cpp, OpenRouter, ….

    `options` are the fields of `ChatOptions`. Without an `api_key` none is sent, which suits a
    server of one's own.
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
        self.name = f"openai:{connection.checked_name(model_name)}"
        self.base_url = connection.checked_url(base_url, of=self.name)
        self._host = urlsplit(self.base_url).hostname or ""
        if self._host == MISTRAL:
            options.setdefault("call_id_length", 9)
        self.options = _options.checked(ChatOptions, options, of=self.name)
        self._model_name = model_name
        self._endpoint = connection.Endpoint(
            model=self.name,
            url=connection.joined(self.base_url, "/chat/completions"),
            key=connection.checked_key(api_key, of=self.name),
            headers=dict(headers or {}),
            http=http or connection.HttpOptions(),
        )

    def __repr__(self) -> str:
        return f"<OpenAIChat {self.name} at {self.base_url}>"

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the reply in batches of deltas; see `ChatModel.stream`."""
        body = functools.partial(
            encode.body,
            self._model_name,
            request,
            self.options,
            max_tokens_field=self._max_tokens_field,
        )
        decoder = functools.partial(decode.ChatDecoder, self._endpoint.secrets)
        return _http.stream_reply(self._endpoint, body, decoder)

    @property
    def _max_tokens_field(self) -> str:
        named = self.options.max_tokens_field
        is_openai = self._host.endswith(("api.openai.com", ".openai.azure.com"))
        return named or ("max_completion_tokens" if is_openai else "max_tokens")
