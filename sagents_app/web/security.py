"""The content security policy of every page: what it may load is of this site, nothing inline.

An agent's text is untrusted. Should markup of it ever reach a page, the policy keeps it from
running code, from loading an address that carries data away, and from being framed.
"""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)


class ContentSecurityPolicyMiddleware:
    """Add the policy to each response that brings none of its own."""

    sync_capable = True
    async_capable = False

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Pass the request on and give its response the policy."""
        response = self.get_response(request)
        # Django's own error page for developers is made of inline styles and scripts.
        if not (settings.DEBUG and response.status_code == 500):
            response.headers.setdefault("Content-Security-Policy", POLICY)
        return response
