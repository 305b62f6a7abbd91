"""Anthropic's Messages API as a chat model."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from sagents_app.engine.chat_model import ModelRequest
from sagents_app.engine.chat_models import _http, _options, connection
from sagents_app.engine.chat_models.anthropic import decode, encode
from sagents_app.engine.chat_models.anthropic.options import MessagesOptions
from sagents_app.engine.deltas import Delta
from sagents_app.engine.errors import Misconfigured

BASE_URL = "https://api.anthropic.com"
VERSION = "2023-06-01"


class AnthropicChat:
    """A model behind `<base_url>/v1/messages`.

    `options` are the fields of `MessagesOptions`.
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
        self.name = f"anthropic:{connection.checked_name(model_name)}"
        self.base_url = connection.checked_url(base_url, of=self.name).removesuffix("/v1")
        self.options = _options.checked(MessagesOptions, options, of=self.name)
        _check_budget(self.options, of=self.name)
        self._model_name = model_name
        self._endpoint = connection.Endpoint(
            model=self.name,
            url=connection.joined(self.base_url, "/v1/messages"),
            key=connection.checked_key(api_key, of=self.name),
            key_header="x-api-key",
            key_prefix="",
            headers={"anthropic-version": VERSION, **(headers or {})},
            http=http or connection.HttpOptions(),
        )

    def __repr__(self) -> str:
        return f"<AnthropicChat {self.name} at {self.base_url}>"

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the reply in batches of deltas; see `ChatModel.stream`."""
        body = functools.partial(encode.body, self._model_name, request, self.options)
        decoder = functools.partial(decode.MessagesDecoder, self._endpoint.secrets)
        return _http.stream_reply(self._endpoint, body, decoder)


def _check_budget(options: MessagesOptions, *, of: str) -> None:
    budget = options.thinking_budget
    if budget is None:
        return
    if options.thinking is not None:
        raise Misconfigured(f"{of}: thinking and thinking_budget exclude each other")
    if not 1024 <= budget < options.max_tokens:
        raise Misconfigured(
            f"{of}: thinking_budget is from 1024 up and below max_tokens "
            f"({options.max_tokens}), got {budget}"
        )
