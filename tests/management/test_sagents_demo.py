from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from sagents_app.models import Conversation, Interrupt

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _a_project_of_its_own(settings, tmp_path: Path) -> None:
    settings.BASE_DIR, settings.DEBUG = tmp_path, True


def logins() -> dict[str, str]:
    printed = StringIO()
    call_command("sagents_demo", stdout=printed)
    lines = [line.split() for line in printed.getvalue().splitlines()]
    return {words[0]: words[1] for words in lines}


def test_three_people_get_random_passwords_which_are_printed_again():
    first = logins()
    assert set(first) == {"customer", "reviewer", "operator"}
    assert len(set(first.values())) == 3
    assert logins() == first
    assert User.objects.count() == 3
    for name, password in first.items():
        assert User.objects.get(username=name).check_password(password)


def test_the_passwords_are_kept_where_nobody_else_reads(tmp_path):
    logins()
    kept = tmp_path / "var" / "demo-logins.txt"
    assert kept.stat().st_mode & 0o077 == 0


def test_each_may_what_the_story_needs_and_no_more():
    logins()
    customer, reviewer, operator = (
        User.objects.get(username=name) for name in ("customer", "reviewer", "operator")
    )
    assert not customer.is_staff
    assert not customer.get_all_permissions()
    assert reviewer.is_staff
    assert reviewer.has_perm("sagents_app.decide_interrupt")
    assert not reviewer.has_perm("sagents_app.operate_conversation")
    assert operator.has_perm("sagents_app.operate_conversation")
    assert not operator.has_perm("sagents_app.decide_interrupt")
    assert not any(user.is_superuser for user in (customer, reviewer, operator))
    assert not Conversation.objects.visible_to(customer).exists()
    assert not Interrupt.objects.reviewable_by(customer).exists()


def test_a_user_of_somebody_elses_making_is_left_alone():
    User.objects.create_user("operator", password="mine, and long enough")
    assert logins()["operator"] == "(yours)"
    operator = User.objects.get(username="operator")
    assert operator.check_password("mine, and long enough")
    assert not operator.is_staff


def test_it_is_refused_where_it_could_be_reached_from_outside(settings):
    settings.DEBUG = False
    with pytest.raises(CommandError, match="DEBUG"):
        call_command("sagents_demo")
    assert not User.objects.exists()
