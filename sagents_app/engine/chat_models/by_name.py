"""Models by the name that a setting gives them: `openai:gpt-5?temperature=0.2,openai:gpt-5-mini`.

A name is `provider:model`; a list has the model first and its fallbacks behind it. Nothing is read
from the environment but what is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import parse_qsl

from sagents_app.engine.chat_model import ChatModel
from sagents_app.engine.chat_models import _options
from sagents_app.engine.chat_models.anthropic import AnthropicChat, MessagesOptions
from sagents_app.engine.chat_models.connection import HttpOptions
from sagents_app.engine.chat_models.google import GeminiOptions, GoogleChat
from sagents_app.engine.chat_models.openai import ChatOptions, OpenAIChat
from sagents_app.engine.chat_models.openai_responses import OpenAIResponses, ResponsesOptions
from sagents_app.engine.errors import Misconfigured

VARIABLE = "SAGENTS_MODEL"
ANY_BASE_URL = "SAGENTS_MODEL_BASE_URL"
ANY_KEY = "SAGENTS_MODEL_API_KEY"
HTTP_OPTIONS = ("attempts", "connect_timeout", "read_timeout", "http2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """How a provider's models are made."""

    make: Callable[..., ChatModel]
    options: type[Any]
    key: tuple[str, ...]
    """The variables that may hold its key, the first of them the usual one."""
    base_url: str
    """The variable with the address of a server of the same protocol."""


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(
        make=OpenAIChat,
        options=ChatOptions,
        key=("OPENAI_API_KEY",),
        base_url="OPENAI_BASE_URL",
    ),
    "openai-responses": Provider(
        make=OpenAIResponses,
        options=ResponsesOptions,
        key=("OPENAI_API_KEY",),
        base_url="OPENAI_BASE_URL",
    ),
    "anthropic": Provider(
        make=AnthropicChat,
        options=MessagesOptions,
        key=("ANTHROPIC_API_KEY",),
        base_url="ANTHROPIC_BASE_URL",
    ),
    "google": Provider(
        make=GoogleChat,
        options=GeminiOptions,
        key=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        base_url="GOOGLE_GEMINI_BASE_URL",
    ),
}


def models_from_names(names: str, environ: Mapping[str, str]) -> list[ChatModel]:
    """Return the models of a comma-separated list, in its order; none of an empty one.

    `SAGENTS_MODEL_BASE_URL` and `SAGENTS_MODEL_API_KEY` count for the first model's provider.

    Raises:
        Misconfigured: names the variable, and what is wrong with it or missing.
    """
    listed = [name.strip() for name in names.split(",")] if names.strip() else []
    first = listed[0].partition(":")[0] if listed else ""
    return [model_from_name(name, environ, general=name.startswith(f"{first}:")) for name in listed]


def model_from_name(name: str, environ: Mapping[str, str], *, general: bool = True) -> ChatModel:
    """Return the model of `provider:model?option=value&…`.

    Beside the provider's options a name may carry `base_url`, its own server's address, and
    `key_from`, the variable that holds that server's key; the provider's usual key is not sent to
    such a server. `general` says whether the `SAGENTS_MODEL_…` variables count.

    Raises:
        Misconfigured: names the variable, and what is wrong with it or missing.
    """
    named, _, query = name.partition("?")
    provider_name, _, model_name = named.partition(":")
    of = f"{VARIABLE}={named!r}"
    provider = PROVIDERS.get(provider_name)
    if provider is None or not model_name.strip():
        raise Misconfigured(_unknown(of, provider_name, model_name))
    given = _given(query, of=of)
    own_url, key_from = given.pop("base_url", ""), given.pop("key_from", "")
    base_url = own_url or (general and environ.get(ANY_BASE_URL)) or environ.get(provider.base_url)
    http = {key: given.pop(key) for key in HTTP_OPTIONS if key in given}
    keys = (key_from,) if key_from else () if own_url else provider.key
    if general and not (own_url or key_from):
        keys = (ANY_KEY, *keys)
    key = next((environ[key] for key in keys if environ.get(key)), None)
    if key is None and (key_from or not base_url):
        raise Misconfigured(f"{of} needs a key: {key_from or provider.key[0]} is not set")
    known = {field.name for field in fields(provider.options)}
    if unknown := given.keys() - known:
        listed = ", ".join(sorted({*known, *HTTP_OPTIONS, "base_url", "key_from"}))
        raise Misconfigured(f"{of}: unknown option {min(unknown)!r}; known are {listed}")
    return provider.make(
        model_name,
        api_key=key,
        http=_options.checked(HttpOptions, _options.parsed(HttpOptions, http, of=of), of=of),
        **({"base_url": base_url} if base_url else {}),
        **_options.parsed(provider.options, given, of=of),
    )


def _given(query: str, *, of: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        raise Misconfigured(
            f"{of}: options are written name=value&name=value, got {query!r}"
        ) from None
    return dict(pairs)


def _unknown(of: str, provider_name: str, model_name: str) -> str:
    known = ", ".join(f"{name}:" for name in PROVIDERS)
    if provider_name not in PROVIDERS:
        return f"{of}: a model is named provider:model, and the known providers are {known}"
    return f"{of}: the model's name is missing behind {provider_name + ':'!r}"
