"""The package as its users get it: built, installed elsewhere, and the README followed."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import httpx
import pytest

from tests import processes
from tests.programs import ROOT

ADMIN = {"username": "ada", "password": "correct horse battery"}


def run(*command, cwd, env=None):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=env or processes.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist, and the wheel made from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (sdist,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def python(built, tmp_path_factory):
    """The Python of a new environment with the wheel; its dependencies are those of this run."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    run(
        *(sys.executable, "-m", "pip", "--python", python, "install"),
        *("--quiet", "--no-deps", "--no-index", built[1]),
        cwd=folder,
    )
    paths = {"base": str(folder), "platbase": str(folder)}
    site = Path(sysconfig.get_path("purelib", "venv", paths))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    where = run(python, "-c", "import sagents_app; print(sagents_app.__file__)", cwd=folder)
    assert Path(where.strip()).is_relative_to(site)
    return python


def readme_files():
    """The README's twenty lines as (file name, text)."""
    (snippet,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    parts = re.split(r"^# ((?:shop/)?\w+\.py)\b.*\n", snippet, flags=re.M)
    files = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {name if "/" in name else f"shop/{name}": text for name, text in files.items()}


@pytest.fixture(scope="module")
def shop(python, tmp_path_factory):
    """A new Django project that follows the README."""
    folder = tmp_path_factory.mktemp("shop")
    run(python, "-m", "django", "startproject", "shop", folder, cwd=folder)
    files = readme_files()
    assert files.keys() == {"shop/settings.py", "shop/asgi.py", "shop/urls.py", "shop/agents.py"}

    settings = folder / "shop/settings.py"
    # "add sagents_app before django.contrib.admin in INSTALLED_APPS", and shop "has to be an
    # installed app"
    apps = 'INSTALLED_APPS = [\n    "sagents_app",\n    "shop",\n'
    text = settings.read_text().replace("INSTALLED_APPS = [\n", apps)
    settings.write_text(text + files["shop/settings.py"])
    urls = folder / "shop/urls.py"
    imports = "from django.contrib import admin\nfrom django.urls import include, path\n"
    urls.write_text(imports + files["shop/urls.py"])
    for name in ("shop/asgi.py", "shop/agents.py"):
        (folder / name).write_text(files[name])
    return folder


@pytest.fixture(scope="module")
def env(shop):
    return processes.environment(DJANGO_SETTINGS_MODULE="shop.settings")


@pytest.fixture(scope="module")
def database(python, shop, env):
    """The project's database, with one user who may do everything."""
    run(python, "manage.py", "migrate", cwd=shop, env=env)
    name, password = ADMIN["username"], ADMIN["password"]
    run(
        *(python, "manage.py", "createsuperuser", "--no-input"),
        *("--username", name, "--email", "ada@example.org"),
        cwd=shop,
        env={**env, "DJANGO_SUPERUSER_PASSWORD": password},
    )


def files_of(*folders):
    return {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_the_app_with_its_templates_and_static_files(built):
    with zipfile.ZipFile(built[1]) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    templates = {
        f"sagents_app/{name}" for name in files_of("templates/sagents_app", "templates/admin")
    }
    missing = (files_of("sagents_app") | templates) - packed
    assert missing == set()
    assert {name.split("/")[0] for name in packed} == {"sagents_app"}
    assert any(name.startswith("sagents_app/static/") for name in packed)
    assert any(name.startswith("sagents_app/templates/admin/") for name in packed)


def test_the_sdist_holds_what_its_wheel_is_made_of_and_no_tests(built):
    with tarfile.open(built[0]) as sdist:
        packed = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"README.md", "LICENSE", "pyproject.toml"} <= packed
    assert not any(name.startswith(("tests/", "project/", "var/")) for name in packed)


def test_the_checks_accept_the_readmes_project(python, shop, env):
    run(python, "manage.py", "check", cwd=shop, env=env)
    run(python, "manage.py", "makemigrations", "--check", "--dry-run", cwd=shop, env=env)


def test_the_readmes_project_serves_its_pages(python, shop, env, database):
    command = [str(python), "manage.py", "sagents_dev", "--port", "0"]
    with processes.running(command, env=env, cwd=shop) as process:
        url = process.wait_for("Ready: http").split()[1].rstrip("/")
        with httpx.Client(base_url=url, follow_redirects=True) as client:
            login = client.get("/admin/login/")
            token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', login.text)
            assert token is not None
            fields = {**ADMIN, "csrfmiddlewaretoken": token[1], "next": "/"}
            page = client.post("/admin/login/", data=fields, headers={"Referer": url})
            assert page.status_code == 200
            assert page.url.path == "/"
            statics = re.findall(r'(?:href|src)="(/static/[^"]+)"', page.text)
            assert statics
            for path in statics:
                assert client.get(path).status_code == 200
            assert client.get("/admin/").status_code == 200
        assert process.stop() == 0
    assert "Traceback" not in process.output


STORY = '''
"""A customer asks, the agent wants to refund, a reviewer approves, the agent goes on."""

import django

django.setup()

from django.contrib.auth.models import Permission, User
from sagents_app.engine import Approve
from sagents_app.models import Interrupt, Run
from sagents_app.services import conversations, interrupts, runs


def work():
    for run in Run.objects.live():
        runs.drive_run(run_id=run.pk)


customer = User.objects.create_user("customer")
reviewer = User.objects.create_user("reviewer", is_staff=True)
reviewer.user_permissions.add(Permission.objects.get(codename="decide_interrupt"))

conversation = conversations.create_conversation(agent="shop", owner=customer)
conversations.post_message(conversation=conversation, text="My money, please", actor=customer)
work()
conversation.refresh_from_db()
row = Interrupt.objects.get(conversation=conversation)
print(conversation.status, row.tool_name, row.status)

interrupts.decide_interrupt(
    interrupt=row, decision=Approve(), actor=reviewer, digest=row.digest
)
work()
conversation.refresh_from_db()
row.refresh_from_db()
print(conversation.status, row.tool_name, row.status)
for shown in conversation.display_messages.order_by("number"):
    print(shown.message_type, shown.content)
'''

SCRIPT = """
def _reply(request):
    from sagents_app.engine import Message, ToolCall
    if request.messages[-1].tool_results:
        return f"It says: {request.messages[-1].tool_results[0].text}"
    return Message.assistant(
        tool_calls=[ToolCall("call_1", "refund", {"order": "7", "amount": 12})]
    )
"""


def test_the_approval_plays_in_the_readmes_project(python, shop, env, database):
    agent = shop / "shop/agents.py"
    assert agent.read_text().count('ScriptedModel("Hello!")') == 1
    agent.write_text(agent.read_text().replace('"Hello!"', "_reply") + SCRIPT)
    (shop / "story.py").write_text(STORY)

    said = run(python, "-W", "error", "story.py", cwd=shop, env=env).splitlines()

    assert said[:2] == ["interrupted refund pending", "idle refund approved"]
    assert "Refunded 12 for order 7." in "".join(said[2:])
