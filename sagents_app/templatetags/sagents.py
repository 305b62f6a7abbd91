"""Tags of the pages."""

from __future__ import annotations

from django import template
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.simple_tag
def icon(name: str) -> SafeString:
    """Return an icon of `icons.svg`, which says nothing to a screen reader."""
    return format_html(
        '<svg class="icon" aria-hidden="true" focusable="false"><use href="{}#{}"></use></svg>',
        static("sagents_app/icons.svg"),
        name,
    )


@register.filter
def lookup(mapping: dict[str, str], key: str) -> str:
    """Return what a mapping holds, or the key itself."""
    return mapping.get(key, key)
