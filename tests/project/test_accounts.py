import re

import pytest
from django.contrib.auth import get_user_model

pytestmark = pytest.mark.django_db


@pytest.fixture
def user():
    return get_user_model().objects.create_user("ada", "ada@example.org", "correct horse battery")


def test_a_page_is_shown_after_the_login_that_it_needs(client, user):
    page = client.get("/accounts/password_change/")
    assert page.url == "/accounts/login/?next=/accounts/password_change/"

    form = client.get(page.url)
    assert 'value="/accounts/password_change/"' in form.content.decode()

    credentials = {"username": "ada", "password": "correct horse battery"}
    done = client.post(page.url, {**credentials, "next": "/accounts/password_change/"})
    assert done.url == "/accounts/password_change/"
    assert client.get(done.url).status_code == 200


def test_a_wrong_password_is_said(client, user):
    answer = client.post("/accounts/login/", {"username": "ada", "password": "wrong"})
    assert answer.status_code == 200
    assert "correct username and password" in answer.content.decode()


def test_a_login_does_not_lead_to_another_site(client, user):
    credentials = {"username": "ada", "password": "correct horse battery"}
    done = client.post("/accounts/login/", {**credentials, "next": "https://elsewhere.example/"})
    assert done.url == "/"


def test_logging_out_takes_a_post(client, user):
    client.force_login(user)
    assert client.get("/accounts/logout/").status_code == 405
    assert client.post("/accounts/logout/").url == "/accounts/login/"
    assert client.get("/accounts/password_change/").status_code == 302


def test_the_password_can_be_changed(client, user):
    client.force_login(user)
    new = "staple gun umbrella"
    fields = {
        "old_password": "correct horse battery",
        "new_password1": new,
        "new_password2": new,
    }
    done = client.post("/accounts/password_change/", fields, follow=True)
    assert done.status_code == 200
    user.refresh_from_db()
    assert user.check_password(new)


def test_a_forgotten_password_is_set_anew_through_a_mailed_link(client, user, mailoutbox):
    sent = client.post("/accounts/password_reset/", {"email": "ada@example.org"}, follow=True)
    assert sent.status_code == 200
    (mail,) = mailoutbox
    assert mail.subject == "A new password for testserver"
    link = re.search(r"^http://testserver(/\S+)$", mail.body, re.M)
    assert link is not None

    form = client.get(link[1], follow=True)
    new = "staple gun umbrella"
    done = client.post(
        form.redirect_chain[-1][0], {"new_password1": new, "new_password2": new}, follow=True
    )
    assert done.status_code == 200
    user.refresh_from_db()
    assert user.check_password(new)

    used = client.get(link[1], follow=True)
    assert "expired" in used.content.decode()


def test_an_unknown_address_gets_the_same_answer_and_no_mail(client, user, mailoutbox):
    known = client.post("/accounts/password_reset/", {"email": "ada@example.org"}, follow=True)
    unknown = client.post("/accounts/password_reset/", {"email": "bob@example.org"}, follow=True)
    assert known.content == unknown.content
    assert len(mailoutbox) == 1
