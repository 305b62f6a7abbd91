import signal
import socket
import sys

import httpx
import pytest
import redis

from tests import processes


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    env = processes.development(tmp_path_factory.mktemp("embedded") / "db.sqlite3")
    processes.manage("migrate", env=env)
    return env


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_one_command_serves_everything_and_stops_cleanly(env, how):
    with processes.running_product(env) as (process, url), httpx.Client(base_url=url) as client:
        assert client.get("/health/ready").json()["status"] == "ready"
        assert client.get("/accounts/login/").status_code == 200
        assert "text/css" in client.get("/static/admin/css/base.css").headers["content-type"]

        assert process.stop(how, time_limit=10) == 0

    assert process.output.count("http://") == 1
    assert process.output.rstrip().endswith("Stopped.")
    assert "Traceback" not in process.output
    assert "Warning" not in process.output


def test_a_second_start_goes_on_with_the_same_database(env):
    for _ in range(2):
        with processes.running_product(env) as (process, url):
            assert httpx.get(f"{url}/health/ready").status_code == 200
            assert process.stop() == 0


def test_a_taken_port_is_said_before_anything_starts(env):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = [sys.executable, "manage.py", "sagents_dev", "--port", str(port)]
        with processes.running(command, env=env) as process:
            assert process.popen.wait(30) == 1
            process.wait_for(f"port {port}")
    assert "Traceback" not in process.output


@pytest.mark.redis
def test_with_a_broker_of_its_own_only_the_server_runs(env, redis_url):
    with processes.running_product({**env, "REDIS_URL": redis_url}) as (process, url):
        assert httpx.get(f"{url}/health/ready").json()["broker"] == "ok"
        process.wait_for("celery --app")
        assert process.stop() == 0


@pytest.mark.faults
@pytest.mark.redis
def test_readiness_says_so_when_the_broker_goes_away(env, redis_url):
    with processes.running_product({**env, "REDIS_URL": redis_url}) as (_, url):
        assert httpx.get(f"{url}/health/ready").status_code == 200
        with redis.Redis.from_url(redis_url) as client:
            client.shutdown(nosave=True, now=True, force=True)

        response = httpx.get(f"{url}/health/ready")
        assert response.status_code == 503
        assert response.json()["status"] == "not ready"
        assert response.json()["broker"] != "ok"
        assert response.json()["channel layer"] != "ok"
        assert response.json()["database"] == "ok"
        assert response.elapsed.total_seconds() < 3
        assert httpx.get(f"{url}/health/live").status_code == 200
