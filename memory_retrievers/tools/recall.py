"""The tools that read memory: search it, give a turn its facts, tell what happened lately."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic.json_schema import JsonSchemaValue

from memory_retrievers.models import Category, DetailLevel, ResponseLevel
from memory_retrievers.rendering.markdown import NO_MEMORIES
from memory_retrievers.retrieval.result import parse_detail
from memory_retrievers.tools.arguments import Level, ToolArguments
from memory_retrievers.tools.spec import ToolContext, ToolOutput, compact_json


def _one_of(words: type[Category | DetailLevel]) -> JsonSchemaValue:
    """The words in place, since not every provider follows a ``$ref``."""
    return {"type": "string", "enum": [word.value for word in words]}


Query = Annotated[
    str,
    Field(description="What to look for, as a question or a few words, in the language of the conversation."),
]
EpisodicLimit = Annotated[
    int,
    Field(ge=0, description="How many past episodes to return at most, up to 100; 0 leaves them out."),
]
SemanticLimit = Annotated[
    int,
    Field(ge=0, description="How many facts to return at most, up to 1000; 0 leaves them out."),
]
CategoryFilter = Annotated[
    str | None,  # the memory knows the categories and says so
    WithJsonSchema({"anyOf": [_one_of(Category), {"type": "null"}]}),
    Field(description="Only facts of this category; leave it out for all. Episodes are not affected."),
]
Detail = Annotated[
    DetailLevel,
    BeforeValidator(parse_detail),
    WithJsonSchema(_one_of(DetailLevel)),
    Field(
        description=(
            "How much of the original messages to show: auto (only surprising episodes among the first two), "
            "none, low (only a surprising first episode), high (every episode), or excerpts (instead of summaries, "
            "the messages that match, with their dates)."
        )
    ),
]


class RetrieveMemoryArguments(ToolArguments):
    """Arguments of ``retrieve_memory``; ``limit`` is another name of ``episodic_limit``."""

    query: Query
    episodic_limit: EpisodicLimit = 5
    semantic_limit: SemanticLimit = 20
    detail: Detail = DetailLevel.AUTO
    category: CategoryFilter = None
    response_level: Level = ResponseLevel.STANDARD

    @model_validator(mode="before")
    @classmethod
    def _limit_is_the_episodic_limit(cls, given: object) -> object:
        if not isinstance(given, Mapping) or given.get("limit") is None:
            return given
        others = {name: value for name, value in given.items() if name != "limit"}
        if others.get("episodic_limit") not in (None, given["limit"]):
            raise ValueError("limit is another name of episodic_limit: give one of them")
        return {**others, "episodic_limit": given["limit"]}


class ContextArguments(ToolArguments):
    """Arguments of ``context_pre_retrieve``; those that only ``retrieve_memory`` has are ignored."""

    ignored: ClassVar[frozenset[str]] = frozenset({"episodic_limit", "limit", "detail"})

    query: Query
    semantic_limit: SemanticLimit = 20
    category: CategoryFilter = None

    @model_validator(mode="before")
    @classmethod
    def _without_the_ignored(cls, given: object) -> object:
        if isinstance(given, Mapping):
            return {name: value for name, value in given.items() if name not in cls.ignored}
        return given


class RecentMemoryArguments(ToolArguments):
    """Arguments of ``recent_memory``."""

    limit: Annotated[
        int, AfterValidator(partial(max, 1)), Field(description="How many episodes to return, 1 to 100.")
    ] = 10
    days_limit: Annotated[
        float | None,
        Field(gt=0, allow_inf_nan=False, description="Only episodes of the last so many days; leave it out for all."),
    ] = None


def retrieve_memory(context: ToolContext, arguments: RetrieveMemoryArguments) -> ToolOutput:
    """Facts and episodes that answer a question (specification §2.6, §2.8); what was found is noted for review.

    At level ``minimal`` the content counts them, at ``full`` it tells every episode's messages unless ``detail`` is
    given (§4.4); the artifact is the raw object at every level.
    """
    result = context.memory.retrieve(
        arguments.query,
        scope=context.scope,
        episodic_limit=arguments.episodic_limit,
        semantic_limit=arguments.semantic_limit,
        category=arguments.category,
        record=not context.read_only,
    )
    found = result.to_dict()
    if arguments.response_level is ResponseLevel.MINIMAL:
        counts = {"success": True, "semantic_count": len(found["semantic"]), "episodic_count": len(found["episodic"])}
        return ToolOutput(content=compact_json(counts), artifact=found)
    return ToolOutput(content=result.to_markdown(_detail(arguments)) or NO_MEMORIES, artifact=found)


def _detail(arguments: RetrieveMemoryArguments) -> DetailLevel:
    if arguments.response_level is ResponseLevel.FULL and "detail" not in arguments.model_fields_set:
        return DetailLevel.HIGH
    return arguments.detail


def context_pre_retrieve(context: ToolContext, arguments: ContextArguments) -> ToolOutput:
    """The facts to put before a turn (specification §2.9); the content is empty when there is nothing to inject."""
    result = context.memory.context(
        arguments.query,
        scope=context.scope,
        semantic_limit=arguments.semantic_limit,
        category=arguments.category,
    )
    return ToolOutput(content=result.to_markdown(), artifact=result.to_dict())


def recent_memory(context: ToolContext, arguments: RecentMemoryArguments) -> ToolOutput:
    """The newest episodes (specification §2.17)."""
    recent = context.memory.recent(context.scope, limit=arguments.limit, days_limit=arguments.days_limit)
    return ToolOutput(content=recent.to_markdown(), artifact=recent.to_dict())
