"""The table of methods that a server and its client make of those of ``AgentMemory``: names, arguments and answers.

Each is a route ``/api/v0/<name>`` and a method of ``RemoteMemory``, with the signature and the description that it has
in ``AgentMemory``. A scope is called ``conversation_id`` in a body; the answer is ``{"result": …}``, or the bare object
for :data:`PLAIN`.
"""

from __future__ import annotations

import functools
import inspect
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BeforeValidator, Field, TypeAdapter, create_model

from memory_retrievers.errors import ValidationError
from memory_retrievers.memory.agent import AgentMemory
from memory_retrievers.models import Category, JsonObject, Kind, Rating, scopes
from memory_retrievers.models.filters import SearchOptions, parse_moment
from memory_retrievers.models.memories import NotGiven, in_our_words, parse_id
from memory_retrievers.models.messages import Message, MessageLike, Said, parse_conversation, plain_message
from memory_retrievers.models.results import MAX_PAGE
from memory_retrievers.retrieval.request import RetrievalRequest
from memory_retrievers.server.bodies import Body, ConversationId, Moment, SearchBody, search_body

_PLACES: Final = ("scope", "within")  # parameters that name a scope

_ARGUMENT: Final = re.compile(r"^ {4}(\w+): (.+?)(?=^ {4}\S|^\S|\Z)", re.DOTALL | re.MULTILINE)


class Method:
    """A method of ``AgentMemory`` that a server offers."""

    def __init__(self, function: Callable[..., object], *, writes: bool = False) -> None:
        self.name: str = function.__name__  # and that of its route
        self.writes = writes
        self._described = inspect.getdoc(function) or ""
        self.summary = self._described.partition("\n\n")[0]
        self._signature = inspect.signature(function)
        self._hints = get_type_hints(function)

    @property
    def place(self) -> str | None:
        """Name of the parameter that takes the scope; None if there is none."""
        return next((name for name in _PLACES if name in self._signature.parameters), None)

    @cached_property
    def body(self) -> type[Body]:
        """Model of the request body."""
        searches = "options" in self._signature.parameters
        fields: dict[str, Any] = dict(self._fields(without={"query", "options"} if searches else set()))
        base: type[Body] = SearchBody if searches else Body
        model: Any = create_model(f"{self.name}_body", __base__=base, __doc__=self.summary, **fields)
        model.nullable = frozenset(
            name for name, hint in self._hints.items() if {NotGiven, NoneType} <= set(get_args(hint))
        )
        return cast("type[Body]", model)

    @cached_property
    def answer(self) -> TypeAdapter[Any]:
        """Adapter that serialises and parses the result."""
        return TypeAdapter(self._hints["return"])

    def arguments(self, body: Body) -> dict[str, Any]:
        """Return the arguments in a body, without the scope."""
        if isinstance(body, SearchBody):
            named = body.model_fields_set & self._signature.parameters.keys()
            return {name: getattr(body, name) for name in named} | body.options()
        return {name: getattr(body, name) for name in body.model_fields_set - {"conversation_id"}}

    def request(self, memory: object, *given: object, **named: object) -> JsonObject:
        """Return the JSON body for a call of this method.

        Args:
            memory: The memory on which it was called.
            given: Positional arguments.
            named: Keyword arguments.

        Raises:
            ValidationError: An argument breaks a rule.
        """
        bound = self._signature.bind(memory, *given, **named).arguments
        bound.pop("self")
        for name, parse in _PARSED.items():  # as an AgentMemory takes them: a body has moments as numbers, too
            if name in bound and (parse is bool or bound[name] is not None):
                bound[name] = parse(bound[name])
        if "options" in self._signature.parameters:
            options: SearchOptions = bound.pop("options", {})
            request = RetrievalRequest.parse(bound.pop("query"), scope=bound.pop("scope"), **options)
            bound = search_body(request) | bound
        elif self.place in bound:
            scope, place = bound.pop(self.place), self._signature.parameters[self.place or ""]
            if scope is not None or place.default is inspect.Parameter.empty:
                bound["conversation_id"] = scopes.parse(scope)
        for name, value in bound.items() if "options" not in self._signature.parameters else ():
            if value is None and NoneType not in get_args(self._hints.get(name)):
                raise ValidationError(f"{name} must not be None: give a value, or leave it out")  # as null in a body
        written = {name: value for name, value in bound.items() if not isinstance(value, NotGiven)}
        with in_our_words():
            return self.body.model_validate(written).model_dump(mode="json", exclude_unset=True)

    def _fields(self, *, without: set[str]) -> Iterator[tuple[str, tuple[Any, Any]]]:
        described = _arguments_in(self._described)
        for name, parameter in self._signature.parameters.items():
            is_required = parameter.default is inspect.Parameter.empty
            if name in _PLACES:
                yield "conversation_id", (ConversationId, ...) if is_required else (ConversationId | None, None)
            elif name != "self" and name not in without:
                type_ = _as_sent(self._hints[name])
                if name == "limit":  # that of ``recent`` is brought into its bounds
                    type_ = Annotated[int, Field(strict=True, ge=0, le=None if self.name == "recent" else MAX_PAGE)]
                yield name, (type_, Field(default=... if is_required else None, description=described.get(name)))


def tell_attributes(schema: JsonObject) -> None:
    """Move the attribute descriptions of a docstring to the properties of its schema; the first paragraph stays."""
    if said := schema.get("description"):
        schema["description"] = said.partition("\n\n")[0]
        for name, described in _arguments_in(said).items():
            schema.get("properties", {}).get(name, {}).setdefault("description", described)


def _arguments_in(docstring: str) -> dict[str, str]:
    return {name: " ".join(said.split()) for name, said in _ARGUMENT.findall(docstring)}


_SENT: Final[Mapping[object, object]] = {
    int: Annotated[int, Field(strict=True)],
    bool: Annotated[bool, Field(strict=True)],
    datetime: Moment,
    Message: Annotated[Message, BeforeValidator(plain_message)],
}


def _as_sent(hint: Any) -> Any:  # noqa: ANN401 - a type
    """The type of an argument as it is sent: lists for iterables, moments, texts for what may be given as one."""
    if hint == Iterable[MessageLike]:
        return Said[Message]
    if get_origin(hint) in {Union, UnionType}:
        kinds = [kind for kind in get_args(hint) if kind is not NotGiven]
        either = {datetime, str, Kind, Category, Rating}.intersection(kinds)
        if either:
            kinds = [datetime if datetime in either else str, *(kind for kind in kinds if kind not in either)]
        return functools.reduce(operator.or_, map(_as_sent, kinds))
    origin = get_origin(hint)
    if isinstance(origin, type) and issubclass(origin, Iterable) and origin is not dict:
        return Annotated[list[_as_sent(get_args(hint)[0])], Field(fail_fast=True)]  # type: ignore[misc]  # worked out
    return _SENT.get(hint, hint)


_READING: Final = (
    "retrieve recent profile get list history events diff scopes stats now explain explain_missing waiting "
    "waiting_scopes transcript pending_reviews characters scene"
)
_WRITING: Final = (
    "add_messages update invalidate forget forget_messages forget_conversation forget_scope review process_due flush "
    "add_scene_events"
)
_PARSED: Final[Mapping[str, Callable[[Any], object]]] = {
    **dict.fromkeys(("correct", "facts", "include_child_scopes", "record"), bool),
    **dict.fromkeys(("id", "fact_id"), parse_id),
    "conversation": parse_conversation,
    **{name: functools.partial(parse_moment, name) for name in ("since", "until")},
}
PLAIN: Final = frozenset({"add_messages"})  # whose answer is the object itself, and not ``{"result": …}``
PROCESSING: Final = frozenset({"process_due", "flush"})  # in which language models are called, for minutes perhaps

METHODS: Final[Mapping[str, Method]] = {
    method.name: method
    for method in (
        *(Method(getattr(AgentMemory, name)) for name in _READING.split()),
        *(Method(getattr(AgentMemory, name), writes=True) for name in _WRITING.split()),
    )
}
"""Those of which nothing but a route and a method is to be made; others have bodies of their own in ``bodies``."""
