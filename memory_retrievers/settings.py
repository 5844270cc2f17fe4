"""Settings of the package, each with its reason."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, timedelta, tzinfo
from functools import lru_cache
from typing import Annotated, Final, Literal, Self
from zoneinfo import ZoneInfo

import pydantic
from pydantic import AfterValidator, ConfigDict, Field

from memory_retrievers.errors import ConfigurationError
from memory_retrievers.models.fields import OWN_CATEGORY, Category, ValidatedModel
from memory_retrievers.models.scenes import MOST_SHIFTS

TOOLS_PREFIX: Final = "LLM_MEMORY_"
"""Prefix of the environment variables that :class:`ToolSettings` reads."""

QUERY_CHARACTERS: Final = 8_000
"""Default maximum length of a query in characters."""

POOL_SIZE: Final = 10
"""Maximum number of connections of a process to a PostgreSQL database: ten processes fill a default server."""

SNAPSHOT_BYTES: Final = 512 * 2**20
"""Default maximum size of the snapshots in memory, in bytes: about 230,000 passages."""


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """Return the time zone with a checked name."""
    return UTC if name == "UTC" else ZoneInfo(name)


def checked_zone(name: object) -> str:
    """Return the name of a time zone that this machine knows.

    Raises:
        ValueError: This machine does not know the time zone.
    """
    try:
        zone_of(str(name))
    except (ValueError, OSError, KeyError):  # no name, a directory of the data, or unknown
        raise ValueError(
            f"{str(name)[:80]!r} is not a time zone that this machine knows: give a name such as 'Europe/Berlin'; "
            "if it knows none, `pip install tzdata`"
        ) from None
    return str(name)


class Checked(ValidatedModel):
    """Base of all settings: immutable, validated, and without unknown fields.

    Raises:
        ValidationError: A value is invalid, or a field is unknown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)  # it may be a token


class RetrievalSettings(Checked):
    """Settings of search, fusion, re-ranking and display.

    ``RetrievalSettings()`` is the default, with a vector for every message. :meth:`light` has one for every episode.
    :meth:`reference` computes the specified formula exactly.

    Attributes:
        passages: What is searched of an episode: its ``summary`` alone, or its single ``turns`` as well, each with
            speaker and date. Each message then costs one more text to embed when it is stored, and about 2.5 kB (a
            vector of 384 numbers and its words). What is stored follows this setting; ``AgentMemory.reindex`` converts
            an existing store.
        fusion: How the ranked lists are combined. ``relative_score`` adds scores that are scaled over all candidates,
            and the boosts below; ``rrf`` adds the reciprocal ranks of two lists, as specified (§2.3).
        dense_weight: Weight of vector similarity against BM25; 0.5 is near the best on every kind of text measured.
        window_weight: Weight of a passage with its neighbours against the passage alone. This and all weights that
            follow apply to ``relative_score`` only.
        neighbour_weight: Weight of the better of the two messages next to a message: answers stand next to questions.
        episode_weight: Weight of the three best messages of its episode.
        episode_words_weight: Weight of the words of its whole episode.
        speaker_weight: Weight of a message by the only speaker that the query names.
        length_weight: Weight of a longer text.
        date_weight: Weight of a date that the query names. No passage is excluded because of its date.
        time_weight: Weight of a passage that names a time, if the query asks when.
        repetition_weight: Share of its score that an episode loses if a newer episode repeats its best message word
            for word, such as a question that is asked again and again; 0 changes nothing.
        common_share: Words in more than this share of the passages, such as the names of the speakers, are removed
            from the query before it is embedded; 1 removes none.
        candidate_depth: Number of candidates from each list (specification §2.3). With ``relative_score`` it applies
            only above ``exact_limit`` passages; below, all passages are candidates.
        rrf_k: Constant of reciprocal rank fusion; 60 as in Cormack, Clarke and Büttcher (2009).
        decay_weight: Weight of forgetting: ``final = fused × (1 − w × (1 − R))``. At 1 a half-forgotten episode ranks
            below every other candidate, since the scale of RRF is flat. At 0.05 the fresher of two similar memories
            wins, and none is hidden (``memory-retrievers eval synthetic``).
        whole_days: Count only whole days since the last review, as specified. If false, a memory from this morning
            ranks above one from last night.
        bm25_k1: Saturation of term frequency. Memories are short: 0.9 finds more than the usual 1.2.
        bm25_b: Strength of length normalisation; 0.4 for the same reason, instead of 0.75.
        exact_limit: Up to this number of passages a search is exact; above it, an HNSW index proposes candidates if the
            store has one. Exact search takes about a fifth of a millisecond per 1,000 passages. No index is faster up
            to 50,000, and at 150,000 it takes tens of thousands of searches to repay building one
            (``benchmarks/wide.py``).
        snapshot_bytes: Maximum size in memory of the vectors and terms of recently searched scopes, about 2 kB a
            passage. A scope that does not fit is read from the database at every search.
        open_episodes: Also find queued messages, as turns of an open episode; ``relative_score`` only.
        token_rerank: Re-rank the first five of each kind, and the best messages, by late interaction, if the embedder
            returns token vectors, as the bundled one does. A message then takes another 2 kB on disk. Messages stored
            without token vectors get them in the background, after the first search that misses some.
            ``relative_score`` only.
        token_weight: Weight of late interaction as a share of the best score; half of it for messages, and a tenth more
            if adjacent words of the query are close to each other.
        time_zone: IANA name of the time zone of "today", "next Friday" and the days in blocks. Stored times are in UTC.
        query_characters: Maximum length of a query; a longer one is refused, so that it cannot occupy a search. 8,000
            characters are four pages. If a framework passes a longer user message as the query, its beginning and end
            are searched for.
        fact_display_length: Facts longer than this are cut with ``…`` in markdown. None shows facts as specified:
            whole, and with the number of source conversations even if it is 0.
    """

    passages: Literal["summary", "turns"] = "turns"
    fusion: Literal["relative_score", "rrf"] = "relative_score"
    dense_weight: Annotated[float, Field(ge=0, le=1)] = 0.5
    window_weight: Annotated[float, Field(ge=0, le=1)] = 0.5
    neighbour_weight: Annotated[float, Field(ge=0, le=10)] = 0.3
    episode_weight: Annotated[float, Field(ge=0, le=10)] = 0.4
    episode_words_weight: Annotated[float, Field(ge=0, le=10)] = 0.3
    speaker_weight: Annotated[float, Field(ge=0, le=10)] = 0.2
    token_weight: Annotated[float, Field(ge=0, le=10)] = 1.0
    length_weight: Annotated[float, Field(ge=0, le=10)] = 0.1
    date_weight: Annotated[float, Field(ge=0, le=10)] = 0.5
    time_weight: Annotated[float, Field(ge=0, le=10)] = 0.1
    repetition_weight: Annotated[float, Field(ge=0, le=1)] = 0.8
    common_share: Annotated[float, Field(ge=0, le=1)] = 0.3
    candidate_depth: Annotated[int, Field(ge=1, le=1_000)] = 100
    rrf_k: Annotated[int, Field(ge=1)] = 60
    decay_weight: Annotated[float, Field(ge=0, le=1)] = 0.05
    whole_days: bool = False
    bm25_k1: Annotated[float, Field(ge=0)] = 0.9
    bm25_b: Annotated[float, Field(ge=0, le=1)] = 0.4
    exact_limit: Annotated[int, Field(ge=0)] = 150_000
    snapshot_bytes: Annotated[int, Field(ge=0)] = SNAPSHOT_BYTES
    open_episodes: bool = True
    token_rerank: bool = True
    time_zone: Annotated[str, AfterValidator(checked_zone)] = "UTC"
    query_characters: Annotated[int, Field(ge=1, le=1_000_000)] = QUERY_CHARACTERS
    fact_display_length: Annotated[int, Field(ge=2)] | None = 280

    @property
    def searches_open(self) -> bool:
        """True if searches find queued messages."""
        return self.open_episodes and self.fusion == "relative_score"

    @property
    def zone(self) -> tzinfo:
        """The time zone for days."""
        return zone_of(self.time_zone)

    @property
    def measures_tokens(self) -> bool:
        """True if late interaction is on, given an embedder with token vectors."""
        return self.token_rerank and self.fusion == "relative_score"

    @classmethod
    def light(cls) -> Self:
        """Settings without vectors of messages and tokens: a tenth of the vectors, and lower recall."""
        return cls(passages="summary", token_rerank=False)

    @classmethod
    def reference(cls) -> Self:
        """Settings for the ranking of specification §2.3 to §2.5."""
        return cls(
            passages="summary",
            fusion="rrf",
            token_rerank=False,
            common_share=1.0,
            decay_weight=1.0,
            whole_days=True,
            bm25_k1=1.2,
            bm25_b=0.75,
            open_episodes=False,
            fact_display_length=None,
        )


def _own(categories: dict[str, str]) -> dict[str, str]:
    for name, text in categories.items():
        if not OWN_CATEGORY.fullmatch(name):
            raise ValueError(f"a category needs a name of small letters, digits, - and _, not {name[:50]!r}")
        if name in set(Category):
            raise ValueError(f"there is a category {name} already")
        if not text.strip() or len(text.splitlines()) > 1:
            raise ValueError(f"say in one line what the category {name} is about")
    return categories


class IngestionSettings(Checked):
    """Settings for turning messages into episodes, and episodes into facts.

    ``IngestionSettings()`` is the default. :meth:`reference` differs in which facts count as the same, and in what is
    one conversation.

    Attributes:
        min_messages: Fewer queued messages are processed only after the conversation has been silent for ``idle_after``
            (specification §2.11).
        window: This many queued messages are due.
        doubled_window: This many are due after a pass that found a single topic.
        due_after_hours: At least ``min_messages`` are due when the first of them is older than this.
        idle_after: Messages are due, however few, when their conversation has been silent for this long. None disables
            this.
        by_conversation: Keep the conversations of a scope apart; otherwise a scope is one conversation.
        lease_minutes: How long the lease on a queue is valid if it cannot be seen that its holder is gone.
        flashbulb_surprise: An episode at least this surprising is turned into facts at once (specification §2.13).
        consolidate_from: This many episodes that have not been turned into facts are due for it.
        related_facts: Number of known facts that the language model is shown with a batch of episodes.
        same_cosine: From this cosine on two facts may be the same (specification §2.15).
        compare_details: Treat two facts as different if they differ in numbers, negations, names, order or a word: "the
            code is 4711" and "the code is 4712" have a cosine of 0.98.
        keep_flashbulbs: An episode of ``flashbulb_surprise`` or more never fades and is not reviewed
            (specification §2.16).
        keep_messages_days: Delete the messages of older episodes, with their indexes; title and summary stay. None
            keeps them for ever.
        categories: Additional categories of facts: names in lower case, each with a description, which the language
            model is given. Facts may have them, and searches may filter by them.
        extraction_prompt: Replaces the package's instructions to the language model on what to keep as facts. The
            format of its answer, and the instruction to follow none in a conversation, stay in the prompt.
    """

    min_messages: Annotated[int, Field(ge=1)] = 5
    window: Annotated[int, Field(ge=1)] = 20
    doubled_window: Annotated[int, Field(ge=1)] = 40
    due_after_hours: Annotated[float, Field(gt=0)] = 2.0
    idle_after: Annotated[timedelta, Field(gt=timedelta(0))] | None = timedelta(minutes=30)
    by_conversation: bool = True
    lease_minutes: Annotated[float, Field(gt=0)] = 120.0
    flashbulb_surprise: Annotated[float, Field(ge=0, le=1)] = 0.85
    consolidate_from: Annotated[int, Field(ge=1)] = 3
    related_facts: Annotated[int, Field(ge=0, le=1_000)] = 20
    same_cosine: Annotated[float, Field(gt=0, le=1)] = 0.95
    compare_details: bool = True
    keep_flashbulbs: bool = False
    keep_messages_days: Annotated[float, Field(gt=0)] | None = None
    categories: Annotated[
        dict[str, Annotated[str, Field(max_length=200)]], Field(max_length=32), AfterValidator(_own)
    ] = {}  # noqa: RUF012 - pydantic copies it
    extraction_prompt: Annotated[str, Field(min_length=1, max_length=8_000)] | None = None

    @classmethod
    def reference(cls) -> Self:
        """Settings of the specification: near facts are the same (§2.15), one queue per scope, no idle timer."""
        return cls(compare_details=False, idle_after=None, by_conversation=False)


class ReviewSettings(Checked):
    """Settings of the review of retrieved memories.

    Attributes:
        min_days: Minimum number of whole days between two reviews of a memory (specification §2.14).
    """

    min_days: Annotated[int, Field(ge=0)] = 1


MAX_TOKENS: Final = 600
"""Default maximum number of tokens that an adapter recalls for a turn."""

SCENE_BUDGET: Final = 10_000
"""Default maximum number of tokens of a scene."""


class SceneSettings(Checked):
    """Settings of a ``<scene_memory>`` block: what to show, and what to drop if it does not fit.

    ``SceneSettings()`` is the default.

    Attributes:
        budget_policy: ``recent`` keeps the current scene, then what led up to it (newest first), then the most
            important earlier events. ``upstream`` takes the events from the oldest on and stops at the first that does
            not fit, like the block it is modelled on; if room is short, the current scene is lost.
        trajectories: Show how the emotions of the characters developed (``Recent emotions:``), instead of
            ``Emotions:``.
        emotional_state: Add the line ``Emotional state:`` of the character whose point of view it is.
        most_emotions: Maximum number of characters whose emotion is shown.
        shifts_per_character: Number of latest emotions shown of each character with ``trajectories``.
        current_scene_messages: Events within this many latest messages of the chat are the current scene.
        leading_up_messages: Events within this many, but before the current scene, led up to it.
        pause_messages: From this distance in messages on, ``...`` separates two earlier events.
        later_messages: From this distance on, ``...Later...`` does.
        much_later_messages: From this distance on, ``...Much later...`` does.
    """

    budget_policy: Literal["recent", "upstream"] = "recent"
    trajectories: bool = False
    emotional_state: bool = False
    most_emotions: Annotated[int, Field(ge=0)] = 5
    shifts_per_character: Annotated[int, Field(ge=1, le=MOST_SHIFTS)] = 5
    current_scene_messages: Annotated[int, Field(ge=0)] = 100
    leading_up_messages: Annotated[int, Field(ge=0)] = 500
    pause_messages: Annotated[int, Field(ge=1)] = 15
    later_messages: Annotated[int, Field(ge=1)] = 100
    much_later_messages: Annotated[int, Field(ge=1)] = 500

    @pydantic.model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.current_scene_messages > self.leading_up_messages:
            raise ValueError("current_scene_messages must not be above leading_up_messages")
        if not self.pause_messages <= self.later_messages <= self.much_later_messages:
            raise ValueError("pause_messages, later_messages and much_later_messages must not decrease")
        return self


class ToolSettings(Checked):
    """Limits and defaults of the memory tools.

    ``ToolSettings()`` is the default. A memory that is opened without ``tools`` uses :meth:`from_environment`, which
    reads the variables ``LLM_MEMORY_…``, each named after a field in capitals.

    Attributes:
        batch_max_size: Maximum number of items in a batch.
        search_default_top_k: Default number of results of a search.
        embedding_batch_size: Accepted for compatibility (specification §3.1); it has no effect. The store passes its
            embedder at most 128 texts or 250,000 characters at once, which the embedder may split further.
        max_content_length: Maximum length of a memory in characters; the store itself takes no more than the default.
        max_tags: Maximum number of tags of a memory.
        max_tag_length: Maximum length of a tag in characters.
        max_metadata_bytes: Maximum size of a memory's metadata as JSON.
        importance_max_accesses: Number of accesses beyond which further ones add no importance (specification §3.5).
        access_log_rate_limit_seconds: The audit takes one access per memory and type in this time.
        audit_days: Audit entries are deleted after this many days.
        rrf_constant: Constant of the weighted rank fusion of a hybrid search (specification §3.4).
        similarity: ``cosine`` is max(0, cosine); ``shifted`` is (1 + cosine) / 2, under which unrelated texts have 0.5.
        consolidation_min_memories: Minimum number of memories to merge into one.
        consolidation_max_memories: Maximum number of memories to merge into one.
        cleanup_interval_seconds: Minimum time between two removals of expired memories, which happen at a write.
            Expired memories are invisible at once.
        short_term_ttl_seconds: Lifetime of a short-term memory stored without one, if ``short_term_expires``.
        short_term_expires: Whether short-term memories expire.
        import_max_bytes: Maximum size of a document for ``memory_sync``, packed and unpacked: 8 MB, as in a request to
            a server. A kilobyte can unpack to a megabyte, and a megabyte of JSON can become 30 MB of objects.
        import_max_values: Maximum number of values in it: 40 for each memory that ``import_max_memories`` allows. A
            value takes about 100 bytes while the document is read.
        import_max_memories: Maximum number of memories in it. They are stored in one transaction, which other
            writers wait for, and take about 9 kB each meanwhile.
        import_max_depth: Maximum nesting of its values; the metadata of a memory may be nested 255 deep.
    """

    batch_max_size: Annotated[int, Field(ge=1, le=1_000)] = 100
    search_default_top_k: Annotated[int, Field(ge=1, le=1_000)] = 10
    embedding_batch_size: Annotated[int, Field(ge=1)] = 32
    max_content_length: Annotated[int, Field(ge=1, le=1_000_000)] = 1_000_000
    max_tags: Annotated[int, Field(ge=0, le=10_000)] = 100
    max_tag_length: Annotated[int, Field(ge=1, le=10_000)] = 200
    max_metadata_bytes: Annotated[int, Field(ge=2)] = 1_000_000
    importance_max_accesses: Annotated[int, Field(ge=1)] = 100
    access_log_rate_limit_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 60
    audit_days: Annotated[float, Field(gt=0, le=36_500)] = 30
    rrf_constant: Annotated[int, Field(ge=1)] = 60
    similarity: Literal["cosine", "shifted"] = "cosine"
    consolidation_min_memories: Annotated[int, Field(ge=2)] = 2
    consolidation_max_memories: Annotated[int, Field(ge=2)] = 50
    cleanup_interval_seconds: Annotated[float, Field(ge=60, allow_inf_nan=False)] = 300
    short_term_ttl_seconds: Annotated[float, Field(gt=0, le=3_155_760_000)] = 3_600
    short_term_expires: bool = False
    import_max_bytes: Annotated[int, Field(ge=1, le=2**30)] = 8 * 2**20
    import_max_values: Annotated[int, Field(ge=1)] = 200_000
    import_max_memories: Annotated[int, Field(ge=1)] = 5_000
    import_max_depth: Annotated[int, Field(ge=3, le=500)] = 300

    @pydantic.model_validator(mode="after")
    def _check_consolidation(self) -> Self:
        if self.consolidation_min_memories > self.consolidation_max_memories:
            raise ValueError("consolidation_min_memories must not be above consolidation_max_memories")
        return self

    @classmethod
    def from_environment(cls, *, otherwise: Mapping[str, object] | None = None) -> Self:
        """Read the settings from environment variables such as ``LLM_MEMORY_BATCH_MAX_SIZE``.

        Args:
            otherwise: Values that replace some of the defaults.

        Raises:
            ConfigurationError: A variable has an invalid value.
        """
        given = dict(otherwise or {}) | {
            name: said
            for name in cls.model_fields
            if (said := os.environ.get(f"{TOOLS_PREFIX}{name.upper()}", "")).strip()
        }
        try:
            return cls.model_validate(given)
        except pydantic.ValidationError as error:
            problems = (
                "; ".join(f"{TOOLS_PREFIX}{str(part).upper()}: " for part in details["loc"]) + details["msg"]
                for details in error.errors(include_url=False)
            )
            raise ConfigurationError(f"an environment variable is wrong: {'; '.join(problems)}") from error
