import json
import re
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from cases import tried_in_one
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st

from memory_retrievers import AgentMemory, EpisodicMemory, Message, RetrievalSettings, SemanticMemory, ValidationError
from memory_retrievers.evaluation.samples import load_history
from memory_retrievers.models import Category, Kind
from memory_retrievers.models.results import Evidence
from memory_retrievers.retrieval.question import Question
from memory_retrievers.retrieval.relevance import Calibration, Weights, calibration_of, falling, noted, parsed
from memory_retrievers.testing import FixedClock, HashEmbedder

SCOPE = "user/ines"
FACTS = (
    "Alice lives in Lyon with her sister Mathilde",
    "Alice plays the cello on Thursdays",
    "Bruno's allergy to hazelnuts was found in 2019",
    "The spare key of the boathouse is under the third flower pot",
)
WORDS = (
    *("harbour", "apple", "violin", "glacier", "teapot", "lantern", "mitten", "bicycle", "sermon"),
    *("turbine", "walnut", "ledger", "carpet", "meadow", "anchor", "pigeon", "mortar", "ticket"),
    *("cellar", "blanket", "cactus"),
)
GREETINGS = """hi|Hello!|hey there|Good morning|good evening|good night|How are you?|how's it going?|what's up?|thanks
thank you so much|Thanks a lot!|you're welcome|bye|goodbye|see you tomorrow|see you later|take care|ok|okay, great|sure
sounds good|yes|no|yes please|no thanks|maybe|cool|nice|awesome|great, thanks|perfect|got it|I see|alright|hmm|wow|haha
lol|please go on|can you help me?|are you there?|who are you?|what can you do?|tell me a joke|let's start|welcome back
happy new year|merry christmas|sorry"""


@pytest.fixture(scope="module")
def memory():
    with AgentMemory.in_memory() as opened:
        opened.remember_many([SemanticMemory.new(scope=SCOPE, fact=fact) for fact in FACTS])
        opened.remember_many(
            [
                EpisodicMemory.new(scope=SCOPE, title=title, summary=summary)
                for title, summary in (
                    ("A boat trip", "Bruno repaired the rudder, and they sailed to the island with Mathilde"),
                    ("Dinner", "They cooked lentils and talked about the move to Lyon"),
                )
            ]
        )
        yield opened


@pytest.fixture(scope="module")
def history():
    with AgentMemory.in_memory() as opened:
        opened.remember_many(load_history(scope=SCOPE, now=datetime(2026, 3, 1, tzinfo=UTC)))
        yield opened


def found(memory, query, **options):
    result = memory.retrieve(query, scope=SCOPE, record=False, **options)
    return [hit.memory.fact for hit in result.semantic], [hit.memory.title for hit in result.episodic]


SMALL_TALK_ELSEWHERE = """nein danke|vielen Dank!|Guten Abend|ja, das ist gut|bis morgen|sí, por favor|muchas gracias|vale
heyyy there|lol ok thx|k thanks|thanks sooo much|merci bcp|Ouch.|Bravo !|Danke, schönes Wochenende!|jaja vale|noted, thx
Good evening, Jonah here!|Hi, this is Anna speaking|Hallo, Jonas hier|whats up|hows it going?|thats great, thanks
Danke dir, bis später|mach's gut!|Kein Problem.|no worries
buenas noches|muy bien|oui, s'il te plaît|d'accord|non merci|à bientôt|c'est parfait|好的，谢谢！|早上好|明白了|はい、わかりました"""


@tried_in_one("said", re.split(r"[|\n]", SMALL_TALK_ELSEWHERE))
def test_assent_and_thanks_in_other_languages_are_small_talk(said):
    assert Question.parse(said).is_small_talk


@pytest.mark.parametrize("greeting", re.split(r"[|\n]", GREETINGS))
def test_a_greeting_recalls_nothing_by_the_floor_of_the_embedder(memory, greeting):
    assert found(memory, greeting, min_relevance="auto") == ([], [])
    assert found(memory, greeting)[0]


def test_what_was_said_today_is_no_small_talk():
    with AgentMemory.in_memory() as memory:
        memory.add_messages(SCOPE, [Message(role="user", content="The tiles for the stove have come.")])
        memory.flush(SCOPE)
        assert memory.retrieve("Did we talk today?", scope=SCOPE, min_relevance="auto", record=False).episodic


def test_a_greeting_recalls_nothing_with_an_embedder_that_has_no_floor():
    with AgentMemory.in_memory(embedder=HashEmbedder()) as memory:
        memory.remember_fact(scope=SCOPE, fact=FACTS[0])
        memory.remember_episode(scope=SCOPE, summary="They cooked lentils", title="Dinner")
        assert found(memory, "Hello!", min_relevance="auto") == ([], [])
        for query, least in (("Hello!", 0.0), ("What about lentils?", "auto")):
            assert found(memory, query, min_relevance=least) == ([FACTS[0]], ["Dinner"])


def test_a_question_recalls_what_answers_it_and_one_about_something_else_nothing(memory):
    assert FACTS[0] in found(memory, "Where does Alice live?", min_relevance="auto")[0]
    assert FACTS[2] in found(memory, "What is Bruno allergic to?", min_relevance="auto")[0]
    assert "A boat trip" in found(memory, "Who repaired the rudder of the boat?", min_relevance="auto")[1]
    assert found(memory, "How do I sort a list in Python?", min_relevance="auto") == ([], [])
    assert found(memory, "Which planet is the largest?", min_relevance="auto") == ([], [])


def test_a_floor_leaves_out_what_is_less_relevant_and_ranks_run_on(memory):
    query = "Where does Alice live?"
    whole = memory.retrieve(query, scope=SCOPE, record=False).semantic
    least = whole[1].relevance
    assert whole[0].relevance > least > whole[-1].relevance
    kept = memory.retrieve(query, scope=SCOPE, record=False, min_relevance=least).semantic
    assert [(hit.memory.id, hit.rank) for hit in kept] == [(whole[0].memory.id, 1), (whole[1].memory.id, 2)]
    assert memory.retrieve(query, scope=SCOPE, record=False, min_relevance=1).semantic == ()


def test_what_is_left_out_is_not_filed_for_review():
    with AgentMemory.in_memory() as memory:
        memory.remember_many([EpisodicMemory.new(scope=SCOPE, title="A boat trip", summary="They sailed")])
        memory.retrieve("good morning", scope=SCOPE, min_relevance="auto")
        assert memory.pending_reviews(SCOPE) == []
        memory.retrieve("good morning", scope=SCOPE)
        assert len(memory.pending_reviews(SCOPE)) == 1


def test_guidelines_pinned_memories_and_searches_by_category_are_never_silenced():
    with AgentMemory.in_memory() as memory:
        kept = SemanticMemory.new(scope=SCOPE, fact="Never suggest hazelnuts", category=Category.GUIDELINE)
        pinned = SemanticMemory.new(scope=SCOPE, fact="Bruno is allergic", importance=1.0, importance_pinned=True)
        other = SemanticMemory.new(scope=SCOPE, fact="Bruno has a boat", category=Category.NOTE)
        lowered = SemanticMemory.new(scope=SCOPE, fact="The boat leaks", importance=0.05, importance_pinned=True)
        memory.remember_many([kept, pinned, other, lowered])
        assert sorted(found(memory, "hello", min_relevance="auto")[0]) == [
            "Bruno is allergic",
            "Never suggest hazelnuts",
        ]
        assert "Bruno has a boat" in found(memory, "hello", min_relevance=0.9, category="note")[0]


def test_under_the_reference_relevance_is_the_score_and_nothing_is_silenced():
    with AgentMemory.in_memory(retrieval=RetrievalSettings.reference()) as memory:
        memory.remember_many([SemanticMemory.new(scope=SCOPE, fact=fact) for fact in FACTS])
        hits = memory.retrieve("hello", scope=SCOPE, min_relevance="auto", record=False).semantic
        assert len(hits) == len(FACTS)
        assert [hit.relevance for hit in hits] == [hit.score for hit in hits]


def test_headings_and_raw_records_show_relevance_and_under_the_reference_the_score_alone(memory):
    query = "Who repaired the rudder of the boat?"
    judged = memory.retrieve(query, scope=SCOPE, record=False)
    best = judged.episodic[0]
    assert f"### A boat trip [rank: 1, relevance: {best.relevance:.2f}]" in judged.to_markdown()
    raw = judged.to_dict()
    assert [each["relevance"] for each in raw["episodic"]] == [round(hit.relevance, 6) for hit in judged.episodic]
    assert [each["relevance"] for each in raw["semantic"]] == [round(hit.relevance, 6) for hit in judged.semantic]
    assert "relevance: 0.00]" in memory.retrieve("hello", scope=SCOPE, record=False).to_markdown()
    with AgentMemory.in_memory(retrieval=RetrievalSettings.reference()) as specified:
        specified.remember_many([hit.memory for hit in (*judged.semantic, *judged.episodic)])
        ranked = specified.retrieve(query, scope=SCOPE, record=False)
        assert f"[rank: 1, score: {ranked.episodic[0].score:.2f}]" in ranked.to_markdown()
        assert not any("relevance" in each for kind in ranked.to_dict().values() for each in kind)


@pytest.mark.parametrize("least", [-0.1, 1.1, "0.5", True, None, float("nan")])
def test_a_floor_is_a_number_from_0_to_1(memory, least):
    with pytest.raises(ValidationError, match="min_relevance must be a number from 0 to 1"):
        memory.retrieve("Alice", scope=SCOPE, min_relevance=least)


def test_the_explanation_holds_the_evidence(memory):
    best = memory.retrieve("Where does Alice live?", scope=SCOPE, record=False).semantic[0]
    evidence = best.explanation.evidence
    weights = calibration_of("all-MiniLM-L6-v2-int8")[best.memory.kind].weights
    assert best.relevance == pytest.approx(weights.relevance(evidence))
    assert 0 < evidence.coverage < 1
    assert evidence.deviations == pytest.approx((evidence.cosine - 0.1) / 0.05)  # too few passages for their own


def test_an_embedder_without_a_calibration_has_no_floor():
    assert {each.floor for each in calibration_of("another").values()} == {0.0}
    assert all(each.floor > 0 for each in calibration_of("all-MiniLM-L6-v2-int8").values())


@pytest.mark.parametrize("embedder", ["all-MiniLM-L6-v2-int8", "another"])
@pytest.mark.parametrize("kind", Kind)
@given(
    st.floats(-1, 1),
    st.floats(0, 1),
    st.floats(-10, 15),
    st.none() | st.floats(0, 1),
    st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 5), st.booleans(), st.floats(0, 1)),
)
def test_more_evidence_never_makes_less_relevant(embedder, kind, cosine, coverage, deviations, tokens, more):
    weights = calibration_of(embedder)[kind].weights
    nearer = None if tokens is None else tokens + more[4]
    less, further = (
        weights.relevance(Evidence(cosine=a, coverage=b, deviations=c, passages=100, dated=d, tokens=e))
        for a, b, c, d, e in (
            (cosine, coverage, deviations, False, tokens),
            (cosine + more[0], coverage + more[1], deviations + more[2], more[3], nearer),
        )
    )
    assert 0 <= less <= further <= 1


def test_silence_is_decided_by_the_best_and_a_part_of_the_floor_is_enough_behind_it():
    calibration = calibration_of("all-MiniLM-L6-v2-int8")[Kind.SEMANTIC]._replace(floor=0.2)
    assert calibration.least(0.19) == 0.2
    assert calibration.least(0.2) == pytest.approx(0.12)


def test_a_calibration_of_a_former_version_is_read_and_knows_nothing_of_the_first_person():
    found_then = parsed(json.dumps({kind: [-7, 5.5, 0.25, 0.5, 1, 2, 0.04] for kind in Kind}))
    assert found_then is not None
    assert found_then[Kind.EPISODIC] == Calibration(Weights(-7, 5.5, 0.25, 0.5, 1, 2, personal=0.0), floor=0.04)


def test_a_calibration_in_a_store_is_read_as_it_was_written():
    calibration = {
        Kind.EPISODIC: Calibration(Weights(bias=-7.0, match=5.5, deviations=0.25, fewer=0.5, tokens=1), floor=0.04),
        Kind.SEMANTIC: Calibration(Weights(bias=-5.0, match=3.0, deviations=0.0), floor=0.0),
    }
    assert calibration_of("another", noted(calibration)) == calibration


@tried_in_one(
    "note",
    [
        *("", "[", "[]", "null", "{}", '{"episodic": [1, 2], "semantic": [1, 2]}', "[" * 10_000),
        '{"episodic": [-7, 1, 0, 0, 0, -1, 0.1], "semantic": [-7, 1, 0, 0, 0, 0, 0.1]}',  # less by more evidence
        '{"episodic": [-7, 1, 0, 0, 0, 0, 1.1], "semantic": [-7, 1, 0, 0, 0, 0, 0.1]}',
        '{"episodic": [NaN, 1, 0, 0, 0, 0, 0.1], "semantic": [-7, 1, 0, 0, 0, 0, 0.1]}',
        '{"episodic": ["x", 1, 0, 0, 0, 0, 0.1], "semantic": [-7, 1, 0, 0, 0, 0, 0.1]}',
        '{"episodic": [-7, 1, 0, 0, 0.1], "semantic": [-7, 1, 0, 0, 0.1]}',  # of four weights, as they once were
    ],
)
def test_a_calibration_that_cannot_be_used_is_none(note):
    assert calibration_of("another", note) == calibration_of("another")


def test_what_stands_out_of_a_large_scope_is_measured_by_its_own_spread():
    with AgentMemory.in_memory() as memory:
        memory.remember_many(
            [SemanticMemory.new(scope=SCOPE, fact=f"The {word} of number {n}") for n, word in enumerate(WORDS)]
        )
        hits = memory.retrieve("Where is the harbour?", scope=SCOPE, record=False, semantic_limit=len(WORDS)).semantic
        found = {hit.memory.fact: hit.explanation.evidence for hit in hits}
        assert len(found) == len(WORDS)
        deviations = sorted(each.deviations for each in found.values())
        assert deviations[-1] == found["The harbour of number 0"].deviations > 3
        assert abs(deviations[len(WORDS) // 2]) < 0.5


def test_the_tokens_of_the_first_are_evidence_and_where_none_are_measured_relevance_is_as_expected():
    query = "Where does Alice live?"
    measured, plain = {}, {}
    for found_by, settings in ((measured, RetrievalSettings()), (plain, RetrievalSettings(token_rerank=False))):
        with AgentMemory.in_memory(retrieval=settings) as memory:
            memory.remember_many([SemanticMemory.new(scope=SCOPE, fact=fact) for fact in (*FACTS, *WORDS)])
            hits = memory.retrieve(query, scope=SCOPE, record=False, semantic_limit=8).semantic
            found_by.update({hit.memory.fact: (hit.explanation.evidence, hit.relevance) for hit in hits})
    assert sum(evidence.tokens is not None for evidence, _ in measured.values()) == 5
    assert {evidence.tokens for evidence, _ in plain.values()} == {None}
    right, wrong = measured[FACTS[0]][0].tokens, measured[FACTS[1]][0].tokens
    assert 1 >= right > wrong + 0.1
    assert measured[FACTS[0]][1] == pytest.approx(plain[FACTS[0]][1], abs=0.2)
    assert plain[FACTS[0]][1] > 2 * plain[FACTS[1]][1]


def test_an_episode_of_the_time_that_the_query_names_is_more_relevant():
    with AgentMemory.in_memory() as memory:
        for month in (3, 5):
            told = datetime(2026, month, 7, tzinfo=UTC)
            episode = EpisodicMemory.new(
                scope=SCOPE, id=str(month), title="A walk", summary="They went out", start_at=told, end_at=told
            )
            memory.remember_many([episode])
        hits = memory.retrieve("Where was the walk in May 2026?", scope=SCOPE, record=False).episodic
        evidence = {hit.memory.id: hit.explanation.evidence for hit in hits}
        assert (evidence["5"].dated, evidence["3"].dated) == (True, False)
        weights = calibration_of("all-MiniLM-L6-v2-int8")[Kind.EPISODIC].weights
        assert weights.relevance(evidence["5"]) > 3 * weights.relevance(replace(evidence["5"], dated=False))
        undated = memory.retrieve("Where was the walk?", scope=SCOPE, record=False).episodic
        assert not any(hit.explanation.evidence.dated for hit in undated)


def test_a_date_that_no_fact_tells_is_no_word_that_facts_lack(memory):
    def coverage(query):
        return memory.retrieve(query, scope=SCOPE, record=False).semantic[0].explanation.evidence.coverage

    bare = coverage("Where does Alice live?")
    assert coverage("Where does Alice live in October 2024?") == bare
    assert coverage("Where does Alice live in poverty?") < bare
    assert coverage("Was the hazelnuts allergy of Bruno found in 2019?") > coverage(
        "Was the hazelnuts allergy of Bruno found?"
    )


@settings_of_hypothesis(deadline=None, max_examples=25)
@given(st.lists(st.sampled_from(["alice", "cello", "boat", "key", "lyon", "bruno", "where", "hazelnuts"]), min_size=1))
def test_relevance_falls_with_rank(memory, words):
    result = memory.retrieve(" ".join(words), scope=SCOPE, record=False)
    for hits in (result.semantic, result.episodic):
        relevances = [hit.relevance for hit in hits]
        assert relevances == sorted(relevances, reverse=True)
        assert all(0 <= each <= 1 for each in relevances)


@given(st.lists(st.floats(0, 1)))
def test_the_running_maximum_lowers_nothing_and_falls(relevances):
    fallen = falling(relevances)
    assert fallen == sorted(fallen, reverse=True)
    assert all(after >= before for before, after in zip(relevances, fallen, strict=True))


@tried_in_one(
    "query",
    [
        *("Where is the key?", "hello Alice", "thanks for the cello", "help me find my keys", "When do we meet?"),
        *("Good morning, where is it?", "what is on tomorrow?", "who was there tonight?", "yes, but when?", "how so?"),
        *("Was habe ich morgen?", "wo ist das gut", "¿Qué tengo mañana?", "Et demain, quand ?", "我住在哪里", "nickel"),
        *("Wochenende?", "Was war am schönen Tag in Porto?", "Lott?", "thx! and the code?", "Is Ty allergic?", "Otto"),
        *("Tell me about Ty", "Ty?", "Did I see Ty?", "did I take K?", "Do I have AAA?", "the bee?", "Lee tomorrow?"),
        *("Hello, is Jonah here?", "Snow here!", "Hi, my fever is here again", "Jonah here?", "Thanks, Anna"),
        *("whats on tomorrow?", "wheres she now?", "When's it?", "whos he", "hi, whats that", "Im Garten?"),
        *("Guter Tee?", "Tee bitte", "Biss", "Ty tomorrow", "¿Y yo?", "Ist mit ihm alles in Ordnung?", "Is he at GM?"),
        *("Bis später wohin?", "Wie geht's Oma?", "Who is here again?", "Hi, what was Rhea here for again?"),
    ],
)
def test_a_question_is_no_small_talk(query):
    assert not Question.parse(query).is_small_talk


def test_a_hit_is_compared_by_its_relevance_across_scopes():
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    with AgentMemory.in_memory() as memory:
        for scope, fact in (("user/a", "Alice lives in Lyon"), ("user/b", "The boathouse has a green door")):
            memory.remember_many([SemanticMemory.new(scope=scope, fact=fact, valid_at=moment)])
        right, wrong = (
            memory.retrieve("Where does Alice live?", scope=scope, record=False).semantic[0]
            for scope in ("user/a", "user/b")
        )
        assert right.score < 3 * wrong.score
        assert right.relevance > 5 * wrong.relevance


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("I moved to Nice.", "Where do I live?"),
        ("I moved to Nantes.", "Where do I live?"),
        ("She can't eat nuts.", "Any allergies?"),
        ("My sister had a baby.", "Am I an uncle?"),
        ("The meeting is at four.", "When do we meet?"),
    ],
)
def test_what_was_said_in_other_words_is_recalled_from_a_small_scope(said, asked):
    with AgentMemory.in_memory() as memory:
        memory.add_messages(SCOPE, [{"role": "user", "content": said}])
        assert found(memory, asked, min_relevance="auto")[1] == [said]
        assert found(memory, "Which planet is the largest?", min_relevance="auto")[1] == []


@pytest.mark.parametrize("query", ["zzz qqq", "blorf wug frobnicate", "Who won the football match yesterday?"])
def test_what_stands_out_by_chance_alone_is_not_recalled(history, query):
    found_now = history.retrieve(query, scope=SCOPE, min_relevance="auto", record=False)
    assert {each.memory.category for each in found_now.semantic} <= {Category.GUIDELINE}
    assert found_now.episodic == ()


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What should I not cook for her?", "Alice is allergic to peanuts"),
        ("Where does the user live, and what do they eat?", "Alice is allergic to peanuts"),
        ("Where does she live now?", "Alice has moved from Lyon to Nantes"),
    ],
)
def test_among_few_facts_one_that_answers_in_other_words_is_not_silenced(question, answer):
    with AgentMemory.in_memory() as memory:
        for fact in ("Alice is allergic to peanuts", "Alice plays the cello", "Alice has moved from Lyon to Nantes"):
            memory.remember_fact(scope="u", fact=fact)
        found = memory.retrieve(question, scope="u", min_relevance="auto").semantic
        assert found[0].memory.fact == answer


TOLD = (
    ("I'm allergic to penicillin, by the way.", "Which medicine must I avoid?"),
    ("The plumber is called Mr. Novak, his number is 555-0199.", "Who fixes our pipes?"),
    ("The landlord raised the rent to 1,250 euros.", "How much do I pay for the flat?"),
    ("I'm learning Portuguese with an app.", "Which language am I studying?"),
    ("I owe Marta forty euros.", "Who do I have to pay back?"),
    ("My cousin's getting married at the Grand Ballroom.", "Which venue did we discuss for the family event?"),
    ("My daughter is lactose intolerant.", "Which dessert is safe for our girl?"),
)
GENERAL = (
    *("How do I center a div?", "Explain recursion", "Who wrote Hamlet?", "What is the meaning of life?"),
    *("Which is heavier, gold or lead?", "How do vaccines work?", "Who is the president of the USA?"),
    *("Tell me about the French Revolution", "Recommend a podcast about history"),
)


@pytest.fixture(scope="module")
def months():
    """A memory of a user's conversations, each of which also asks for something else."""
    clock = FixedClock(datetime(2026, 3, 1, tzinfo=UTC))
    asked = ("Can you write a haiku about rain?", "What's the capital of Peru?", "How do I reverse a list in Python?")
    with AgentMemory.in_memory(clock=clock) as memory:
        for number, (sentence, _) in enumerate(TOLD * 4):
            words = (sentence, "Thanks, I'll keep that in mind.", asked[number % 3], "Sure, here you go.")
            if number >= len(TOLD):
                words = (f"The {WORDS[number % len(WORDS)]} is in the {WORDS[number * 5 % len(WORDS)]}.", *words[1:])
            roles = ("user", "assistant") * 2
            messages = [{"role": role, "content": text} for role, text in zip(roles, words, strict=True)]
            memory.add_messages(SCOPE, messages, conversation=str(number))
            clock.advance(days=1)
            memory.process_due()
        yield memory


@pytest.mark.parametrize(("sentence", "question"), TOLD)
def test_who_asks_about_themselves_in_other_words_is_answered(months, sentence, question):
    assert sentence in said(months, question, min_relevance="auto")


@pytest.mark.parametrize(
    "question",
    [
        "What's my profession?",
        "Wo arbeite ich?",
        "Quel est mon métier ?",
        "¿Dónde vivo yo?",
        "我在哪里工作？",
        "私の仕事は何ですか？",
    ],
)
def test_what_somebody_asks_about_themselves_is_answered_by_the_nearest_where_nothing_is_near(months, question):
    assert len(said(months, question, min_relevance="auto")) == 3


@pytest.mark.parametrize(
    "question",
    [
        "What should I wear?",
        "What do I do now?",
        "What am I doing wrong?",
        "Where was I in May 2019?",
        "Where is my error?",
    ],
)
def test_who_asks_for_advice_or_of_another_time_is_told_nothing_that_is_only_nearest(months, question):
    assert said(months, question, min_relevance="auto") == []


@pytest.mark.parametrize("question", GENERAL)
def test_what_everybody_may_know_recalls_nothing(months, question):
    assert said(months, question, min_relevance="auto") == []


@tried_in_one(
    "query, is_personal",
    [
        ("What did we agree on?", True),
        ("who's MY dentist", True),
        ("I've lost my keys", True),
        ("What do I like best?", True),
        ("Welche Arznei muss ich meiden?", True),
        ("Où habite ma sœur ?", True),
        ("¿Cómo se llama mi perro?", True),
        ("我住在哪里？", True),
        ("私の犬の名前は？", True),
        ("Recommend a restaurant", True),
        ("It's wet.\nWhat does the guide suggest in Lisbon?", True),
        ("Had Thai yesterday. Recommend something else for dinner", True),
        ("Tom has Thursday off: recommend a restaurant", True),
        ("What book did Caroline recommend to Melanie?", False),
        ("Did Dr. Lee recommend a diet?", False),
        ("Que recommande Élodie, who recommends Gina's suggestion?", False),
        ("How do I sort a list?", False),
        ("how can we stop climate change", False),
        ("给我讲个笑话", False),
        ("Give me a recipe", False),
        ("Where does Alice live?", False),
        ("Miss Marple's weirdest case", False),
    ],
)
def test_a_query_in_the_first_person_is_told_by_its_words(query, is_personal):
    assert Question.parse(query).is_personal is is_personal


@pytest.mark.parametrize(
    ("question", "asks_for_all"),
    [
        ("What do you know about me?", True),
        ("Please summarise what you remember of us.", True),
        ("Tell me something about myself", True),
        ("do you still remember me", True),
        ("Who am I?", True),
        ("What do you remember?", True),
        ("Was weißt du über mich?", True),
        ("Was hast du dir über mich gemerkt?", True),
        ("Que sais-tu de moi ?", True),
        ("¿Qué sabes sobre mí?", True),
        ("你知道我什么？", True),
        ("私について何を知っていますか", True),
        ("What do you know about Alice?", False),
        ("Do you remember me telling you of the boat?", False),
        ("Tell me a joke", False),
        ("Who are you?", False),
        ("Do you know when Bruno left?", False),
    ],
)
def test_a_question_for_all_that_is_known_of_whoever_asks_is_never_silenced(months, question, asks_for_all):
    assert Question.parse(question).asks_for_all is asks_for_all
    if asks_for_all:
        assert len(said(months, question, min_relevance="auto")) == 5
        assert len(said(months, question, min_relevance=0.99)) < 5


JOBS = ("I work at the bakery on Main Street.", "I quit. I started at a bookshop last week.")
OTHERS = tuple(f"The {one} is in the {another}." for one, another in zip(WORDS, WORDS[7:] + WORDS[:7], strict=True))


@pytest.fixture
def told():
    """Makes a memory that was told sentences, each in a conversation of its own and a day after the one before."""
    with ExitStack() as opened:

        def make(*sentences):
            clock = FixedClock(datetime(2026, 3, 1, tzinfo=UTC))
            memory = opened.enter_context(AgentMemory.in_memory(clock=clock))
            for number, sentence in enumerate(sentences):
                clock.advance(days=1)
                words = (("user", sentence), ("assistant", "Noted."), ("user", "Good."), ("assistant", "Bye."))
                messages = [{"role": role, "content": text} for role, text in words]
                memory.add_messages(SCOPE, messages, conversation=str(number))
                memory.process_due()
            return memory

        yield make


def said(memory, query, **options):
    hits = memory.retrieve(query, scope=SCOPE, record=False, **options).episodic
    return [hit.memory.messages[0].content for hit in hits]


def test_what_is_newer_than_an_answer_and_about_the_same_is_recalled_beside_it(told):
    found_now = said(told(JOBS[0], *OTHERS, JOBS[1]), "Where does the user work now?", min_relevance="auto")
    assert found_now[0] == JOBS[0]
    assert JOBS[1] in found_now
    assert JOBS[1] not in said(told(JOBS[1], *OTHERS, JOBS[0]), "Where does the user work now?", min_relevance="auto")


def test_behind_a_good_fact_what_is_far_less_relevant_is_recalled_unless_it_is_older():
    drivers = ("Lars takes me to the airport.", "Lars has a broken foot, Anke drives me.")
    asked = {"query": "Who takes me to the airport?", "scope": SCOPE, "min_relevance": "auto", "record": False}
    for days in ((1, 2), (1, 1), (2, 1)):
        with AgentMemory.in_memory() as memory:
            for fact, day in zip(drivers, days, strict=True):
                memory.remember_fact(scope=SCOPE, fact=fact, valid_at=f"2026-02-0{day}")
            kept = {hit.memory.fact for hit in memory.retrieve(**asked).semantic}
        assert kept == ({drivers[0]} if days == (2, 1) else {*drivers})


def test_a_list_has_what_a_question_for_one_thing_leaves_out_behind_a_good_fact():
    facts = (
        *("Logs go to Loki", "Secrets are in Vault", "The ledger runs on Postgres"),
        *("Pavel has the keys of the cluster", "We use a database called stg-ledger"),
    )
    asked = {"scope": SCOPE, "min_relevance": "auto", "record": False}
    with AgentMemory.in_memory() as memory:
        for day, fact in enumerate(facts, start=1):
            memory.remember_fact(scope=SCOPE, fact=fact, valid_at=f"2026-02-0{day}")
        one, all_of_them = (
            {hit.memory.fact for hit in memory.retrieve(query, **asked).semantic}
            for query in ("Which database do we use?", "Which databases do we use?")
        )
    assert {facts[2], facts[4]} <= one < all_of_them


def test_what_is_newer_is_recalled_below_the_floor_of_the_embedder_alone(told):
    memory = told(JOBS[0], *OTHERS, JOBS[1])
    first, second = (
        hit.relevance for hit in memory.retrieve("Where does the user work now?", scope=SCOPE).episodic[:2]
    )
    assert said(memory, "Where does the user work now?", min_relevance=(first + second) / 2) == [JOBS[0]]


def test_a_fact_that_was_said_to_hold_no_more_is_not_recalled_alone(told):
    memory = told(*OTHERS[:12])
    moved = "We moved, it is Leipzig now."
    memory.remember_fact(scope=SCOPE, fact="I live in Hamburg with my sister.", valid_at="2026-02-01")
    memory.add_messages(SCOPE, [{"role": "user", "content": moved}], conversation="today")
    asked = "Where does the user live?"
    result = memory.retrieve(asked, scope=SCOPE, min_relevance="auto", record=False, episodic_limit=20)
    assert [hit.memory.fact for hit in result.semantic] == ["I live in Hamburg with my sister."]
    assert moved in [hit.memory.messages[0].content for hit in result.episodic]


def test_facts_that_begin_with_the_same_name_are_not_for_that_alone_newer_ones_about_the_same():
    museums = ("science", "railway", "art", "toy", "folk", "glass", "clock", "wine", "film", "war", "music", "design")
    facts = [
        "rides a red bike to work",
        *(f"visited the {each} museum" for each in (*museums, "post", "city", "chess")),
    ]
    facts += ["has a sister named Ana", "likes tea", "is allergic to nuts", "sold the bike, the tram is faster"]
    with AgentMemory.in_memory() as memory:
        for day, fact in enumerate(facts, start=1):
            memory.remember_fact(scope=SCOPE, fact=f"Alice {fact}", valid_at=f"2026-01-{day:02}")
        asked = "What colour is Alice's bike?"
        found_now = memory.retrieve(asked, scope=SCOPE, min_relevance="auto", record=False).semantic
    told = [hit.memory.fact.removeprefix("Alice ") for hit in found_now]
    assert {facts[0], facts[-1]} <= {*told}
    assert len(told) < 10  # all, if every newer one were


def test_what_is_always_known_brings_nothing_along(told):
    memory = told(*OTHERS, "My aunt sent walnuts again, a large parcel.")
    memory.remember_fact(
        scope=SCOPE, fact="My aunt sends parcels of walnuts", category="guideline", valid_at="2026-02-01"
    )
    result = memory.retrieve("Which planet is the largest?", scope=SCOPE, min_relevance="auto", record=False)
    assert ([hit.memory.fact for hit in result.semantic], result.episodic) == (["My aunt sends parcels of walnuts"], ())


@pytest.fixture(scope="module")
def asked_often():
    clock = FixedClock(datetime(2026, 1, 5, 9, tzinfo=UTC))
    with AgentMemory.in_memory(clock=clock) as opened:
        talks = [
            ("We live at 14 Mill Lane in Leeds.", "Noted."),
            *[("Where do I live?", "You live at 14 Mill Lane in Leeds.")] * 4,
            *[("Remind me, where do I live?", "As you told me, you live at 14 Mill Lane in Leeds.")] * 4,
            ("We moved last weekend, the new address is 3 Kirkgate Gardens, Otley.", "Congratulations!"),
        ]
        for place, (said, answered) in enumerate(talks):
            messages = [Message(role="user", content=said), Message(role="assistant", content=answered)]
            opened.add_messages(SCOPE, messages, conversation=f"t{place}")
            clock.advance(days=3)
        opened.flush(SCOPE)
        yield opened


def test_a_question_that_was_asked_often_does_not_fill_the_limit_with_itself(asked_often):
    found = asked_often.retrieve("Where do I live?", scope=SCOPE, min_relevance="auto", record=False).episodic
    said = [hit.memory.messages[0].content for hit in found]
    assert any("Kirkgate" in each for each in said)
    assert len(found) == 5
    assert [hit.rank for hit in found] == [1, 2, 3, 4, 5]
    explained = asked_often.explain("Where do I live?", scope=SCOPE, min_relevance="auto").episodic
    assert {each.id for each in explained} == {hit.memory.id for hit in found}


def test_without_the_floor_what_was_said_often_is_ranked_as_it_is(asked_often):
    found = asked_often.retrieve("Where do I live?", scope=SCOPE, record=False).episodic
    assert not [hit for hit in found if "Kirkgate" in hit.memory.messages[0].content]
