"""Google's Gemini API as a chat model."""

from __future__ import annotations

import functools
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from sagents_app.engine.chat_model import ModelRequest
from sagents_app.engine.chat_models import _http, _options, connection
from sagents_app.engine.chat_models.google import decode, encode
from sagents_app.engine.chat_models.google.options import GeminiOptions
from sagents_app.engine.deltas import Delta

BASE_URL = "https://generativelanguage.googleapis.com"
_BEFORE_GEMINI_3 = re.compile(r"(?:models/)?gemini-(?:1|2)\b")


class GoogleChat:
    """A model behind `<base_url>/v1beta/models/<name>:streamGenerateContent`.

    `options` are the fields of `GeminiOptions`.
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
        self.name = f"google:{connection.checked_name(model_name)}"
        self.base_url = connection.checked_url(base_url, of=self.name).removesuffix("/v1beta")
        self.options = _options.checked(GeminiOptions, options, of=self.name)
        self._signs_calls = _BEFORE_GEMINI_3.match(model_name) is None
        path = quote(model_name if "/" in model_name else f"models/{model_name}")
        self._endpoint = connection.Endpoint(
            model=self.name,
            url=connection.joined(
                self.base_url, f"/v1beta/{path}:streamGenerateContent", query="alt=sse"
            ),
            key=connection.checked_key(api_key, of=self.name),
            key_header="x-goog-api-key",
            key_prefix="",
            headers=dict(headers or {}),
            http=http or connection.HttpOptions(),
        )

    def __repr__(self) -> str:
        return f"<GoogleChat {self.name} at {self.base_url}>"

    def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the reply in batches of deltas; see `ChatModel.stream`."""
        body = functools.partial(encode.body, request, self.options, signs_calls=self._signs_calls)
        decoder = functools.partial(decode.GeminiDecoder, self._endpoint.secrets)
        return _http.stream_reply(self._endpoint, body, decoder)
