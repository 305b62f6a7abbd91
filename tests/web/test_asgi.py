import pytest
from asgiref.testing import ApplicationCommunicator

from sagents_app.presenters.frames import SOCKET_PATH
from sagents_app.web.asgi import get_application


@pytest.fixture(scope="module")
def application():
    return get_application()


async def answer_to_connect(application, path, **headers):
    """Return what the application answers to a request for a WebSocket."""
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "websocket", "path": path, "query_string": b"", "headers": pairs}
    socket = ApplicationCommunicator(application, {**scope, "subprotocols": []})
    await socket.send_input({"type": "websocket.connect"})
    answer = await socket.receive_output(timeout=5)
    await socket.wait()
    return answer["type"]


# A thread that an earlier test used may hold a connection, which any dispatch looks after.
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("headers", [{"origin": "https://elsewhere.example"}, {}])
async def test_a_socket_from_another_site_is_refused(application, headers):
    answer = await answer_to_connect(application, f"/{SOCKET_PATH}", host="testserver", **headers)
    assert answer == "websocket.close"


@pytest.mark.django_db(transaction=True)
async def test_a_socket_of_a_path_that_nobody_serves_is_refused_quietly(application):
    headers = {"host": "testserver", "origin": "http://testserver"}
    assert await answer_to_connect(application, "/ws/anything", **headers) == "websocket.close"
