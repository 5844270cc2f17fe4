"""The texts that memories are searched by."""

from datetime import UTC, datetime, timedelta

import numpy as np
from cases import tried_in_one
from contracts.strategies import memories
from hypothesis import given

from memory_retrievers import EpisodicMemory, Message, SemanticMemory
from memory_retrievers.models import ContentType, Origin
from memory_retrievers.models.selection import Embedded
from memory_retrievers.storage.store import complete
from memory_retrievers.text.passages import passage_text, passage_texts, turn_place, with_vectors

DAY = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


def episode(*said, **fields):
    messages = tuple(
        Message(role=role, content=content, timestamp=DAY + timedelta(days=n)) for n, (role, content) in enumerate(said)
    )
    return complete(EpisodicMemory.new(scope="s", id="e", summary="They met", messages=messages, **fields), now=DAY)


def test_an_episode_is_searched_by_its_summary_and_by_each_message_with_speaker_and_day():
    texts = passage_texts(episode(("Caroline", "Hey Mel!"), ("Mel", "I ran\n\nyesterday")), searched="turns")
    assert [(text.part, text.text, text.embedded) for text in texts] == [
        ("episodic", "They met", "They met"),
        ("turn 0", "8 May 2023 Caroline: Hey Mel!", "Caroline: Hey Mel!"),
        ("turn 1", "9 May 2023 Mel: I ran yesterday", "Mel: I ran yesterday"),
    ]
    assert [(text.speaker, text.tells_time) for text in texts] == [(None, False), ("Caroline", False), ("Mel", True)]


def test_with_summaries_alone_an_episode_is_searched_by_one_text():
    (text,) = passage_texts(episode(("Caroline", "Hey Mel!")), searched="summary")
    assert (text.part, text.text) == ("episodic", "They met")


def test_a_message_without_a_time_is_of_the_day_the_episode_began():
    memory = episode(("Ana", "Hi")).model_copy(update={"messages": (Message(role="Ana", content="Hi"),)})
    assert passage_texts(memory, searched="turns")[1].text == "8 May 2023 Ana: Hi"


def test_a_message_of_which_nothing_can_be_seen_is_no_passage_and_the_others_keep_their_places():
    texts = passage_texts(episode(("Ana", "\u0001\u0002"), ("Ben", "Hi")), searched="turns")
    assert [text.part for text in texts] == ["episodic", "turn 1"]
    assert passage_text(episode(("Ana", "\u0001\u0002")), "turn 0") is None


def test_a_fact_is_searched_by_one_text_whose_vector_tells_the_category():
    fact = complete(SemanticMemory.new(scope="s", fact="Ana likes tea", category="preference"), now=DAY)
    for searched in ("summary", "turns"):
        (text,) = passage_texts(fact, searched=searched)
        assert (text.part, text.text, text.embedded) == ("semantic", "Ana likes tea", "preference: Ana likes tea")


def test_what_is_not_to_be_searched_has_no_text():
    hidden = episode(("Ana", "Hi"), origin=Origin.STORE, content_type=ContentType.JSON)
    assert passage_texts(hidden, searched="turns") == []


@tried_in_one("part", ["turn", "turn ", "turn -1", "turn x", "turn ²", "turn  1", "episodic", "returns 1"])
def test_other_parts_are_no_messages(part):
    assert turn_place(part) is None


def test_a_message_that_is_not_there_has_no_text():
    assert passage_text(episode(("Ana", "Hi")), "turn 1") is None
    assert passage_text(episode(("Ana", "Hi")), "window 0") is None


@given(memory=memories())
def test_a_passage_is_the_same_alone_as_among_all(memory):
    texts = passage_texts(memory, searched="turns")
    assert [passage_text(memory, text.part) for text in texts] == texts
    assert len({text.part for text in texts}) == len(texts)


def test_all_texts_are_embedded_in_one_batch_in_their_order():
    calls = []

    def embed(texts):
        calls.append(texts)
        return [Embedded(np.array([len(text)], np.float32), text.encode()) for text in texts]

    texts = [
        passage_texts(episode(("Ana", "Hi"), ("Ben", "Hello")), searched="turns"),
        [],
        passage_texts(episode(), searched="turns"),
    ]
    passages = with_vectors(texts, embed)
    assert calls == [["They met", "Ana: Hi", "Ben: Hello"]]  # equal texts once
    assert [[int(passage.vector[0]) for passage in each] for each in passages] == [[8, 7, 10], [], [8]]
    assert [passage.speaker for passage in passages[0]] == [None, "Ana", "Ben"]
    assert [passage.tokens for passage in passages[0]] == [b"They met", b"Ana: Hi", b"Ben: Hello"]
    assert with_vectors([[], []], embed) == [[], []]
    assert len(calls) == 1
