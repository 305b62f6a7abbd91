"""Models by the names that SAGENTS_MODEL holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from sagents_app.engine import Misconfigured
from sagents_app.engine.chat_models.by_name import model_from_name, models_from_names
from sagents_app.engine.chat_models.openai import OpenAIChat

KEY = {"OPENAI_API_KEY": "made-up"}


def openai(name: str, environ: dict[str, str]) -> OpenAIChat:
    model = model_from_name(name, environ)
    assert isinstance(model, OpenAIChat)
    return model


def key_of(model: Any) -> str | None:
    key = model._endpoint.key
    return key.reveal() if key else None


def test_a_name_is_a_provider_and_a_model() -> None:
    model = openai("openai:gpt-5", KEY)
    assert (model.name, model.base_url) == ("openai:gpt-5", "https://api.openai.com/v1")
    assert key_of(model) == "made-up"


def test_a_models_name_may_hold_colons_and_slashes() -> None:
    local = {"OPENAI_BASE_URL": "http://localhost:11434/v1"}
    assert openai("openai:llama3.2:3b", local).name == "openai:llama3.2:3b"
    assert openai("openai:org/model", local).base_url == "http://localhost:11434/v1"


def test_options_stand_behind_the_name() -> None:
    model = openai(
        "openai:m?temperature=0.2&max_tokens=500&stop=A|B&parallel_tool_calls=no"
        "&tool_choice=required&attempts=5&extra=%7B%22user%22%3A%22u%22%7D",
        KEY,
    )
    options = model.options
    assert (options.temperature, options.max_tokens, options.stop) == (0.2, 500, ("A", "B"))
    assert (options.parallel_tool_calls, options.tool_choice) == (False, "required")
    assert options.extra == {"user": "u"}
    assert model._endpoint.http.attempts == 5


def test_a_list_is_a_model_and_its_fallbacks() -> None:
    models = models_from_names(
        "openai:a?max_tokens=5, openai:b?base_url=http://localhost:8000/v1&key_from=VLLM_KEY",
        {**KEY, "VLLM_KEY": "other"},
    )
    assert [model.name for model in models] == ["openai:a", "openai:b"]
    assert [key_of(model) for model in models] == ["made-up", "other"]
    assert models_from_names(" ", {}) == []


def test_the_usual_key_is_not_sent_to_a_server_of_its_own() -> None:
    assert key_of(openai("openai:b?base_url=http://localhost:8000/v1", KEY)) is None


def test_the_general_variables_count_before_the_providers() -> None:
    environ = {
        **KEY,
        "OPENAI_BASE_URL": "http://usual/v1",
        "SAGENTS_MODEL_BASE_URL": "http://general/v1",
        "SAGENTS_MODEL_API_KEY": "general",
    }
    model = openai("openai:m", environ)
    assert (model.base_url, key_of(model)) == ("http://general/v1", "general")


@dataclass(frozen=True)
class Case:
    """A value that cannot be used, and what is said about it."""

    value: str
    words: str
    environ: dict[str, str] = field(default_factory=lambda: dict(KEY))


CASES = [
    Case(
        "gpt-5",
        "a model is named provider:model, and the known providers are openai:",
    ),
    Case("acme:m", "the known providers are openai:, openai-responses:, anthropic:, google:"),
    Case("openai:", "the model's name is missing behind 'openai:'"),
    Case("openai:a,,openai:b", "the known providers are"),
    Case("openai:m", "needs a key: OPENAI_API_KEY is not set", {}),
    Case("openai:m", "needs a key: OPENAI_API_KEY is not set", {"OPENAI_API_KEY": ""}),
    Case("openai:m?key_from=OTHER_KEY", "needs a key: OTHER_KEY is not set"),
    Case("openai:m?temperatur=1", "unknown option 'temperatur'; known are"),
    Case("openai:m?temperature=hot", "temperature is a number, got 'hot'"),
    Case("openai:m?max_tokens=1.5", "max_tokens is a whole number, got '1.5'"),
    Case("openai:m?stream_usage=maybe", "stream_usage is true or false, got 'maybe'"),
    Case("openai:m?extra=oops", "extra is a mapping, got 'oops'"),
    Case("openai:m?attempts=none", "attempts is a whole number, got 'none'"),
    Case("openai:m?attempts=0", "attempts: at least 1"),
    Case("openai:m?temperature", "options are written name=value"),
    Case("openai:m", "starts with http:// or https://", {"OPENAI_BASE_URL": "localhost:1"}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.value} {case.words}")
def test_a_value_that_cannot_be_used_is_refused_by_name(case: Case) -> None:
    with pytest.raises(Misconfigured) as caught:
        models_from_names(case.value, case.environ)
    assert case.words in str(caught.value)
    assert "made-up" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "environ"),
    [
        ("openai:m", {"OPENAI_API_KEY": "k"}),
        ("openai-responses:m", {"OPENAI_API_KEY": "k"}),
        ("anthropic:m", {"ANTHROPIC_API_KEY": "k"}),
        ("google:m", {"GEMINI_API_KEY": "k"}),
        ("google:m", {"GOOGLE_API_KEY": "k"}),
    ],
)
def test_each_provider_has_its_own_key(name: str, environ: dict[str, str]) -> None:
    (model,) = models_from_names(name, environ)
    assert model.name == name
    assert key_of(model) == "k"
    with pytest.raises(Misconfigured, match="needs a key"):
        models_from_names(name, {})
