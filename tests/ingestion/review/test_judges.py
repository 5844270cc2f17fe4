"""Who says how retrieved memories served."""

from datetime import UTC, datetime

import numpy as np
import pytest
from cases import tried_in_one
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers import Message
from memory_retrievers.backends.embeddings.minilm import MiniLMEmbedder
from memory_retrievers.ingestion.reviews import (
    EASY_FROM,
    GOOD_FROM,
    HARD_FROM,
    LanguageModelJudge,
    OfflineJudge,
    rating_of,
)
from memory_retrievers.models import EpisodicMemory, Rating
from memory_retrievers.protocols import ReviewedMemory
from memory_retrievers.testing import HashEmbedder, ScriptedLanguageModel

NOW = datetime(2026, 3, 1, tzinfo=UTC)
LYON = "The user told that they live in Lyon and moved there in 2019 for work at a bakery."
NUTS = "The user is allergic to peanuts and had a severe reaction at a Thai restaurant."
CLARA = "The user's sister Clara turns forty on 12 May and likes pottery."
IMPORT = "The user reported a failed nightly import; the assistant proposed streaming with Kafka and the user agreed."
RENT = "The user's landlord raised the rent to 1,250 euros, which the user thought too much."
LETTER = "Dear landlord, I object to raising the rent to 1,250 euros, which is too much for a flat of this size."


@pytest.fixture(scope="module")
def minilm():
    return MiniLMEmbedder().embed_documents


def hashed(texts):
    return np.array(HashEmbedder().embed_documents(texts), np.float32)


def reviewed(summary, *queries, id="M1"):
    memory = EpisodicMemory(
        scope="c1", id="real-id", summary=summary, created_at=NOW, updated_at=NOW, start_at=NOW, end_at=NOW,
        stability=1, difficulty=1, last_reviewed_at=NOW,
    )  # fmt: skip
    return ReviewedMemory(id=id, memory=memory, queries=queries)


def talk(*turns):
    return [
        Message(role=role, content=content) for role, content in zip(["user", "assistant"] * 20, turns, strict=False)
    ]


@pytest.mark.parametrize(
    ("summary", "query", "question", "answer", "expected"),
    [
        (RENT, "rent", "Help me write a letter to my landlord.", LETTER, Rating.EASY),
        (CLARA, "sister's birthday", "What could I give my sister?", "Clara likes pottery, so a voucher for a wheel-throwing class would be a fine present for her fortieth.", Rating.EASY),
        (IMPORT, "nightly import", "How do we fix the import?", "As agreed, we replace the nightly import by streaming through Kafka.", Rating.EASY),
        (LYON, "where does the user live", "What should I do this weekend?", "Since you live in Lyon, why not walk along the Saône and visit the old town?", Rating.GOOD),
        (NUTS, "dinner ideas", "Suggest something for dinner.", "How about pasta? It is free of peanuts, so it is safe with your allergy.", Rating.GOOD),
        (RENT, "rent", "Help me write a letter to my landlord.", "Dear landlord, I write to you about the heating, which has not worked since Monday.", Rating.HARD),
        (NUTS, "dinner ideas", "Suggest something for dinner.", "How about pasta with tomatoes and basil?", Rating.AGAIN),
        (LYON, "weekend plans", "What should I do this weekend?", "You could read a book or go for a hike.", Rating.AGAIN),
    ],
)  # fmt: skip
def test_offline_the_rating_says_how_much_of_a_memory_the_answer_carries(
    minilm, summary, query, question, answer, expected
):
    assert OfflineJudge().rate(talk(question, answer), [reviewed(summary, query)], embed=minilm) == {"M1": expected}


def test_each_memory_is_judged_by_its_own_words(minilm):
    memories = [reviewed(CLARA, "present"), reviewed(IMPORT, "present", id="M2")]
    rated = OfflineJudge().rate(
        talk("Ideas for a present?", "Clara likes pottery and turns forty, so a class."), memories, embed=minilm
    )
    assert rated["M1"] in {Rating.GOOD, Rating.EASY}
    assert rated["M2"] is Rating.AGAIN


def test_words_that_the_user_brought_do_not_count_as_the_memorys():
    summary = "Clara likes pottery"
    brought = OfflineJudge().rate(
        talk("Clara likes pottery", "Clara, pottery, noted"), [reviewed(summary, "x")], embed=hashed
    )
    unprompted = OfflineJudge().rate(
        talk("A present?", "Clara, pottery, noted"), [reviewed(summary, "x")], embed=hashed
    )
    assert list(Rating).index(brought["M1"]) < list(Rating).index(unprompted["M1"])


def test_what_the_assistant_said_before_the_search_does_not_count():
    summary = "Clara likes pottery"
    conversation = talk("Hello", "Clara likes pottery, I know", "weather tomorrow in Oslo", "It will rain")
    assert OfflineJudge().rate(conversation, [reviewed(summary, "Oslo weather")], embed=hashed) == {"M1": Rating.AGAIN}


def test_where_no_message_brought_up_the_search_every_answer_counts():
    conversation = talk("Hello", "Clara likes pottery, I know", "And now", "It will rain")
    assert OfflineJudge().rate(conversation, [reviewed("Clara likes pottery", "xyz")], embed=hashed) == {
        "M1": Rating.EASY
    }


@pytest.mark.parametrize("conversation", [[], talk("Where do I live?")])
def test_without_an_answer_there_is_no_opinion(conversation):
    def embed(texts):
        pytest.fail("nothing is to be embedded")

    assert OfflineJudge().rate(conversation, [reviewed(LYON, "home")], embed=embed) == {}


@tried_in_one(
    "share, rating",
    [(0, "again"), (HARD_FROM, "hard"), (GOOD_FROM, "good"), (EASY_FROM, "easy"), (1, "easy"), (-0.1, "again")],
)
def test_the_borders_belong_to_the_better_rating(share, rating):
    assert rating_of(share) == rating


texts = st.sampled_from(["", "!", "the", "Clara likes pottery", "Where is 4711?", "東京都", "a" * 500]).map(
    lambda text: text + "."
)


@given(st.lists(texts, max_size=6), st.lists(texts, min_size=1, max_size=4), st.lists(texts, max_size=3))
def test_any_conversation_can_be_judged_and_only_presented_memories_are_rated(turns, summaries, queries):
    memories = [reviewed(summary, *queries, id=f"M{n}") for n, summary in enumerate(summaries)]
    rated = OfflineJudge().rate(talk(*turns), memories, embed=hashed)
    assert rated.keys() <= {memory.id for memory in memories}
    assert rated == OfflineJudge().rate(talk(*turns), memories, embed=hashed)


def test_a_language_model_is_shown_the_ids_it_is_to_answer_with():
    model = ScriptedLanguageModel(
        [{"ratings": [{"memory_id": " m1 ", "rating": "Easy"}, {"memory_id": "M7", "rating": "again"}]}]
    )
    assert LanguageModelJudge(model).rate(talk("Hi"), [reviewed(LYON, "home")], embed=hashed) == {"M1": Rating.EASY}
    assert "memory_id: M1" in model.prompts[0][1]
