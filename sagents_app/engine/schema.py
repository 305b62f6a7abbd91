"""Schemas from signatures, and strict validation against them.

Arguments arrive as JSON text and are validated strictly: `"yes"` is no boolean and `1.0` no
integer, while JSON's own ways to write a decimal, a date or an enum member are accepted.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_type_hints

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticUndefined, to_jsonable_python

from sagents_app.engine import canonical, members
from sagents_app.engine.errors import InvalidArguments, Misconfigured

MOST_PROBLEMS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """What a tool's function takes: its JSON Schema, its documentation and a validator."""

    description: str
    parameters: dict[str, Any]
    context_name: str | None
    """The parameter that gets the tool context, None where there is none."""
    model: type[BaseModel]
    names: dict[str, str]
    """Parameter name by field name; a model reserves names such as `schema` and `copy`."""
    confusable: bool
    """Whether an enum or literal has members that pydantic takes for equal, such as 1 and True."""
    extra: Literal["forbid"] | None
    """What a nested model does with more than its fields; None: as each of them says."""

    def validate(self, arguments_json: str) -> dict[str, Any]:
        """Return typed keyword arguments, only those that were given.

        Raises:
            InvalidArguments: one line a problem, in words the model can act on.
        """
        try:
            values = self.model.model_validate_json(arguments_json, strict=True, extra=self.extra)
        except ValidationError as error:
            raise InvalidArguments(_told(error, self.names.values())) from None
        except Exception as error:
            problem = f"the arguments could not be checked: {canonical.to_text(error)}"
            raise InvalidArguments(problem) from error
        if self.confusable:
            self._check_members(canonical.parse(arguments_json))
        return {self.names[field]: getattr(values, field) for field in values.model_fields_set}

    def _check_members(self, arguments: Any) -> None:
        """Refuse `true` and `1.0` for the member 1, which pydantic takes for equal, also strictly.

        Raises:
            InvalidArguments: naming the member's place.
        """
        problem = next(members.strangers(self.parameters, arguments), None)
        if problem is not None:
            raise InvalidArguments(problem)


class _WithoutTitles(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def read_signature(function: Callable[..., Any], *, context_type: type) -> Signature:
    """Return the signature of a tool's function.

    Raises:
        Misconfigured: a parameter without annotation, of a kind or type that JSON lacks, or a
            second context; names the function and the parameter.
    """
    name = getattr(function, "__name__", repr(function))
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise Misconfigured(
            f"tool {name!r}: its annotations cannot be resolved: {error}"
        ) from error
    documented = docstring_parser.parse(inspect.getdoc(function) or "")
    told = {parameter.arg_name: parameter.description for parameter in documented.params}
    context_name: str | None = None
    fields: dict[str, Any] = {}
    names: dict[str, str] = {}
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name, inspect.Parameter.empty)
        _check_parameter(name, parameter, hint)
        if _is_context(hint, context_type):
            if context_name is not None:
                raise Misconfigured(f"tool {name!r}: two parameters take the context")
            context_name = parameter.name
            continue
        field = f"argument_{len(fields)}"
        names[field] = parameter.name
        description = _own_description(hint) or told.get(parameter.name)
        fields[field] = (hint, _field(parameter, description))
    model, parameters = _build(name, fields, names)
    return Signature(
        _description(documented),
        parameters,
        context_name,
        model,
        names,
        confusable=members.confusable(parameters),
        extra=None if _is_open(parameters) else "forbid",
    )


def to_text(value: Any) -> str:
    """Return a tool's returned value as text: JSON where it can be that, else its `str()`.

    Never raises, since what the tool did is done.
    """
    try:
        plain = to_jsonable_python(value, fallback=canonical.to_text, serialize_unknown=True)
    except Exception:  # noqa: BLE001  # another's serializer may raise anything
        plain = value
    kept = canonical.to_json(plain)
    return kept if isinstance(kept, str) else canonical.dump(kept)


def _is_context(hint: Any, context_type: type) -> bool:
    """Whether a parameter takes the context, also as `Annotated` or optional."""
    if isinstance(hint, type):
        return issubclass(hint, context_type)
    return any(isinstance(one, type) and issubclass(one, context_type) for one in get_args(hint))


def _description(documented: docstring_parser.Docstring) -> str:
    return "\n\n".join(filter(None, (documented.short_description, documented.long_description)))


def _check_parameter(name: str, parameter: inspect.Parameter, hint: Any) -> None:
    if parameter.kind in (
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
        parameter.POSITIONAL_ONLY,
    ):
        raise Misconfigured(f"tool {name!r}: parameter {parameter.name!r} cannot be given by name")
    if hint is inspect.Parameter.empty:
        raise Misconfigured(f"tool {name!r}: parameter {parameter.name!r} needs a type annotation")


def _field(parameter: inspect.Parameter, description: str | None) -> Any:
    default = PydanticUndefined if parameter.default is parameter.empty else parameter.default
    if description is None:
        return Field(default, alias=parameter.name)
    return Field(default, alias=parameter.name, description=description)


def _own_description(hint: Any) -> str | None:
    """Return what an annotation itself says of its parameter, which the docstring gives way to."""
    for one in getattr(hint, "__metadata__", ()):
        words = one.description if isinstance(one, FieldInfo) else one
        if isinstance(words, str):
            return words
    return None


def _build(
    name: str, fields: dict[str, Any], names: dict[str, str]
) -> tuple[type[BaseModel], dict[str, Any]]:
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    try:
        model = create_model(name, __config__=config, **fields)
        parameters = model.model_json_schema(by_alias=True, schema_generator=_WithoutTitles)
    except (PydanticUserError, TypeError) as error:
        culprit = next((names[field] for field in fields if _fails(fields[field])), None)
        where = f"parameter {culprit!r}: " if culprit else ""
        raise Misconfigured(
            f"tool {name!r}: {where}no JSON Schema can be made ({str(error).splitlines()[0]})"
        ) from error
    parameters.pop("title", None)
    parameters.setdefault("properties", {})
    for nested in parameters.get("$defs", {}).values():
        if "properties" in nested:
            nested.setdefault("additionalProperties", False)
    return model, parameters


def _fails(field: Any) -> bool:
    try:
        create_model("probe", value=(field[0], ...)).model_json_schema()
    except (PydanticUserError, TypeError):
        return True
    return False


def _told(error: ValidationError, names: Iterable[str]) -> str:
    problems = error.errors(include_url=False, include_context=False)
    lines = [
        f"{'.'.join(map(str, problem['loc'])) or 'arguments'}: {problem['msg']}"
        + _hint(problem["loc"], problem["type"], names)
        for problem in problems
    ]
    rest = [f"and {len(lines) - MOST_PROBLEMS} more"] if len(lines) > MOST_PROBLEMS else []
    return canonical.clean_text("\n".join([*lines[:MOST_PROBLEMS], *rest]))


def _hint(place: tuple[int | str, ...], problem: str, names: Iterable[str]) -> str:
    """Return what to call an argument that the tool does not have."""
    if problem != "extra_forbidden" or len(place) != 1:
        return ""
    known = tuple(names)
    near = difflib.get_close_matches(str(place[0]), known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else f" (known are {', '.join(known) or 'none'})"


def _is_open(schema: Mapping[str, Any]) -> bool:
    """Whether a nested model says itself that it takes more than its fields."""
    nested = schema.get("$defs", {}).values()
    return any("properties" in one and one["additionalProperties"] is not False for one in nested)
