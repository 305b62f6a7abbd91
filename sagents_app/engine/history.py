"""The history: messages as a sequence that grows, and changes near its end, at a constant cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import overload

from sagents_app.engine.messages import Message

RECENT = 64  # messages near the end that are kept apart, so that replacing one copies no more
SHOWN = 3  # messages in a `repr`, which logs and error pages print


class History(Sequence[Message]):
    """An append-only view of shared messages: a step costs the same however long the history is.

    Two states that grow from one share its messages; only the second to append pays for a copy.
    The last messages stand in a short list of their own, which is what `replace` copies.
    """

    __slots__ = ("_older", "_recent", "_recent_length", "_split")

    def __init__(self, items: Iterable[Message] = ()) -> None:
        self._older = list(items)
        self._split = len(self._older)
        self._recent: list[Message] = []
        self._recent_length = 0

    def __len__(self) -> int:
        return self._split + self._recent_length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        split = self._split  # `_position` written out: each step looks at the last messages
        at = index if index >= 0 else index + split + self._recent_length
        if not 0 <= at < split + self._recent_length:
            raise IndexError(f"message {index} of {split + self._recent_length}")
        return self._older[at] if at < split else self._recent[at - split]

    def __iter__(self) -> Iterator[Message]:
        yield from islice(self._older, self._split)
        yield from islice(self._recent, self._recent_length)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Sequence)
            and len(self) == len(other)
            and all(a == b for a, b in zip(self, other, strict=True))
        )

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        shown = [repr(message) for message in self[-SHOWN:]]
        rest = [f"<{len(self) - SHOWN} more>"] if len(self) > SHOWN else []
        return f"History([{', '.join(rest + shown)}])"

    def append(self, *messages: Message) -> History:
        """Return the history with `messages` at its end."""
        older, split = self._older, self._split
        recent = _own(self._recent, self._recent_length)
        if len(recent) >= RECENT:
            older = _own(older, split)
            older.extend(recent[: RECENT // 2])
            split, recent = len(older), recent[RECENT // 2 :]
        recent.extend(messages)
        return _view(older, split, recent)

    def replace(self, index: int, message: Message) -> History:
        """Return a copy with `message` at `index`; cheap among the last 32 messages."""
        at = self._position(index)
        older, recent = self._older, self._recent[: self._recent_length]
        if at < self._split:
            older = older[: self._split]
            older[at] = message
        else:
            recent[at - self._split] = message
        return _view(older, self._split, recent)

    def _position(self, index: int) -> int:
        length = self._split + self._recent_length
        at = index + length if index < 0 else index
        if not 0 <= at < length:
            raise IndexError(f"message {index} of {length}")
        return at


def _own(items: list[Message], length: int) -> list[Message]:
    """Return `items` where nobody has appended to them since, else a copy of the first `length`."""
    return items if len(items) == length else items[:length]


def _view(older: list[Message], split: int, recent: list[Message]) -> History:
    view = History.__new__(History)
    view._older = older
    view._split = split
    view._recent = recent
    view._recent_length = len(recent)
    return view
