"""Where a provider is reached and how: addresses, keys that show themselves nowhere, limits.

What goes over the connection is `_http.py`'s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from sagents_app.engine.errors import Misconfigured

MEGABYTE = 1024 * 1024
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)


class Secret:
    """A text that no repr, error or log shows; `reveal` is for the header that carries it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __reduce__(self) -> Any:
        raise TypeError("a secret is not pickled")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Timeouts, retries and limits of calls to a provider.

    Proxies and certificates come from the usual variables: `HTTPS_PROXY`, `HTTP_PROXY`,
    `ALL_PROXY`, `NO_PROXY`, `SSL_CERT_FILE`, `SSL_CERT_DIR`.
    """

    attempts: int = 3
    """Tries of one call, the first one included."""
    first_wait: float = 0.5
    """Seconds before the second try; doubled before each further one, with jitter."""
    longest_wait: float = 16.0
    """Seconds; the bound of that doubling."""
    longest_asked_wait: float = 60.0
    """Seconds; a provider that asks for more has its error raised at once."""
    connect_timeout: float = 10.0
    """Seconds to a connection, TLS included."""
    read_timeout: float = 300.0
    """Seconds of silence, before or inside a reply; a keep-alive comment ends a silence."""
    write_timeout: float = 30.0
    """Seconds in which a piece of the request must be taken."""
    pool_timeout: float = 30.0
    """Seconds of waiting for a free connection."""
    max_connections: int = 200
    max_reply_bytes: int = 64 * MEGABYTE
    """Of a whole reply on the wire, whose envelope is many times its text."""
    max_reply_chars: int = 8 * MEGABYTE
    """Of text, thinking and arguments in a reply."""
    http2: bool = False
    """Offer HTTP/2. Many streams then share a connection, and its fate."""
    transport: Any = field(default=None, repr=False)
    """An `httpx` transport in place of the network, for tests."""

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise Misconfigured(f"attempts: at least 1, got {self.attempts!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One address that is posted to, by which model, with which key."""

    model: str
    """What errors and events call the model."""
    url: str
    key: Secret | None = None
    key_header: str = "Authorization"
    key_prefix: str = "Bearer "
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further headers of each call."""
    http: HttpOptions = HttpOptions()

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no text may hold."""
        own = (self.key.reveal(),) if self.key else ()
        return (*own, *(v for name, v in self.headers.items() if _SECRET_HEADER.search(name)))


def checked_name(name: str) -> str:
    """Return a model's name, as its provider knows it.

    Raises:
        Misconfigured: it is no text, or empty.
    """
    if not (isinstance(name, str) and name.strip()):
        raise Misconfigured(f"a model's name is a text, got {name!r}")
    return name


def checked_key(api_key: str | None, *, of: str) -> Secret | None:
    """Return the key as a secret, None where there is none.

    Raises:
        Misconfigured: it cannot stand in a header; the text does not repeat it.
    """
    if not api_key:
        return None
    if not (isinstance(api_key, str) and api_key.isascii() and api_key.isprintable()):
        raise Misconfigured(f"{of}: the API key holds characters that no key has (a line break?)")
    if api_key != api_key.strip():
        raise Misconfigured(f"{of}: the API key begins or ends with a space")
    return Secret(api_key)


def checked_url(base_url: str, *, of: str) -> str:
    """Return the base URL without a slash at its end.

    Raises:
        Misconfigured: it is no http or https address, or holds a user name or password.
    """
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except (ValueError, AttributeError, TypeError):
        raise Misconfigured(f"{of}: {base_url!r} is no address") from None
    if "@" in parts.netloc:
        raise Misconfigured(f"{of}: the base URL holds a user name or password; use the API key")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Misconfigured(
            f"{of}: a base URL starts with http:// or https:// and names a host, got {base_url!r}"
        )
    return urlunsplit(parts._replace(path=parts.path.rstrip("/"), fragment=""))


def joined(base_url: str, path: str, *, query: str = "") -> str:
    """Return the address of `path` below a base URL, whose query string is kept."""
    parts = urlsplit(base_url)
    queries = "&".join(filter(None, (parts.query, query)))
    return urlunsplit(parts._replace(path=f"{parts.path}{path}", query=queries))


async def close_connections() -> None:
    """Close what the models keep open on the running loop, before it ends."""
    from sagents_app.engine.chat_models import _http  # httpx is imported by those that call

    await _http.close_clients()
