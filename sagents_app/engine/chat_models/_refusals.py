"""What a provider says when it refuses, as an error of the engine's tree. Pure.

`refusal` is the one place that tells a status and a body apart; providers word the same fact in
many ways, and what they call it (`code`, `type`, `status`) counts before their sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from sagents_app.engine import canonical
from sagents_app.engine.errors import (
    AuthenticationFailed,
    BadRequest,
    ContentFiltered,
    ContextTooLong,
    ModelError,
    ModelTimeout,
    Overloaded,
    RateLimited,
    StreamDied,
)

LONGEST_WORDS = 500
MASK = "***"
_KEYS = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|key|hf|nvapi|pplx|r8)[-_][A-Za-z0-9*._-]{8,}|\bAIza[A-Za-z0-9_-]{10,}"
    r"|(?<=bearer )[^\s\"',;]{4,}",
    re.IGNORECASE,
)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)

# Names that settle the matter whatever the HTTP status is.
_BY_NAME: Mapping[str, type[ModelError]] = {
    "context_length_exceeded": ContextTooLong,
    "exceed_context_size_error": ContextTooLong,  # llama.cpp
    "request_too_large": ContextTooLong,  # Anthropic
    "content_filter": ContentFiltered,
    "content_policy_violation": ContentFiltered,
    "responsibleaipolicyviolation": ContentFiltered,  # Azure
    "image_content_policy_violation": ContentFiltered,
    "bio_policy": ContentFiltered,
    "insufficient_quota": AuthenticationFailed,  # OpenAI's 429 that no waiting helps
    "api_key_invalid": AuthenticationFailed,  # Google's 400
    "billing_error": AuthenticationFailed,
    "billing_hard_limit_reached": AuthenticationFailed,
    "billing_not_active": AuthenticationFailed,
}
# Names that count where there is no status, inside a stream.
_BY_NAME_IN_STREAM: Mapping[str, type[ModelError]] = {
    "rate_limit_exceeded": RateLimited,
    "rate_limit_error": RateLimited,
    "resource_exhausted": RateLimited,
    "overloaded_error": Overloaded,
    "server_error": Overloaded,
    "api_error": Overloaded,
    "internal_server_error": Overloaded,
    "internal": Overloaded,
    "unavailable": Overloaded,
    "service_unavailable": Overloaded,
    "server_overloaded": Overloaded,
    "authentication_error": AuthenticationFailed,
    "invalid_api_key": AuthenticationFailed,
    "permission_error": AuthenticationFailed,
    "permission_denied": AuthenticationFailed,
    "unauthenticated": AuthenticationFailed,
    "invalid_request_error": BadRequest,
    "badrequesterror": BadRequest,
    "invalid_argument": BadRequest,
    "not_found_error": BadRequest,
    "model_not_found": BadRequest,
}
_TOO_LONG = re.compile(
    r"maximum context|context[ _-]?(?:length|window|size)|prompt is too long|input is too long"
    r"|input token count|too many input tokens|reduce the length of the (?:messages|prompt|input)",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content (?:management )?polic|content[ _]filter|flagged|moderation|safety system",
    re.IGNORECASE,
)
_BY_STATUS: Mapping[int, type[ModelError]] = {
    401: AuthenticationFailed,
    402: AuthenticationFailed,
    403: AuthenticationFailed,
    409: Overloaded,
    413: ContextTooLong,
    425: Overloaded,
    429: RateLimited,
    498: Overloaded,  # Groq: flex capacity exceeded
    499: Overloaded,
    501: BadRequest,
    505: BadRequest,
}


@dataclass(frozen=True, slots=True)
class Said:
    """A provider's account of an error."""

    words: str
    names: tuple[str, ...] = ()
    """What the error is called, in lower case: codes, types and statuses."""
    status: int | None = None
    """An HTTP status that stands in the body."""
    wait: float | None = None
    """Seconds to wait that stand in the body."""


def refusal(
    body: Any,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    secrets: Iterable[str] = (),
) -> ModelError:
    """Return the error that an answer means.

    `body` is the parsed JSON, or the text where it is none. Without a `status` it is an error
    inside a stream that had begun well. Keys of `headers` are in lower case.
    """
    said = read(body)
    known = status if status is not None else said.status
    kind = _kind(said, known)
    words = shortened(masked(said.words, secrets)) or "no reason given"
    text = words if status is None else f"HTTP {status}: {words}"
    wait = retry_after(headers or {})
    wait = said.wait if wait is None else wait
    if kind is ModelTimeout:
        return ModelTimeout(text, phase="read")
    return kind(text, retry_after=wait if kind in (RateLimited, Overloaded) else None)


def read(body: Any) -> Said:
    """Return what is said in a body of any of the known forms."""
    if isinstance(body, str):
        return Said(_of_text(body))
    if isinstance(body, list) and body:
        return read(body[0])  # Gemini's streams wrap the error in a list
    if not isinstance(body, Mapping):
        return Said(canonical.to_text(body) if body else "")
    error = body.get("error") or body
    if not isinstance(error, Mapping):
        return Said(_worded(error), _names(body.get("code"), body.get("type")))
    words = error.get("message") or error.get("detail") or error.get("msg") or body.get("message")
    parts = [_worded(words or error)]
    metadata = error.get("metadata")
    if isinstance(metadata, Mapping) and metadata.get("raw"):
        parts.append(_worded(metadata["raw"]))  # OpenRouter: what the server behind it said
    return Said(
        " | ".join(parts),
        _names(
            error.get("code"),
            error.get("type"),
            error.get("status"),
            _inner(error),
            *_reasons(error.get("details")),
        ),
        next((n for n in (error.get("code"), error.get("status")) if _is_status(n)), None),
        _delay(error.get("details")),
    )


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """Return `text` without `secrets` and without anything that looks like a key."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, MASK)
    return _KEYS.sub(MASK, text)


def shortened(text: str, longest: int = LONGEST_WORDS) -> str:
    """Return `text` on one line, at most `longest` characters of it."""
    line = " ".join(canonical.clean_text(text[: longest * 4]).split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that `retry-after-ms` or `retry-after` asks for, None for neither."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after")
    seconds = _number(asked)
    if seconds is not None or not asked:
        return seconds
    try:
        date = parsedate_to_datetime(asked)
    except (TypeError, ValueError):
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())


def _kind(said: Said, status: int | None) -> type[ModelError]:
    for name in said.names:
        if name in _BY_NAME:
            return _BY_NAME[name]
    if status not in (401, 402, 429):
        if _TOO_LONG.search(said.words):
            return ContextTooLong
        if _FILTERED.search(said.words) and (status is None or status < 500):
            return ContentFiltered
    if status is None:
        return next(filter(None, map(_in_stream, said.names)), StreamDied)
    if status == 408:
        return ModelTimeout
    return _BY_STATUS.get(status) or (Overloaded if status >= 500 else BadRequest)


def _in_stream(name: str) -> type[ModelError] | None:
    if name.startswith("invalid_") or name.endswith("_not_found"):
        return _BY_NAME_IN_STREAM.get(name, BadRequest)
    return _BY_NAME_IN_STREAM.get(name)


def _of_text(text: str) -> str:
    head = text[:4000]
    if "<html" not in head.lower() and "<!doctype" not in head.lower():
        return head
    title = _TITLE.search(head)
    named = f" titled {' '.join(title[1].split())!r}" if title and title[1].strip() else ""
    return f"an HTML page{named}; is the base URL that of the API?"


def _worded(value: Any) -> str:
    if isinstance(value, str):
        return _of_text(value)
    return json.dumps(value, ensure_ascii=False, default=str)[:4000]


def _names(*values: Any) -> tuple[str, ...]:
    return tuple(value.lower() for value in values if isinstance(value, str) and value)


def _inner(error: Mapping[str, Any]) -> Any:
    for key in ("innererror", "inner_error"):  # Azure
        if isinstance(error.get(key), Mapping):
            return error[key].get("code")
    return None


def _is_status(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600


def _reasons(details: Any) -> list[Any]:
    """Return the reasons of Google's `ErrorInfo`s."""
    given = details if isinstance(details, list) else ()
    return [detail.get("reason") for detail in given if isinstance(detail, Mapping)]


def _delay(details: Any) -> float | None:
    """Return the seconds of a Google `RetryInfo`, whose `retryDelay` is "34.5s"."""
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, Mapping) else None
        if isinstance(delay, str) and delay.endswith("s"):
            return _number(delay[:-1])
    return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < 1e9 else None
