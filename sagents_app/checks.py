"""System checks: settings, and every registered agent built once."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.checks import Warning as CheckWarning
from django.core.exceptions import ImproperlyConfigured

from sagents_app import conf
from sagents_app.engine import EngineError
from sagents_app.models import Conversation
from sagents_app.services import agents
from sagents_app.services.errors import ServiceError


@register(Tags.compatibility)
def check_settings(**_: Any) -> list[CheckMessage]:
    """Read every setting, so that a wrong one stops the start."""
    try:
        conf.current()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="sagents_app.E001")]
    return []


@register(Tags.compatibility)
def check_agents(**_: Any) -> list[CheckMessage]:
    """Build every registered agent from an unsaved conversation."""
    found: list[CheckMessage] = []
    for name, registration in agents.registered().items():
        conversation = Conversation(
            agent_name=name, agent_version=registration.version, owner=get_user_model()()
        )
        try:
            agents.build(conversation)
        except (EngineError, ServiceError, ImproperlyConfigured) as error:
            found.append(Error(f"agent {name!r}: {error}", id="sagents_app.E002"))
        except Exception as error:  # noqa: BLE001  # the builder is the host's code
            text = f"agent {name!r} cannot be built: {type(error).__name__}: {error}"
            found.append(Error(text, id="sagents_app.E002"))
    if not agents.registered():
        hint = "Add an agents.py with @agents.register(...) to an installed app."
        found.append(CheckWarning("no agent is registered", hint=hint, id="sagents_app.W001"))
    return found
