"""Schemas from signature and docstring: what the model is shown, and what is refused."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict  # pydantic takes the one of typing from 3.12 on only

from sagents_app.engine import (
    Agent,
    Completed,
    Misconfigured,
    ScriptedModel,
    Tool,
    ToolContext,
    tool,
)
from tests.engine.doubles import asked, call, calling, told


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Line(BaseModel):
    sku: str
    count: int = 1


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


@dataclass
class Point:
    x: int
    y: float = 0.0


@dataclass
class Node:
    name: str
    children: list[Node] = field(default_factory=list)


class Options(TypedDict):
    depth: int
    note: NotRequired[str]


def closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    wanted = {"required": list(required)} if required else {}
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        **wanted,
    }


def documented(order_id: str, amount: int = 5) -> str:
    """Refund an order.

    Only once a day.

    Args:
        order_id: The order's number,
            without spaces.
        amount (int): Whole euros.

    Returns:
        What was done.
    """
    return ""


def in_sphinx_style(order_id: str) -> str:
    """Refund an order.

    :param order_id: The order's number.
    """
    return ""


def annotated(
    count: Annotated[int, Field(ge=1, le=5, description="How many")],
    unit: Annotated[str, "Such as kg"] = "kg",
) -> str:
    """Weigh it.

    Args:
        count: Less exact words.
    """
    return ""


def chosen(colour: Colour, mode: Literal["fast", "slow"], level: Level = Level.LOW) -> str:
    return ""


def nested(line: Line, point: Point, more: list[Line], limits: dict[str, int]) -> str:
    return ""


def typed_dict(options: Options) -> str:
    return ""


def recursive(node: Node) -> str:
    return ""


def unions(
    either: int | str, maybe: bool | None, tail: int | None = None, many: tuple[int, str] = (1, "")
) -> str:
    return ""


def exact(amount: Decimal, at: datetime, day: date, key: UUID) -> str:
    return ""


def reserved(
    schema: str,
    json: str,
    copy: str,
    validate: str,
    model_config: int,
    _x: int,
    model_fields: int = 0,
) -> str:
    return ""


def anything(value: Any) -> str:
    return ""


def with_context(text: str, ctx: ToolContext) -> str:
    return ""


def with_context_or_none(text: str, ctx: ToolContext | None = None) -> str:
    return ""


def with_annotated_context(text: str, ctx: Annotated[ToolContext, "the host"]) -> str:
    return ""


def opened(more: Open) -> str:
    return ""


LINE = closed({"sku": {"type": "string"}, "count": {"default": 1, "type": "integer"}}, "sku")
TEXT = closed({"text": {"type": "string"}}, "text")


@dataclass(frozen=True)
class Case:
    function: Callable[..., Any]
    schema: dict[str, Any]
    defs: dict[str, Any] = field(default_factory=dict)


CASES = [
    Case(
        documented,
        closed(
            {
                "order_id": {
                    "type": "string",
                    "description": "The order's number,\nwithout spaces.",
                },
                "amount": {"type": "integer", "default": 5, "description": "Whole euros."},
            },
            "order_id",
        ),
    ),
    Case(
        in_sphinx_style,
        closed({"order_id": {"type": "string", "description": "The order's number."}}, "order_id"),
    ),
    Case(
        annotated,
        closed(
            {
                "count": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 5,
                    "description": "How many",
                },
                "unit": {"type": "string", "default": "kg", "description": "Such as kg"},
            },
            "count",
        ),
    ),
    Case(
        chosen,
        closed(
            {
                "colour": {"$ref": "#/$defs/Colour"},
                "mode": {"enum": ["fast", "slow"], "type": "string"},
                "level": {"$ref": "#/$defs/Level", "default": 1},
            },
            "colour",
            "mode",
        ),
        {
            "Colour": {"enum": ["red", "blue"], "type": "string"},
            "Level": {"enum": [1, 2], "type": "integer"},
        },
    ),
    Case(
        nested,
        closed(
            {
                "line": {"$ref": "#/$defs/Line"},
                "point": {"$ref": "#/$defs/Point"},
                "more": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
                "limits": {"type": "object", "additionalProperties": {"type": "integer"}},
            },
            "line",
            "point",
            "more",
            "limits",
        ),
        {
            "Line": LINE,
            "Point": closed(
                {"x": {"type": "integer"}, "y": {"default": 0.0, "type": "number"}}, "x"
            ),
        },
    ),
    Case(
        typed_dict,
        closed({"options": {"$ref": "#/$defs/Options"}}, "options"),
        {"Options": closed({"depth": {"type": "integer"}, "note": {"type": "string"}}, "depth")},
    ),
    Case(
        recursive,
        closed({"node": {"$ref": "#/$defs/Node"}}, "node"),
        {
            "Node": closed(
                {
                    "name": {"type": "string"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                },
                "name",
            )
        },
    ),
    Case(
        unions,
        closed(
            {
                "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                "maybe": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
                "tail": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
                "many": {
                    "type": "array",
                    "prefixItems": [{"type": "integer"}, {"type": "string"}],
                    "minItems": 2,
                    "maxItems": 2,
                    "default": [1, ""],
                },
            },
            "either",
            "maybe",
        ),
    ),
    Case(
        exact,
        closed(
            {
                "amount": {"anyOf": [{"type": "number"}, {"type": "string"}]},
                "at": {"type": "string", "format": "date-time"},
                "day": {"type": "string", "format": "date"},
                "key": {"type": "string", "format": "uuid"},
            },
            "amount",
            "at",
            "day",
            "key",
        ),
    ),
    Case(
        reserved,
        closed(
            {
                **{name: {"type": "string"} for name in ("schema", "json", "copy", "validate")},
                "model_config": {"type": "integer"},
                "_x": {"type": "integer"},
                "model_fields": {"type": "integer", "default": 0},
            },
            "schema",
            "json",
            "copy",
            "validate",
            "model_config",
            "_x",
        ),
    ),
    Case(anything, closed({"value": {}}, "value")),
    Case(with_context, TEXT),
    Case(with_context_or_none, TEXT),
    Case(with_annotated_context, TEXT),
    Case(
        opened,
        closed({"more": {"$ref": "#/$defs/Open"}}, "more"),
        {
            "Open": closed({"name": {"type": "string"}}, "name") | {"additionalProperties": True},
        },
    ),
]


def without_patterns(schema: Any) -> Any:
    """A schema without what pydantic words in its own way: decimals' patterns, titles."""
    if isinstance(schema, list):
        return [without_patterns(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: without_patterns(one)
        for key, one in schema.items()
        if not (key in ("pattern", "title") and isinstance(one, str))
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.function.__name__)
def test_signature_and_docstring_give_the_schema(case: Case) -> None:
    """L-049, G-112: types, enums, arrays, nested objects, required, closed at every level."""
    parameters = without_patterns(tool(case.function).parameters)
    assert parameters.pop("$defs", {}) == case.defs
    assert parameters == case.schema


def test_the_docstring_without_its_sections_is_the_description() -> None:
    assert tool(documented).description == "Refund an order.\n\nOnly once a day."
    assert tool(in_sphinx_style).description == "Refund an order."
    assert tool(anything).description == ""
    assert tool(description="Mine.")(documented).description == "Mine."


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    def ping() -> str:
        return "pong"

    assert tool(ping).parameters == closed({})


async def test_names_that_models_reserve_reach_the_function_as_they_were_given() -> None:
    seen: dict[str, Any] = {}

    @tool
    async def reserved(schema: str, json: str, copy: int, model_config: int, _x: int = 7) -> str:
        seen.update(schema=schema, json=json, copy=copy, model_config=model_config, _x=_x)
        return "ok"

    given = call("c1", "reserved", schema="a", json="b", copy=1, model_config=2)
    await Agent(model=ScriptedModel(calling(given), "done"), tools=[reserved]).execute(asked())
    assert seen == {"schema": "a", "json": "b", "copy": 1, "model_config": 2, "_x": 7}


async def test_typed_values_and_the_functions_own_defaults_reach_it() -> None:
    """Decimals exactly, nested values as their own types, defaults as the very objects."""
    seen: list[Any] = []
    sentinel = Line(sku="default")

    @tool
    async def order(
        amount: Decimal,
        colour: Colour,
        point: Point,
        at: datetime,
        line: Line = sentinel,
        level: Level = Level.LOW,
    ) -> str:
        seen.extend([amount, colour, point, at.isoformat(), line, level])
        return "ok"

    given = call(
        "c1",
        "order",
        amount="1.10",
        colour="blue",
        point={"x": 1},
        at="2026-01-02T03:04:05Z",
        level=2,
    )
    await Agent(model=ScriptedModel(calling(given), "done"), tools=[order]).execute(asked())
    assert seen == [
        Decimal("1.10"),
        Colour.BLUE,
        Point(1, 0.0),
        "2026-01-02T03:04:05+00:00",
        sentinel,
        Level.HIGH,
    ]
    assert seen[4] is sentinel


async def test_the_context_is_given_also_to_an_optional_parameter() -> None:
    @tool
    async def who(ctx: ToolContext | None = None) -> str:
        return ctx.call_id if ctx else "nobody"

    model = ScriptedModel(calling(call("c9", "who")), "done")
    outcome = await Agent(model=model, tools=[who]).execute(asked())
    assert isinstance(outcome, Completed)
    assert told(outcome.state) == {"c9": "c9"}


# refused


class Plain:
    """Nothing that JSON could hold."""


def bare(order_id) -> str:  # type: ignore[no-untyped-def]
    return ""


def starred(*order_ids: str) -> str:
    return ""


def double_starred(**options: str) -> str:
    return ""


def positional(order_id: str, /) -> str:
    return ""


def unresolved(order_id: Missing) -> str:  # type: ignore[name-defined]  # noqa: F821
    return ""


def callback(amount: int, then: Callable[[int], int]) -> str:
    return ""


def plain(amount: int, thing: Plain) -> str:
    return ""


def inner_plain(amount: int, things: list[Plain]) -> str:
    return ""


def two_contexts(ctx: ToolContext, other: ToolContext) -> str:
    return ""


def generating(amount: int) -> Any:
    yield amount


async def generating_async(amount: int) -> Any:
    yield amount


@dataclass(frozen=True)
class Refused:
    function: Any
    culprits: tuple[str, ...]


REFUSED = [
    Refused(bare, ("'bare'", "'order_id' needs a type annotation")),
    Refused(starred, ("'starred'", "'order_ids' cannot be given by name")),
    Refused(double_starred, ("'double_starred'", "'options' cannot be given by name")),
    Refused(positional, ("'positional'", "'order_id' cannot be given by name")),
    Refused(unresolved, ("'unresolved'", "'Missing' is not defined")),
    Refused(callback, ("'callback'", "parameter 'then': no JSON Schema")),
    Refused(plain, ("'plain'", "parameter 'thing': no JSON Schema")),
    Refused(inner_plain, ("'inner_plain'", "parameter 'things': no JSON Schema")),
    Refused(two_contexts, ("'two_contexts'", "two parameters take the context")),
    Refused(generating, ("'generating'", "a generator has no result")),
    Refused(generating_async, ("'generating_async'", "a generator has no result")),
    Refused("refund", ("a tool is made of a function, got 'refund'",)),
    Refused(tool(documented), ("a tool is made of a function, got Tool(name='documented'",)),
    Refused(lambda: "", ("a tool's name is 1 to 64 of A-Z a-z 0-9 _ -, got '<lambda>'",)),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: str(case.culprits[0]))
def test_an_unusable_signature_is_refused_with_the_culprit_named(case: Refused) -> None:
    """L-040."""
    with pytest.raises(Misconfigured) as refused:
        tool(case.function)
    for culprit in case.culprits:
        assert culprit in str(refused.value)


@dataclass(frozen=True)
class Option:
    options: dict[str, Any]
    problem: str


NAMES = "a tool's name is 1 to 64 of A-Z a-z 0-9 _ -, got"
TIMEOUT = "tool 'documented': the timeout is a number of seconds above 0, got"
OPTIONS = [
    Option({"name": ""}, f"{NAMES} ''"),
    Option({"name": "re fund"}, f"{NAMES} 're fund'"),
    Option({"name": "r" * 65}, f"{NAMES} '{'r' * 65}'"),
    Option({"name": 5}, f"{NAMES} 5"),
    Option({"timeout": 0}, f"{TIMEOUT} 0"),
    Option({"timeout": -1.5}, f"{TIMEOUT} -1.5"),
    Option({"timeout": True}, f"{TIMEOUT} True"),
    Option({"timeout": "5"}, f"{TIMEOUT} '5'"),
    Option({"timeout": float("nan")}, f"{TIMEOUT} nan"),
    Option({"timeout": float("inf")}, f"{TIMEOUT} inf"),
    Option({"parallel": "yes"}, "tool 'documented': parallel is True or False, got 'yes'"),
    Option({"retry_safe": 1}, "tool 'documented': retry_safe is True or False, got 1"),
    Option({"description": 5}, "tool 'documented': description is a text, got 5"),
    Option({"display_text": []}, "tool 'documented': display_text is a text, got []"),
    Option({"strict": True}, "tool 'documented': unknown option 'strict'"),
]


@pytest.mark.parametrize("case", OPTIONS, ids=lambda case: repr(case.options))
def test_an_option_that_cannot_work_is_refused_with_the_culprit_named(case: Option) -> None:
    """L-040."""
    with pytest.raises(Misconfigured) as refused:
        tool(**case.options)(documented)
    assert str(refused.value) == case.problem


def test_a_name_may_have_64_characters() -> None:
    """L-040."""
    assert tool(name="r" * 64)(documented).name == "r" * 64


def test_a_tool_is_labelled_by_its_name_unless_it_says_how() -> None:
    """L-048, L-171."""

    def look_up_order() -> str:
        return ""

    assert tool(look_up_order).display_text == "Look up order"
    assert tool(display_text="Searching")(look_up_order).display_text == "Searching"


def test_required_and_accepted_names_are_in_the_schema() -> None:
    """L-048: there are no readers beside it; an unknown tool is not in the agent's mapping."""
    agent = Agent(model=ScriptedModel(), tools=[tool(documented)])
    known: Tool = agent.tools["documented"]
    assert known.parameters["required"] == ["order_id"]
    assert list(known.parameters["properties"]) == ["order_id", "amount"]
    assert "unknown" not in agent.tools


def test_methods_and_functions_made_on_the_way_are_tools_too() -> None:
    class Desk:
        async def refund(self, order_id: str) -> str:
            """Refund an order."""
            return order_id

    made = tool(Desk().refund)
    assert (made.name, made.is_async, made.parameters["required"]) == (
        "refund",
        True,
        ["order_id"],
    )
