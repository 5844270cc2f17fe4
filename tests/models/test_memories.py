"""Records: what they accept, what they refuse, and what they make of it."""

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError
from datetime import UTC, date, datetime, timedelta, timezone

import pydantic
import pytest
from cases import tried_in_one

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import Category, ContentType, EpisodicMemory, Kind, Origin, SemanticMemory, Tier
from memory_retrievers.models.messages import Message, parse_conversation
from memory_retrievers.models.results import Explanation, RetrievedMemory

NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)


def episode_draft(**values):
    return EpisodicMemory.new(**{"scope": "c1", "summary": "The user moved.", **values})


def fact_draft(**values):
    return SemanticMemory.new(**{"scope": "c1", "fact": "User lives in Lyon", **values})


@pytest.mark.parametrize("update", [{"summary": " "}, {"surprise": "much"}, {"metadata": {"x": object()}}, {"no": 1}])
def test_what_a_copy_changes_is_checked(update):
    with pytest.raises(pydantic.ValidationError, match=next(iter(update))):
        episode_draft().model_copy(update=update)


def test_a_copy_mends_what_it_changes_and_leaves_the_original_alone():
    draft = episode_draft(tags=("a",))
    copied = draft.model_copy(update={"tags": ["b", " b "], "surprise": 7})
    assert (copied.tags, copied.surprise, copied.summary) == (("b",), 1.0, draft.summary)
    assert (draft.tags, draft.surprise) == (("a",), 0.0)


def episode(**values):
    times = dict.fromkeys(("created_at", "updated_at", "start_at", "end_at", "last_reviewed_at"), NINE)
    return EpisodicMemory(
        **{"scope": "c1", "id": "e1", "summary": "The user moved.", "stability": 1, "difficulty": 1, **times, **values}
    )


def fact(**values):
    times = dict.fromkeys(("created_at", "updated_at", "valid_at"), NINE)
    return SemanticMemory(**{"scope": "c1", "id": "f1", "fact": "User lives in Lyon", **times, **values})


class TestTimes:
    @tried_in_one(
        "given, expected",
        [
            (datetime(2026, 3, 1, 10, tzinfo=timezone(timedelta(hours=1))), NINE),
            ("2026-03-01T09:00:00Z", NINE),
            ("2026-03-01T10:00:00+01:00", NINE),
            ("2026-03-01T09:00:00", NINE),
            ("2026-03-01", NINE.replace(hour=0)),
            (date(2026, 3, 1), NINE.replace(hour=0)),
            (1_772_355_600_000, NINE),
        ],
    )
    def test_every_way_of_giving_a_moment_ends_in_utc(self, given, expected):
        timestamp = Message(role="user", content="Hello", timestamp=given).timestamp
        assert (timestamp, timestamp.tzinfo) == (expected, UTC)

    def test_a_datetime_without_a_zone_is_refused_since_it_may_mean_any_of_many_moments(self):
        with pytest.raises(ValidationError, match="has no time zone: give datetime"):
            Message(role="user", content="Hello", timestamp=datetime(2026, 3, 1, 9))  # noqa: DTZ001 - the case under test

    @pytest.mark.parametrize("given", ["yesterday", "9999-12-31T23:59:59-05:00", "0001-01-01T00:00:00+05:00", "", []])
    def test_what_is_no_moment_is_refused(self, given):
        with pytest.raises(ValidationError):
            Message(role="user", content="Hello", timestamp=given)


class TestArguments:
    def test_a_wrong_name_is_answered_with_the_names_there_are(self):
        with pytest.raises(ValidationError) as caught:
            Message(role="user", text="Hello")
        assert str(caught.value) == (
            "content: Field required; text: Extra inputs are not permitted; Message takes role, content, timestamp"
        )

    def test_arguments_without_a_name_are_answered_with_the_names_there_are(self):
        with pytest.raises(TypeError, match=r"^Message takes arguments by name: role, content, timestamp$"):
            Message("user", "Hello")
        assert str(inspect.signature(Message)).startswith("(*, role: ")


class TestTexts:
    @pytest.mark.parametrize("blank", ["", " ", "\n\t", "\u3000"])
    def test_what_is_blank_is_refused(self, blank):
        for make in (
            lambda: Message(role="user", content=blank),
            lambda: Message(role=blank, content="Hello"),
            lambda: episode_draft(summary=blank),
            lambda: fact_draft(fact=blank),
            lambda: fact_draft(id=blank),
        ):
            with pytest.raises(ValidationError):
                make()

    def test_a_title_may_be_blank(self):
        assert episode_draft(title="").title == ""

    def test_a_million_characters_are_the_most(self):
        assert len(fact_draft(fact="x" * 1_000_000).fact) == 1_000_000
        for make in (
            lambda: Message(role="user", content="x" * 1_000_001),
            lambda: episode_draft(summary="x" * 1_000_001),
            lambda: episode_draft(title="x" * 1_000_001),
            lambda: fact_draft(fact="x" * 1_000_001),
        ):
            with pytest.raises(ValidationError, match="at most 1000000 characters"):
                make()

    def test_a_thousand_characters_are_the_most_for_an_id_and_a_role(self):
        for make in (lambda: fact_draft(id="x" * 1_001), lambda: Message(role="x" * 1_001, content="Hello")):
            with pytest.raises(ValidationError, match="at most 1000 characters"):
                make()

    def test_two_thousand_bytes_are_the_most_for_an_id_and_a_role(self):
        assert fact_draft(id="é" * 1_000).id == "é" * 1_000
        for make in (lambda: fact_draft(id="名" * 667), lambda: Message(role="名" * 667, content="Hello")):
            with pytest.raises(ValidationError, match="at most 2000 bytes"):
                make()
        with pytest.raises(ValidationError, match="conversation must have at most 2000 bytes"):
            parse_conversation("名" * 667)

    def test_lone_surrogates_become_replacement_characters(self):
        broken, mended = "a\ud800b\udc00", "a\ufffdb\ufffd"
        assert fact_draft(fact=broken, keywords=[broken]).search_text == f"{mended} {mended}"
        assert episode_draft(title=broken).title == mended
        message = Message(role=broken, content=broken)
        assert (message.role, message.content) == (mended, mended)
        assert fact_draft(metadata={broken: [broken, "é"]}).metadata == {mended: [mended, "é"]}

    def test_two_surrogates_that_belong_together_become_their_character(self):
        assert fact_draft(fact="\ud83d\ude00").fact == "\N{GRINNING FACE}"

    def test_text_is_kept_as_given_otherwise(self):
        assert Message(role="User", content=" é\n\x00 ").content == " é\n\x00 "

    def test_labels_are_stripped_and_distinct_in_the_order_given(self):
        labels = [" b ", "a", "b", "", " "]
        assert fact_draft(tags=labels).tags == ("b", "a")
        assert fact_draft(keywords=labels).keywords == ("b", "a")
        assert fact_draft(source_episodic_ids=labels).source_episodic_ids == ("b", "a")

    def test_a_string_is_no_list_of_labels(self):
        with pytest.raises(ValidationError):
            fact_draft(tags="work")


class TestNumbers:
    @tried_in_one("given, clamped", [(0.9, 0.9), (-1, 0.0), (7, 1.0), (10**400, 1.0), (-(10**400), 0.0), (0, 0.0)])
    def test_surprise_is_clamped(self, given, clamped):
        assert episode_draft(surprise=given).surprise == clamped

    @pytest.mark.parametrize("given", [float("nan"), float("inf"), "very", None])
    def test_surprise_that_is_no_finite_number_is_refused(self, given):
        with pytest.raises(ValidationError):
            episode_draft(surprise=given)

    @pytest.mark.parametrize("given", [-0.1, 1.1, float("nan")])
    def test_importance_is_not_clamped_but_refused(self, given):
        with pytest.raises(ValidationError):
            fact_draft(importance=given)

    @pytest.mark.parametrize(
        "state", [{"stability": 0}, {"stability": float("inf")}, {"difficulty": 0.9}, {"difficulty": 10.1}]
    )
    def test_a_forgetting_state_out_of_bounds_is_refused(self, state):
        with pytest.raises(ValidationError):
            episode_draft(**state)

    @pytest.mark.parametrize(("surprise", "expected"), [(0.69, False), (0.7, True), (0.9, True)])
    def test_from_seven_tenths_on_an_episode_is_a_key_moment(self, surprise, expected):
        assert episode(surprise=surprise).is_key_moment is expected


class TestMetadata:
    def test_any_json_object_is_kept(self):
        metadata = {"a": [1, 2.5, None, True, {"b": "é"}]}
        assert fact_draft(metadata=metadata).metadata == metadata

    @tried_in_one(
        "metadata",
        [{"a": float("nan")}, {"a": [{"b": float("-inf")}]}, {"a": {1, 2}}, {"a": NINE}, {1: "a"}, ["a"], "a"],
    )
    def test_what_is_no_json_object_is_refused(self, metadata):
        with pytest.raises(ValidationError):
            fact_draft(metadata=metadata)

    def test_what_contains_itself_is_refused(self):
        metadata = {}
        metadata["self"] = metadata
        with pytest.raises(ValidationError):
            fact_draft(metadata=metadata)

    def test_a_later_change_of_the_callers_object_does_not_reach_the_record(self):
        metadata = {"a": [1]}
        record = fact_draft(metadata=metadata)
        metadata["a"].append(2)
        assert record.metadata == {"a": [1]}


class TestRecords:
    @pytest.mark.parametrize("make", [episode_draft, fact_draft, episode, fact])
    def test_an_unknown_field_is_refused(self, make):
        with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
            make(colour="red")

    @pytest.mark.parametrize("record", [episode(), fact(), Message(role="user", content="Hello")])
    def test_a_record_never_changes(self, record):
        field = next(iter(type(record).model_fields))
        with pytest.raises(pydantic.ValidationError, match="frozen"):
            setattr(record, field, "other")

    def test_a_draft_may_leave_out_what_the_store_fills_in(self):
        draft = episode_draft()
        assert {draft.id, draft.created_at, draft.start_at, draft.stability, draft.last_reviewed_at} == {None}
        assert (draft.messages, draft.title, draft.surprise) == ((), "", 0.0)
        assert (fact_draft().id, fact_draft().valid_at) == (None, None)

    def test_a_memory_may_not(self):
        with pytest.raises(ValidationError, match="id: Field required"):
            SemanticMemory(scope="c1", fact="User lives in Lyon")
        with pytest.raises(ValidationError, match="stability: Field required"):
            EpisodicMemory(scope="c1", summary="The user moved.")

    def test_a_new_memory_is_made_for_the_tools_to_work_on(self):
        draft = fact_draft()
        assert (draft.tier, draft.content_type, draft.origin) == (Tier.LONG_TERM, ContentType.TEXT, Origin.API)
        assert (draft.importance, draft.access_count, draft.tags, draft.metadata) == (0.5, 0, (), {})

    def test_each_kind_knows_itself(self):
        assert (episode().kind, episode_draft().kind) == (Kind.EPISODIC, Kind.EPISODIC)
        assert (fact().kind, fact_draft().kind) == (Kind.SEMANTIC, Kind.SEMANTIC)

    def test_a_fact_is_a_note_unless_told_otherwise(self):
        assert fact_draft().category is Category.NOTE
        assert fact_draft(category="identity").category is Category.IDENTITY
        assert fact_draft(category="gossip").category == "gossip"  # a memory says whether it has such a one
        with pytest.raises(ValidationError, match="identity"):
            fact_draft(category="What they say")

    def test_an_episode_is_found_by_its_summary_alone(self):
        record = episode(title="Moving house")
        assert record.search_text == record.embedding_text == "The user moved."

    def test_a_fact_is_found_by_its_keywords_too(self):
        record = fact(category="identity", keywords=["Lyon", "home"])
        assert record.search_text == "User lives in Lyon Lyon home"
        assert record.embedding_text == "identity: User lives in Lyon Lyon home"

    def test_a_hit_holds_the_memory_its_rank_and_why(self):
        why = Explanation(dense_rank=1, bm25_rank=None, fused_score=1 / 61, retrievability=1, score=0.5)
        hit = RetrievedMemory(memory=fact(), rank=1, score=0.5, relevance=0.5, explanation=why)
        assert hit.memory == fact()
        with pytest.raises(FrozenInstanceError):
            hit.rank = 2
        with pytest.raises(FrozenInstanceError):
            hit.explanation = why

    def test_a_hit_works_its_explanation_out_once_and_only_when_it_is_read(self):
        why = Explanation(dense_rank=1, bm25_rank=None, fused_score=1 / 61, retrievability=1, score=0.5)
        asked = []
        hit = RetrievedMemory(
            memory=fact(), rank=1, score=0.5, relevance=0.5, explanation=lambda: asked.append(1) or why
        )
        assert asked == []
        assert (hit.explanation, hit.explanation, asked) == (why, why, [1])

    def test_a_hit_is_copied_compared_and_pickled_by_its_values(self):
        why = Explanation(dense_rank=1, bm25_rank=None, fused_score=1 / 61, retrievability=1, score=0.5)
        known = RetrievedMemory(memory=fact(), rank=1, score=0.5, relevance=0.5, explanation=why)

        def later():
            return RetrievedMemory(
                memory=fact(), rank=1, score=0.5, relevance=0.5, explanation=lambda: why, matches=lambda: ()
            )

        assert later() == known
        assert pickle.loads(pickle.dumps(later())) == copy.deepcopy(later()) == known  # noqa: S301 - our own
        assert dataclasses.replace(later(), rank=2) == dataclasses.replace(known, rank=2)
        assert repr(later()) == repr(known)
        with pytest.raises(TypeError, match="explanation"):
            RetrievedMemory(memory=fact(), rank=1, score=0.5)
