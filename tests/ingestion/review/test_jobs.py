"""From pending reviews to new forgetting states."""

import threading
from datetime import timedelta

import pytest

from memory_retrievers import Message
from memory_retrievers.errors import LanguageModelError, NotFoundError, ValidationError
from memory_retrievers.ingestion.reviews import (
    BATCH,
    LanguageModelJudge,
    OfflineJudge,
    apply,
    by_memory,
    due_reviews,
    review_one,
)
from memory_retrievers.models import EpisodicMemory, MemoryKey, Rating
from memory_retrievers.models.results import PendingReview
from memory_retrievers.models.storage import ReviewJob
from memory_retrievers.settings import ReviewSettings
from memory_retrievers.testing import ScriptedLanguageModel, inside

TALK = (Message(role="user", content="Where do I live?"), Message(role="assistant", content="In Lyon."))
SURPRISING = {
    "again": (0.777986, 7.394503),
    "hard": (10.620237, 4.752858),
    "good": (15.442550, 2.111214),
    "easy": (26.003003, 1.0),
}
"""Specification §2.4: the state of a fresh memory of surprise 0.9, reviewed after three days."""


def near(value):
    return pytest.approx(value, rel=1e-5)


def pending(*ids, query="home", scope="c1", at):
    keys = tuple(MemoryKey(scope=scope, id=id) for id in ids)
    return PendingReview(scope=scope, query=query, memories=keys, created_at=at)


def state(memory, id, *, scope="c1"):
    found = memory.get(id, scope=scope)
    return found.stability, found.difficulty, found.last_reviewed_at


def ratings(*pairs):
    return {"ratings": [{"memory_id": id, "rating": rating} for id, rating in pairs]}


@pytest.fixture
def keyword():
    return "sqlite_bm25"


@pytest.fixture
def dense():
    return "exact"


@pytest.fixture
def remember(memory):
    def remember(id, *, summary="User lives in Lyon.", surprise=0.9, scope="c1", **fields):
        return memory.remember_episode(scope=scope, id=id, summary=summary, surprise=surprise, **fields)

    return remember


@pytest.fixture
def run(memory, clock):
    """Runs the job from end to end, at the present moment."""

    def run(*reviews, answer=None, judge=None, settings=None, at=None):
        model = ScriptedLanguageModel([] if answer is None else [answer])
        changes = due_reviews(
            inside(memory).store,
            ReviewJob(scope="c1", reviewed_at=at or clock.now(), conversation=TALK, reviews=reviews),
            judge=judge or LanguageModelJudge(model),
            settings=settings or ReviewSettings(),
        )
        with inside(memory).ledger.database.write():
            return written(memory, changes, at or clock.now(), settings or ReviewSettings()), model

    return run


class TestTheJob:
    @pytest.mark.parametrize("rating", Rating)
    def test_a_rating_changes_stability_and_difficulty_by_fsrs(self, memory, clock, remember, run, rating):
        remember("e1")
        clock.advance(days=3, hours=5)  # whole days count
        applied, _ = run(pending("e1", at=clock.now()), answer=ratings(("M1", rating)))
        assert applied == ((MemoryKey(scope="c1", id="e1"), rating),)
        stability, difficulty, reviewed_at = state(memory, "e1")
        assert (stability, difficulty) == (near(SURPRISING[rating][0]), near(SURPRISING[rating][1]))
        assert reviewed_at == clock.now()

    def test_good_every_three_days_makes_a_memory_last(self, memory, clock, remember, run):
        remember("e1", surprise=0.2)
        seen = []
        for _ in range(4):
            clock.advance(days=3)
            run(pending("e1", at=clock.now()), answer=ratings(("M1", "good")))
            seen.append(state(memory, "e1")[0])
        assert seen == [near(14.228952), near(26.377948), near(37.835478), near(48.808969)]

    def test_nothing_but_the_forgetting_state_changes(self, memory, clock, remember, run):
        before = remember("e1", title="Home", messages=TALK)
        clock.advance(days=3)
        run(pending("e1", at=clock.now()), answer=ratings(("M1", "good")))
        changed = {"stability", "difficulty", "last_reviewed_at"}
        assert memory.get("e1", scope="c1").model_dump(exclude=changed) == before.model_dump(exclude=changed)

    def test_without_pending_reviews_no_model_is_asked(self, run):
        applied, model = run()
        assert applied == ()
        assert model.prompts == []

    @pytest.mark.parametrize("hours", [0, 1, 23.99])
    def test_a_review_on_the_day_of_the_last_one_is_dropped_and_no_model_is_asked(
        self, memory, clock, remember, run, hours
    ):
        remember("e1")
        before = state(memory, "e1")
        clock.advance(hours=hours)
        applied, model = run(pending("e1", at=clock.now()))
        assert (applied, model.prompts, state(memory, "e1")) == ((), [], before)

    def test_a_day_later_it_counts(self, memory, clock, remember, run):
        remember("e1")
        clock.advance(hours=24)
        applied, _ = run(pending("e1", at=clock.now()), answer=ratings(("M1", "good")))
        assert [rating for _, rating in applied] == [Rating.GOOD]
        assert state(memory, "e1")[0] == near(8.307567)

    def test_how_many_days_it_takes_is_a_setting(self, memory, clock, remember, run):
        remember("e1")
        clock.advance(days=2)
        assert run(pending("e1", at=clock.now()), settings=ReviewSettings(min_days=3))[0] == ()
        clock.advance(hours=1)
        applied, _ = run(
            pending("e1", at=clock.now()), answer=ratings(("M1", "good")), settings=ReviewSettings(min_days=0)
        )
        assert len(applied) == 1

    def test_a_stale_review_is_dropped(self, memory, clock, remember, run):
        remember("e1")
        at = clock.now() + timedelta(days=2)
        clock.advance(days=5)
        run(pending("e1", at=at), answer=ratings(("M1", "good")))
        before = state(memory, "e1")
        for moment in (at, clock.now()):  # before the last review, and at the very moment of it
            applied, model = run(pending("e1", at=at), at=moment, settings=ReviewSettings(min_days=0))
            assert (applied, model.prompts, state(memory, "e1")) == ((), [], before)

    def test_a_memory_that_is_gone_is_dropped(self, memory, clock, remember, run):
        remember("e1")
        memory.forget("e1", scope="c1")
        clock.advance(days=3)
        applied, model = run(pending("e1", "never-there", at=clock.now()))
        assert (applied, model.prompts) == ((), [])

    def test_an_expired_memory_is_not_shown_to_the_model(self, memory, clock, remember, run):
        remember("e1", expires_at=clock.now() + timedelta(days=1))
        clock.advance(days=3)
        assert run(pending("e1", at=clock.now()))[1].prompts == []

    def test_a_fact_is_no_episode(self, memory, clock, run):
        fact = memory.remember_fact(scope="c1", fact="User lives in Lyon")
        clock.advance(days=3)
        assert run(pending(fact.id, at=clock.now()))[1].prompts == []

    def test_a_memory_that_never_fades_is_not_reviewed(self, memory, clock, run):
        (stored,) = memory.remember_many([EpisodicMemory.new(scope="c1", summary="The wedding.", is_flashbulb=True)])
        clock.advance(days=3)
        assert run(pending(stored.id, at=clock.now()))[1].prompts == []

    def test_the_same_id_in_another_scope_is_another_memory(self, memory, clock, remember, run):
        remember("e1")
        remember("e1", scope="c2", summary="A secret of somebody else.")
        clock.advance(days=3)
        _, model = run(pending("e1", at=clock.now()), answer=ratings(("M1", "good")))
        assert state(memory, "e1", scope="c2")[0] == near(3.344425)
        assert "secret" not in "".join(model.prompts[0])

    def test_queries_are_gathered_by_memory_in_order_with_repeats(self, clock):
        at = clock.now()
        gathered = by_memory(
            [pending("a", "b", query="1", at=at), pending("b", query="2", at=at), pending("b", query="1", at=at)]
        )
        assert {key.id: queries for key, queries in gathered.items()} == {"a": ("1",), "b": ("1", "2", "1")}

    def test_the_model_sees_every_memory_once_with_all_its_searches(self, clock, remember, run):
        remember("e1")
        remember("e2", summary="User likes tea.")
        clock.advance(days=3)
        at = clock.now()
        _, model = run(pending("e1", "e2", query="home", at=at), pending("e1", query="city", at=at), answer=ratings())
        ((_, prompt),) = model.prompts
        assert 'memory_id: M1\nSummary: User lives in Lyon.\nFound by: "home", "city"' in prompt
        assert 'memory_id: M2\nSummary: User likes tea.\nFound by: "home"' in prompt
        assert "e1" not in prompt

    def test_an_unknown_rating_counts_as_good(self, memory, clock, remember, run):
        remember("e1")
        clock.advance(days=3)
        run(pending("e1", at=clock.now()), answer=ratings(("M1", "splendid")))
        assert state(memory, "e1")[0] == near(SURPRISING["good"][0])

    def test_a_second_rating_for_a_memory_is_ignored(self, memory, clock, remember, run):
        remember("e1")
        clock.advance(days=3)
        applied, _ = run(pending("e1", at=clock.now()), answer=ratings(("M1", "hard"), ("m1", "easy")))
        assert [rating for _, rating in applied] == [Rating.HARD]
        assert state(memory, "e1")[0] == near(SURPRISING["hard"][0])

    def test_ids_that_were_not_presented_are_ignored_even_if_they_exist(self, memory, clock, remember, run):
        remember("e1")
        remember("other")
        clock.advance(days=3)
        applied, _ = run(
            pending("e1", at=clock.now()), answer=ratings(("other", "again"), ("M2", "again"), ("e1", "again"))
        )
        assert applied == ()
        assert state(memory, "other")[0] == near(3.344425)

    def test_a_memory_without_a_rating_is_unchanged(self, memory, clock, remember, run):
        remember("e1")
        remember("e2")
        before = state(memory, "e2")
        clock.advance(days=3)
        applied, _ = run(pending("e1", "e2", at=clock.now()), answer=ratings(("M1", "good")))
        assert [key.id for key, _ in applied] == ["e1"]
        assert state(memory, "e2") == before

    def test_a_model_that_fails_leaves_everything_unharmed(self, memory, clock, remember, run):
        remember("e1")
        before = state(memory, "e1")
        clock.advance(days=3)
        with pytest.raises(LanguageModelError):
            run(pending("e1", at=clock.now()), answer=LanguageModelError("down"))
        assert state(memory, "e1") == before

    def test_many_memories_are_judged_in_several_calls(self, memory, clock, remember):
        ids = [remember(f"e{n}", summary=f"Summary number {n}").id for n in range(BATCH + 1)]
        clock.advance(days=3)
        model = ScriptedLanguageModel([ratings(("M1", "good")), ratings((f"M{BATCH + 1}", "good"))])
        changes = due_reviews(
            inside(memory).store,
            ReviewJob(scope="c1", reviewed_at=clock.now(), conversation=TALK, reviews=(pending(*ids, at=clock.now()),)),
            judge=LanguageModelJudge(model), settings=ReviewSettings(),
        )  # fmt: skip
        assert [key.id for key in changes] == ["e0", f"e{BATCH}"]

    def test_it_works_without_a_language_model(self, memory, clock, remember, run):
        remember("e1")
        clock.advance(days=3)
        applied, _ = run(pending("e1", query="where do I live", at=clock.now()), judge=OfflineJudge())
        assert [key.id for key, _ in applied] == ["e1"]


class TestWriting:
    def test_asking_the_judge_writes_nothing(self, memory, clock, remember):
        remember("e1")
        before = state(memory, "e1")
        clock.advance(days=3)
        prepared(memory, clock)
        assert state(memory, "e1") == before

    def test_what_was_reviewed_meanwhile_is_left_alone(self, memory, clock, remember):
        remember("e1")
        clock.advance(days=3)
        changes = prepared(memory, clock)
        review_one(inside(memory).store, "e1", scope="c1", rating="again", now=clock.now())
        before = state(memory, "e1")
        assert written(memory, changes, clock.now()) == ()
        assert state(memory, "e1") == before

    def test_what_is_gone_meanwhile_stays_gone(self, memory, clock, remember):
        remember("e1")
        clock.advance(days=3)
        changes = prepared(memory, clock)
        memory.forget("e1", scope="c1")
        assert written(memory, changes, clock.now()) == ()

    def test_applied_twice_it_counts_once(self, memory, clock, remember):
        remember("e1")
        clock.advance(days=3)
        changes = prepared(memory, clock)
        assert len(written(memory, changes, clock.now())) == 1
        before = state(memory, "e1")
        assert written(memory, changes, clock.now()) == ()
        assert state(memory, "e1") == before

    def test_it_is_undone_with_the_transaction_around_it(self, memory, clock, remember):
        remember("e1")
        before = state(memory, "e1")
        clock.advance(days=3)
        changes = prepared(memory, clock)

        def killed():
            with inside(memory).ledger.database.write():
                written(memory, changes, clock.now())
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            killed()
        assert state(memory, "e1") == before
        assert len(written(memory, changes, clock.now())) == 1

    def test_a_text_changed_meanwhile_is_kept(self, memory, clock, remember):
        remember("e1")
        clock.advance(days=3)
        changes = prepared(memory, clock)
        memory.update("e1", scope="c1", title="Home")
        written(memory, changes, clock.now())
        assert memory.get("e1", scope="c1").title == "Home"
        assert state(memory, "e1")[0] == near(SURPRISING["good"][0])

    def test_two_threads_review_once(self, memory, clock, remember):
        remember("e1")
        clock.advance(days=3)
        changes = prepared(memory, clock)
        barrier, applied = threading.Barrier(2), []

        def work():
            barrier.wait()
            applied.extend(written(memory, changes, clock.now()))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(applied) == 1
        assert state(memory, "e1")[0] == near(SURPRISING["good"][0])


def written(memory, changes, at, settings=None):
    return apply(inside(memory).store, changes, reviewed_at=at, min_days=(settings or ReviewSettings()).min_days)


def prepared(memory, clock):
    return due_reviews(
        inside(memory).store,
        ReviewJob(scope="c1", reviewed_at=clock.now(), conversation=TALK, reviews=(pending("e1", at=clock.now()),)),
        judge=LanguageModelJudge(ScriptedLanguageModel([ratings(("M1", "good"))])),
        settings=ReviewSettings(),
    )


class TestByHand:
    @pytest.mark.parametrize("rating", ["good", " GOOD ", Rating.GOOD])
    def test_a_review_by_hand_follows_fsrs(self, memory, clock, remember, rating):
        remember("e1")
        clock.advance(days=3)
        after = review_one(inside(memory).store, "e1", scope="c1", rating=rating, now=clock.now())
        assert after == memory.get("e1", scope="c1")
        assert state(memory, "e1") == (near(15.442550), near(2.111214), clock.now())

    def test_it_counts_on_the_same_day_too(self, memory, clock, remember):
        before = remember("e1")
        after = review_one(inside(memory).store, "e1", scope="c1", rating="easy", now=clock.now())
        assert after.stability > before.stability

    def test_a_clock_that_went_back_does_not_take_the_last_review_back(self, memory, clock, remember):
        before = remember("e1")
        clock.advance(days=-1)
        after = review_one(inside(memory).store, "e1", scope="c1", rating="good", now=clock.now())
        assert after.last_reviewed_at == before.last_reviewed_at

    def test_a_memory_that_never_fades_stays_as_it_is(self, memory, clock):
        (stored,) = memory.remember_many([EpisodicMemory.new(scope="c1", summary="The wedding.", is_flashbulb=True)])
        clock.advance(days=3)
        assert review_one(inside(memory).store, stored.id, scope="c1", rating="again", now=clock.now()) == stored
        assert memory.get(stored.id, scope="c1") == stored

    def test_a_fact_cannot_be_reviewed(self, memory, clock):
        fact = memory.remember_fact(scope="c1", fact="User lives in Lyon")
        with pytest.raises(ValidationError, match="only episodes"):
            review_one(inside(memory).store, fact.id, scope="c1", rating="good", now=clock.now())

    @pytest.mark.parametrize("rating", ["splendid", "", None, 3])
    def test_an_unknown_rating_is_refused(self, memory, clock, remember, rating):
        remember("e1")
        before = state(memory, "e1")
        with pytest.raises(ValidationError, match="again, hard, good, easy"):
            review_one(inside(memory).store, "e1", scope="c1", rating=rating, now=clock.now())
        assert state(memory, "e1") == before

    @pytest.mark.parametrize("scope", ["c2", "c1/child"])
    def test_other_scopes_cannot_be_reached(self, memory, clock, remember, scope):
        remember("e1")
        with pytest.raises(NotFoundError):
            review_one(inside(memory).store, "e1", scope=scope, rating="good", now=clock.now())
