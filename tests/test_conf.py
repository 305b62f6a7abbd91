from dataclasses import dataclass
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from sagents_app import conf
from sagents_app.engine import Misconfigured


def tenant_of(user):
    return "acme"


def test_the_defaults():
    assert conf.current() == conf.Configuration()


def test_a_change_of_a_setting_is_seen():
    before = conf.current()
    assert conf.current() is before
    with override_settings(SAGENTS_LEASE_SECONDS=2, SAGENTS_HEARTBEAT_SECONDS=1):
        assert conf.current().lease_seconds == 2.0
    assert conf.current() == before


def test_the_tenant_function_is_found_by_its_path():
    with override_settings(SAGENTS_TENANT=f"{__name__}.tenant_of"):
        tenant = conf.current().tenant
        assert tenant is not None
        assert tenant(None) == "acme"


def test_the_key_is_not_shown():
    with override_settings(SAGENTS_MODEL_API_KEY="sk-secret"):
        assert conf.current().model_api_key == "sk-secret"
        assert "sk-secret" not in repr(conf.current())


def test_no_model_is_named_by_default():
    assert conf.models() == []


def test_the_named_models_are_made_with_the_settings_address(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with override_settings(
        SAGENTS_MODEL="openai:large,openai:small", SAGENTS_MODEL_BASE_URL="http://127.0.0.1:9/v1"
    ):
        assert [model.name for model in conf.models()] == ["openai:large", "openai:small"]


def test_a_key_that_the_providers_tools_know_is_found(monkeypatch):
    with override_settings(SAGENTS_MODEL="openai:large"):
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        with pytest.raises(Misconfigured, match="OPENAI_API_KEY"):
            conf.models()
        monkeypatch.setenv("OPENAI_API_KEY", "sk-somebody")
        assert len(conf.models()) == 1


@dataclass(frozen=True)
class Case:
    setting: str
    value: Any


REFUSED = [
    Case("SAGENTS_MODEL", "gpt-5"),
    Case("SAGENTS_MODEL", "openai:"),
    Case("SAGENTS_MODEL", 5),
    Case("SAGENTS_MODEL_BASE_URL", "localhost:11434"),
    Case("SAGENTS_TENANT", "no.such.module"),
    Case("SAGENTS_TENANT", "sagents_app.__version__"),
    Case("SAGENTS_TENANT", tenant_of),
    Case("SAGENTS_LEASE_SECONDS", "30"),
    Case("SAGENTS_LEASE_SECONDS", 0),
    Case("SAGENTS_LEASE_SECONDS", True),
    Case("SAGENTS_HEARTBEAT_SECONDS", 20),
    Case("SAGENTS_MAX_ATTEMPTS", 0),
    Case("SAGENTS_MAX_ATTEMPTS", 2.5),
    Case("SAGENTS_MAX_MESSAGE_CHARS", -1),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case.setting}={case.value!r}")
def test_a_bad_value_is_refused_by_its_settings_name(case):
    with (
        override_settings(**{case.setting: case.value}),
        pytest.raises(ImproperlyConfigured, match=case.setting),
    ):
        conf.current()
