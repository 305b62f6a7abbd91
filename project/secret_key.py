"""The secret key of a development checkout: made once, kept in a file that git ignores."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from django.core.management.utils import get_random_secret_key


def read_or_make(path: Path) -> str:
    """Return the key kept at `path`, made first; processes that start together agree on one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        draft.touch(mode=0o600)
        draft.write_text(get_random_secret_key())
        # A link appears with its content and never replaces another process's.
        with suppress(FileExistsError):
            path.hardlink_to(draft)
        draft.unlink()
    return path.read_text().strip()
