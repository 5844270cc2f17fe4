"""The same life told in five languages, with an embedder that knows what words of all of them mean."""

import re
from datetime import UTC, datetime
from itertools import product

import pytest
from cases import tried_in_one

from memory_retrievers import AgentMemory, Message
from memory_retrievers.retrieval.question import Question
from memory_retrievers.testing import FixedClock
from memory_retrievers.text.analysis import STOP_WORDS, analyze
from memory_retrievers.text.languages import language_of

NOW = datetime(2026, 3, 4, 9, tzinfo=UTC)
MEANINGS = (
    "cook cooked gekocht kochen cuisiné cuisiner cociné cocinar 做菜 做了 料理",
    "lasagna lasagne lasaña 千层面 ラザニア",
    "house houses haus häuser maison maisons casa casas 房子 家",
    "boat boats boot boote bateau bateaux barco barcos 船",
    "bought buy gekauft kaufen acheté acheter compré comprar 买了 買いました",
    "paint painted gestrichen streichen peint peindre pinté pintar 刷了 塗りました",
)
LIVES = {
    "en": ("I cooked lasagna for Lou", "I painted the houses of the harbour", "I bought a boat in the café"),
    "de": (
        "Ich habe für Lou Lasagne gekocht",
        "Ich habe die Häuser am Hafen gestrichen",
        "Ich habe im Café ein Boot gekauft",
    ),
    "fr": ("J'ai cuisiné des lasagnes pour Lou", "J'ai peint les maisons du port", "J'ai acheté un bateau au café"),
    "es": ("Cociné lasaña para Lou", "Pinté las casas del puerto", "Compré un barco en el café"),
    "zh": ("我给Lou做了千层面", "我刷了港口的房子", "我在咖啡馆买了一条船"),
    "ja": ("Louにラザニアを料理しました", "港の家を塗りました", "カフェで船を買いました"),
}
DAYS = (datetime(2026, 2, 25, tzinfo=UTC), datetime(2025, 7, 10, tzinfo=UTC), datetime(2026, 1, 12, tzinfo=UTC))
ASKED = {
    "en": (
        "What did I cook last week?",
        "Which house did I paint last summer?",
        "Did I buy boats in the cafe in January?",
    ),
    "de": ("Was habe ich letzte Woche gekocht?", "Welches Haus habe ich gestrichen?", "Was war im Januar im Cafe?"),
    "fr": ("Qu'est-ce que j'ai cuisiné la semaine dernière ?", "Quelle maison ?", "Qu'ai-je fait en janvier au cafe ?"),
    "es": ("¿Qué cociné la semana pasada?", "¿Qué casa pinté el verano pasado?", "¿Qué pasó en enero en el cafe?"),
    "zh": ("上周我做了什么?", "去年夏天我刷了什么房子?", "2026年1月我买了什么?"),
    "ja": ("先週何を料理しましたか", "去年の夏どの家を塗りましたか", "2026年1月に何を買いましたか"),
}


def embed(texts):
    """A number for each meaning that a text has in any of the languages, and a last one for all texts."""
    return [
        [*(float(any(word in text.lower() for word in meaning.split())) for meaning in MEANINGS), 0.3] for text in texts
    ]


@pytest.fixture(scope="module")
def memory():
    with AgentMemory.in_memory(embedder=embed, embedder_id="meanings", clock=FixedClock(NOW)) as opened:
        for language, told in LIVES.items():
            for number, (said, day) in enumerate(zip(told, DAYS, strict=True)):
                message = Message(role="user", content=said, timestamp=day)
                opened.remember_episode(
                    scope=f"life/{language}", id=str(number), summary=said, messages=[message], start_at=day, end_at=day
                )
        yield opened


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("language", LIVES)
def test_words_and_dates_are_found_in_each_language(memory, language, number):
    asked = ASKED[language][number]
    found = memory.retrieve(asked, scope=f"life/{language}", record=False).episodic
    assert found[0].memory.id == str(number), asked


@pytest.mark.parametrize("language", sorted(set(LIVES) - {"en"}))
def test_a_question_in_english_finds_what_was_told_in_another_language(memory, language):
    found = memory.retrieve("Who cooked the lasagna?", scope=f"life/{language}", record=False).episodic
    assert found[0].memory.id == "0"


def test_accents_of_a_question_may_be_those_of_the_memory_or_not():
    with AgentMemory.in_memory(embedder=embed, embedder_id="meanings") as opened:
        opened.remember_fact(scope="plain", id="f", fact="They met at the cafe of Helene")
        opened.remember_fact(scope="accented", id="f", fact="They met at the café of Hélène")
        for scope, asked in product(("plain", "accented"), ("Who is in Hélène's café?", "Who is in Helene's cafe?")):
            explained = opened.explain(asked, scope=scope).semantic[0]
            assert len(explained.words) == 2, (scope, asked)


ENDINGS = {
    "german": (("Die Häuser am Hafen sind gestrichen", "Ich habe eine Katze"), "Wo ist das Haus?", "Katzen?"),
    "french": (("Les bateaux sont dans le port", "J'ai un cheval et il est vieux"), "Où est le bateau ?", "chevaux"),
    "spanish": (("Las habitaciones son muy grandes", "Yo tengo un perro"), "¿Dónde está la habitación?", "perros"),
}


@pytest.mark.parametrize("language", ENDINGS)
def test_words_are_found_with_other_endings_of_their_language(language):
    told, asked, word = ENDINGS[language]
    with AgentMemory.in_memory(embedder=embed, embedder_id="meanings") as opened:
        opened.remember_fact(scope="s", id="0", fact=told[0])
        # The first search has made the arrays: words that are added to them have their forms as well.
        assert opened.explain(asked, scope="s").semantic[0].words
        opened.remember_fact(scope="s", id="1", fact=told[1])
        assert {each.id for each in opened.explain(asked, scope="s").semantic if each.words} == {"0"}
        # A single word tells no language: that of the scope does.
        assert {each.id for each in opened.explain(word, scope="s").semantic if each.words} == {"1"}


def test_a_word_of_several_forms_covers_the_question_as_one():
    with AgentMemory.in_memory(embedder=embed, embedder_id="meanings") as opened:
        opened.remember_fact(scope="one", id="0", fact="Ich habe ein Haus am Hafen")
        opened.remember_fact(scope="one", id="1", fact="Wir haben nur einen Hund")
        opened.remember_fact(scope="two", id="0", fact="Ich habe ein Haus am Hafen")
        opened.remember_fact(scope="two", id="1", fact="Wir haben nicht viele Häuser")
        one, two = (opened.retrieve("Wo ist das Haus am Hafen?", scope=scope).semantic for scope in ("one", "two"))
        assert one[0].memory.id == two[0].memory.id == "0"
        coverages = [found[0].explanation.evidence.coverage for found in (one, two)]
        assert coverages[1] == pytest.approx(coverages[0], rel=0.05)


def test_a_letter_has_no_other_forms():
    with AgentMemory.in_memory(embedder=embed, embedder_id="meanings") as opened:
        opened.remember_fact(scope="s", id="0", fact="La città è bella")
        assert not opened.explain("error e-4071", scope="s").semantic[0].words


def test_stop_words_of_the_language_of_a_question_say_nothing():
    assert Question.parse("Wo waren wir mit dem Boot?").terms == ["boot"]
    assert Question.parse("Où sont les enfants ?").terms == ["enfant"]
    assert Question.parse("¿Dónde está el gato?").terms == ["gato"]
    assert Question.parse("Wer ist das?").terms == ["wer", "ist", "das"]
    assert Question.parse("Wo waren wir?", as_specified=True).terms == analyze("Wo waren wir?")


@tried_in_one(
    "text, language",
    [
        *((text, None) for text in ("Die Hard was in Los Angeles", "I was in La Paz", "so is he", "Rosa", "")),
        *(("Wo wohnt Anna?", "german"), ("Où habite Anna ?", "french"), ("¿Dónde vive Ana?", "spanish")),
    ],
)
def test_the_language_is_told_by_common_words_and_else_it_is_english(text, language):
    words = re.findall(r"\w+", text.casefold())
    assert language_of(words, english=STOP_WORDS) == language
