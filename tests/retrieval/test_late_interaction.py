"""Late interaction: token vectors are stored, found, moved and erased with what they are of, and rank the best anew."""

import contextlib
import itertools
import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from kept import kept_passages
from patience import until

from memory_retrievers import AgentMemory, Message, RetrievalSettings
from memory_retrievers.backends.embeddings import minilm
from memory_retrievers.errors import EmbeddingError
from memory_retrievers.evaluation.conversations import FilledStores
from memory_retrievers.evaluation.measure import by_category, measure
from memory_retrievers.evaluation.synthetic import CHANGED, forgetting_dataset
from memory_retrievers.models.selection import MOST_TOKEN_BYTES, WHOLE, Embedded, TermStatistics
from memory_retrievers.retrieval.candidates import PassageTokens, QuestionTokens
from memory_retrievers.retrieval.late_interaction import (
    MESSAGES,
    TOGETHER,
    BestMessages,
    KeptTokens,
    _neighbours_near,
    max_sim,
)
from memory_retrievers.retrieval.unindexed_candidates import joined_statistics
from memory_retrievers.testing import HashEmbedder, inside
from memory_retrievers.text.analysis import analyze

WIDTH = 8
WITH, WITHOUT = RetrievalSettings(), RetrievalSettings(token_rerank=False)
TURNS = (
    "The heron stood by the pond",
    "A kettle sang in the kitchen",
    "My sister plays the oboe",
    "We painted the fence green",
)


class HashTokens(HashEmbedder):
    """Embeds by words, and every word by its hash; counts what it is asked."""

    id = "hash-tokens"

    def __init__(self):
        super().__init__(64)
        self.passes = []

    def embed_documents(self, texts):
        self.passes += texts
        return np.array(super().embed_documents(texts), np.float32).reshape(len(texts), 64)

    def embed_query(self, text):
        self.passes.append(text)
        return np.array(super().embed_query(text), np.float32)

    def embed_tokens(self, texts, *, is_query=False):
        self.passes += texts
        return [self._embedded(text, is_query=is_query) for text in texts]

    def _embedded(self, text, *, is_query):
        words = tuple(word.strip("?.,").casefold() for word in text.split()) if is_query else tuple(analyze(text))
        rows = [_of(analyze(word)[0] if analyze(word) else word) for word in words]
        return Embedded(np.array(HashEmbedder.embed_query(self, text), np.float32), b"".join(rows), words)


def _of(word):
    return np.random.default_rng(sum(map(ord, word))).integers(-127, 128, WIDTH).astype(np.int8).tobytes()


@pytest.fixture
def make_memory(clock):
    with contextlib.ExitStack() as opened:
        yield lambda retrieval=WITH, **options: opened.enter_context(
            AgentMemory.in_memory(clock=clock, retrieval=retrieval, **options)
        )


@pytest.fixture
def embedder():
    return HashTokens()


def told(memory, *turns, scope="c", id="e"):
    return memory.remember_episode(
        scope=scope, id=id, summary="A talk.", messages=[Message(role="Ana", content=turn) for turn in turns]
    )


def told_of_something_else(memory):
    """Another episode: one alone has nothing to be ordered among."""
    memory.remember_episode(
        scope="c", id="other", summary="Snow.", messages=[Message(role="Ben", content="Snow fell on the hill")]
    )


def stored_tokens(memory):
    with inside(memory).ledger.database.read() as connection:
        return dict(connection.execute("SELECT passage, tokens FROM passage_contents ORDER BY passage").fetchall())


def stages(memory, query="Who plays the oboe?"):
    return memory.retrieve(query, scope="c", record=False).episodic[0].explanation.stages


def test_every_text_is_embedded_once_with_its_tokens_and_a_question_too(make_memory, embedder):
    memory = make_memory(embedder=embedder)
    told_of_something_else(memory)
    memory.retrieve("anything", scope="c", record=False)
    embedder.passes.clear()
    told(memory, *TURNS)
    assert sorted(embedder.passes) == sorted(["A talk.", *(f"Ana: {turn}" for turn in TURNS)])
    assert all(len(tokens) % WIDTH == 0 and tokens for tokens in stored_tokens(memory).values())
    embedder.passes.clear()
    assert stages(memory)["tokens"] > 0
    assert embedder.passes == ["Who plays the oboe?"]


def test_the_bundled_model_runs_once_for_each_text(make_memory, monkeypatch):
    seen, embedder = [], minilm.MiniLMEmbedder()
    kind = type(embedder._model())  # not by its name in the module, in whose place the tests of commands put another
    run = kind.run
    monkeypatch.setattr(kind, "run", lambda model, batch: seen.append(len(batch)) or run(model, batch))
    memory = make_memory(embedder=embedder)
    told_of_something_else(memory)
    memory.retrieve("the probe", scope="c", record=False)
    seen.clear()
    told(memory, *TURNS)
    assert sum(seen) == 1 + len(TURNS)
    assert stages(memory)["tokens"] > 0
    assert sum(seen) == 2 + len(TURNS)


def test_what_was_said_keeps_its_tokens_on_the_way_to_an_episode(make_memory, embedder):
    memory = make_memory(embedder=embedder)
    told_of_something_else(memory)
    memory.add_messages("c", [Message(role="Ana", content=turn) for turn in TURNS])
    assert stages(memory)["tokens"] > 0
    embedder.passes.clear()
    memory.flush("c")
    assert not {f"Ana: {turn}" for turn in TURNS} & set(embedder.passes)
    assert None not in stored_tokens(memory).values()
    assert stages(memory)["tokens"] > 0


def test_tokens_that_are_cut_off_count_as_none(make_memory, embedder):
    memory = make_memory(embedder=embedder)
    told_of_something_else(memory)
    told(memory, *TURNS)
    with inside(memory).ledger.database.write() as connection:
        connection.execute("UPDATE passage_contents SET tokens = substr(tokens, 2) WHERE passage > 1")
    assert memory.retrieve("Who plays the oboe?", scope="c").episodic[0].memory.id == "e"
    assert memory.explain("Who plays the oboe?", scope="c")


@pytest.mark.parametrize("settings", [WITHOUT, RetrievalSettings.light(), RetrievalSettings.reference()])
def test_light_and_reference_neither_store_nor_measure_tokens(make_memory, embedder, settings):
    memory = make_memory(embedder=embedder, retrieval=settings)
    told_of_something_else(memory)
    told(memory, *TURNS)
    assert set(stored_tokens(memory).values()) == {None}
    assert "tokens" not in stages(memory)


def test_an_embedder_without_tokens_goes_without(make_memory):
    memory = make_memory(embedder=HashEmbedder(64))
    told_of_something_else(memory)
    told(memory, *TURNS)
    assert "tokens" not in stages(memory)
    assert set(stored_tokens(memory).values()) == {None}


def test_a_store_without_tokens_gets_them_after_its_first_search(tmp_path, embedder, clock):
    with AgentMemory.open(tmp_path / "m", embedder=embedder, retrieval=WITHOUT, clock=clock) as memory:
        told_of_something_else(memory)
        told(memory, *TURNS)
        assert "tokens" not in stages(memory)
    with AgentMemory.open(tmp_path / "m", embedder=embedder, retrieval=WITH, clock=clock) as memory:
        assert set(stored_tokens(memory).values()) == {None}  # opening does nothing
        assert "tokens" not in stages(memory)
        until(lambda: None not in stored_tokens(memory).values())
        assert stages(memory)["tokens"] > 0


def test_reindex_makes_missing_tokens(tmp_path, embedder, clock):
    with AgentMemory.open(tmp_path / "m", embedder=embedder, retrieval=WITHOUT, clock=clock) as memory:
        told_of_something_else(memory)
        told(memory, *TURNS)
    with AgentMemory.open(tmp_path / "m", embedder=embedder, retrieval=WITH, clock=clock) as memory:
        assert memory.reindex() == 0
        assert None not in stored_tokens(memory).values()


def test_a_store_that_is_only_looked_into_stays_as_it_is(tmp_path, embedder, clock):
    with AgentMemory.open(tmp_path / "m", embedder=embedder, retrieval=WITHOUT, clock=clock) as memory:
        told_of_something_else(memory)
        told(memory, *TURNS)
    with AgentMemory.open(tmp_path / "m", embedder=embedder, retrieval=WITH, clock=clock, read_only=True) as memory:
        assert "tokens" not in stages(memory)
        inside(memory)._engine.missing_tokens.close()
        assert set(stored_tokens(memory).values()) == {None}


def test_another_embedder_brings_its_own_tokens(make_memory, embedder):
    memory = make_memory(embedder=embedder)
    told_of_something_else(memory)
    told(memory, *TURNS)
    memory.reembed(HashEmbedder(32), embedder_id="plain")
    assert set(stored_tokens(memory).values()) == {None}
    memory.reembed(embedder)
    assert None not in stored_tokens(memory).values()
    assert stages(memory)["tokens"] > 0


def test_an_export_carries_them(make_memory, embedder, tmp_path, clock):
    memory = make_memory(embedder=embedder)
    told_of_something_else(memory)
    told(memory, *TURNS)
    memory.export(tmp_path / "all.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text(encoding="utf-8").splitlines()]
    assert all(passage["tokens"] for line in lines for passage in line.get("passages", ()))
    embedder.passes.clear()
    with AgentMemory.import_(
        tmp_path / "all.jsonl", into=tmp_path / "copy", embedder=embedder, retrieval=WITH, clock=clock
    ) as copy:
        assert sorted(stored_tokens(copy).values()) == sorted(stored_tokens(memory).values())
        assert stages(copy)["tokens"] > 0
    assert not any("heron" in text for text in embedder.passes)


def test_an_episode_that_answers_in_two_messages_comes_first(make_memory, embedder):
    """What its best messages say together counts: neither of them holds the whole question."""
    episodes = {
        "half": ("Zoe bakes bread", "Zoe bakes bread", "It rained"),
        "whole": ("Zoe bakes bread", "The bread is for Otto", "It rained"),
    }
    best = {}
    for settings in (WITHOUT, WITH):
        memory = make_memory(embedder=embedder, retrieval=settings)
        for id, turns in episodes.items():
            told(memory, *turns, id=id)
        found = memory.retrieve("Does Zoe bake bread for Otto?", scope="c", record=False).episodic
        best[settings] = {hit.memory.id: hit.explanation.stages.get("tokens") for hit in found}
    assert set(best[WITHOUT].values()) == {None}
    assert next(iter(best[WITH])) == "whole"
    assert best[WITH]["half"] == 0 < best[WITH]["whole"]


BESIDE = "The support group met for hours and tourists from Leeds or York waited there because of technical problems"
APART = "The group of tourists from Leeds or York waited there for hours because of technical problems and met support"


def lead_of_beside(memory, question="Which support group met?", beside=BESIDE, apart=APART, hear=told):
    """How much more late interaction gives the one of two talks than the other."""
    told(memory, apart, id="apart")
    hear(memory, beside, id="beside")
    found = memory.retrieve(question, scope="c", record=False).episodic
    given = {hit.memory.messages[0].content: hit.explanation.stages["tokens"] for hit in found}
    return given[beside] - given[apart]


def heard(memory, *turns, **_):
    memory.add_messages("c", [Message(role="Ana", content=turn) for turn in turns])


@pytest.mark.parametrize("hear", [told, heard])
@pytest.mark.parametrize("question", ["Which support group met?", "Is it the group that supports?"])
def test_words_that_are_neighbours_in_the_question_count_where_they_are_near_each_other(
    make_memory, embedder, question, hear
):
    assert lead_of_beside(make_memory(embedder=embedder), question, hear=hear) > 0.01


def test_the_same_words_without_a_neighbour_near_count_the_same(make_memory, embedder):
    memory = make_memory(embedder=embedder)
    assert lead_of_beside(memory, "Which group?") == pytest.approx(0, abs=1e-9)


def test_who_says_it_and_when_are_no_words_of_a_message():
    said = PassageTokens(b"", "27 November 2026 Ana Maria: Ana plays: the oboe").said
    assert said.tolist() == [hash(term) for term in analyze("Ana plays the oboe")]


def test_each_memory_counts_the_neighbours_of_its_best_message_by_how_rare_they_are(make_candidates):
    """In one of few words all are near each other, which says nothing: else wording would outweigh what is newer."""
    texts = ["moth pond one two three four five heron", "heron pond one two three four five moth", "moth pond heron"]
    talks = [[(WHOLE, "pond heron", 0), (0, texts[0], 0), (1, "one", 0)], [(0, each, 0) for each in texts[1:]]]
    candidates = make_candidates(talks, ("moth", "unheard", "pond", "heron"))
    read = {
        place: PassageTokens(b"", f"Ana: {each}") for place, each in enumerate(("", texts[0], "one", *texts[1:]), 1)
    }
    idf = dict(zip(candidates.statistics.frequencies, candidates.idf.tolist(), strict=True))
    pairs = [min(idf["moth"], idf["pond"]), min(idf["pond"], idf["heron"])]
    near = _neighbours_near(candidates, [np.arange(3), np.arange(3, 5)], read)
    assert near.tolist() == pytest.approx([each / sum(pairs) for each in pairs])
    alone = make_candidates(talks, ("moth",))
    assert _neighbours_near(alone, [np.arange(3)], read).tolist() == [0]
    assert _neighbours_near(candidates, [], read).tolist() == []


def vectors_of(*tokens):
    """Token vectors as they are stored, each by those of its numbers that are not 0."""
    rows = np.zeros((len(tokens), WIDTH))
    for row, numbers in zip(rows, tokens, strict=True):
        row[list(numbers)] = list(numbers.values())
    return np.rint(127 * rows).astype(np.int8).tobytes()


THE_POT = vectors_of({0: 0.8, 2: 0.6}, {1: 0.6, 3: 0.8})
THE_SHED = vectors_of({0: 0.7, 2: 0.71}, {1: 0.6, 3: 0.8})
ANOTHER = vectors_of({0: 0.7, 5: 0.71}, {1: 0.6, 6: 0.8})


def nearness(texts, *, fade=True):
    question = QuestionTokens(vectors_of({0: 1}, {1: 1}), (("where",), ("is",)), dict.fromkeys)
    return max_sim(question, texts, TermStatistics(9, 5.0, {}), fade=fade)[0].tolist()


def test_of_what_is_forgotten_a_best_passage_that_says_the_same_as_one_before_it_counts_as_that_one():
    texts = [[THE_POT], [THE_SHED], [ANOTHER]]
    pot, shed, another = nearness(texts, fade=False)
    assert pot > shed == pytest.approx(another, abs=0.01)
    assert nearness(texts) == pytest.approx([pot, pot, another])
    assert nearness([[THE_SHED], [ANOTHER], [THE_POT]]) == pytest.approx([shed, another, shed])


def test_what_the_other_passages_of_a_memory_add_is_its_own():
    whole = vectors_of({1: 1})
    pot, shed = nearness([[THE_POT], [THE_SHED, whole]])
    assert shed == pytest.approx(pot + 0.2, abs=0.01)


def test_a_best_passage_without_tokens_says_the_same_as_none():
    assert nearness([[b""], [THE_POT], [b"", THE_SHED]]) == nearness([[b""], [THE_POT], [b"", THE_SHED]], fade=False)
    assert nearness([[b""]]) == [0]


WORDS = ("oboe", "kettle", "fence", "heron", "pond", "garden", "violin", "letter", "harbour", "candle")


def filled_with_many(memory):
    """Twelve episodes and facts of random words, some of the question among them."""
    drawn = np.random.default_rng(3)
    for number in range(12):
        turns = [" ".join(drawn.choice(WORDS, 4)) for _ in range(5)]
        told(memory, *turns, id=f"e{number}")
        memory.remember_fact(scope="c", id=f"f{number}", fact=f"{number}: {' '.join(drawn.choice(WORDS, 3))}")


def found_with_and_without(make_memory, embedder, question):
    """The hits of each kind, without tokens and with them."""
    results = []
    for settings in (WITHOUT, WITH):
        memory = make_memory(embedder=embedder, retrieval=settings)
        filled_with_many(memory)
        found = memory.retrieve(question, scope="c", semantic_limit=12, episodic_limit=12, record=False)
        results.append({"semantic": found.semantic, "episodic": found.episodic})
    return results


@pytest.mark.parametrize(
    "question",
    ["Is the oboe by the pond?", "kettle and candle", "a letter from the harbour", "the violin in the garden"],
)
def test_the_first_five_stay_the_first_five_and_all_that_is_told_of_them_agrees(make_memory, embedder, question):
    without, found = found_with_and_without(make_memory, embedder, question)
    for kind, hits in found.items():
        ids, before = [hit.memory.id for hit in hits], [hit.memory.id for hit in without[kind]]
        assert sorted(ids[:5]) == sorted(before[:5])
        assert ids[5:] == before[5:]
        scores, relevances = [hit.score for hit in hits], [hit.relevance for hit in hits]
        assert scores == sorted(scores, reverse=True)
        assert relevances == sorted(relevances, reverse=True)
        assert max(scores) <= 1
        for place, hit in enumerate(hits):
            assert sum(hit.explanation.stages.values()) == pytest.approx(hit.explanation.fused_score)
            assert place < 5 or hit.explanation.stages["tokens"] == 0
        assert min(hit.explanation.stages["tokens"] for hit in hits[:5]) == 0


def messages_near(candidates, tokens, passages):
    question = QuestionTokens(vectors_of({0: 1}, {1: 1}), (("oboe",), ("pond",)), dict.fromkeys)
    messages = BestMessages(np.array(passages), [*map(PassageTokens, tokens)])
    return messages.nearness(replace(candidates, tokens=question)).tolist()


def test_a_message_counts_what_it_says_and_less_of_what_is_said_beside_it(make_candidates):
    """A question and its answer share the words; what another episode says, or nobody measured, is no neighbour."""
    oboe, pond, neither = vectors_of({0: 1}), vectors_of({1: 1}), vectors_of({5: 1})
    talks = [[(0, "a", 0), (1, "b", 0), (2, "c", 0)], [(0, "d", 0)]]
    candidates = make_candidates(talks, ("oboe", "pond"))
    beside = pytest.approx(0.35, abs=0.01)
    near = messages_near(candidates, [oboe, neither, neither, pond], [0, 1, 2, 3])
    assert near == [pytest.approx(0.5), beside, 0, pytest.approx(0.5)]
    assert messages_near(candidates, [oboe, pond, b"", b""], [0, 1, 2, 3]) == pytest.approx([0.85, 0.85, 0.35, 0])
    assert messages_near(candidates, [oboe, neither], [0, 2]) == [pytest.approx(0.5), 0]
    assert messages_near(candidates, [b"", b""], [1, 2]) == [0, 0]


@pytest.mark.parametrize("question", ["Is the oboe by the pond?", "kettle and candle"])
def test_messages_are_ordered_anew_by_what_each_of_them_says(make_memory, embedder, question):
    """The best of them has the score that the best had, and which memory comes first is another matter."""
    without, found = (each["episodic"] for each in found_with_and_without(make_memory, embedder, question))
    before, now = ({hit.memory.id: dict(_matches(hit)) for hit in hits} for hits in (without, found))
    assert {id: sorted(scores) for id, scores in before.items()} == {id: sorted(now[id]) for id in before}
    highest = [max(score for scores in each.values() for score in scores.values()) for each in (before, now)]
    assert highest[0] == pytest.approx(highest[1])
    assert min(score for scores in now.values() for score in scores.values()) >= 0
    assert any([place for place, _ in _matches(hit)] != list(before[hit.memory.id]) for hit in found)
    for hit in found:
        assert [score for _, score in _matches(hit)] == sorted(now[hit.memory.id].values(), reverse=True)


def _matches(hit):
    return [(match.messages[0], match.score) for match in hit.matches]


def test_which_messages_match_does_not_depend_on_how_many_memories_are_asked_for(make_memory, embedder):
    memory = make_memory(embedder=embedder)
    filled_with_many(memory)
    few, many = (
        memory.retrieve("Is the oboe by the pond?", scope="c", episodic_limit=limit, record=False).episodic
        for limit in (2, 12)
    )
    assert [hit.matches for hit in few] == [hit.matches for hit in many[:2]]


def test_the_messages_of_one_episode_alone_are_ordered_too(make_memory, embedder):
    matches = []
    for settings in (WITHOUT, WITH, RetrievalSettings(token_weight=0)):
        memory = make_memory(embedder=embedder, retrieval=settings)
        told(memory, *TURNS)
        (hit,) = memory.retrieve("Who plays the oboe?", scope="c", record=False).episodic
        matches.append(_matches(hit))
    assert dict(matches[0]) == pytest.approx(dict(matches[2]))
    assert dict(matches[0]) != pytest.approx(dict(matches[1]))


def test_no_message_is_ordered_by_tokens_while_one_has_none(make_memory, embedder):
    memory = make_memory(embedder=embedder)
    told(memory, *TURNS)
    told_of_something_else(memory)
    with_tokens = memory.retrieve("Who plays the oboe?", scope="c", record=False).episodic
    memory = make_memory(embedder=embedder, retrieval=RetrievalSettings(token_weight=0))
    told(memory, *TURNS)
    told_of_something_else(memory)
    plain = memory.retrieve("Who plays the oboe?", scope="c", record=False).episodic
    ledger = inside(memory := make_memory(embedder=embedder)).ledger
    told(memory, *TURNS)
    told_of_something_else(memory)
    with ledger.database.write() as connection:
        connection.execute(
            "UPDATE passage_contents SET tokens = NULL WHERE passage = (SELECT max(passage) FROM passage_contents)"
        )
    found = memory.retrieve("Who plays the oboe?", scope="c", record=False).episodic
    assert [_matches(hit) for hit in found] == [_matches(hit) for hit in plain]
    assert [_matches(hit) for hit in found] != [_matches(hit) for hit in with_tokens]


def test_the_first_five_are_those_after_forgetting(make_memory, embedder, clock):
    """Whom forgetting brings among them is measured, and nobody comes back for what its tokens say."""
    found = []
    for settings in (WITHOUT, WITH):
        memory = make_memory(embedder=embedder, retrieval=settings.model_copy(update={"decay_weight": 0.9}))
        drawn = np.random.default_rng(3)
        for number in range(12):
            told(memory, *(" ".join(drawn.choice(WORDS, 4)) for _ in range(5)), id=f"e{number}")
            clock.advance(days=10)
        questions = [f"the {one} and the {other}" for one, other in itertools.combinations(WORDS, 2)]
        results = [memory.retrieve(each, scope="c", record=False).episodic for each in questions]
        found.append([sorted(hit.memory.id for hit in hits) for hits in results])
    assert found[0] == found[1]


def test_the_best_one_is_the_first_of_five(make_memory, embedder):
    memory = make_memory(embedder=embedder)
    filled_with_many(memory)
    limits = [{"semantic_limit": limit, "episodic_limit": limit} for limit in (1, 5)]
    one, five = (memory.retrieve("Is the oboe by the pond?", scope="c", record=False, **limit) for limit in limits)
    assert [hit.memory.id for hit in one.semantic] == [five.semantic[0].memory.id]
    assert [hit.memory.id for hit in one.episodic] == [five.episodic[0].memory.id]


def test_some_are_ordered_otherwise(make_memory, embedder):
    without, found = found_with_and_without(make_memory, embedder, "Is the oboe by the pond?")
    assert any([hit.memory.id for hit in found[kind]] != [hit.memory.id for hit in without[kind]] for kind in found)


def test_explain_tells_the_tokens_of_the_order_that_is_returned(make_memory, embedder):
    memory = make_memory(embedder=embedder)
    filled_with_many(memory)
    found = memory.retrieve("Is the oboe by the pond?", scope="c", record=False)
    episodes = memory.explain("Is the oboe by the pond?", scope="c").episodic
    assert [each.id for each in episodes] == [hit.memory.id for hit in found.episodic]
    tokens = [stage.score for each in episodes for stage in each.stages if stage.name == "tokens"]
    assert tokens == pytest.approx([hit.explanation.stages["tokens"] for hit in found.episodic])


def test_an_old_search_of_facts_is_not_measured_by_what_is_queued(make_memory, embedder, clock):
    """A former version of a fact and a queued message may bear the same number."""
    memory = make_memory(embedder=embedder)
    filled_with_many(memory)
    memory.add_messages("c", [Message(role="Ana", content=turn) for turn in TURNS * 8])
    clock.advance(days=1)
    moment = clock.now()
    clock.advance(days=1)
    for number in range(12):
        memory.update(f"f{number}", scope="c", fact="Snow fell")
    found = memory.retrieve("Is the oboe by the pond?", scope="c", as_of=moment, record=False)
    assert found.semantic
    assert not any("tokens" in hit.explanation.stages for hit in found.semantic)


@pytest.mark.embedded
def test_a_purge_leaves_no_byte_of_what_was_forgotten(tmp_path, embedder, clock):
    with AgentMemory.open(tmp_path / "m", embedder=embedder, retrieval=WITH, clock=clock) as memory:
        told(memory, *TURNS)
        tokens = max(stored_tokens(memory).values(), key=len)
        memory.forget("e", scope="c")
        assert stored_tokens(memory) == {}
        memory.purge()
    assert not any(tokens in file.read_bytes() for file in (tmp_path / "m").rglob("*") if file.is_file())


def test_a_question_reads_tokens_once_and_forgotten_ones_leave_no_trace_in_memory(make_memory, embedder, monkeypatch):
    memory = make_memory(embedder=embedder)
    filled_with_many(memory)
    ledger, asked = inside(memory).ledger, []
    read = ledger.tokens
    monkeypatch.setattr(ledger, "tokens", lambda passages: asked.append(passages) or read(passages))
    first, again = (memory.retrieve("Is the oboe by the pond?", scope="c", record=False) for _ in range(2))
    (passages,) = asked  # of facts and episodes, at once
    assert 5 + 5 <= len(passages) <= 5 + 5 * TOGETHER + MESSAGES
    assert [hit.score for hit in first.episodic] == [hit.score for hit in again.episodic]
    assert set(passages) <= kept_passages(inside(memory))
    owners = ledger.owners(passages)
    memory.forget(first.episodic[0].memory.id, scope="c")
    gone = set(passages) - set(ledger.owners(passages))
    assert 0 < len(gone) < len(owners)
    assert not gone & kept_passages(inside(memory))


def test_tokens_in_memory_are_bounded_by_their_bytes():
    kept, whole = KeptTokens(3), PassageTokens(bytes(1_200), 100 * "a")
    kept.keep({1: whole, 2: whole})
    assert [*kept.among(range(9))] == [1, 2]
    kept.keep({4: whole})
    assert kept.among([1, 3, 4]) == {1: whole, 4: whole}
    kept.keep({5: PassageTokens(bytes(1))})  # too much: all others go
    assert [*kept.among(range(9))] == [5]
    kept.keep({6: PassageTokens(bytes(5_000), 101 * "a")})
    assert not kept.among(range(9))
    assert KeptTokens(10**6).most == KeptTokens(2_000).most


@pytest.mark.parametrize(
    "text", ["Ana: the tuba and the oboe rest on the piano of the town. " * 10, "Ana: " + "明天在图书馆读书" * 90]
)
def test_what_is_kept_of_a_passage_takes_no_more_memory_than_is_counted(text):
    analyze(text)  # what the analyzer keeps of its own
    tracemalloc.start()
    kept = [PassageTokens(bytes(1_000), "".join(text)) for _ in range(50)]
    for each in kept:
        assert each.said
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken <= sum(each.size for each in kept)


def test_rare_words_of_the_question_weigh_most_and_stop_words_as_if_a_tenth_had_them():
    common, rare = vectors_of({0: 1}), vectors_of({1: 1})
    question = QuestionTokens(common + rare, (analyze("the"), analyze("oboe")), dict.fromkeys)
    statistics = TermStatistics(100, 5.0, {analyze("oboe")[0]: 1})
    of_common, of_rare = np.log1p(100 / 11), np.log1p(100 / 2)
    share = of_rare / (of_common + of_rare)
    found, of_terms = max_sim(question, [[common], [rare], [b""], [common, rare]], statistics, fade=False)
    assert found.tolist() == pytest.approx([1 - share, share, 0, 1])
    assert of_terms.tolist() == pytest.approx([0, 1, 0, 1])
    assert share > 0.6


def test_a_question_of_unknown_words_weighs_all_alike():
    text = vectors_of({0: 1})
    question = QuestionTokens(text + vectors_of({1: 1}), ("who", "?"), dict.fromkeys)
    found, of_terms = max_sim(question, [[text]], TermStatistics(9, 5.0, {}), fade=False)
    assert (found.tolist(), of_terms.tolist()) == (pytest.approx([0.5]), [])


def test_too_many_bytes_for_a_text_are_refused(make_memory, embedder):
    memory = make_memory(embedder=embedder)
    embed = embedder.embed_tokens
    embedder.embed_tokens = lambda texts, **options: [
        replace_tokens(each, bytes(MOST_TOKEN_BYTES + 1)) for each in embed(texts, **options)
    ]
    with pytest.raises(EmbeddingError, match="bytes of token vectors"):
        told(memory, *TURNS)


def replace_tokens(embedded, tokens):
    return embedded._replace(tokens=tokens)


def test_the_bundled_embedder_keeps_few_bytes_and_no_stop_words():
    embedder = minilm.MiniLMEmbedder()
    asked = embedder.embed_tokens(["Where does the oboe player live?"], is_query=True)[0]
    kept = embedder.embed_tokens(["Where does the oboe player live?", "Is it the?", "", "word " * 300])
    assert asked.words == ("where", "does", "the", "oboe", "player", "live", "?")
    assert [set(each.words) for each in kept] == [
        {"oboe", "player", "live"},
        {"is", "it", "the", "?"},
        set(),
        {"word"},
    ]
    assert len(kept[3].tokens) == 64 * 64
    vectors = embedder.embed_documents(["Where does the oboe player live?"])
    assert np.array_equal(vectors[0], asked.vector)


@pytest.mark.slow
def test_by_tokens_too_forgetting_brings_up_what_is_newer():
    lives, _ = forgetting_dataset()
    found = {}
    with FilledStores(lives, embedder=minilm.MiniLMEmbedder()) as stores:
        for weight in (0, WITH.decay_weight):
            settings = RetrievalSettings(decay_weight=weight)
            scores = measure(stores, settings, tokens=None, progress=lambda done, total: None)
            found[weight] = by_category(scores)[CHANGED].means["any@1"]
    assert found[WITH.decay_weight] >= found[0] + 0.05


def test_forms_of_a_word_are_one_word_and_no_neighbours_of_each_other(make_candidates):
    texts = ["haus am see mit garten und boot", "häuser haus garten boot wald berg strand see"]
    candidates = make_candidates([[(0, each, 0)] for each in texts], ("haus", "häuser", "see"))
    statistics = replace(candidates.statistics, words={"häuser": "haus"})
    read = {place: PassageTokens(b"", f"Ana: {each}") for place, each in enumerate(texts, 1)}
    memories = [np.arange(1), np.arange(1, 2)]
    assert _neighbours_near(replace(candidates, statistics=statistics), memories, read).tolist() == [1, 0]


def test_forms_of_a_word_stay_one_word_beside_what_is_queued():
    stored = TermStatistics(3, 5.0, {"haus": 1, "häuser": 2}, {"häuser": "haus"})
    joined = joined_statistics(stored, ["haus", "häuser"], [{"haus": 1, "boot": 4}])
    assert (joined.frequencies, joined.words) == ({"haus": 2, "häuser": 2}, stored.words)


def test_what_an_undone_change_within_a_transaction_forgot_stays_where_it_is_searched():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        tea = memory.remember_fact(scope="c", fact="Tea")
        memory.retrieve("tea", scope="c")
        look = inside(memory)
        before = kept_passages(look)
        with look.store.transaction("c"):
            with contextlib.suppress(KeyError), look.store.transaction("c"):
                memory.forget(tea.id, scope="c")
                raise KeyError
            memory.remember_fact(scope="c", fact="Coffee")
        assert before
        assert before <= kept_passages(look)
