"""PostgreSQL, Redis, a web process and a worker, started as docs/production.md says."""

import re
import signal
import sys
import time
from contextlib import ExitStack

import httpx
import pytest

from tests import processes, programs

pytestmark = [pytest.mark.postgres, pytest.mark.redis]

WEB = (sys.executable, "-m", "uvicorn", "project.asgi:application", "--lifespan", "off")
WORKER = (sys.executable, "-m", "celery", "--app", "project", "worker")
HTTPS = {"X-Forwarded-Proto": "https"}

SETUP = """
from django.contrib.auth.models import Permission, User
from project.demo.models import Order
from sagents_app.services import conversations

customer = User.objects.create_user("customer")
reviewer = User.objects.create_user("reviewer", is_staff=True)
reviewer.user_permissions.add(Permission.objects.get(codename="decide_interrupt"))
Order.objects.get_or_create(number="1001", defaults={"item": "Grinder", "total": "89.00"})
conversation = conversations.create_conversation(agent="support", owner=customer)
conversations.post_message(
    conversation=conversation, text="Please refund order 1001", actor=customer
)
print(conversation.pk)
"""

APPROVE = """
from django.contrib.auth.models import User
from sagents_app.engine import Approve
from sagents_app.models import Interrupt
from sagents_app.services import interrupts

row = Interrupt.objects.get(conversation="{pk}")
reviewer = User.objects.get(username="reviewer")
interrupts.decide_interrupt(
    interrupt=row, decision=Approve(), actor=reviewer, digest=row.digest
)
"""

LOOK = """
from sagents_app.models import Conversation
print(Conversation.objects.get(pk="{pk}").status)
"""


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    """The documented environment, with services of its own and the release's steps done."""
    with ExitStack() as stack:
        env = processes.environment(
            **{
                **processes.documented(),
                "ALLOWED_HOSTS": "127.0.0.1",
                "DATABASE_URL": stack.enter_context(programs.new_postgres_database()),
                "REDIS_URL": stack.enter_context(programs.new_redis()),
                "STATIC_ROOT": str(tmp_path_factory.mktemp("static")),
                "TRUST_FORWARDED_PROTO": "1",
            }
        )
        processes.manage("migrate", env=env)
        processes.manage("collectstatic", "--no-input", env=env)
        yield env


@pytest.fixture(scope="module")
def site(env):
    port = programs.free_port()
    with (
        processes.running([*WEB, "--port", str(port)], env=env) as web,
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        web.wait_for("Uvicorn running on")
        yield client


def test_health_answers_over_http_and_pages_insist_on_https(site):
    ready = site.get("/health/ready")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    assert site.get("/accounts/login/").status_code == 301
    assert site.get("/accounts/login/").headers["location"].startswith("https://")


def test_pages_and_static_files_come_from_the_web_process(site):
    page = site.get("/accounts/login/", headers=HTTPS)
    assert page.status_code == 200
    assert "max-age" in page.headers["Strict-Transport-Security"]
    statics = re.findall(r'(?:href|src)="(/static/[^"]+)"', page.text)
    assert statics
    for path in statics:
        answer = site.get(path, headers=HTTPS)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["Cache-Control"]


def test_an_approval_plays_over_a_worker_in_another_process(env):
    with processes.running(WORKER, env={**env, "DATABASE_POOL_SIZE": "40"}) as worker:
        worker.wait_for(" ready.")
        pk = processes.manage("shell", "--no-imports", "-c", SETUP, env=env).split()[-1]
        wait_for_status(pk, "interrupted", env=env)
        processes.manage("shell", "--no-imports", "-c", APPROVE.format(pk=pk), env=env)
        wait_for_status(pk, "idle", env=env)

        assert worker.stop(signal.SIGTERM, time_limit=30) == 0
    assert "Traceback" not in worker.output


def wait_for_status(pk, status, *, env, time_limit=30):
    deadline = time.monotonic() + time_limit
    while True:
        now = processes.manage("shell", "--no-imports", "-c", LOOK.format(pk=pk), env=env).strip()
        if now == status:
            return
        assert time.monotonic() < deadline, f"still {now}, expected {status}"


@pytest.mark.parametrize("command", [WEB, WORKER], ids=["web", "worker"])
def test_nothing_starts_with_an_agent_that_cannot_be_built(env, command):
    wrong = {**env, "SAGENTS_MODEL": "openai:some-model"}
    with processes.running(command, env=wrong) as process:
        assert process.popen.wait(60) != 0
        process.wait_for("OPENAI_API_KEY")
