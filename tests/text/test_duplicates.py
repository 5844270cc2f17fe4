"""When two memories are the same one."""

from cases import tried_in_one
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers.backends.embeddings.minilm import MiniLMEmbedder
from memory_retrievers.settings import IngestionSettings
from memory_retrievers.text import duplicates
from memory_retrievers.text.duplicates import (
    _Compared,
    _may_replace,
    contradicted,
    contradictory,
    discriminating_tokens,
    is_duplicate,
    said_again,
)

SETTINGS = IngestionSettings()
OTHER_DETAILS = [
    ("The door code is 4711", "The door code is 4712"),
    ("User is allergic to nuts", "User is not allergic to nuts"),
    ("The meeting is at 3 pm on Monday", "The meeting is at 4 pm on Monday"),
    ("Invoice 2024-001 is unpaid", "Invoice 2024-002 is unpaid"),
    ("Test memory number 3", "Test memory number 4"),
    ("Alice prefers tea over coffee", "Alice prefers coffee over tea"),
    ("The flight goes from Paris to Rome", "The flight goes from Rome to Paris"),
    ("The user's mother is older than his father", "The user's father is older than his mother"),
]
OTHER_WORDS = [
    ("User takes the pill before breakfast", "User takes the pill after breakfast"),
    ("Dark mode is enabled", "Dark mode is disabled"),
    ("The user moved to Paris", "The user moved from Paris"),
    ("The meeting lasts one hour", "The meeting lasts two hours"),
    ("User sleeps at least eight hours", "User sleeps at most eight hours"),
    ("The user owes money to his brother", "The user owes money to her brother"),
    ("It rained. Tea was served.", "It rained. Coffee was served."),
    ("User bezahlt am Anfang des Monats", "User bezahlt am Ende des Monats"),
    ("航班从巴黎到罗马", "航班从罗马到巴黎"),
]
DIFFERENT = [*OTHER_DETAILS, *OTHER_WORDS]
words = st.lists(
    st.sampled_from(
        ["User", "Lyon", "lives", "not", "isn't", "isn’t", "never", "3", "4711.", "Dr.", "in", "不", "三点", "!"]
    )
).map(" ".join)
texts = words | st.text(max_size=40)


def near(first, second, *, cosine=1.0, settings=SETTINGS):
    return is_duplicate(first, second, cosine=cosine, settings=settings)


@tried_in_one("first, second", DIFFERENT)
def test_pairs_that_differ_in_a_detail_stay_two_memories_however_near(first, second):
    assert not near(first, second)


def test_those_pairs_are_near_enough_that_their_cosine_alone_would_merge_them():
    embedder = MiniLMEmbedder()
    for first, second in (*DIFFERENT[:2], *DIFFERENT[5:8]):
        vectors = embedder.embed_documents([first, second])
        assert near(first, second, cosine=float(vectors[0] @ vectors[1]), settings=IngestionSettings.reference())


@tried_in_one("first, second", DIFFERENT)
def test_the_bare_rule_of_the_reference_merges_them(first, second):
    assert near(first, second, settings=IngestionSettings.reference())


@tried_in_one(
    "first, second",
    [
        ("User lives in Lyon", "The user lives in Lyon."),
        ("User isn't fond of tea", "User is not fond of tea"),
        ("User isn’t fond of tea", "User isnt fond of tea"),
        ("User cannot swim", "User can't swim"),
        ("User lives in Lyon, France", "The user lives in Lyon, in France"),
        ("The code is 4711.", "The code is (4711)"),
        ("She lives in LYON", "She lives in Lyon"),
        ("The code is ４７１１", "The code is 4711"),  # full-width digits
        ("用户不喜欢茶", "用户不太喜欢喝茶"),
    ],
)
def test_other_words_for_the_same_details_are_the_same_memory(first, second):
    assert near(first, second)


@tried_in_one(
    "first, second",
    [
        ("User lives in Lyon", "User lives in Paris"),
        ("User met Dr. Smith", "User met Dr. Jones"),
        ("User met J. Smith", "User met J. Jones"),
        ("User has an iPhone", "User has an iPad"),
        ("User drinks coffee with milk", "User drinks coffee without milk"),
        ("User eats meat", "User never eats meat"),
        ("User never smokes", "User never, never smokes"),
        ("It was -5 degrees", "It was 5 degrees"),
        ("User pays 5% interest", "User pays 5 interest"),
        ("The file is v1.5.9", "The file is v1.5.8"),
        ("用户喜欢茶", "用户不喜欢茶"),
        ("用户有孩子", "用户没有孩子"),
        ("会议在三点", "会议在四点"),
        ("我有3只猫", "我有4只猫"),
        ("ユーザーは猫が好き", "ユーザーは猫が好きではない"),
        ("저는 고기를 먹는다", "저는 고기를 안 먹는다"),
        ("Er ist müde", "Er ist nicht müde"),
        ("Er hat einen Hund", "Er hat keinen Hund"),
    ],
)
def test_numbers_negations_and_names_make_two_memories(first, second):
    assert not near(first, second)


def test_the_same_words_in_another_order_may_contradict_each_other():
    texts = ["Alice prefers tea over coffee", "Alice has a cat", "Alice prefers coffee over tea", "Alice has a cat."]
    assert contradictory(texts) == [[0, 2]]


ONE_AFTER_THE_OTHER = [
    ("Anna is married to Tom", "Anna is divorced from Tom"),
    ("The user works as a nurse", "The user works as a teacher"),
    ("User is single", "User is in a relationship"),
    ("User works at the Saint-Joseph hospital", "User works at a private clinic"),
    ("User lives in a flat in Lyon", "User lives in Grenoble with her sister"),
    ("Nutzerin arbeitet bei Siemens in München", "Nutzerin arbeitet bei einer kleinen Bäckerei"),
    ("User rents a flat in Porto", "User owns a flat in Porto."),
    ("User trains for a marathon", "User ran the marathon"),
    ("Anna ist ledig", "Anna ist verheiratet"),
    ("Anna est célibataire", "Anna est mariée"),
    ("安娜和汤姆结婚了", "安娜和汤姆离婚了"),
    ("User lives in a studio in Utrecht", "User has moved to her parents' house in Breda"),
    ("User is based in Denver", "User will move to Austin"),
    ("User lives in Leeds", "User moved to a small village in Kent"),
    ("User lives in Leeds", "User moved to the countryside"),
    ("User works as a nurse at St. Mary's", "User works as a teacher at Fairfield school"),
    ("User has a job as a waiter", "User is training to be an electrician"),
    ("User has worked as a nurse for ten years", "User works as a teacher"),
    ("User works for the city council", "User started at a law firm"),
    ("Nutzerin wohnt in Bremen", "Nutzerin ist nach Kassel gezogen"),
    ("L'utilisateur travaille pour la SNCF", "L'utilisateur travaille chez Airbus"),
    ("La usuaria vive en Murcia", "La usuaria se ha mudado a Valencia"),
    ("用户在华为上班", "用户跳槽到小米"),
    ("ユーザーは札幌に住んでいる", "ユーザーは福岡へ引っ越した"),
]
ONE_BESIDE_THE_OTHER = [
    ("User has a brother", "User has a sister"),
    ("User's mother is a doctor", "User's father is a doctor"),
    ("Her mother is a doctor", "Her father is a doctor"),
    ("The endpoint /users needs a token", "The endpoint /orders needs a token"),
    ("User is allergic to nuts", "User is allergic to shellfish"),
    ("User bought a bike last year", "User went to the sea for a week"),
]


@tried_in_one("earlier, later", ONE_AFTER_THE_OTHER)
def test_what_may_hold_one_after_the_other_contradicts_in_other_words(earlier, later):
    assert contradictory([earlier, "User likes tea", later]) == [[0, 2]]
    assert list(contradicted(later, [("User likes tea", 0.0), (earlier, 0.7)], settings=SETTINGS)) == [1]


@tried_in_one(
    "earlier, later",
    [
        ("User smokes ten cigarettes a day", "User quit smoking"),
        ("User drives a Golf", "User sold the Golf and cycles to work"),
        ("User has a dog named Rex", "Rex died."),
        ("The user's son lives at home with his cat", "The user's son moved out"),
        ("The project uses MongoDB", "The project switched from MongoDB to PostgreSQL"),
        ("Nutzerin hat einen Hund namens Bello", "Bello ist gestorben"),
        ("L'utilisateur a une voiture rouge", "L'utilisateur a vendu la voiture"),
        ("用户养了一只狗", "用户的狗死了"),
        ("Nutzerin ist mit Jan verlobt", "Nutzerin hat sich von Jan getrennt"),
        ("Le rendez-vous chez le kiné est lundi", "Le rendez-vous chez le kiné est reporté à jeudi"),
        ("用户周五看牙医", "牙医改到周一"),
        ("歯医者は金曜日", "歯医者は月曜日に変更"),
    ],
)
def test_a_text_that_tells_a_change_goes_with_what_has_changed(earlier, later):
    assert contradictory([earlier, "User likes tea", later]) == [[0, 2]]
    assert contradictory([later, "User likes tea", earlier]) == [[0, 2]]


@tried_in_one(
    "texts",
    [
        ["User has a cat", "User got a new sofa"],
        ["User has a dog named Rex", "Rex likes cheese"],
        ["L'utilisateur joue du piano à l'église", "Le voisin de l'utilisateur a vendu sa maison à Lille"],
        ["El usuario trabaja en Renfe", "La prima del usuario compró un coche"],
        ["ユーザーは寿司が好き", "ユーザーはピアノをやめた"],
        [*(f"User plays tennis with {name}" for name in ("a friend", "a cousin", "a neighbour")), "User quit tennis"],
    ],
)
def test_what_has_no_topic_in_common_or_one_of_many_has_not_changed(texts):
    assert not any(len(texts) - 1 in group for group in contradictory(texts))


@tried_in_one(
    "one, other",
    [
        ("User works with Figma", "User works with Anna on the checkout"),
        ("User works in Lisbon", "User works in the evening on a novel"),
        ("User works at a bank", "User works at night"),
        ("L'utilisateur travaille chez Airbus", "L'utilisateur travaille à domicile"),
        ("L'utilisateur travaille chez Airbus", "L'utilisateur travaille à temps partiel"),
        ("El usuario trabaja en Iberia", "El usuario trabaja en casa los viernes"),
        ("ユーザーはトヨタで働いている", "ユーザーは自宅で働いている"),
        ("User drives Mia to school", "User drives a Skoda Octavia"),
        ("User works at the bakery", "User works at the bakery"),
        ("User works at a bakery", "User works at a bakery in the old town"),
        ("User starts at 7 every morning", "User works at a bakery"),
        ("User lives in Oslo", "User's sister moved to Bergen"),
        ("User lives in Oslo", "User moved to a vegetarian diet"),
        ("User lives in Oslo", "User moved to the night shift"),
        ("User lives in Oslo", "User moved to part-time"),
        ("User works as a nurse", "User works at night"),
        ("User works as a nurse", "User plays as a goalkeeper"),
        ("User works as a nurse", "User worked as a barista in college"),
        ("Nutzer wohnt in Bonn", "Nutzer ist nach Rom geflogen"),
        ("用户在家工作", "用户在阿里上班"),
    ],
)
def test_what_is_no_other_place_to_work_and_no_other_car_contradicts_nothing(one, other):
    assert not list(contradicted(other, [(one, 0.0)], settings=SETTINGS))
    assert contradictory([one, other]) == []


def test_who_was_born_or_won_somewhere_has_changed_nothing_of_that_place():
    assert contradictory(["User lives in Hamburg", "User's son Emil was born in Hamburg"]) == []
    assert contradictory(["User is based in Porto", "User won a big chess prize in Porto"]) == []
    assert contradictory(["Der Nutzer hört gern Musik und Käse", "Der Nutzer hat ein neues Fahrrad gekauft"]) == []
    # all is about the user
    assert contradictory(["The user's son moved out", "User likes tea"]) == []
    # and what only small words have in common has no topic
    assert contradictory(["Der Nutzer hat zwei Kinder", "Der Nutzer hat ein neues Fahrrad gekauft"]) == []


def test_many_that_differ_in_a_word_are_a_list():
    texts = [f"Carol {verb} her bees behind the old barn" for verb in ("feeds", "counts", "paints", "sells")]
    assert contradictory(texts[:3]) == [[0, 1, 2]]
    assert not contradictory(texts)
    assert not list(contradicted(texts[0], [(text, 0.7) for text in texts[1:]], settings=SETTINGS))
    moved = [f"User lives in {city}" for city in ("Porto", "Braga", "Faro", "Lagos")]
    assert contradictory(moved) == [[0, 1, 2, 3]]


@tried_in_one("one, other", ONE_BESIDE_THE_OTHER)
def test_what_holds_of_another_thing_does_not_contradict(one, other):
    assert not contradictory([one, other])
    assert not list(contradicted(one, [(other, 0.7)], settings=SETTINGS))


def test_the_first_word_of_a_sentence_is_no_name():
    assert near("Tea is what user likes", "Green tea is what user likes")
    assert not discriminating_tokens("It rained. Tea was served.")
    assert not discriminating_tokens('He said "yes." Tea followed')


def test_a_cosine_below_the_border_is_never_the_same():
    assert not near("same", "same", cosine=0.949)


def test_the_border_itself_counts_also_when_rounding_takes_a_little():
    assert near("same", "same", cosine=0.95)
    assert near("same", "same", cosine=0.95 - 5e-7)


def test_another_border_can_be_set():
    assert near("same", "same", cosine=0.8, settings=IngestionSettings(same_cosine=0.8))


def test_details_are_counted():
    assert discriminating_tokens("2 of 2, never 3") != discriminating_tokens("2 of 3, never 3")


@given(texts, texts, st.floats(-1, 1))
def test_the_order_of_the_two_does_not_matter(first, second, cosine):
    assert near(first, second, cosine=cosine) == near(second, first, cosine=cosine)


@given(texts)
def test_a_text_is_the_same_as_itself(text):
    assert near(text, text)


@given(texts, st.floats(-1, 0.9499))
def test_what_is_far_is_another_memory(text, cosine):
    assert not near(text, text, cosine=cosine)


@given(words, st.integers(0, 10**6))
def test_a_number_more_makes_another_memory(text, number):
    assert not near(text, f"{text} {number}")


@given(texts, texts)
def test_comparing_details_only_ever_keeps_more_apart(first, second):
    assert near(first, second, settings=IngestionSettings.reference())


@given(texts, texts)
def test_what_differs_or_may_replace_is_found(first, second):
    compared, other = _Compared(first), _Compared(second)
    found = list(contradicted(first, [(second, 0.0)], settings=SETTINGS))
    may_replace = _may_replace(compared, other) or compared.kind == other.kind is not None
    assert found == ([0] if compared.differs_from(other) or (found and may_replace) else [])


def test_the_texts_of_a_block_are_taken_apart_once_each(monkeypatch):
    """Each pair of long ones took as long: fifty facts of a thousand characters without spaces, a second."""
    asked = []
    monkeypatch.setattr(duplicates, "_words_of", lambda text: asked.append(text) or [*text])
    facts = [
        "用户住在上海的老房子里",
        "用户住在北京的新房子里",
        "用户住在广州",
        "用户住在成都的公寓",
        "用户住在西安的郊区",
    ]
    contradictory(facts)
    assert len(asked) <= 2 * len(facts)


@tried_in_one("earlier, later", OTHER_DETAILS)
def test_a_talk_of_other_numbers_names_or_negations_is_not_told_again(earlier, later):
    assert 0 not in said_again([f"{earlier}. Noted!", f"{later}. Noted!"]) or "not" in later
    assert said_again([f"{earlier}. Noted!", f"{earlier}. I see!"]) == [0]
