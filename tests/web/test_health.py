import threading
import time

import pytest
from django.test import Client, override_settings

from sagents_app.web import health
from sagents_app.web.health import Probe, examine


def test_live_answers_without_login_or_database(client):
    response = client.get("/health/live")
    assert response.status_code == 200
    assert response.json() == {"status": "live"}
    assert "no-store" in response.headers["Cache-Control"]


@pytest.mark.django_db(transaction=True)
def test_ready_when_every_part_answers(client):
    response = client.get("/health/ready")
    assert response.json() == {
        "status": "ready",
        "database": "ok",
        "broker": "ok",
        "channel layer": "ok",
        "draining": "no",
    }
    assert response.status_code == 200


@override_settings(SECURE_SSL_REDIRECT=True)
@pytest.mark.parametrize("path", ["/health/live", "/health/ready"])
@pytest.mark.django_db(transaction=True)
def test_health_is_not_redirected_to_https(path):
    assert Client().get(path).status_code == 200
    assert Client().get("/accounts/login/").status_code == 301


def test_a_broken_part_is_unreachable():
    def refuse():
        raise ConnectionError("refused")

    assert examine((Probe(name="broker", ask=refuse),)) == {"broker": "unreachable"}


def test_a_part_that_hangs_is_not_waited_for_and_occupies_one_thread():
    release = threading.Event()
    asked = []

    def hang():
        asked.append(threading.current_thread())
        release.wait(30)

    probes = (Probe(name="database", ask=hang), Probe(name="broker", ask=lambda: None))
    started = time.monotonic()
    first = examine(probes, time_limit=0.1)
    second = examine(probes, time_limit=0.1)
    assert time.monotonic() - started < 5
    assert first == second == {"database": "no answer in time", "broker": "ok"}
    assert len(asked) == 1

    release.set()
    asked[0].join(5)
    assert examine(probes, time_limit=5) == {"database": "ok", "broker": "ok"}


@pytest.mark.parametrize("method", ["post", "put", "delete"])
def test_health_only_answers_reads(client, method):
    assert getattr(client, method)("/health/live").status_code == 405


def test_each_part_is_probed():
    assert [probe.name for probe in health.PROBES] == ["database", "broker", "channel layer"]
