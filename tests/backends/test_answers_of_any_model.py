"""Whoever made the language model: each part that asks one takes an answer that fits, or nothing of it."""

import ast
import traceback
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import BaseModel, Field

import memory_retrievers
from memory_retrievers import AgentMemory, Message
from memory_retrievers.backends.language_models import adapt
from memory_retrievers.errors import ConfigurationError, LanguageModelError
from memory_retrievers.ingestion.consolidation import FactConsolidator
from memory_retrievers.ingestion.facts import ConsolidationAnswer, FactAnswer
from memory_retrievers.ingestion.pipeline import IngestionPipeline
from memory_retrievers.ingestion.reviews import (
    LanguageModelJudge,
    RatingAnswer,
    ReviewAnswer,
    apply,
    due_reviews,
)
from memory_retrievers.ingestion.segmenters import LanguageModelSegmenter, SegmentAnswer, SegmentationAnswer
from memory_retrievers.models import MemoryKey
from memory_retrievers.models.results import PendingReview
from memory_retrievers.models.storage import ReviewJob
from memory_retrievers.scene.extraction import SceneAnswer, SceneEventAnswer, extract_events
from memory_retrievers.settings import IngestionSettings, ReviewSettings
from memory_retrievers.testing import FixedClock, HashEmbedder, inside

MESSAGES = [Message(role="user", content="I trust you, Bob."), Message(role="assistant", content="You should not.")]
HUGE = "SECRET " * 700_000
"""Five megabytes of prose."""


class Other(BaseModel):
    """An answer to another question."""

    minutes: int = 2


class Minded(BaseModel):
    """What a model checks by itself."""

    minutes: int = Field(ge=1)


class Saying:
    """A model of a user's own that nobody has adapted: it says one thing, whatever that is."""

    def __init__(self, said):
        self.said = said

    def generate(self, system, user, schema):
        if isinstance(self.said, Exception):
            raise self.said
        return Minded(minutes=self.said) if isinstance(self.said, int) else self.said


@pytest.fixture
def memory():
    clock = FixedClock(datetime(2026, 3, 1, 9, tzinfo=UTC))
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        memory.remember_episode(scope="c1", id="e1", summary="User lives in Lyon.")
        clock.advance(days=3)
        yield memory


def divide(memory, model):
    parts = replace(memory._engine._parts, segmenter=LanguageModelSegmenter(model))
    pipeline = IngestionPipeline(inside(memory).store, memory._engine.retriever, parts)
    pipeline.push("c1", MESSAGES)
    pipeline.flush("c1")


def learn(memory, model):
    settings = IngestionSettings(consolidate_from=1)
    FactConsolidator(inside(memory).store, memory._engine.retriever, model, settings).consolidate("c1")


def judge(memory, model):
    at = inside(memory).store.now()
    review = PendingReview(scope="c1", query="home", memories=(MemoryKey(scope="c1", id="e1"),), created_at=at)
    changes = due_reviews(
        inside(memory).store, ReviewJob(scope="c1", reviewed_at=at, conversation=MESSAGES, reviews=(review,)),
        judge=LanguageModelJudge(model),
        settings=ReviewSettings(),
    )  # fmt: skip
    with inside(memory).ledger.database.write():
        apply(inside(memory).store, changes, reviewed_at=at, min_days=1)


def tell(memory, model):
    memory.add_scene_events("c1", extract_events(model, MESSAGES, first_message_id=5))


PARTS = {"segmenter": divide, "consolidator": learn, "judge": judge, "extraction": tell}
FITS = {
    "segmenter": SegmentationAnswer(segments=(SegmentAnswer(num_messages=2, title="Trust"),)),
    "consolidator": ConsolidationAnswer(facts=(FactAnswer(action="new", fact="User trusts Bob."),)),
    "judge": ReviewAnswer(ratings=(RatingAnswer(memory_id="M1", rating="easy"),)),
    "extraction": SceneAnswer(events=(SceneEventAnswer(summary="User trusted Bob."),)),
}
UNCHECKED = {
    "segmenter": (
        SegmentationAnswer.model_construct(segments=[SegmentAnswer.model_construct(num_messages="SECRET")]),
        SegmentationAnswer.model_construct(segments=7),
        {"segments": [SegmentAnswer.model_construct(num_messages="SECRET", title=5, surprise_level="SECRET")]},
    ),
    "consolidator": (
        ConsolidationAnswer.model_construct(facts=[]).model_copy(update={"facts": "SECRET"}),
        ConsolidationAnswer.model_construct(),
        {"facts": [FactAnswer.model_construct(action="SECRET", fact=5, category=5)]},
    ),
    "judge": (
        ReviewAnswer.model_construct(ratings={"M1": "SECRET"}),
        ReviewAnswer.model_construct(),
        ReviewAnswer.model_construct(ratings=7),
    ),
    "extraction": (SceneAnswer.model_construct(),),
}
UNUSABLE = [None, HUGE, "", "SECRET", Other(), object(), ["SECRET"], {3: object()}, {"SECRET": HUGE}, Other]
CASES = [(part, said) for part in PARTS for said in (*UNCHECKED[part], *UNUSABLE)]


def stored(memory):
    """All that is kept, but the messages that wait."""
    return memory.list("c1", limit=1000).memories, memory.characters("c1")


def outcome(memory, part, model):
    try:
        PARTS[part](memory, model)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is looked at
        return error
    return None


@pytest.mark.parametrize("part", PARTS)
def test_an_answer_that_fits_is_taken_from_a_model_that_nobody_adapted(memory, part):
    before = stored(memory)
    PARTS[part](memory, Saying(FITS[part]))
    assert stored(memory) != before


@pytest.mark.parametrize(("part", "said"), CASES, ids=lambda each: str(each)[:20] if isinstance(each, str) else None)
def test_an_answer_that_does_not_fit_is_the_same_error_as_of_an_adapted_model_and_nothing_is_stored(memory, part, said):
    before = stored(memory)
    error = outcome(memory, part, Saying(said))
    assert type(error) is type(outcome(memory, part, adapt(Saying(said))))
    if part != "extraction" or said is None:  # an answer that cannot be used is no event
        assert type(error) is LanguageModelError
        assert "the language model Saying gave no usable" in str(error)
        assert "SECRET" not in "".join(traceback.format_exception(error))
    assert stored(memory) == before


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    ("said", "told"), [(ConnectionError("no\nroute"), "ConnectionError: no route"), (0, "gave no usable .*: minutes: ")]
)
def test_a_model_that_fails_is_the_packages_error(memory, part, said, told):
    before = stored(memory)
    with pytest.raises(LanguageModelError, match=told):
        PARTS[part](memory, Saying(said))
    assert stored(memory) == before


@pytest.mark.parametrize("part", PARTS)
def test_what_has_no_generate_is_told_to_be_no_model(memory, part):
    with pytest.raises(ConfigurationError, match="object is not a language model"):
        PARTS[part](memory, object())


@pytest.mark.parametrize("part", PARTS)
def test_what_was_said_is_kept_where_a_caller_may_look(memory, part):
    if part == "extraction":
        assert extract_events(Saying(HUGE), MESSAGES, first_message_id=5) == []
    else:
        assert outcome(memory, part, Saying(HUGE)).raw == HUGE


def test_an_answer_without_end_is_cut_before_it_reaches_the_store(memory):
    endless = SegmentAnswer(num_messages=2, title="Tea " * 500_000, summary="User likes tea. " * 100_000)
    divide(memory, adapt(Saying(SegmentationAnswer(segments=(endless,)))))
    kept = next(each for each in memory.list("c1").memories if each.id != "e1")
    assert (len(kept.title), len(kept.summary)) == (300, 1_000)
    assert kept.title.endswith("…")
    assert kept.summary.endswith("…")


def test_of_facts_without_number_so_many_are_learned(memory):
    facts = [{"action": "new", "fact": f"User owns the key {number} of a house"} for number in range(1_000)]
    learn(memory, adapt(Saying({"facts": facts})))
    learned = memory.list("c1", kind="semantic", limit=1000).memories
    assert 0 < len(learned) <= 200
    assert inside(memory).ledger.unconsolidated("c1", limit=1) == []


def test_no_part_asks_a_language_model_past_the_check():
    root = Path(memory_retrievers.__file__).parent
    asked = {
        (path.relative_to(root).as_posix(), ast.unparse(node.value).partition("(")[0])
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr == "generate"
    }
    checked = "backends/language_models/structured.py"  # which says what the check is
    assert len(asked) == 4 + sum(path == checked for path, _ in asked)
    assert {model for path, model in asked if path != checked} == {"adapt"}
