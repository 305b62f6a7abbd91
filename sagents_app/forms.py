"""Shape of what people post: a decision with its note, its answer and edited arguments.

Types are kept exactly: a field that was not touched keeps its type and value, and `{}` and null are
edits like any other. Who may decide, and whether it is still open, is the services' business.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, assert_never

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from sagents_app import engine, hidden_characters
from sagents_app.engine import canonical

Kind = Literal["approve", "edit", "reject", "respond", "cancel"]

JSONKind = Literal["any", "number", "object"]

LONGEST_FIELD = 20_000
"""Characters of one value, or of all together, beyond which they are not offered for editing."""
MOST_FIELDS = 60
LONGEST_NOTE = 4_000
LONGEST_ANSWER = 100_000


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the call that is decided."""

    name: str
    value: Any
    description: str = ""
    """What the tool's schema says about it."""


class DecisionForm(forms.Form):
    """What a reviewer says to one request; `decision()` is the engine's value of it.

    Args:
        proposed: the arguments that were shown, as canonical JSON.
        digest: what the shown request is told by.
        allowed: the decisions that the request takes.
        tool: the tool as it is registered now, None where nothing is known of it.
    """

    digest = forms.CharField(widget=forms.HiddenInput, max_length=64)
    note = forms.CharField(
        label=_("Note"),
        help_text=_("The agent reads it: a reason, or what it should do instead."),
        required=False,
        max_length=LONGEST_NOTE,
        widget=forms.Textarea(attrs={"rows": 3}),
    )

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        *,
        digest: str,
        allowed: Collection[str],
        proposed: str = canonical.NOTHING,
        tool: engine.Tool | None = None,
    ) -> None:
        super().__init__(data, initial={"digest": digest}, auto_id="id_%s")
        self.allowed = allowed
        self.proposed: dict[str, Any] = canonical.parse(proposed)
        self.tool = tool
        self.arguments: dict[str, Argument] = {}
        self.fields["decision"] = forms.ChoiceField(choices=[(one, one) for one in allowed])
        if "respond" in allowed:
            self.fields["answer"] = _answer_field()
        if "edit" in allowed:
            self._add_arguments(proposed)

    def _add_arguments(self, proposed: str) -> None:
        properties = (self.tool.parameters if self.tool else {}).get("properties", {})
        for index, (name, value) in enumerate(list(self.proposed.items())[:MOST_FIELDS]):
            schema = properties.get(name, {})
            field = _field_for(value, schema)
            if field is not None:
                field.label = hidden_characters.escape(name)
                self.fields[f"argument_{index}"] = field
                self.arguments[f"argument_{index}"] = Argument(
                    name, value, str(schema.get("description") or "")
                )
        if len(proposed) <= LONGEST_FIELD:
            self.fields["arguments"] = JSONTextField(self.proposed, kind="object", rows=12)
            self.fields["arguments"].label = _("All arguments as JSON")

    @property
    def argument_fields(self) -> Iterator[tuple[Argument, forms.BoundField]]:
        """Each argument that can be edited in a field of its own, in the call's order."""
        for field_name, argument in self.arguments.items():
            yield argument, self[field_name]

    @property
    def arguments_as_json(self) -> forms.BoundField | None:
        """The field of all arguments together, where they are short enough for one."""
        return self["arguments"] if "arguments" in self.fields else None

    @property
    def json_was_edited(self) -> bool:
        """Whether that field was changed."""
        return self.is_bound and "arguments" in self.changed_data

    @property
    def unoffered(self) -> int:
        """How many arguments have no field of their own: too long, or too many."""
        return len(self.proposed) - len(self.arguments)

    @property
    def other_arguments(self) -> list[str]:
        """What else the tool takes, and the call leaves out."""
        known = (self.tool.parameters if self.tool else {}).get("properties", {})
        return [name for name in known if name not in self.proposed]

    @property
    def was_edited(self) -> bool:
        """Whether an argument differs from what was shown."""
        return self.is_bound and any(
            name in self.changed_data for name in (*self.arguments, "arguments")
        )

    def clean(self) -> dict[str, Any]:
        """Check that what was typed and the button that was pressed say the same."""
        cleaned: dict[str, Any] = super().clean() or {}
        decision = cleaned.get("decision")
        if decision == "approve" and self.was_edited:
            raise forms.ValidationError(
                gettext(
                    "You changed arguments and pressed Approve, which runs the call as it was "
                    "proposed. Press “Approve with changes”, or undo your changes."
                ),
                code="edited",
            )
        if decision in ("reject", "respond", "cancel"):
            for name in (*self.arguments, "arguments"):
                self.errors.pop(name, None)
        if decision == "respond" and not cleaned.get("answer", "").strip():
            self.add_error("answer", gettext("Write the answer that the agent gets."))
        if decision == "edit" and not self.errors:
            cleaned["edited"] = self._edited(cleaned)
        return cleaned

    def _edited(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        fields = [name for name in self.arguments if name in self.changed_data]
        if "arguments" in self.changed_data:
            if fields:
                message = gettext("Change the arguments here or in their fields, not in both.")
                raise forms.ValidationError({"arguments": message})
            edited: dict[str, Any] = cleaned["arguments"]
        else:
            edited = dict(self.proposed)
            edited.update({self.arguments[name].name: cleaned[name] for name in fields})
        if canonical.dump(edited) == canonical.dump(self.proposed):
            raise forms.ValidationError(
                gettext("Nothing was changed. Change a value, or press Approve."), code="same"
            )
        self._check_schema(edited)
        return edited

    def _check_schema(self, edited: dict[str, Any]) -> None:
        if self.tool is None:
            return
        try:
            self.tool.signature.validate(canonical.dump(edited))
        except engine.InvalidArguments as error:
            self.add_refusal(str(error))

    def add_refusal(self, told: str) -> None:
        """Put each line of a refusal beside the field of the argument that it names."""
        fields = {argument.name: name for name, argument in self.arguments.items()}
        for line in told.splitlines():
            path, _colon, problem = line.partition(": ")
            field = None if self.json_was_edited else fields.get(path.partition(".")[0])
            if field is not None:
                self.add_error(field, problem)
            else:
                self.add_error("arguments" if self.json_was_edited else None, line)

    def decision(self) -> engine.Decision:
        """Return what the reviewer decided; the form is valid."""
        kind: Kind = self.cleaned_data["decision"]
        note: str = self.cleaned_data["note"]
        match kind:
            case "approve":
                return engine.Approve(note=note)
            case "edit":
                return engine.Edit(arguments=self.cleaned_data["edited"], note=note)
            case "reject":
                return engine.Reject(note=note)
            case "respond":
                return engine.Respond(self.cleaned_data["answer"])
            case "cancel":
                return engine.Cancel()
            case _:
                assert_never(kind)


class TextField(forms.CharField):
    """A text, kept to the character but for the line ends that a browser rewrites."""

    def __init__(self, initial: str) -> None:
        long = len(initial) > 70 or "\n" in initial
        rows = min(12, initial.count("\n") + len(initial) // 90 + 2)
        widget = forms.Textarea(attrs={"rows": rows}) if long else forms.TextInput()
        super().__init__(initial=initial, required=False, strip=False, widget=widget)

    def to_python(self, value: Any) -> str:
        """Return the text with plain line ends."""
        return _with_plain_line_ends(super().to_python(value) or "")

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Whether more than line ends differ."""
        return data is not None and _with_plain_line_ends(initial) != _with_plain_line_ends(data)


class JSONTextField(forms.CharField):
    """One JSON value as text, with whatever cannot be seen written in escapes."""

    default_error_messages: ClassVar[dict[str, Any]] = {
        "not_json": _("This is not JSON: %(problem)s."),
        "not_object": _("The arguments are a JSON object: {…}."),
        "not_number": _("This takes a number."),
    }

    def __init__(self, value: Any, *, kind: JSONKind = "any", rows: int = 0) -> None:
        text = hidden_characters.escape(json.dumps(value, indent=2, ensure_ascii=False))
        self.kind = kind
        rows = rows or min(12, text.count("\n") + len(text) // 60 + 1)
        attrs = {"rows": rows, "spellcheck": "false", "autocomplete": "off", "class": "json"}
        widget: forms.Widget = forms.Textarea(attrs=attrs)
        if kind == "number":
            widget = forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"})
        super().__init__(initial=text, required=False, strip=False, widget=widget)

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Whether the text differs in more than line ends."""
        return data is not None and initial != _with_plain_line_ends(data)

    def to_python(self, value: Any) -> Any:
        """Return the JSON value."""
        try:
            parsed = canonical.parse(value or "")
        except ValueError as error:
            raise self._problem("not_json", problem=str(error)) from None
        if self.kind == "object" and not isinstance(parsed, dict):
            raise self._problem("not_object")
        if self.kind == "number" and (
            isinstance(parsed, bool) or not isinstance(parsed, int | float)
        ):
            raise self._problem("not_number")
        return parsed

    def run_validators(self, value: Any) -> None:
        """Do nothing: a text's validators do not fit a value."""

    def _problem(self, code: str, **params: str) -> forms.ValidationError:
        return forms.ValidationError(self.error_messages[code], code=code, params=params)


class JSONChoiceField(forms.TypedChoiceField):
    """One of a few JSON values, each written as JSON."""

    def __init__(self, value: Any, values: list[Any]) -> None:
        written = {canonical.dump(one): one for one in values}
        super().__init__(
            choices=[
                (text, one if isinstance(one, str) else text) for text, one in written.items()
            ],
            coerce=canonical.parse,
            initial=canonical.dump(value),
        )

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Whether another one was chosen."""
        return data is not None and bool(initial != data)


def _field_for(value: Any, schema: Mapping[str, Any]) -> forms.Field | None:
    """Return the field in which a value is edited, None where it is too long for that."""
    choices = schema.get("enum")
    if isinstance(choices, list) and value in choices and len(choices) <= 50:
        return JSONChoiceField(value, choices)
    if isinstance(value, bool):
        return JSONChoiceField(value, [True, False])
    if isinstance(value, int | float):
        return JSONTextField(value, kind="number")
    if isinstance(value, str) and hidden_characters.is_clean(value):
        return TextField(value) if len(value) <= LONGEST_FIELD else None
    return JSONTextField(value) if len(canonical.dump(value)) <= LONGEST_FIELD else None


def _answer_field() -> forms.CharField:
    return forms.CharField(
        label=_("Answer"),
        help_text=_("The agent gets this text as the tool's result; the tool does not run."),
        required=False,
        max_length=LONGEST_ANSWER,
        widget=forms.Textarea(attrs={"rows": 4}),
    )


def _with_plain_line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
