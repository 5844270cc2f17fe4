"""Checked arguments of a search, and the search plan derived from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import partial
from itertools import chain, islice
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack

from memory_retrievers.errors import ValidationError, only_known
from memory_retrievers.models import AnyMemory, Category, EpisodicMemory, Kind, SemanticMemory, scopes
from memory_retrievers.models.fields import EPOCH, storable
from memory_retrievers.models.filters import (
    EVERYTHING,
    FilterOptions,
    Filters,
    MinRelevance,
    SearchOptions,
    parse_moment,
)
from memory_retrievers.models.messages import MEDIA, Message, is_of_user, messages_of, parse_conversation
from memory_retrievers.models.results import held
from memory_retrievers.models.selection import Selection, TermStatistics
from memory_retrievers.retrieval.question import REMEMBERED_CHARACTERS, Question, remembered, without_common
from memory_retrievers.settings import QUERY_CHARACTERS, RetrievalSettings, checked_zone, zone_of
from memory_retrievers.text.analysis import analyze, without_accents
from memory_retrievers.text.dates import in_zone
from memory_retrievers.text.languages import name_of, word_form, words_for

if TYPE_CHECKING:
    from memory_retrievers.backends.snapshot import ScopeSnapshot
    from memory_retrievers.backends.sql.connection import States
    from memory_retrievers.storage.store import MemoryStore

MAX_EPISODES: Final = 100
MAX_FACTS: Final = 1_000
DEFAULT_EPISODES: Final = 5
DEFAULT_FACTS: Final = 20

_COMMON_FROM: Final = 10  # a word that at most so many passages have is never common: there shares mean little
_MOST_FORMS: Final = 8  # number of forms of one word that are searched
_LOOKED_AT: Final = 50  # passages that are read for the name of somebody whom a question calls "my wife" or the like
_LEAST_LETTERS: Final = 3  # a shorter word has no other forms: "e" and "è" are not one word
_FOLLOW_UP: Final = 200  # a message of more characters says enough alone, and so much of an earlier one is looked at
_ECHOED: Final = 80  # number of characters of a wrong value that an error message repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalRequest:
    """A checked request."""

    query: str  # stripped and not empty
    scope: str  # a well-formed scope
    episodic_limit: int  # 0 to 100; 0 skips the episodes
    semantic_limit: int  # 0 to 1,000; 0 skips the facts
    category: Category | None = None  # only facts of this category
    include_child_scopes: bool = False  # also search every scope below
    limit: int | None = None  # the most results over both kinds; None leaves it to the two limits
    as_of: datetime | None = None  # what held at that moment, in UTC; None is what holds now
    min_relevance: MinRelevance = 0.0  # the least relevance of a hit, 0 to 1; ``auto`` is the embedder's
    filters: Filters = EVERYTHING  # tags, metadata and times that a memory must have
    exclude_conversation: str | None = None  # no episode of this conversation; None leaves out none
    in_prompt: tuple[Message, ...] = ()  # messages that no open episode shows, nor a finished one of which they are all
    time_zone: str | None = None  # whose days are meant; None is that of the settings

    @classmethod
    def parse(
        cls, query: str, *, scope: str, query_characters: int | None = None, **options: Unpack[SearchOptions]
    ) -> RetrievalRequest:
        """Check what a caller, perhaps a language model, has given.

        Args:
            query: What is asked.
            scope: Scope to search.
            query_characters: Largest length of the query; None leaves that to whoever answers.
            **options: See ``SearchOptions``.

        Raises:
            TypeError: There is no option of such a name.
            ValidationError: The query is blank or too long, the scope malformed, a limit negative or not an integer,
                the category unknown, as_of no moment, min_relevance not from 0 to 1, the conversation malformed, a
                message none, the time zone unknown, or a filter cannot be used.
        """
        if options.keys() - SearchOptions.__optional_keys__:
            only_known(options, SearchOptions.__optional_keys__, of="the options of a search")
        limit = options.get("limit")
        joint = None if limit is None else parse_limit("limit", limit)
        most = MAX_FACTS if joint is None else joint  # neither kind alone can have more than both together
        episodes, facts = (DEFAULT_EPISODES, DEFAULT_FACTS) if joint is None else (joint, joint)
        return cls(
            query=parse_query(query, most=query_characters),
            scope=scopes.known(scope) if isinstance(scope, str) else scopes.parse(scope),
            episodic_limit=min(
                parse_limit("episodic_limit", options.get("episodic_limit", episodes)), MAX_EPISODES, most
            ),
            semantic_limit=min(parse_limit("semantic_limit", options.get("semantic_limit", facts)), MAX_FACTS, most),
            limit=joint,
            **_given(options),
        )

    @property
    def is_for_prompt(self) -> bool:
        """True if the answer is for a prompt, where the newest of several that tell the same is enough."""
        return self.min_relevance == "auto" and self.limit is None

    def is_of_excluded(self, memory: AnyMemory) -> bool:
        """True for an episode of the conversation that is left out."""
        left_out = self.exclude_conversation
        return left_out is not None and isinstance(memory, EpisodicMemory) and memory.conversation_id == left_out

    def has_before_it(self, memory: AnyMemory) -> bool:
        """True for a finished episode all of whose messages are in the prompt: it would be told twice."""
        if not isinstance(memory, EpisodicMemory) or memory.is_open or not memory.messages:
            return False
        known = {(message.role, message.content) for message in self.in_prompt}
        return all((message.role, message.content) in known for message in memory.messages)

    def zone(self, settings: RetrievalSettings) -> tzinfo:
        """The time zone whose days are meant."""
        return zone_of(self.time_zone or settings.time_zone)


def parse_limit(name: str, value: object) -> int:
    """Check that a limit is an integer of 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValidationError(f"{name} must be an integer, not {value!r}")
    if value < 0:
        raise ValidationError(f"{name} must be 0 or more, not {value}")
    return value


def parse_relevance(value: object) -> MinRelevance:
    """Check that a least relevance is a number from 0 to 1, or ``auto``."""
    if value == "auto":
        return "auto"
    if isinstance(value, bool) or not isinstance(value, Real) or value < 0 or not value <= 1:
        raise ValidationError(f"min_relevance must be a number from 0 to 1, or 'auto', not {str(value)[:_ECHOED]!r}")
    return float(value)


def check_length(query: str, *, most: int) -> None:
    """Check that a query has no more than ``most`` characters."""
    if len(query) > most:
        raise ValidationError(
            f"query is too long: {len(query)} characters, at most {most} are allowed: ask in fewer words, "
            "or raise query_characters of RetrievalSettings"
        )


def fitting(text: str, *, most: int) -> str:
    r"""Shorten a text to a query that a memory accepts: the whole text, or its beginning and its end.

    A question stands at one of both; an embedder that reads only the beginning reads the same as of the whole.

    >>> fitting("What was it? " + "x" * 100 + " Who said so?", most=25)
    'What was it?\nWho said so?'
    """
    stripped = text.strip()
    if len(stripped) <= most:
        return text
    half = most // 2
    return f"{stripped[: most - half - 1]}\n{stripped[-half:]}" if most > 1 else stripped[:most]


def asked_by(memory: object, text: str, *, said: Sequence[Message] = ()) -> str:
    """Turn a user's message into a query of a length that this memory accepts: adapters must not fail for a long one.

    A message that says little by itself, such as "And when?", is asked with the user's message before it; one in the
    first person, by one of several people, with their name.

    Args:
        memory: The memory that is asked.
        text: What the user says.
        said: The messages of the conversation, with or without this one.
    """
    text = _words(text) or text
    by = next((each.role for each in reversed(said) if is_of_user(each.role) and _words(each.content) == text), "user")
    named = [by] if by.casefold() != "user" and _asks_for_own(text) else []
    if len(text) <= _FOLLOW_UP and Question.parse(text).says_little:
        before = (_words(each.content) for each in reversed(said) if is_of_user(each.role))
        text = "\n".join([*islice((each for each in before if each != text and _names_something(each)), 1), text])
    text = "\n".join([text, *named])
    most = getattr(memory, "query_characters", None)
    return fitting(text, most=most if isinstance(most, int) else QUERY_CHARACTERS)


def _words(said: str) -> str:
    """What was said, without what is told of pictures beside it."""
    return MEDIA.sub("", said).strip()


def _asks_for_own(text: str) -> bool:
    """Whether a message is in the first person, and is answered by its words: a name beside them hides "tomorrow"."""
    question = Question.parse(text[:_FOLLOW_UP], now=EPOCH)
    return question.is_personal and not question.is_by_time


def _names_something(text: str) -> bool:
    question = Question.parse(text[:_FOLLOW_UP])
    return bool(question.own_terms) and not question.is_small_talk


def parse_query(query: object, *, most: int | None) -> str:
    """Check a question as it is searched for; ``most`` characters at most, None leaves that to whoever answers."""
    if not isinstance(query, str):
        raise ValidationError(f"query must be a string, not {type(query).__name__}")
    if not (stripped := (query if query.isascii() else storable(query)).strip()):
        raise ValidationError("Query cannot be empty: ask something, for example 'where does the user live?'")
    if most is not None:
        check_length(stripped, most=most)
    return stripped


def parse_category(category: Category | str | None) -> Category | None:
    """The category of a name, in any case of letters; None for none.

    Raises:
        ValidationError: No category can have that name.
    """
    name = "" if category is None else str(category).strip().lower()
    try:
        return Category(name) if name else None
    except ValueError:
        raise ValidationError(f"unknown category {str(category)[:_ECHOED]!r}; one of: {', '.join(Category)}") from None


def parse_zone(name: object) -> str | None:
    """Check the name of a time zone; None is that of the settings.

    Raises:
        ValidationError: This machine knows no time zone of this name.
    """
    try:
        return None if name is None else checked_zone(name)
    except ValueError as error:
        raise ValidationError(f"time_zone: {error}") from None


_PARSED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "category": parse_category,
    "include_child_scopes": bool,
    "as_of": partial(parse_moment, "as_of"),
    "min_relevance": parse_relevance,
    "exclude_conversation": parse_conversation,
    "in_prompt": partial(messages_of, name="in_prompt"),
    "time_zone": parse_zone,
}
"""What checks an option, where it is given."""


def _given(options: SearchOptions) -> dict[str, Any]:
    given = {name: parse(value) for name, value in options.items() if (parse := _PARSED.get(name))}
    if options.keys() & FilterOptions.__optional_keys__:
        given["filters"] = Filters.parse(options)
    return given


class RetrievalPlan(NamedTuple):
    """Search plan of a request."""

    request: RetrievalRequest  # the request
    question: Question  # the parsed query
    selections: dict[Kind, Selection]  # selection of passages for each kind that is asked for, facts first
    limits: dict[Kind, int]  # number of memories that are asked for, of each of these kinds
    statistics: dict[Kind, TermStatistics]  # statistics of the query's terms for each kind; empty for rank fusion
    embedded: str  # text to embed: the query without the words that nearly every passage in the scope has
    states: States  # states of scopes that the search has read, each but once

    @property
    def may_find_open(self) -> bool:
        """False if it is known that no message waits to become an episode."""
        state = self.states.get((self.request.scope, self.request.include_child_scopes))
        return state is None or bool(state.queued)

    @classmethod
    def of(
        cls, request: RetrievalRequest, *, store: MemoryStore, now: datetime, settings: RetrievalSettings
    ) -> RetrievalPlan:
        """Plan the search for a request.

        Args:
            request: The checked request.
            store: Store to search; its term statistics are read.
            now: The moment of the retrieval, for expiry, in the time zone whose days are asked for.
            settings: ``common_share`` and ``fusion`` decide what is embedded.
        """
        as_specified = settings.fusion == "rrf"
        asked_at = now if request.as_of is None else in_zone(request.as_of, now.tzinfo)
        day = asked_at.replace(hour=0, minute=0, second=0, microsecond=0)  # all that a question asks for
        parse = remembered if len(request.query) <= REMEMBERED_CHARACTERS else remembered.__wrapped__
        question = parse(request.query, day.replace(tzinfo=None), day.tzinfo, as_specified=as_specified)
        asked = {Kind.SEMANTIC: request.semantic_limit, Kind.EPISODIC: request.episodic_limit}
        limits = {kind: limit for kind, limit in asked.items() if limit}
        selections = {
            kind: Selection(
                scope=request.scope,
                kind=kind,
                now=now,
                include_child_scopes=request.include_child_scopes,
                every_passage=settings.passages == "turns",
                category=request.category if kind is Kind.SEMANTIC else None,
                as_of=request.as_of,
                filters=request.filters,
                exclude_conversation=request.exclude_conversation if kind is Kind.EPISODIC else None,
            )
            for kind in limits
        }
        if as_specified and settings.common_share >= 1:
            return cls(request, question, selections, limits, {}, question.text, {})
        states: States = {}
        with store.ledger.database.reading(states):
            snapshots = {kind: store.ledger.snapshots.of(selection) for kind, selection in selections.items()}
            words = {} if as_specified else _known_forms(question, store, selections, snapshots.values())
            if words:
                forms = [form for term in question.terms for form in words.get(term, (term,))]
                question = replace(question, terms=forms)
            terms = list(dict.fromkeys(question.terms))
            known = {
                kind: store.keyword.statistics(terms, selections[kind])
                if each is None
                else each.terms.statistics(terms)
                for kind, each in snapshots.items()
            }
            if firsts := {form: forms[0] for forms in words.values() for form in forms[1:]}:
                known = {kind: replace(each, words=firsts) for kind, each in known.items()}
        embedded = _without_common(question.text, known.values(), share=settings.common_share)
        return cls(request, question, selections, limits, known, embedded, states)

    def with_open(self, episodes: TermStatistics, *, settings: RetrievalSettings) -> RetrievalPlan:
        """The plan if these are the statistics of all episodes, open ones included: what is common counts them."""
        known = {**self.statistics, Kind.EPISODIC: episodes}
        return self._replace(embedded=_without_common(self.question.text, known.values(), share=settings.common_share))


def _without_common(text: str, statistics: Collection[TermStatistics], *, share: float) -> str:
    """A question without the words of which more than a share of the passages, 0 to 1, have all terms."""
    if share >= 1:
        return text
    most = max(share * sum([each.passages for each in statistics]), _COMMON_FROM)
    terms = {term for each in statistics for term in each.frequencies}
    common = frozenset([term for term in terms if sum([each.frequencies.get(term, 0) for each in statistics]) > most])
    if not common:
        return text
    return (without_common if len(text) <= REMEMBERED_CHARACTERS else without_common.__wrapped__)(text, common)


def _known_forms(
    question: Question,
    store: MemoryStore,
    selections: Mapping[Kind, Selection],
    snapshots: Collection[ScopeSnapshot | None],
) -> dict[str, tuple[str, ...]]:
    """Forms in which a scope knows terms of a question, the most frequent first, where these are not the term alone.

    Forms differ in accents, and in endings of the question's language, or else the scope's. In a scope too large for
    memory terms are looked for with their accents and without. The name of "my wife" stands for her as well.
    """
    blocks = [snapshot.terms for snapshot in snapshots if snapshot is not None]
    of_scope = (block.postings.language(len(block.ids)) for block in blocks)
    languages = {None, question.language or next(filter(None, of_scope), None)}
    known = [(each, block.postings, block.postings.has_forms(each)) for each in languages for block in blocks]
    is_whole = len(blocks) == len(snapshots) and not any(has_forms for *_, has_forms in known)
    if is_whole and languages == {None} and not question.relatives and "".join(question.terms).isascii():
        return {}  # nearly always: no word here has another form
    forms: dict[str, set[str]] = {}
    for term in dict.fromkeys([term for term in question.terms if len(term) >= _LEAST_LETTERS]):
        forms[term] = {term, *analyze(without_accents(term))[:1]} if len(blocks) < len(snapshots) else {term}
        for language, postings, has_forms in known:
            if (form := word_form(term, language)) != term or has_forms:
                forms[term] |= postings.of_form(form, language)
    for relative in question.relatives:
        term, *named = (analyze(word)[-1] for word in (relative, *words_for(relative)))  # of characters the last pair
        if name := name_of(relative, _said_by_user(list(dict.fromkeys(named)), store, selections)):
            forms.setdefault(term, {term}).update(analyze(name)[-1:])
    if max(map(len, forms.values()), default=1) == 1:  # nearly always
        return {}
    asked = list(set(chain.from_iterable(forms.values())))
    counted = Counter[str]()
    for selection in selections.values():
        counted.update(store.keyword.statistics(asked, selection).frequencies)
    return {
        term: tuple(sorted(filter(counted.get, each), key=lambda form: (-counted[form], form))[:_MOST_FORMS])
        for term, each in forms.items()
        if len(each) > 1 and any(map(counted.get, each))
    }


def _said_by_user(terms: Sequence[str], store: MemoryStore, selections: Mapping[Kind, Selection]) -> Iterator[str]:
    """Texts with one of the terms: facts, and what was said by the user."""
    for selection in selections.values():
        rows = dict.fromkeys(store.keyword.search(terms, selection, limit=_LOOKED_AT).memories)
        for memory in store.ledger.load(list(rows)).values():
            if isinstance(memory, SemanticMemory):
                yield memory.fact
            else:
                yield from (message.content for message in memory.messages if is_of_user(message.role))


def is_visible(memory: AnyMemory, request: RetrievalRequest, *, now: datetime) -> bool:
    """Check a record against the request: whatever an index returns, nothing of another scope or time gets out.

    Args:
        memory: The record.
        request: Scope, moment and filters.
        now: The moment of the retrieval, for expiry.
    """
    if memory.scope != request.scope and not (
        request.include_child_scopes and scopes.is_within(request.scope, memory.scope)
    ):
        return False
    if request.is_of_excluded(memory) or (request.in_prompt and request.has_before_it(memory)):
        return False
    has_expired = memory.expires_at is not None and memory.expires_at <= now
    is_held = not has_expired and holds(memory, as_of=request.as_of)
    return is_held and (request.filters is EVERYTHING or request.filters.obstacle(memory) is None)


def holds(memory: AnyMemory, *, as_of: datetime | None) -> bool:
    """True if a fact was valid, or an episode had begun, at the moment ``as_of``; None is now."""
    if isinstance(memory, EpisodicMemory):
        return as_of is None or memory.start_at <= as_of
    return memory.invalid_at is None if as_of is None else held(memory, as_of)
