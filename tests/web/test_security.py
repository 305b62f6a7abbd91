import pytest
from django.http import HttpResponse
from django.test import RequestFactory, override_settings

from sagents_app.web.security import POLICY, ContentSecurityPolicyMiddleware


def answer(response):
    return ContentSecurityPolicyMiddleware(lambda request: response)(RequestFactory().get("/"))


def test_each_response_carries_the_policy():
    assert answer(HttpResponse()).headers["Content-Security-Policy"] == POLICY


def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere():
    assert "unsafe" not in POLICY
    assert "http" not in POLICY
    assert "default-src 'self'" in POLICY


def test_a_stricter_policy_of_a_view_stands():
    response = HttpResponse(headers={"Content-Security-Policy": "default-src 'none'"})
    assert answer(response).headers["Content-Security-Policy"] == "default-src 'none'"


@pytest.mark.parametrize(("debug", "has_policy"), [(True, False), (False, True)])
def test_only_djangos_error_page_for_developers_goes_without(debug, has_policy):
    with override_settings(DEBUG=debug):
        response = answer(HttpResponse(status=500))
    assert ("Content-Security-Policy" in response.headers) is has_policy


@pytest.mark.django_db
def test_the_admin_login_carries_the_policy(client):
    assert client.get("/admin/login/").headers["Content-Security-Policy"] == POLICY
