"""All numeric settings of the package, each with its reason."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self
from zoneinfo import ZoneInfo

import pydantic
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.models.fields import OWN_CATEGORY, Category
from memory_retrievers.models.scenes import MOST_SHIFTS

TOOLS_PREFIX: Final = "LLM_MEMORY_"
"""What the names of the environment variables begin with that :class:`ToolSettings` reads."""

QUERY_CHARACTERS: Final = 8_000
"""Characters of a query at most, where no setting says otherwise."""

POOL_SIZE: Final = 10
"""Connections to a PostgreSQL database that a process keeps at most: ten processes fill a server as it comes."""

SNAPSHOT_BYTES: Final = 512 * 2**20
"""Bytes that the snapshots of the scopes searched last take at most: of about 230,000 passages."""


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """The time zone of a checked name."""
    return UTC if name == "UTC" else ZoneInfo(name)


def checked_zone(name: object) -> str:
    """The name of a time zone that this machine knows.

    Raises:
        ValueError: It is none.
    """
    try:
        zone_of(str(name))
    except (ValueError, OSError, KeyError):  # no name, a directory of the data, or unknown
        raise ValueError(
            f"{str(name)[:80]!r} is no time zone that this machine knows: give a name such as 'Europe/Berlin'; "
            "where none is known, `pip install tzdata` brings them"
        ) from None
    return str(name)


class SaidInOurWords(BaseModel):
    """Base of models whose making raises the package's ``ValidationError``; it names the options if one is unknown."""

    if not TYPE_CHECKING:  # which would know the fields no more

        def __init__(self, /, **given: object) -> None:
            try:
                super().__init__(**given)
            except pydantic.ValidationError as error:
                known = type(self).model_fields
                others = "" if given.keys() <= known.keys() else f"; {type(self).__name__} takes {', '.join(known)}"
                raise ValidationError(f"{ValidationError.from_pydantic(error)}{others}") from error

        # as that of pydantic itself: what reads a file or a field of a model names the place of what is wrong
        __init__.__pydantic_base_init__ = True


class Checked(SaidInOurWords):
    """Base of all settings: immutable, without fields other than its own, and checked when it is made.

    Raises:
        ValidationError: A value breaks a rule, or there is no such field.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)  # tokens are among it


class RetrievalSettings(Checked):
    """Settings of search, fusion, re-ranking and display.

    ``RetrievalSettings()`` is the default, with a vector for every message; :meth:`light` has one for every episode,
    and :meth:`reference` is the specified formula to the last digit.

    Attributes:
        passages: What of an episode is searched: ``summary`` alone, or its single ``turns`` as well, each with speaker
            and date. A message then costs the embedding of one more text when it is stored, and about 2.5 kB (a vector
            of 384 numbers and its words). What is stored follows this setting; ``AgentMemory.reindex`` brings an
            existing store to it.
        fusion: How the lists become one: ``relative_score`` adds scores that are scaled over all that competes, with
            the boosts below; ``rrf`` adds reciprocal ranks of two lists, as the specification does (§2.3).
        dense_weight: What nearness counts against words; 0.5 is near the best on every kind of text measured.
        window_weight: What a passage with its neighbours counts against the passage alone; ``relative_score`` only,
            as are all weights that follow.
        neighbour_weight: What the better of the two messages around a message adds: answers stand beside questions.
        episode_weight: What the three best messages of its episode add.
        episode_words_weight: What the words of its whole episode add.
        speaker_weight: What it adds to be said by the one speaker whom the question names.
        length_weight: What it adds to say more than others.
        date_weight: What it adds to be of a date that the question names. Nothing is left out for its date.
        time_weight: What a passage that names a time gains where the question asks when.
        repetition_weight: Share of its score that an episode loses whose best message a newer one has word for word, as
            a question that is asked again and again; 0 lets each stand by itself.
        common_share: Words that stand in more than this share of the passages, such as the speakers' names, are left
            out of what is embedded of a question; 1 leaves nothing out.
        candidate_depth: How many candidates each list contributes (specification §2.3); with ``relative_score`` only
            where more than ``exact_limit`` passages compete, else all do.
        rrf_k: The constant of reciprocal rank fusion; 60 as in Cormack, Clarke and Büttcher (2009).
        decay_weight: How strongly forgetting counts: ``final = fused × (1 − w × (1 − R))``. At 1 a half-forgotten
            episode loses to anything on the candidate list, since the scale of RRF is flat; 0.05 lets the fresher
            of two similar memories win and hides nothing (``memory-retrievers eval synthetic``).
        whole_days: Count only whole days since the last review, as the specification does. Off, a memory from this
            morning beats one from last night.
        bm25_k1: Saturation of term counts. Memories are short: 0.9 finds more than the textbook's 1.2.
        bm25_b: How strongly long texts are discounted; 0.4 for the same reason, instead of 0.75.
        exact_limit: Up to so many passages that a search may see, all are measured exactly; beyond, an HNSW index
            names the nearest if the store has one. Exact search takes about a fifth of a millisecond per 1,000, so that
            no index is faster up to 50,000, and tens of thousands of searches at 150,000 have to earn what making one
            costs (``benchmarks/wide.py``).
        snapshot_bytes: Bytes of memory that the scopes searched last may take: their vectors and terms, about 2 kB a
            passage. A scope that does not fit is read from the database with every search.
        open_episodes: What is still queued is found as well, as turns of an open episode; ``relative_score`` only.
        token_rerank: The first five of each kind, and the best messages, are ordered anew, word by word (late
            interaction), if the embedder gives vectors of tokens, as the bundled one does: a message then takes another
            kilobyte. ``relative_score`` only. What was stored without gets them in the background, after the first
            search that finds some missing.
        token_weight: What that adds, as a share of the best score; half of it to messages, and a tenth of it more where
            words that are neighbours in the query stand near each other.
        time_zone: Name of the time zone (IANA) whose days "today" and "next Friday" are, and the days that blocks tell.
            What is stored is in UTC.
        query_characters: A longer query is refused, so that nobody can keep a search busy with words: 8,000 characters
            are four pages. Where a framework gives a user's message for the query, its beginning and end of together
            so many characters are asked.
        fact_display_length: Longer facts are cut with ``…`` in markdown; None shows facts as specified: whole, and
            counting the conversations they are from even if there are none.
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
        """True if searches find what is still queued."""
        return self.open_episodes and self.fusion == "relative_score"

    @property
    def zone(self) -> tzinfo:
        """The time zone of days."""
        return zone_of(self.time_zone)

    @property
    def measures_tokens(self) -> bool:
        """True if the best are measured by their tokens, where the embedder gives them."""
        return self.token_rerank and self.fusion == "relative_score"

    @classmethod
    def light(cls) -> Self:
        """The default without passages for single messages or tokens: a tenth of the vectors, and lower recall."""
        return cls(passages="summary", token_rerank=False)

    @classmethod
    def reference(cls) -> Self:
        """The ranking of specification §2.3 to §2.5, exactly."""
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
    """Settings of how messages become episodes, and episodes facts.

    ``IngestionSettings()`` is the default; ``IngestionSettings.reference()`` differs in what counts as the same memory,
    and in what is one conversation.

    Attributes:
        min_messages: Fewer queued messages are looked at only once the conversation has been silent for ``idle_after``
            (specification §2.11).
        window: So many queued messages are due.
        doubled_window: So many are, after a look that saw a single topic.
        due_after_hours: At least ``min_messages`` are due when the first of them is older than this.
        idle_after: What has been said in a conversation is due when nothing has been added to it for so long, however
            few messages it has. None waits for the other two.
        by_conversation: Messages of the conversations of a scope are kept apart; otherwise a scope has one.
        lease_minutes: How long the lease of a queue holds if nobody can see that its holder is gone.
        flashbulb_surprise: An episode at least this surprising is turned into facts at once (specification §2.13).
        consolidate_from: So many episodes that have not been turned into facts are due for it.
        related_facts: So many known facts, over all episodes of a batch, are shown to the language model.
        same_cosine: From this cosine on two facts may be the same (specification §2.15).
        compare_details: Two facts that differ in numbers, negations, names, order or a word are never the same:
            "the code is 4711" and "the code is 4712" have a cosine of 0.98.
        keep_flashbulbs: An episode of ``flashbulb_surprise`` or more never fades and is not reviewed
            (specification §2.16).
        keep_messages_days: The messages of older episodes are erased, and what they were found by; title and summary
            stay. None keeps them for ever.
        categories: Categories of your own beside the nine: their names, in small letters, and what each is about,
            which the language model is given. Facts may have them, and a search may ask for them.
        extraction_prompt: What the language model is asked to keep as facts, in place of the package's own words about
            it; what it answers, and that it follows no instruction in a conversation, stays in its prompt all the same.
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
    ] = {}
    extraction_prompt: Annotated[str, Field(min_length=1, max_length=8_000)] | None = None

    @classmethod
    def reference(cls) -> Self:
        """The specification: near is the same (§2.15), and a scope has one queue, in which silence ends nothing."""
        return cls(compare_details=False, idle_after=None, by_conversation=False)


class ReviewSettings(Checked):
    """Settings of the review of retrieved memories.

    Attributes:
        min_days: Whole days since the last review before another counts (specification §2.14).
    """

    min_days: Annotated[int, Field(ge=0)] = 1


MAX_TOKENS: Final = 600
"""Tokens that an adapter recalls at most for a turn, where nothing else is said."""

SCENE_BUDGET: Final = 10_000
"""Tokens that a scene may take where nothing else is said."""


class SceneSettings(Checked):
    """Settings of a ``<scene_memory>`` block: what to show, and what to drop if it does not fit.

    ``SceneSettings()`` is the default.

    Attributes:
        budget_policy: ``recent`` keeps the current scene, then what led up to it (newest first), then the most
            important of the story so far. ``upstream`` takes the events from the oldest on and stops at the first that
            does not fit, as the block it is modelled on does; under pressure the current scene is lost.
        trajectories: Tells in ``Recent emotions:`` what the characters felt one after the other, in place of the line
            ``Emotions:``.
        emotional_state: Adds the line ``Emotional state:`` of the character whose point of view it is.
        most_emotions: The number of characters whose emotion is rendered.
        shifts_per_character: How many of a character's last emotions are rendered with ``trajectories``.
        current_scene_messages: What happened within so many last messages of the chat is the current scene.
        leading_up_messages: What happened within so many, but before the current scene, led up to it.
        pause_messages: From so many messages between two events of the story so far on, ``...`` stands between them.
        later_messages: From so many on it is ``...Later...``.
        much_later_messages: From so many on it is ``...Much later...``.
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
            raise ValueError("pause_messages, later_messages and much_later_messages must not fall")
        return self


class ToolSettings(Checked):
    """Limits and defaults of the memory tools.

    ``ToolSettings()`` is the default. A memory that is opened without ``tools`` has those :meth:`from_environment`,
    which takes what ``LLM_MEMORY_…`` variables say, each named after a field in capitals.

    Attributes:
        batch_max_size: So many items in a batch are allowed.
        search_default_top_k: The number of results of a search that names none.
        embedding_batch_size: Accepted for compatibility (specification §3.1); it has no effect. The store hands its
            embedder at most 128 texts or 250,000 characters at once, which that cuts up further as suits it best.
        max_content_length: Characters in one memory; no more than the store takes.
        max_tags: Tags of one memory.
        max_tag_length: Characters in one tag.
        max_metadata_bytes: Bytes of a memory's metadata as JSON.
        importance_max_accesses: From so many accesses on, more of them add nothing (specification §3.5).
        access_log_rate_limit_seconds: The audit takes one access per memory and type in so many seconds.
        audit_days: What was noted in the audit is dropped after so many days.
        rrf_constant: The constant of the weighted rank fusion of a hybrid search (specification §3.4).
        similarity: ``cosine`` is max(0, cosine); ``shifted`` is (1 + cosine) / 2, under which unrelated texts have 0.5.
        consolidation_min_memories: So few memories can be merged into one.
        consolidation_max_memories: So many.
        cleanup_interval_seconds: What has expired is removed with a write, at most this often; it is invisible at once.
        short_term_ttl_seconds: How long a short-term memory lives that was stored without a time, if
            ``short_term_expires``.
        short_term_expires: Whether it does not live for ever.
        import_max_bytes: So large a document ``memory_sync`` takes in, packed and unpacked: 8 MB, as the servers take
            in one request. A kilobyte can unpack to a megabyte, and a megabyte of JSON be read to 30 MB of objects.
        import_max_values: So many values may be in it: 40 for each memory that ``import_max_memories`` allows. A value
            takes about 100 bytes while the document is read.
        import_max_memories: So many memories may: they are embedded and stored in one transaction, which others wait
            for, and take about 9 kB each meanwhile.
        import_max_depth: So deep may its values be nested; the metadata of a memory may be 255 deep.
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
            otherwise: What takes the place of some of the defaults.

        Raises:
            ConfigurationError: A variable has no such value.
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
