"""The environment of a test run, set before Django reads its settings.

A plugin of pytest (`-p tests.environment`), because pytest-django loads the settings before any
conftest. Whatever the caller set stands: `DATABASE_URL` and `REDIS_URL` choose what it runs on.
"""

import os
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

DEFAULTS = {
    "DEBUG": "1",
    "DJANGO_SETTINGS_MODULE": "project.settings",
    "SECRET_KEY": "made-up-for-tests-" * 4,
    # No real model is ever asked by accident.
    "SAGENTS_MODEL": "",
}

_scratch = tempfile.TemporaryDirectory(prefix="sagents-tests-", ignore_cleanup_errors=True)

for _name, _value in DEFAULTS.items():
    os.environ.setdefault(_name, _value)

if "TEST_DATABASE_NAME" not in os.environ:
    # Runs that go on side by side do not share a test database; a SQLite one is a file, since
    # SQLite's shared memory databases know no waiting for a lock.
    _engine = urlsplit(os.environ.get("DATABASE_URL", "")).scheme
    os.environ["TEST_DATABASE_NAME"] = (
        f"test_sagents_{os.getpid()}"
        if _engine.startswith("postgres")
        else str(Path(_scratch.name) / "test.sqlite3")
    )
