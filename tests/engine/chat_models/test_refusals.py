"""What a provider says when it refuses, as an error of the engine's tree."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from sagents_app.engine.chat_models import _refusals
from sagents_app.engine.errors import (
    AuthenticationFailed,
    BadRequest,
    ContentFiltered,
    ContextTooLong,
    ModelError,
    ModelTimeout,
    Overloaded,
    RateLimited,
)


@dataclass(frozen=True)
class Case:
    """An answer, and the error that it means. `origin` says who answers so."""

    origin: str
    status: int
    body: Any
    error: type[ModelError]
    words: str = ""
    headers: dict[str, str] = field(default_factory=dict)


def openai(message: str, kind: str = "invalid_request_error", code: str | None = None) -> Any:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


CASES = [
    Case(
        "https://platform.openai.com/docs/guides/error-codes",
        401,
        openai("Incorrect API key provided: sk-made-up***cdef.", code="invalid_api_key"),
        AuthenticationFailed,
        "Incorrect API key provided",
    ),
    Case(
        "https://platform.openai.com/docs/guides/error-codes",
        429,
        openai("Rate limit reached for gpt-4o", "requests", "rate_limit_exceeded"),
        RateLimited,
        "Rate limit reached",
    ),
    Case(
        "https://platform.openai.com/docs/guides/error-codes: no waiting helps",
        429,
        openai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"),
        AuthenticationFailed,
    ),
    Case(
        "OpenAI: tokens a minute are a rate, not the window",
        429,
        openai("Request too large for gpt-4o on tokens per min. Limit 30000", "tokens"),
        RateLimited,
    ),
    Case("OpenAI", 500, openai("The server had an error", "server_error"), Overloaded),
    Case("OpenAI", 503, openai("The engine is overloaded", "server_error"), Overloaded),
    Case(
        "OpenAI",
        400,
        openai(
            "This model's maximum context length is 8192 tokens. However, your messages resulted "
            "in 9000 tokens.",
            code="context_length_exceeded",
        ),
        ContextTooLong,
        "8192",
    ),
    Case(
        "OpenAI: the reply's length is not the window",
        400,
        openai(
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens"
        ),
        BadRequest,
    ),
    Case("OpenAI", 404, openai("The model `x` does not exist", code="model_not_found"), BadRequest),
    Case(
        "https://learn.microsoft.com/en-us/azure/ai-foundry/openai/concepts/content-filter",
        400,
        {
            "error": {
                "message": "The response was filtered",
                "type": None,
                "param": "prompt",
                "code": "content_filter",
                "status": 400,
                "innererror": {"code": "ResponsibleAIPolicyViolation"},
            }
        },
        ContentFiltered,
    ),
    Case(
        "https://openrouter.ai/docs/api-reference/errors",
        403,
        {"error": {"code": 403, "message": "Your input was flagged", "metadata": {"reasons": []}}},
        ContentFiltered,
    ),
    Case(
        "OpenRouter",
        402,
        {"error": {"code": 402, "message": "Insufficient credits"}},
        AuthenticationFailed,
    ),
    Case(
        "OpenRouter: the words of the server behind it",
        400,
        {
            "error": {
                "code": 400,
                "message": "Provider returned error",
                "metadata": {"raw": "bad temperature"},
            }
        },
        BadRequest,
        "bad temperature",
    ),
    Case(
        "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size. try increasing it",
                "type": "exceed_context_size_error",
            }
        },
        ContextTooLong,
    ),
    Case(
        "llama.cpp",
        503,
        {"error": {"code": 503, "message": "Loading model"}},
        Overloaded,
        "Loading",
    ),
    Case(
        "vLLM",
        400,
        {"object": "error", "message": "Conversation roles must alternate", "code": 400},
        BadRequest,
        "must alternate",
    ),
    Case(
        "Ollama",
        404,
        {"error": {"message": 'model "x" not found, try pulling it first', "type": "api_error"}},
        BadRequest,
        "pulling",
    ),
    Case(
        "Ollama's own form", 400, {"error": "does not support tools"}, BadRequest, "support tools"
    ),
    Case(
        "FastAPI",
        422,
        {"detail": [{"loc": ["body", "n"], "msg": "too small"}]},
        BadRequest,
        "too small",
    ),
    Case(
        "Mistral",
        422,
        {"object": "error", "message": {"detail": [{"msg": "9 letters"}]}},
        BadRequest,
        "9 letters",
    ),
    Case(
        "Anthropic",
        529,
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        Overloaded,
    ),
    Case(
        "Anthropic",
        413,
        {"type": "error", "error": {"type": "request_too_large", "message": "big"}},
        ContextTooLong,
    ),
    Case(
        "a proxy",
        504,
        "<html><head><title>504 Gateway Time-out</title></head></html>",
        Overloaded,
        "504 Gateway",
    ),
    Case("a web server", 404, "<!DOCTYPE html><title> Not\nFound </title>", BadRequest, "base URL"),
    Case(
        "Gemini's streams",
        503,
        [{"error": {"code": 503, "message": "try later", "status": "UNAVAILABLE"}}],
        Overloaded,
        "try later",
    ),
    Case(
        "a server that names nothing",
        400,
        {"error": {"message": "prompt is too long: 9000 tokens"}},
        ContextTooLong,
        "9000 tokens",
    ),
    Case("nobody", 408, "", ModelTimeout, "no reason given"),
    Case("nobody", 418, None, BadRequest, "no reason given"),
    Case("nobody", 400, {"error": {"message": None}}, BadRequest),
    Case("nobody", 400, {"error": [1, 2]}, BadRequest, "1, 2"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.status} {case.origin}")
def test_an_answer_means_its_error(case: Case) -> None:
    error = _refusals.refusal(case.body, status=case.status, headers=case.headers)
    assert type(error) is case.error
    assert case.words in str(error)
    assert f"HTTP {case.status}" in str(error)
    assert len(str(error)) < 600


def test_every_status_is_an_error_that_says_whether_a_retry_helps() -> None:
    retryable = {
        status for status in range(400, 600) if _refusals.refusal("x", status=status).retryable
    }
    assert retryable == {408, 409, 425, 429, 498, 499} | (set(range(500, 600)) - {501, 505})


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_the_wait_is_read_in_each_form(headers: dict[str, str], seconds: float | None) -> None:
    assert _refusals.retry_after(headers) == seconds
    assert _refusals.refusal("x", status=429, headers=headers).retry_after == seconds


def test_a_date_to_wait_for_is_seconds_from_now() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    seconds = _refusals.retry_after({"retry-after": date})
    assert seconds is not None
    assert 80 < seconds <= 90


def test_a_wait_in_the_body_is_read() -> None:
    """The form of https://cloud.google.com/apis/design/errors (RetryInfo)."""
    body = {
        "error": {
            "code": 429,
            "message": "Resource exhausted",
            "status": "RESOURCE_EXHAUSTED",
            "details": [
                {"@type": "type.googleapis.com/google.rpc.Help"},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"},
            ],
        }
    }
    assert _refusals.refusal(body, status=429).retry_after == 34.5


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-made_up-0123456789.",
        "key sk-ant-api03-made-up-0123456789 is wrong",
        "Authorization: Bearer made-up-0123456789",
        "AIzaSyMadeUp0123456789abcdef is wrong",
        "gsk_madeup0123456789",
        "the key is my own-0123456789 secret",
    ],
)
def test_keys_in_a_providers_words_are_masked(text: str) -> None:
    error = _refusals.refusal(openai(text), status=401, secrets=("my own-0123456789 secret",))
    assert "0123456789" not in str(error)
    assert "***" in str(error)


def test_an_empty_secret_masks_nothing() -> None:
    assert str(_refusals.refusal("no such model", status=404, secrets=("",))) == (
        "HTTP 404: no such model"
    )


def test_long_words_are_shortened_to_one_line() -> None:
    error = _refusals.refusal(openai("a\nb " + "x" * 100_000), status=400)
    assert str(error).startswith("HTTP 400: a b xxx")
    assert str(error).endswith("…")
    assert len(str(error)) < 600
