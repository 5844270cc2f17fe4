"""The tools that read memory: search by a question, facts for the next turn, recent episodes, the scene of a story."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar, Final, TypeAlias, cast

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from memory_retrievers.models import Category, DetailLevel, JsonObject, ResponseLevel
from memory_retrievers.models.filters import MinRelevance, SearchOptions
from memory_retrievers.retrieval.markdown import empty_block_text
from memory_retrievers.retrieval.memory import require_scenes
from memory_retrievers.retrieval.request import parse_relevance
from memory_retrievers.retrieval.results import RetrievalResult, parse_detail
from memory_retrievers.settings import SCENE_BUDGET
from memory_retrievers.text.analysis import estimate_scene_tokens
from memory_retrievers.tools.arguments import (
    LONGEST_ID,
    Level,
    ManagementArguments,
    MetadataFilter,
    Since,
    TagsFilter,
    ToolArguments,
    Until,
    Where,
    at_most,
    within,
)
from memory_retrievers.tools.responses import preview
from memory_retrievers.tools.tool import Answer, ToolContext, ToolOutput, compact_json

ID_PREVIEW: Final = 60  # characters of a memory's text that stand beside its id

MOST_MESSAGES: Final = 2**53 - 1
LARGEST_BUDGET: Final = 1_000_000
MOST_NAMES: Final = 1_000

_Names: TypeAlias = Annotated[
    tuple[Annotated[str, at_most(LONGEST_ID, "A name")], ...], at_most(MOST_NAMES, "The list of names")
]

Query = Annotated[
    str, Field(description="What to look for, as a question or a few words, in the language of the conversation.")
]
EpisodicLimit = Annotated[
    int, Field(ge=0, description="How many past episodes to return at most, up to 100; 0 leaves them out.")
]
SemanticLimit = Annotated[
    int, Field(ge=0, description="How many facts to return at most, up to 1000; 0 leaves them out.")
]
CategoryFilter = Annotated[
    str | None,  # the memory knows the categories and says so
    WithJsonSchema({"anyOf": [{"type": "string", "enum": [each.value for each in Category]}, {"type": "null"}]}),
    Field(description="Only facts of this category; leave it out for all. Episodes are not affected."),
]
Detail = Annotated[
    DetailLevel,
    BeforeValidator(parse_detail),
    WithJsonSchema({"type": "string", "enum": [each.value for each in DetailLevel]}),  # not every provider follows $ref
    Field(
        description=(
            "How much of the original messages to show: auto (only surprising episodes among the first two), "
            "none, low (only a surprising first episode), high (every episode), or excerpts (instead of summaries, "
            "the messages that match, with their dates)."
        )
    ),
]
MaxTokens = Annotated[
    int | None,
    Field(ge=0, description="Maximum tokens of text, four characters each; leave it out for no limit."),
]

Relevance = Annotated[
    MinRelevance,
    BeforeValidator(parse_relevance),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"const": "auto"}]}),
    Field(description="Leave out memories below this relevance, 0 to 1; auto leaves out irrelevant ones."),
]


class RetrieveMemoryArguments(ToolArguments):
    """Arguments of ``retrieve_memory``; ``limit`` is another name of ``episodic_limit``."""

    other_names: ClassVar[Mapping[str, str]] = {"limit": "episodic_limit"}

    query: Query
    episodic_limit: EpisodicLimit = 5
    semantic_limit: SemanticLimit = 20
    detail: Detail = DetailLevel.AUTO
    max_tokens: MaxTokens = None
    category: CategoryFilter = None
    min_relevance: Relevance = 0.0
    tags: TagsFilter = ()
    metadata: MetadataFilter = None
    since: Since = None
    until: Until = None
    where: Where = None
    response_level: Level = ResponseLevel.STANDARD

    def options(self) -> SearchOptions:
        """The options of the search that they name."""
        return cast("SearchOptions", self.model_dump(include=set(SearchOptions.__annotations__)))


class ContextArguments(ToolArguments):
    """Arguments of ``context_pre_retrieve``; those that only ``retrieve_memory`` has are ignored."""

    ignored: ClassVar[frozenset[str]] = frozenset({"episodic_limit", "limit", "detail"})

    query: Query
    semantic_limit: SemanticLimit = 20
    max_tokens: MaxTokens = None
    category: CategoryFilter = None
    response_level: Level = ResponseLevel.STANDARD


class RecentMemoryArguments(ToolArguments):
    """Arguments of ``recent_memory``."""

    limit: Annotated[
        int, AfterValidator(partial(max, 1)), Field(description="How many facts and episodes each, 1 to 100.")
    ] = 10
    days_limit: Annotated[
        float | None,
        Field(gt=0, allow_inf_nan=False, description="Maximum age in days; leave it out for all."),
    ] = None
    response_level: Level = ResponseLevel.STANDARD


def retrieve_memory(context: ToolContext, arguments: RetrieveMemoryArguments) -> ToolOutput:
    """Facts and episodes that answer a question (specification §2.6, §2.8); what was found is noted for review.

    At level ``minimal`` the content counts them; ``full`` gives facts whole, every episode's messages unless
    ``detail`` is given (§4.4), and all ids; the artifact is the raw object at every level.
    """
    result = context.memory.retrieve(
        arguments.query,
        scope=context.scope,
        record=not context.read_only,
        **arguments.options() | SearchOptions(in_prompt=context.asked, time_zone=context.time_zone),
    )
    is_full = arguments.response_level is ResponseLevel.FULL and "detail" not in arguments.model_fields_set
    detail = DetailLevel.HIGH if is_full else arguments.detail
    return _response(
        arguments.response_level,
        found=result.to_dict(),
        block=lambda: (
            _shown(result, arguments.response_level).to_markdown(detail, max_tokens=arguments.max_tokens)
            or empty_block_text((*result.semantic, *result.episodic), arguments.max_tokens)
        ),
    )


def context_pre_retrieve(context: ToolContext, arguments: ContextArguments) -> ToolOutput:
    """The facts to put before a turn (specification §2.9); the content is empty when there is nothing to inject.

    At level ``minimal`` the content counts them, ``full`` gives them whole and with their ids.
    """
    result = context.memory.context(
        arguments.query, scope=context.scope, semantic_limit=arguments.semantic_limit, category=arguments.category
    )
    level = arguments.response_level
    block = partial(_shown(result, level).to_markdown, max_tokens=arguments.max_tokens)
    return _response(level, found=result.to_dict(), block=block, counted=("semantic",))


def recent_memory(context: ToolContext, arguments: RecentMemoryArguments) -> ToolOutput:
    """The newest episodes (specification §2.17), and unless answers are plain the newest facts.

    At level ``minimal`` the content counts them, ``full`` gives every episode's messages and all ids.
    """
    facts = context.response_format == "levels"
    recent = context.memory.recent(context.scope, limit=arguments.limit, days_limit=arguments.days_limit, facts=facts)
    level = arguments.response_level
    with_messages = partial(recent.to_markdown, messages=True)
    block = with_messages if level is ResponseLevel.FULL else recent.to_markdown
    counted = ("semantic", "episodic") if facts else ("episodic",)
    return _response(level, found=recent.to_dict(), block=block, counted=counted)


def _response(
    level: ResponseLevel,
    *,
    found: JsonObject,
    block: Callable[[], str],
    counted: Sequence[str] = ("semantic", "episodic"),
) -> ToolOutput:
    """The answer for what was found: counts at the minimal level, else the block; the artifact has it all."""
    if level is ResponseLevel.MINIMAL:
        counts = {"success": True} | {f"{kind}_count": len(found[kind]) for kind in counted}
        return ToolOutput(content=compact_json(counts), artifact=found)
    text = block()
    ids = _ids(found, counted) if level is ResponseLevel.FULL else ""
    return ToolOutput(content=f"{text}\n\n{ids}" if ids else text, artifact=found)


def _ids(found: JsonObject, counted: Sequence[str]) -> str:
    """The ids of what was found, for the tools that take one, each with the beginning of its text."""
    texts = {"semantic": "fact", "episodic": "summary"}
    lines = [  # an open episode has no summary yet
        f"- {memory['id']}: {preview(memory[texts[kind]] or memory['title'], ID_PREVIEW)}"
        for kind in counted
        for memory in found[kind]
    ]
    return "\n".join(("## Ids", *lines)) if lines else ""


def _shown(result: RetrievalResult, level: ResponseLevel) -> RetrievalResult:
    """The result as its block is to show it: at the full level without cutting long facts."""
    return replace(result, fact_display_length=None) if level is ResponseLevel.FULL else result


class SceneArguments(ManagementArguments):
    """Arguments of ``scene``."""

    chat_length: Annotated[int, *within(0, MOST_MESSAGES, "How many messages the chat has so far.")]
    present: Annotated[_Names, Field(description="The names of the characters who are there now.")] = ()
    pov: Annotated[
        _Names, Field(description="Names of the characters whose knowledge counts; leave it out for all.")
    ] = ()
    budget: Annotated[int, *within(1, LARGEST_BUDGET, "How many tokens the block may have at most.")] = SCENE_BUDGET
    query: Annotated[
        str | None,
        Field(description="What the events should be about if not all fit; leave it out to choose by time."),
    ] = None
    scope: Annotated[str | None, Field(description="Scope of the story; leave it out for the default.")] = None


def scene(context: ToolContext, arguments: SceneArguments) -> Answer:
    """The ``<scene_memory>`` block (specification §5.4), and with it, at level ``full``, the states of the characters.

    It leaves no trace, and counts no access.
    """
    memory, scope = context.memory, context.scope_named(arguments.scope)
    require_scenes(memory)
    block = memory.scene(scope, **arguments.model_dump(exclude={"scope", "response_level"}))
    return Answer(
        {"success": True, "token_count": estimate_scene_tokens(block)},
        {"scene": block},
        lambda: {
            "characters": [
                state.model_dump(mode="json", exclude_none=True)
                for state in memory.characters(scope, pov=arguments.pov)
            ]
        },
    )
