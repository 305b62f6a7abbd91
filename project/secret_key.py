"""The secret key of a development checkout: made once, kept in a file that git ignores."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from django.core.management.utils import get_random_secret_key


def read_or_make(path: Path) -> str:
    """Return the key kept at `path`, made first; processes that start together agree on one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        with NamedTemporaryFile("w", dir=path.parent, prefix=f"{path.name}.") as draft:
            draft.write(get_random_secret_key())
            draft.flush()
            # A link appears with its content and never replaces another process's.
            with suppress(FileExistsError):
                path.hardlink_to(draft.name)
    return path.read_text()
