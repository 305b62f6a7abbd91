"""Members of enums and literals in a JSON Schema, told apart by type as well as by value.

Python takes `True`, `1` and `1.0` for equal, and so does pydantic where it looks up a member, also
in its strict mode. A model that answers `true` where the members are 1 and 2 has made a mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

JSON_TYPES: Mapping[type, tuple[str, ...]] = {
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    str: ("string",),
    list: ("array",),
    dict: ("object",),
    type(None): ("null",),
}


def confusable(schema: Any) -> bool:
    """Whether an enum or constant in `schema` has members that may be taken for one another."""
    return any(isinstance(member, (bool, int, float)) for member in _members(schema))


def strangers(schema: Mapping[str, Any], value: Any) -> Iterator[str]:
    """Yield each place of a JSON value where the schema has a member of another type."""
    yield from _strangers(schema, schema, value, ())


def _members(schema: Any) -> Iterator[Any]:
    if isinstance(schema, list):
        for one in schema:
            yield from _members(one)
    elif isinstance(schema, dict):
        yield from _own_members(schema)
        for key, one in schema.items():
            if key not in ("enum", "const", "default", "examples"):
                yield from _members(one)


def _own_members(schema: Mapping[str, Any]) -> list[Any]:
    if isinstance(members := schema.get("enum"), list):
        return members
    return [schema["const"]] if "const" in schema else []


def _strangers(
    given: Any, whole: Mapping[str, Any], value: Any, place: tuple[str, ...]
) -> Iterator[str]:
    schema = _resolved(given, whole)
    if branches := schema.get("anyOf") or schema.get("oneOf"):
        yield from _of_no_branch(branches, whole, value, place)
    members = _own_members(schema)
    if members and not any(_same(member, value) for member in members):
        yield f"{'.'.join(place)}: Input should be {' or '.join(map(repr, members))}"
    for key, one, inner in _inside(schema, value):
        yield from _strangers(inner, whole, one, (*place, key))


def _of_no_branch(
    branches: list[Any], whole: Mapping[str, Any], value: Any, place: tuple[str, ...]
) -> Iterator[str]:
    fitting = [branch for branch in branches if _is_of_type(branch, whole, value)]
    problems = [list(_strangers(branch, whole, value, place)) for branch in fitting]
    if not fitting:
        yield f"{'.'.join(place)}: Input should be of another type"
    elif all(problems):
        yield problems[0][0]


def _inside(schema: Mapping[str, Any], value: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield what a JSON value holds: its key, itself, and its schema."""
    if isinstance(value, dict):
        fields, rest = schema.get("properties", {}), schema.get("additionalProperties")
        yield from ((key, one, fields.get(key, rest)) for key, one in value.items())
    elif isinstance(value, list):
        first, rest = schema.get("prefixItems", ()), schema.get("items")
        for at, one in enumerate(value):
            yield str(at), one, first[at] if at < len(first) else rest


def _resolved(schema: Any, whole: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(schema, dict):
        return {}
    if "$ref" in schema:
        return _resolved(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    return schema


def _is_of_type(given: Any, whole: Mapping[str, Any], value: Any) -> bool:
    named = _resolved(given, whole).get("type")
    return named is None or named in JSON_TYPES[type(value)]


def _same(member: Any, value: Any) -> bool:
    alike = type(member) is type(value) or (type(member) is float and type(value) is int)
    return alike and bool(member == value)
