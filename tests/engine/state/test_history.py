"""Histories that grow from one share their messages and never mix."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagents_app.engine import AgentState, History, Message

MESSAGES = [Message("user", id=str(number)) for number in range(400)]

Grow = tuple[str, int, int]
GROWTH = st.lists(
    st.tuples(st.sampled_from(["append", "replace"]), st.integers(0, 30), st.integers(1, 50)),
    max_size=40,
)


@settings(deadline=None)
@given(start=st.integers(0, 100), steps=GROWTH)
def test_histories_that_share_a_beginning_never_mix(start: int, steps: list[Grow]):
    """Every history ever made reads like the plain list that was changed in its place."""
    first = MESSAGES[:start]
    known = [(History(first), list(first))]
    for number, (what, which, amount) in enumerate(steps):
        history, plain = known[which % len(known)]
        if what == "append":
            new = MESSAGES[number : number + amount]
            known.append((history.append(*new), plain + new))
        elif plain:
            index = -1 - amount % len(plain)
            replaced = list(plain)
            replaced[index] = MESSAGES[-number]
            known.append((history.replace(index, MESSAGES[-number]), replaced))
    for history, plain in known:
        assert list(history) == plain
        assert len(history) == len(plain)
        assert [history[index] for index in range(len(plain))] == plain
        assert [history[-index] for index in range(1, len(plain) + 1)] == plain[::-1]
        assert history[len(plain) // 3 :] == plain[len(plain) // 3 :]
        assert history == tuple(plain)
        assert tuple(plain) == history


def test_two_states_that_grow_from_one_keep_their_own_messages():
    base = AgentState((Message.user("hi"),)).add_message(*MESSAGES[:70])
    left = base.add_message(MESSAGES[100])
    right = base.add_message(MESSAGES[200])
    longer = left.replace_message(-1, MESSAGES[101]).add_message(MESSAGES[102])
    assert [message.id for message in left.messages[-2:]] == ["69", "100"]
    assert [message.id for message in right.messages[-2:]] == ["69", "200"]
    assert [message.id for message in longer.messages[-3:]] == ["69", "101", "102"]
    assert [message.id for message in base.messages[-2:]] == ["68", "69"]


def test_a_history_that_is_iterated_does_not_see_what_is_added_meanwhile():
    history = History().append(*MESSAGES[:5])
    seen = []
    for message in history:
        history.append(message)
        seen.append(message.id)
    assert seen == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("index", [3, -4])
def test_an_index_beyond_the_history_is_an_error(index: int):
    history = History(MESSAGES[:2]).append(MESSAGES[2]).append(MESSAGES[3])
    shorter = History(MESSAGES[:3])
    assert history[3] == MESSAGES[3]
    with pytest.raises(IndexError, match=f"message {index} of 3"):
        shorter[index]
    with pytest.raises(IndexError, match=f"message {index} of 3"):
        shorter.replace(index, MESSAGES[0])


def test_histories_compare_by_their_messages():
    one, other = History(MESSAGES[:2]), History(MESSAGES[:1]).append(MESSAGES[1])
    assert one == other
    assert hash(one) == hash(other)
    assert one != other.append(MESSAGES[2])
    assert one != History(MESSAGES[1:3])
    assert one != object()
    assert repr(one) == f"History({MESSAGES[:2]!r})"


def test_the_repr_of_a_long_history_is_short():
    long = History(MESSAGES[:1] * 97).append(*MESSAGES[:3])
    assert repr(long) == f"History([<97 more>, {repr(MESSAGES[:3])[1:-1]}])"
