"""Request bodies. Unknown fields are refused; null means that a field is not given."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias, cast, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic.fields import FieldInfo

from memory_retrievers.models import DetailLevel, EpisodicDraft, JsonObject, MemoryDraft, SemanticDraft
from memory_retrievers.models.fields import ShortText, UTCDateTime, iso, storable
from memory_retrievers.models.filters import MAX_FILTERS, SearchOptions
from memory_retrievers.models.messages import IfSaid, Message, Said
from memory_retrievers.retrieval.request import RetrievalRequest
from memory_retrievers.tools.arguments import MetadataFilter, Where
from memory_retrievers.tools.retrieve import CategoryFilter, Detail, Query, Relevance

Moment = Annotated[
    UTCDateTime, WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "integer"}]})
]
"""ISO-8601 text, or seconds or milliseconds since 1970, distinguished by their size."""

ConversationId = Annotated[
    str, Field(description="The scope, as a whole path, for example user/alice.", examples=["user/alice"])
]
Conversation = Annotated[
    ShortText | None,
    Field(description="Which of the scope's conversations, for example the id of a thread.", examples=["thread-7"]),
]
Limit = Annotated[int, Field(strict=True, ge=0)]

MAX_REMEMBERED: Final = 256  # memories in one request, which are embedded and stored together, in about a second

MAX_FIELDS: Final = 64  # in an object of known fields; more are refused with one error instead of one for each


class Body(BaseModel):
    """A JSON object."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ignored: ClassVar[frozenset[str]] = frozenset()
    nullable: ClassVar[frozenset[str]] = frozenset()
    """Fields in which null has a meaning."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        if not isinstance(given, Mapping):
            return given
        if len(given) > MAX_FIELDS:
            raise ValueError(f"has {len(given)} fields: at most {MAX_FIELDS} are allowed")
        said = {name: value for name, value in given.items() if value is not None or name in cls.nullable}
        if unknown := said.keys() - cls.model_fields.keys() - cls.ignored:
            raise ValueError(
                f"there is no field {storable(min(unknown))}: there are {', '.join(cls.model_fields) or 'none'}"
            )
        return {name: value for name, value in said.items() if name not in cls.ignored}


class FilteredBody(Body):
    """Filters of a search or a list."""

    tags: Annotated[
        list[str],
        FailFast(),
        Field(description="Only memories that have all of these tags.", json_schema_extra={"maxItems": MAX_FILTERS}),
    ] = []
    metadata: MetadataFilter = None
    since: Annotated[Moment | None, Field(description="Facts created and episodes begun then or later.")] = None
    until: Annotated[Moment | None, Field(description="Facts created and episodes begun then or earlier.")] = None
    where: Annotated[Where, Field(examples=[{"metadata.team": {"in": ["a", "b"]}, "not": {"tags": "old"}}])] = None


MaxTokens = Annotated[
    Limit | None, Field(description="Maximum tokens of the markdown, four characters each; no limit if left out.")
]


class SearchBody(FilteredBody):
    """What to look for, and where."""

    query: Query
    conversation_id: ConversationId
    episodic_limit: Annotated[Limit | None, Field(description="Maximum episodes, up to 100; 5 if left out.")] = None
    limit: Annotated[Limit | None, Field(description="Another name of episodic_limit.")] = None
    semantic_limit: Annotated[Limit, Field(description="Maximum facts, up to 1000.")] = 20
    category: CategoryFilter = None
    include_child_scopes: Annotated[bool, Field(description="Also search every scope below this one.")] = False
    as_of: Annotated[Moment | None, Field(description="Search what was valid at this time.")] = None
    exclude_conversation: Annotated[
        ShortText | None, Field(description="Leave out episodes of this conversation, for example of the current one.")
    ] = None
    in_prompt: Annotated[
        Said[Message], Field(description="Messages that the prompt has already; open episodes do not repeat them.")
    ] = ()
    min_relevance: Relevance = 0.0
    joint_limit: Annotated[Limit | None, Field(description="Maximum number of facts and episodes together.")] = None
    time_zone: Annotated[
        ShortText | None, Field(description="Time zone of the days, such as Europe/Berlin; the server's if left out.")
    ] = None

    @model_validator(mode="after")
    def _limits_agree(self) -> Self:
        if self.limit is not None and self.episodic_limit not in {None, self.limit}:
            raise ValueError("limit is another name of episodic_limit: give one of them")
        return self

    def options(self) -> SearchOptions:
        """Return the options of the search."""
        said = set(SearchOptions.__annotations__) - {"episodic_limit"}
        if self.joint_limit is not None and "semantic_limit" not in self.model_fields_set:
            said.remove("semantic_limit")
        options = cast("SearchOptions", self.model_dump(include=said))
        options["limit"] = self.joint_limit
        options["in_prompt"] = self.in_prompt
        if (given := self.limit if self.episodic_limit is None else self.episodic_limit) is not None:
            options["episodic_limit"] = given
        return options


_ALIKE: Final = (
    "query episodic_limit semantic_limit category include_child_scopes exclude_conversation min_relevance time_zone"
)


def search_body(request: RetrievalRequest) -> JsonObject:
    """Return the JSON of the :class:`SearchBody` for a request."""
    filters = request.filters
    times = {"as_of": request.as_of, "since": filters.since, "until": filters.until}
    return {
        **{name: getattr(request, name) for name in _ALIKE.split()},
        **{name: None if moment is None else iso(moment) for name, moment in times.items()},
        "conversation_id": request.scope,
        "joint_limit": request.limit,
        "tags": list(filters.tags),
        "metadata": dict(filters.metadata),
        "where": None if filters.where is None else filters.where.to_dict(),
        "in_prompt": [{"role": each.role, "content": each.content} for each in request.in_prompt],
    }


class RetrieveBody(SearchBody):
    """What to look for, and where."""

    detail: Detail = DetailLevel.AUTO
    max_tokens: MaxTokens = None
    record: Annotated[bool, Field(description="Queue found episodes for review; a read-only token never does.")] = True


class ContextBody(FilteredBody):
    """What a turn is about. ``episodic_limit``, ``limit`` and ``detail`` are accepted and ignored."""

    ignored: ClassVar[frozenset[str]] = frozenset({"episodic_limit", "limit", "detail"})

    query: Query
    conversation_id: ConversationId
    semantic_limit: Annotated[Limit, Field(description="Maximum facts, up to 1000.")] = 20
    category: CategoryFilter = None
    include_child_scopes: bool = False
    min_relevance: Relevance = "auto"
    max_tokens: MaxTokens = None


class RecentBody(Body):
    """Whose newest memories."""

    conversation_id: ConversationId
    limit: Annotated[int, Field(strict=True, description="1 to 100; 0 means 1, and more than 100 means 100."),
                     AfterValidator(lambda limit: max(limit, 1))] = 10  # fmt: skip
    days_limit: Annotated[float | None, Field(gt=0, allow_inf_nan=False, description="Only the last so many days.")] = (
        None
    )
    facts: Annotated[bool, Field(description="Also return up to as many of the newest valid facts.")] = False


class AddMessageBody(Body):
    """One message for the queue."""

    conversation_id: ConversationId
    conversation: Conversation = None
    message: IfSaid[Message | None]


def _until_first_mistake(info: FieldInfo) -> FieldInfo:
    """Return the field so that only the first error in a list is reported."""
    if get_origin(info.annotation) is not tuple:
        return info
    field = copy(info)
    field.metadata = [FailFast(), *info.metadata]
    return field


def _draft_body(name: str, draft: type[MemoryDraft], **more: Any) -> type[Body]:  # noqa: ANN401 - fields
    """Create the model of a memory to store: a draft without its scope, which ``conversation_id`` gives for all."""
    fields: dict[str, Any] = {
        field: (info.annotation, _until_first_mistake(info))
        for field, info in draft.model_fields.items()
        if field != "scope"
    }
    model: type[Body] = create_model(name, __base__=Body, __doc__=draft.__doc__, **fields, **more)
    return model


EpisodeBody = _draft_body("EpisodeBody", EpisodicDraft)
Replaces: TypeAlias = Annotated[
    ShortText | None, Field(description="The id of a fact that this one replaces from now on.")
]
FactBody = _draft_body("FactBody", SemanticDraft, replaces=(Replaces, None))


class RememberBody(Body):
    """Memories to store, at most 256 together: all of them or none."""

    conversation_id: ConversationId
    episodes: Annotated[list[EpisodeBody], Field(max_length=MAX_REMEMBERED)] = []  # type: ignore[valid-type]  # above
    facts: Annotated[list[FactBody], Field(max_length=MAX_REMEMBERED)] = []  # type: ignore[valid-type]
    replace: Annotated[
        bool, Field(description="Forget existing memories with these ids; otherwise an existing id is refused.")
    ] = False
    allow_duplicates: Annotated[
        bool, Field(description="Store facts even if they are known; otherwise the known ones are confirmed.")
    ] = False

    @model_validator(mode="before")
    @classmethod
    def _not_too_many(cls, given: object) -> object:
        if isinstance(given, Mapping):
            lists = (given.get("episodes"), given.get("facts"))
            count = sum(len(each) for each in lists if isinstance(each, list))
            if count > MAX_REMEMBERED:
                raise ValueError(
                    f"{count} memories are too many for one request: send at most {MAX_REMEMBERED} at once"
                )
        return given

    def drafts(self, scope: str) -> list[EpisodicDraft | SemanticDraft]:
        """Return the drafts, episodes first."""
        episodes = [EpisodicDraft(scope=scope, **_given(body)) for body in self.episodes]
        facts = [SemanticDraft(scope=scope, **_given(body)) for body in self.facts]
        return [*episodes, *facts]

    def replacing(self) -> list[str | None]:
        """Return the id of the fact that each draft replaces, or None."""
        return [*(None for _ in self.episodes), *(body.replaces for body in self.facts)]  # type: ignore[attr-defined]


def _given(body: Body) -> dict[str, Any]:
    return {name: getattr(body, name) for name in body.model_fields_set - {"replaces"}}


class ToolBody(Body):
    """The arguments of a tool, and where it works."""

    conversation_id: ConversationId
    arguments: dict[str, Any] = Field(default_factory=dict)


def tool_body(name: str, schema: dict[str, Any]) -> type[ToolBody]:
    """Create the body of calls of a tool, documented by its schema; the tool checks the arguments."""
    arguments: Any = (Annotated[dict[str, Any], WithJsonSchema(schema)], Field(default_factory=dict))
    model: type[ToolBody] = create_model(f"{name}_call", __base__=ToolBody, arguments=arguments)
    return model
