"""The options of a store: what may be given by name, and parts that an application brings."""

import asyncio
import inspect
import sys
from datetime import UTC, datetime, timedelta

import chromadb
import pytest

from memory_retrievers import (
    AgentMemory,
    ConfigurationError,
    EpisodicMemory,
    Message,
    Rating,
    RetrievalSettings,
    SemanticMemory,
    ValidationError,
)
from memory_retrievers.memory import SearchOptions, StoreOptions
from memory_retrievers.protocols import Segment
from memory_retrievers.remote import RemoteMemory
from memory_retrievers.testing import HashEmbedder, ScriptedLanguageModel

LINES = [Message(role="user", content=f"message number {number}") for number in range(5)]


class EveryTwo:
    """Cuts after every second message."""

    def segment(self, messages, background):
        lengths = [len(messages[start : start + 2]) for start in range(0, len(messages), 2)]
        return [Segment(messages=length, title=f"Part of {length}", summary="", surprise=0.2) for length in lengths]


class Answers:
    """Gives these segments, whatever it is asked."""

    def __init__(self, *lengths):
        self.lengths = lengths

    def segment(self, messages, background):
        return [Segment(messages=length, title="", summary="", surprise=0.2) for length in self.lengths]


class Rates:
    """Rates everything alike, and keeps the conversations it was given."""

    def __init__(self, rating):
        self.rating = rating
        self.conversations = []

    def rate(self, conversation, memories, *, embed):
        self.conversations.append([message.content for message in conversation])
        return {each.id: self.rating for each in memories}


@pytest.fixture
def opened(tmp_path, clock):
    """Opens the store of this test."""

    def open_(**options):
        return AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(), clock=clock, **options)

    return open_


def parts_of(report):
    return [[message.content for message in episode.messages] for episode in report.episodes]


def ways_to_open(tmp_path):
    """Each way to a memory, as a function that takes the options."""
    collection = chromadb.EphemeralClient().get_or_create_collection("nothing")
    return {
        "open": lambda **options: AgentMemory.open(tmp_path / "opened", **options),
        "read_only": lambda **options: AgentMemory.open(tmp_path / "read", read_only=True, **options),
        "in_memory": AgentMemory.in_memory,
        "connect": lambda **options: AgentMemory.connect("postgresql://127.0.0.1:1/nowhere", **options),
        "import_": lambda **options: AgentMemory.import_(tmp_path / "file", into=tmp_path / "imported", **options),
        "from_chroma": lambda **options: AgentMemory.from_chroma(
            collection, scope="c", path=tmp_path / "adopted", **options
        ),
    }


WAYS = pytest.mark.parametrize("way", ["open", "read_only", "in_memory", "connect", "import_", "from_chroma"])


@pytest.mark.embedded
def test_a_segmenter_of_the_application_cuts_the_conversation(opened):
    with opened(segmenter=EveryTwo()) as memory:
        memory.add_messages("c", LINES)
        report = memory.flush("c")
        assert parts_of(report) == [
            ["message number 0", "message number 1"],
            ["message number 2", "message number 3"],
            ["message number 4"],
        ]
    with opened() as memory:
        assert {episode.title for episode in memory.recent("c").episodic} == {"Part of 2", "Part of 1"}


@pytest.mark.embedded
@pytest.mark.parametrize(("rating", "grows"), [(Rating.EASY, True), (Rating.AGAIN, False)])
def test_a_judge_of_the_application_rates_what_was_retrieved(opened, clock, rating, grows):
    judge = Rates(rating)
    with opened(judge=judge) as memory:
        episode = memory.remember_episode(scope="c", summary="The import failed at night.")
        clock.advance(days=3)
        memory.retrieve("When did the import fail?", scope="c")
        memory.add_messages("c", LINES)
        report = memory.flush("c")
        assert [(key.id, given) for key, given in report.reviews] == [(episode.id, rating)]
        assert judge.conversations == [[line.content for line in LINES]]
    with opened() as memory:
        reviewed = memory.get(episode.id, scope="c")
        assert reviewed.last_reviewed_at == clock.now()
        assert (reviewed.stability > episode.stability) == grows


@pytest.mark.embedded
def test_they_take_the_place_of_what_asks_the_language_model(opened, clock):
    silent = ScriptedLanguageModel([])  # fails when it is asked
    with opened(segmenter=EveryTwo(), judge=Rates(Rating.GOOD), language_model=silent) as memory:
        memory.remember_episode(scope="c", summary="The import failed at night.")
        clock.advance(days=3)
        memory.retrieve("When did the import fail?", scope="c")
        memory.add_messages("c", LINES[:2])
        report = memory.flush("c")
        assert len(report.episodes) == len(report.reviews) == 1


def test_a_rating_that_there_is_not_is_refused_and_the_review_is_still_due(clock):
    judge = Rates("splendid")
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, judge=judge) as memory:
        memory.remember_episode(scope="c", summary="The import failed at night.")
        clock.advance(days=3)
        memory.retrieve("When did the import fail?", scope="c")
        memory.add_messages("c", LINES[:2])
        with pytest.raises(ValidationError, match="unknown rating 'splendid'; one of: again, hard, good, easy"):
            memory.flush("c")
        judge.rating = Rating.GOOD
        assert len(memory.flush("c").reviews) == 1


def test_without_a_clock_a_memory_has_the_time_that_a_test_has_frozen(monkeypatch):
    moment = datetime(2024, 1, 5, 12, tzinfo=UTC)

    class OfAnyDatetime(type):
        def __instancecheck__(cls, instance):
            return isinstance(instance, datetime)

    class Frozen(datetime, metaclass=OfAnyDatetime):
        @classmethod
        def now(cls, tz=None):
            return moment.astimezone(tz)

    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        for name, module in list(sys.modules.items()):  # as freezegun does it
            if name.startswith("memory_retrievers") and vars(module).get("datetime") is datetime:
                monkeypatch.setattr(module, "datetime", Frozen)
        fact = memory.remember_fact(scope="c", fact="The shop is shut", expires_at=moment + timedelta(days=1))
        assert (fact.created_at, memory.now()) == (moment, moment)
        assert memory.get(fact.id, scope="c") == fact
        memory.add_messages("c", LINES[:1])
        moment += timedelta(days=2)
        assert not memory.list("c")
        assert [episode.start_at for episode in memory.process_due("c").episodes] == [moment - timedelta(days=2)]


@pytest.mark.parametrize("lengths", [(), (2,), (5, 1), (0, 5), (6, -1)], ids=str)
def test_segments_that_do_not_take_all_messages_are_refused_and_the_messages_still_wait(clock, lengths):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, segmenter=Answers(*lengths)) as memory:
        memory.add_messages("c", LINES)
        with pytest.raises(ConfigurationError, match="segmenter Answers must cut 5 messages into segments"):
            memory.flush("c")
        assert len(memory.waiting("c")) == 5
        assert [each.is_open for each in memory.recent("c").episodic] == [True]


@WAYS
@pytest.mark.parametrize("option", ["segmenter", "judge", "clock"])
@pytest.mark.parametrize("given", [print, EveryTwo, Rates, object()], ids=["function", "class", "class too", "object"])
def test_what_has_not_the_method_is_refused_before_anything_is_made(tmp_path, way, option, given):
    with pytest.raises(ConfigurationError, match=rf"{option}= takes an object with the method (segment|rate|now), as"):
        ways_to_open(tmp_path)[way](**{option: given})
    assert list(tmp_path.iterdir()) == []


@WAYS
@pytest.mark.parametrize("option", ["retrieval", "ingestion", "review", "tools"])
@pytest.mark.parametrize(
    "given", [{"decay_weight": 1}, {}, RetrievalSettings.light], ids=["mapping", "empty", "method"]
)
def test_settings_of_another_type_are_refused_by_name(tmp_path, way, option, given):
    with pytest.raises(
        ConfigurationError, match=rf"{option}= takes {option.rstrip('s').capitalize()}Settings\(\.\.\.\), not"
    ):
        ways_to_open(tmp_path)[way](**{option: given})
    assert list(tmp_path.iterdir()) == []


@WAYS
def test_an_option_of_another_name_is_refused_as_any_argument_is(tmp_path, way):
    with pytest.raises(TypeError, match="unexpected keyword argument 'embeder'; the options of a store are before_st"):
        ways_to_open(tmp_path)[way](embeder=HashEmbedder())
    assert list(tmp_path.iterdir()) == []


def test_what_only_a_directory_takes_is_no_option_of_a_memory_without_one(tmp_path):
    with pytest.raises(TypeError, match="unexpected keyword argument 'shared_group'"):
        AgentMemory.in_memory(shared_group=True)
    with pytest.raises(TypeError, match="unexpected keyword argument 'keyword'"):
        ways_to_open(tmp_path)["connect"](keyword="sqlite_bm25")


@pytest.mark.parametrize("way", ["open", "in_memory", "from_chroma"])
def test_an_option_that_is_none_is_its_default(tmp_path, way):
    nothing = dict.fromkeys(StoreOptions.__optional_keys__)
    assert len(nothing) == 12
    with ways_to_open(tmp_path)[way](**nothing) as memory:
        memory.remember_fact(scope="c", fact="Alice plays the bassoon")
        assert len(memory.context("which instrument?", scope="c").semantic) == 1


@pytest.mark.embedded
def test_two_holders_of_a_store_have_the_same_segmenter_and_judge(opened):
    segmenter, judge = EveryTwo(), Rates(Rating.GOOD)
    with opened(segmenter=segmenter, judge=judge), opened(segmenter=segmenter, judge=judge):
        for other in ({"judge": judge}, {"segmenter": segmenter}, {"segmenter": EveryTwo(), "judge": judge}):
            with pytest.raises(ConfigurationError, match="other settings"):
                opened(**other)


@pytest.mark.embedded
def test_the_same_object_is_no_other_setting_though_it_equals_nothing(opened):
    class EqualsNothing(EveryTwo):
        __hash__ = None

        def __eq__(self, other):
            return False

    segmenter = EqualsNothing()
    with opened(segmenter=segmenter), pytest.raises(ConfigurationError, match=r"other settings \(keyword\)"):
        opened(segmenter=segmenter, keyword="rank_bm25")


def test_an_option_of_a_search_of_another_name_is_refused_as_any_argument_is(memory):
    remote = RemoteMemory("http://127.0.0.1:1", retries=0)
    searches = [
        memory.retrieve,
        memory.explain,
        lambda query, **options: memory.explain_missing("id", query=query, **options),
        lambda query, **options: asyncio.run(memory.aretrieve(query, **options)),
        remote.retrieve,
    ]
    for search in searches:
        with pytest.raises(TypeError, match="unexpected keyword argument 'limits'; the options of a search are as_of"):
            search("which instrument?", scope="c", limits=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'record'"):
        memory.explain("which instrument?", scope="c", record=False)


def test_what_a_search_is_not_told_is_the_default_that_is_described(memory):
    memory.remember_many([SemanticMemory.new(scope="c", fact=f"Bassoon number {number}") for number in range(22)])
    memory.remember_many([EpisodicMemory.new(scope="c", summary=f"Bassoon night {number}") for number in range(7)])
    found = memory.retrieve("bassoon", scope="c")
    assert (len(found.episodic), len(found.semantic)) == (5, 20)
    described = inspect.getdoc(SearchOptions)
    assert "0 to 100. Default: 5, or" in described
    assert "0 to 1,000. Default: 20, or" in described
