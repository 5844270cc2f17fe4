"""Why a memory is returned, and which stage drops one that is not."""

import json
from datetime import timedelta

import pytest

from memory_retrievers import AgentMemory, Message, NotFoundError, RetrievalSettings, SemanticMemory, ValidationError
from memory_retrievers.retrieval.trace import ScoreTrace
from memory_retrievers.testing import HashEmbedder

REFERENCE = RetrievalSettings.reference()


@pytest.fixture
def open_memory(clock):
    """Opens memories in memory, with settings."""
    opened = []

    def open_memory(settings=None, **parts):
        memory = AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, retrieval=settings, **parts)
        opened.append(memory)
        return memory

    yield open_memory
    for memory in opened:
        memory.close()


def fill(memory):
    for number, content in enumerate(["basil and mint", "a boat that leaks", "a boat of basil", "nothing at all"]):
        memory.remember_fact(scope="c1", fact=f"User mentioned {content}", id=f"f{number}")
        memory.remember_episode(
            scope="c1", summary=f"They spoke of {content}.", id=f"e{number}",
            messages=[Message(role="Ann", content=f"I like {content}"), Message(role="Bob", content="Tell me more")],
        )  # fmt: skip


class TestExplain:
    @pytest.mark.parametrize("settings", [RetrievalSettings(), REFERENCE], ids=["default", "reference"])
    def test_tells_of_exactly_what_is_returned(self, open_memory, settings):
        memory = open_memory(settings)
        fill(memory)
        for asked in ({}, {"limit": 3}, {"episodic_limit": 2, "semantic_limit": 1}, {"category": "guideline"}):
            result = memory.retrieve("a boat of basil", scope="c1", record=False, **asked)
            explained = memory.explain("a boat of basil", scope="c1", **asked)
            for hits, told in ((result.semantic, explained.semantic), (result.episodic, explained.episodic)):
                assert [(hit.memory.id, hit.rank, hit.score) for hit in hits] == [
                    (each.id, each.rank, each.score) for each in told
                ]
                for hit, each in zip(hits, told, strict=True):
                    why = hit.explanation
                    assert (each.dense_rank, each.bm25_rank) == (why.dense_rank, why.bm25_rank)
                    assert (each.fused_score, each.retrievability) == (why.fused_score, why.retrievability)
                    assert not why.stages or {stage.name: stage.score for stage in each.stages} == why.stages

    @pytest.mark.parametrize("settings", [RetrievalSettings(), REFERENCE], ids=["default", "reference"])
    def test_a_hit_is_explained_when_it_is_asked_for_as_it_was_when_it_was_found(self, open_memory, settings):
        memory = open_memory(settings)
        fill(memory)

        def hits():
            result = memory.retrieve("a boat of basil", scope="c1", record=False)
            return (*result.semantic, *result.episodic)

        late, early = hits(), [(hit.explanation, hit.matches) for hit in hits()]
        for number in range(4):
            memory.forget(f"e{number}", scope="c1")
            memory.update(f"f{number}", scope="c1", fact=f"User sold the boat {number}")
        memory.remember_episode(scope="c1", summary="A boat of basil, and a boat.", id="new")
        memory.retrieve("a boat of basil", scope="c1", record=False)
        assert [(hit.explanation, hit.matches) for hit in late] == early

    def test_a_retrieval_and_its_markdown_explain_nothing(self, open_memory, monkeypatch):
        explained = []
        monkeypatch.setattr(ScoreTrace, "explanation", lambda _, ranked: explained.append(ranked.row))
        memory = open_memory()
        fill(memory)
        result = memory.retrieve("a boat of basil", scope="c1")
        assert result.to_markdown(max_tokens=50)
        assert (len(result.episodic), explained) == (4, [])
        assert result.episodic[0].explanation is None
        assert len(explained) == 1

    def test_an_explanation_embeds_the_query_once(self, open_memory, monkeypatch):
        asked = []
        embed = HashEmbedder.embed_query
        monkeypatch.setattr(HashEmbedder, "embed_query", lambda self, text: asked.append(text) or embed(self, text))
        memory = open_memory()
        fill(memory)
        memory.explain("hyacinths", scope="c1")
        assert asked.count("hyacinths") == 1
        memory.explain_missing("e3", query="tulips", scope="c1", episodic_limit=1)
        assert asked.count("tulips") == 1

    def test_the_stages_add_up_to_the_score_before_forgetting(self, open_memory):
        memory = open_memory(REFERENCE)
        fill(memory)
        for each in memory.explain("a boat of basil", scope="c1").episodic:
            assert sum(stage.score for stage in each.stages) == pytest.approx(each.fused_score)
            assert each.score_before_forgetting == pytest.approx(each.fused_score / (2 / 61))
            assert each.score == pytest.approx(each.score_before_forgetting * each.retrievability)

    def test_tells_the_words_the_cosine_and_the_rank_before_forgetting(self, open_memory, clock):
        memory = open_memory(RetrievalSettings(decay_weight=1))
        text = "They planted basil."
        memory.remember_episode(scope="c1", summary=text, id="old", created_at=clock.now() - timedelta(days=400))
        memory.remember_episode(scope="c1", summary="They planted some basil.", id="new")
        new, old = memory.explain(text, scope="c1").episodic
        assert (new.id, new.rank, new.rank_before_forgetting) == ("new", 1, 2)
        assert (old.id, old.rank, old.rank_before_forgetting) == ("old", 2, 1)
        assert old.cosine == pytest.approx(1.0, abs=1e-5)
        assert old.words == ("plant", "basil")
        assert old.retrievability < new.retrievability == 1

    def test_records_no_review_and_changes_nothing(self, open_memory, clock):
        memory = open_memory()
        fill(memory)
        before = memory.get("e0", scope="c1")
        clock.advance(days=3)
        memory.explain("basil", scope="c1")
        memory.explain_missing("e0", query="basil", scope="c1")
        assert memory.pending_reviews("c1") == []
        assert memory.get("e0", scope="c1") == before

    def test_becomes_json_and_text(self, open_memory):
        memory = open_memory()
        fill(memory)
        explained = memory.explain("basil", scope="c1", episodic_limit=1, semantic_limit=1)
        raw = json.loads(json.dumps(explained.to_dict()))
        (episode,) = raw["episodic"]
        assert (raw["query"], raw["scope"], raw["now"]) == ("basil", "c1", "2026-03-01T09:00:00Z")
        assert {stage["name"] for stage in episode["stages"]} > {"dense", "bm25", "neighbour"}
        assert episode["words"] == ["basil"]
        text = explained.to_text()
        assert text.startswith("Embedded: basil\n\nUser mentioned basil")
        assert f"  final score: {episode['score']:.4f}, rank 1" in text

    def test_says_that_nothing_is_returned(self, open_memory):
        explained = open_memory().explain("basil", scope="c1")
        assert (explained.semantic, explained.episodic) == ((), ())
        assert explained.to_text() == (
            "Embedded: basil\n\nNothing is returned from the scope c1. scopes() and waiting_scopes() list others."
        )

    def test_takes_what_retrieve_takes_and_refuses_what_it_refuses(self, open_memory):
        memory = open_memory()
        for asked in ({"query": " "}, {"query": "x", "limit": -1}, {"query": "x", "category": "weather"}):
            with pytest.raises(ValidationError) as of_retrieve:
                memory.retrieve(scope="c1", **asked)
            with pytest.raises(ValidationError) as of_explain:
                memory.explain(scope="c1", **asked)
            with pytest.raises(ValidationError) as of_missing:
                memory.explain_missing("e0", scope="c1", **asked)
            assert str(of_retrieve.value) == str(of_explain.value) == str(of_missing.value)


class TestExplainMissing:
    @pytest.fixture
    def memory(self, open_memory):
        memory = open_memory()
        fill(memory)
        return memory

    def outcome(self, memory, id, query="a boat of basil", **asked):
        explained = memory.explain_missing(id, query=query, scope="c1", **asked)
        assert (explained.id, explained.scope, explained.query) == (id, "c1", query)
        assert explained.reason in explained.to_text()
        assert json.loads(json.dumps(explained.to_dict()))["outcome"] == explained.outcome
        result = memory.retrieve(query, scope="c1", record=False, **asked)
        found = {hit.memory.id for hit in (*result.semantic, *result.episodic)}
        assert (explained.outcome == "returned") is (id in found)
        return explained

    def test_an_id_of_another_scope_is_as_unknown_as_any(self, memory):
        memory.remember_fact(scope="c2", fact="User owns a boat", id="theirs")
        with pytest.raises(NotFoundError) as foreign:
            memory.explain_missing("theirs", query="boat", scope="c1")
        with pytest.raises(NotFoundError) as unknown:
            memory.explain_missing("nobody", query="boat", scope="c1")
        assert str(foreign.value).replace("theirs", "nobody") == str(unknown.value) == "Memory not found: nobody"

    def test_a_memory_that_is_returned_comes_with_its_stages(self, memory):
        explained = self.outcome(memory, "e2")
        assert explained.reason == "It is returned, at rank 1 of its kind."
        assert explained.memory == memory.explain("a boat of basil", scope="c1").episodic[0]

    def test_expired(self, memory, clock):
        memory.remember_fact(scope="c1", fact="A boat", id="gone", expires_at=clock.now() + timedelta(hours=1))
        clock.advance(hours=1)
        explained = self.outcome(memory, "gone")
        assert explained.outcome == "expired"
        assert explained.reason == "It expired at 2026-03-01T10:00:00Z."
        assert explained.memory is None

    def test_invalidated(self, memory):
        memory.invalidate("f2", scope="c1")
        explained = self.outcome(memory, "f2")
        assert explained.outcome == "invalidated"
        assert explained.reason == "It held until 2026-03-01T09:00:00Z."

    def test_not_valid_at_that_moment(self, memory, clock):
        then = clock.now() - timedelta(days=1)
        for id in ("f2", "e2"):
            assert self.outcome(memory, id, as_of=then).outcome == "not_valid_then"
            assert self.outcome(memory, id, as_of=clock.now()).outcome == "returned"

    def test_of_another_category(self, memory):
        explained = self.outcome(memory, "f2", category="guideline")
        assert explained.outcome == "other_category"
        assert explained.reason == "It is of category note; only guideline was asked for."
        assert self.outcome(memory, "e2", category="guideline").outcome == "returned"

    def test_of_a_kind_that_was_not_asked_for(self, memory):
        assert self.outcome(memory, "e2", episodic_limit=0).outcome == "not_asked_for"
        assert self.outcome(memory, "f2", semantic_limit=0).outcome == "not_asked_for"
        assert self.outcome(memory, "f2", limit=0).outcome == "not_asked_for"

    def test_stored_as_a_value_that_is_not_indexed(self, memory):
        value = SemanticMemory.new(scope="c1", fact='{"a": 1}', id="value", origin="store", content_type="json")
        memory.remember_many([value])
        assert self.outcome(memory, "value").outcome == "not_indexed"

    @pytest.mark.parametrize("settings", [RetrievalSettings(candidate_depth=1, exact_limit=2), REFERENCE])
    def test_not_among_the_candidates_with_its_cosine_and_words(self, open_memory, settings):
        memory = open_memory(settings.model_copy(update={"candidate_depth": 1}))
        fill(memory)
        explained = self.outcome(memory, "f0")
        assert explained.outcome == "not_a_candidate"
        assert explained.words == ("basil",)
        assert 0 < explained.cosine < 1
        assert f"its cosine is {explained.cosine:.3f}, and it shares basil." in explained.reason
        assert self.outcome(memory, "f2").outcome == "returned"

    def test_ranked_too_low(self, memory):
        explained = self.outcome(memory, "e3", episodic_limit=2)
        assert explained.outcome == "ranked_too_low"
        assert explained.memory.rank_before_forgetting > 2
        assert explained.reason.startswith(f"It has rank {explained.memory.rank} of 4, with a score of ")

    def test_pushed_out_by_forgetting(self, open_memory, clock):
        memory = open_memory(RetrievalSettings(decay_weight=1))
        old = clock.now() - timedelta(days=400)
        memory.remember_episode(scope="c1", summary="They planted basil.", id="old", created_at=old)
        memory.remember_episode(scope="c1", summary="They planted some basil.", id="new")
        explained = self.outcome(memory, "old", query="They planted basil.", episodic_limit=1)
        assert explained.outcome == "forgotten"
        assert (explained.memory.rank_before_forgetting, explained.memory.rank) == (1, 2)
        assert "lowers it from rank 1 to rank 2 of 2" in explained.reason

    def test_cut_by_the_joint_limit(self, memory):
        everything = memory.explain("a boat of basil", scope="c1")
        last = min((*everything.semantic, *everything.episodic), key=lambda each: each.score)
        explained = self.outcome(memory, last.id, limit=7)
        assert explained.outcome == "joint_limit"
        assert "the best 7 of both kinds together were asked for." in explained.reason
        assert explained.memory == last

    def test_a_memory_of_a_scope_below_is_found_where_those_are_searched(self, memory):
        memory.remember_fact(scope="c1/work", fact="A boat of basil", id="below")
        with pytest.raises(NotFoundError):
            memory.explain_missing("below", query="boat", scope="c1")
        explained = memory.explain_missing("below", query="boat", scope="c1", include_child_scopes=True)
        assert (explained.scope, explained.outcome) == ("c1/work", "returned")

    def test_of_namesakes_that_of_the_scope_itself_is_meant(self, memory):
        memory.remember_fact(scope="c1/work", fact="A boat", id="f2")
        explained = memory.explain_missing("f2", query="boat", scope="c1", include_child_scopes=True)
        assert (explained.scope, explained.memory.text) == ("c1", "User mentioned a boat of basil")


def test_what_is_not_relevant_enough_is_explained_as_that():
    facts = ("Alice drinks green tea every morning", "The boiler is in the cellar")
    with AgentMemory.in_memory() as memory:
        tea, boiler = (memory.remember_fact(scope="s", fact=fact).id for fact in facts)
        for question, least, found in (("What does Alice drink every morning?", 0.5, [tea]), ("Hello!", "auto", [])):
            asked = {"scope": "s", "min_relevance": least}
            assert [hit.memory.id for hit in memory.retrieve(question, **asked).semantic] == found
            assert [each.id for each in memory.explain(question, **asked).semantic] == found
            missing = memory.explain_missing(boiler, query=question, **asked)
            assert missing.outcome == "not_relevant"
            assert missing.reason.startswith("It is found, but its relevance of 0.")
        question = "What does Alice drink every morning?"
        assert memory.explain_missing(tea, query=question, scope="s", min_relevance=0.5).outcome == "returned"
