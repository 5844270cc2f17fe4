"""The stand-ins behave the same every time."""

import hashlib
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from pydantic import BaseModel

from memory_retrievers.errors import LanguageModelError
from memory_retrievers.testing import FixedClock, HashEmbedder, ScriptedLanguageModel

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Answer(BaseModel):
    text: str


class OtherAnswer(BaseModel):
    text: str
    certain: bool = True


def test_a_fixed_clock_stands_still_until_it_is_moved():
    clock = FixedClock(NOON)
    assert clock.now() == clock.now() == NOON
    clock.advance(days=1, hours=2, minutes=3, seconds=4.5)
    assert clock.now() == NOON + timedelta(days=1, hours=2, minutes=3, seconds=4.5)
    clock.advance(days=-1)
    assert clock.now() == NOON + timedelta(hours=2, minutes=3, seconds=4.5)


def test_a_fixed_clock_takes_a_time_without_a_zone_as_utc_and_keeps_any_other_zone():
    assert FixedClock(datetime(2026, 3, 1, 12)).now() == NOON  # noqa: DTZ001 - the case under test
    tokyo = NOON.astimezone(timezone(timedelta(hours=9)))
    assert FixedClock(tokyo).now().tzinfo is tokyo.tzinfo


@pytest.mark.parametrize("text", ["The user likes tea", "tea " * 1_000, "the", "東京", "?!", "", "\ud800"])
@pytest.mark.parametrize("dimension", [1, 2, 256])
def test_hashed_vectors_have_unit_length(text, dimension):
    vector = HashEmbedder(dimension).embed_query(text)
    assert len(vector) == dimension
    assert np.linalg.norm(vector) == pytest.approx(1)


def test_hashed_vectors_of_words_that_cancel_each_other_out_have_unit_length():
    embedder = HashEmbedder(dimension=1)
    signs = {word: embedder.embed_query(word)[0] for word in ("tea", "coffee", "milk", "sugar")}
    opposite = [min(signs, key=signs.__getitem__), max(signs, key=signs.__getitem__)]
    assert [signs[word] for word in opposite] == [-1, 1]
    assert embedder.embed_query(" ".join(opposite)) == [1]


def test_hashed_vectors_of_documents_are_those_of_queries():
    embedder = HashEmbedder()
    texts = ["The user likes tea", "Sprache: 日本語", ""]
    assert embedder.embed_documents(texts) == [embedder.embed_query(text) for text in texts]
    assert embedder.embed_documents([]) == []


def test_texts_that_share_words_are_nearer_than_others():
    question, tea, coffee = HashEmbedder().embed_documents(
        ["Which tea does the user like?", "The user likes green tea", "The weather was bad"]
    )
    assert np.dot(question, tea) > 0.5 > np.dot(question, coffee)


def test_hashed_vectors_are_the_same_in_every_process():
    program = (
        "import json; from memory_retrievers.testing import HashEmbedder; "
        "print(json.dumps(HashEmbedder(64).embed_query('The user likes 東京 and tea')))"
    )
    here = HashEmbedder(64).embed_query("The user likes 東京 and tea")
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        assert json.loads(run.stdout) == here


def test_hashed_vectors_are_those_of_yesterday():
    vectors = np.array(HashEmbedder(64).embed_documents(["The user likes tea", "東京"]))
    assert hashlib.sha256(np.sign(vectors).astype(np.int8).tobytes()).hexdigest()[:16] == "6221c59304c1de5e"


def test_a_scripted_model_gives_its_answers_in_turn_and_keeps_the_prompts():
    model = ScriptedLanguageModel([Answer(text="one"), {"text": "two"}, OtherAnswer(text="three")])
    answers = [model.generate("system", str(n), OtherAnswer) for n in range(3)]
    assert answers == [OtherAnswer(text="one"), OtherAnswer(text="two"), OtherAnswer(text="three")]
    assert model.prompts == [("system", "0"), ("system", "1"), ("system", "2")]


def test_a_scripted_model_raises_the_exceptions_of_its_script():
    model = ScriptedLanguageModel([TimeoutError("too slow"), {"text": "two"}])
    with pytest.raises(TimeoutError, match="too slow"):
        model.generate("", "", Answer)
    assert model.generate("", "", Answer) == Answer(text="two")


def test_a_scripted_model_whose_script_is_over_says_so():
    with pytest.raises(LanguageModelError, match="no answer left"):
        ScriptedLanguageModel([]).generate("", "", Answer)


def test_a_scripted_answer_that_does_not_fit_says_what_was_asked_for():
    with pytest.raises(LanguageModelError, match="Answer"):
        ScriptedLanguageModel([{"number": 1}]).generate("", "", Answer)
