import os
import re
import runpy
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from django.core.exceptions import ImproperlyConfigured

from project import environment, secret_key
from tests import processes
from tests.programs import ROOT

PRODUCTION = processes.documented()


@pytest.fixture
def load(monkeypatch):
    """Load the settings anew, from the given variables and nothing else."""

    def load_settings(**variables):
        for name in list(os.environ):
            if name not in processes.NEUTRAL and not name.startswith("PYTEST"):
                monkeypatch.delenv(name)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return runpy.run_path(str(ROOT / "project" / "settings.py"))

    return load_settings


@dataclass(frozen=True)
class Case:
    variable: str
    """What the refusal names."""
    reason: str
    changed: dict[str, str] = field(default_factory=dict)
    """Variables beside those of the documented production environment; empty ones are unset."""


REFUSED = [
    Case("SECRET_KEY", "DEBUG=1 for development", {"SECRET_KEY": ""}),
    Case("SECRET_KEY", "50 random characters", {"SECRET_KEY": "short"}),
    Case("SECRET_KEY", "50 random characters", {"SECRET_KEY": "x" * 60}),
    Case("ALLOWED_HOSTS", "without '*'", {"ALLOWED_HOSTS": ""}),
    Case("ALLOWED_HOSTS", "without '*'", {"ALLOWED_HOSTS": "agents.example.org,*"}),
    Case("DATABASE_URL", "PostgreSQL", {"DATABASE_URL": ""}),
    Case("DATABASE_URL", "PostgreSQL", {"DATABASE_URL": "sqlite:///somewhere.sqlite3"}),
    Case("REDIS_URL", "must be set", {"REDIS_URL": ""}),
    Case("CSRF_TRUSTED_ORIGINS", "scheme", {"CSRF_TRUSTED_ORIGINS": "agents.example.org"}),
    Case("DEBUG", "1 or 0", {"DEBUG": "maybe"}),
    Case("SECURE_HSTS_SECONDS", "whole number", {"SECURE_HSTS_SECONDS": "-1"}),
    Case("EMAIL_URL", "smtp://", {"EMAIL_URL": "imap://mail.example.org"}),
    Case("EMAIL_URL", "smtp://", {"EMAIL_URL": "smtp://mail.example.org?starttls=1"}),
    Case("WORKER_CONCURRENCY", "whole number", {"WORKER_CONCURRENCY": "many"}),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case.variable}={case.changed}")
def test_an_unsafe_or_senseless_value_is_refused_by_name(load, case):
    with pytest.raises(ImproperlyConfigured, match=f"^{case.variable} .*{case.reason}"):
        load(**{**PRODUCTION, **case.changed})


def test_the_documented_production_environment_is_accepted(load):
    settings = load(**PRODUCTION)
    assert settings["DEBUG"] is False
    assert settings["SESSION_COOKIE_SECURE"] is True
    assert settings["CSRF_COOKIE_SECURE"] is True
    assert settings["SECURE_SSL_REDIRECT"] is True
    assert settings["DATABASES"]["default"]["ENGINE"] == "django.db.backends.postgresql"
    assert settings["DATABASES"]["default"]["CONN_MAX_AGE"] == 60
    assert settings["CELERY_BROKER_URL"] == PRODUCTION["REDIS_URL"]
    assert "channels_redis" in settings["CHANNEL_LAYERS"]["default"]["BACKEND"]


def test_nothing_set_is_production_and_refused(load):
    with pytest.raises(ImproperlyConfigured, match="SECRET_KEY"):
        load()


def test_debug_alone_is_the_embedded_mode(load):
    settings = load(DEBUG="1", SECRET_KEY="given")
    assert settings["SECRET_KEY"] == "given"
    assert settings["DATABASES"]["default"]["ENGINE"] == "django.db.backends.sqlite3"
    assert settings["DATABASES"]["default"]["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert settings["CELERY_BROKER_URL"].startswith("memory:")
    assert settings["SESSION_COOKIE_SECURE"] is False


def test_one_process_may_serve_on_sqlite_with_debug_off_when_told_so(load):
    embedded = {**PRODUCTION, "DATABASE_URL": "", "REDIS_URL": "", "SAGENTS_EMBEDDED": "1"}
    assert load(**embedded)["DATABASES"]["default"]["ENGINE"] == "django.db.backends.sqlite3"


def test_a_worker_may_pool_its_database_connections(load):
    database = load(**PRODUCTION, DATABASE_POOL_SIZE="40")["DATABASES"]["default"]
    assert database["OPTIONS"]["pool"]["max_size"] == 40
    # Django refuses a pool of persistent connections.
    assert not database.get("CONN_MAX_AGE")


def test_mail_goes_where_its_url_says(monkeypatch):
    monkeypatch.setenv("EMAIL_URL", "smtp://me:p%40ss@mail.example.org:587?tls=1")
    server = environment.mail_server("EMAIL_URL", default=environment.CONSOLE_MAIL)
    assert (server.host, server.port, server.user) == ("mail.example.org", 587, "me")
    assert (server.password, server.tls, server.ssl) == ("p@ss", True, False)
    assert "p@ss" not in repr(server)


def test_processes_that_start_together_agree_on_one_kept_key(tmp_path):
    path = tmp_path / "var" / "secret_key"
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(secret_key.read_or_make, [path] * 8))
    assert len(keys) == 1
    assert len(keys.pop()) >= 50
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_deployment_checks_pass_with_the_documented_variables():
    processes.manage(
        "check", "--deploy", "--fail-level", "WARNING", env=processes.environment(**PRODUCTION)
    )


def test_each_variable_that_is_read_is_documented():
    source = (ROOT / "project" / "settings.py").read_text()
    names = set(re.findall(r"environment\.\w+\(\s*\"([A-Z_]+)\"", source))
    documented = set(re.findall(r"^\| `([A-Z_]+)`", (ROOT / "docs/settings.md").read_text(), re.M))
    assert names
    assert names - documented == set()


def test_each_setting_of_the_app_is_documented():
    source = (ROOT / "sagents_app" / "conf.py").read_text()
    documented = (ROOT / "docs/settings.md").read_text()
    names = set(re.findall(r"\"(SAGENTS_[A-Z_]+)\"", source))
    assert {name for name in names if f"| `{name}` |" not in documented} == set()
