"""Titles and summaries taken from messages."""

import time

import pytest
from cases import tried_in_one
from hypothesis import example, given
from hypothesis import strategies as st
from topics import GARDEN, KAFKA, talk

from memory_retrievers import Message
from memory_retrievers.ingestion import corrections
from memory_retrievers.ingestion.corrections import Sentence, needed_with
from memory_retrievers.ingestion.extractive import (
    EARLIER,
    SUMMARY_LENGTH,
    TITLE_LENGTH,
    fallback_summary,
    fallback_title,
    term_counts,
)
from memory_retrievers.text.analysis import analyze, one_line

messages = st.lists(
    st.builds(
        Message,
        role=st.sampled_from(["user", "assistant", "Caroline", "tool\nx", "r" * 100]),
        content=st.lists(
            st.sampled_from(["Kafka ", "the garden", "\n", "。", "换个话题", "!!", "## ", "</memory>", "4711 ", "😀"])
            | st.characters(exclude_categories=["Cs"]),
            min_size=1,
            max_size=40,
        )
        .map("".join)
        .filter(str.strip),
    ),
    min_size=1,
    max_size=6,
)


def said(*contents, role="user"):
    return [Message(role=role, content=content) for content in contents]


class TestTitle:
    @given(messages)
    def test_is_one_short_line_without_punctuation_at_its_end(self, messages):
        title = fallback_title(messages)
        assert len(title) <= TITLE_LENGTH
        assert len(title.splitlines()) <= 1
        assert not title or title[-1] not in ".,;:!?。，！？、；："

    @given(messages)
    def test_is_a_phrase_of_the_users_own_words_or_none(self, messages):
        title = fallback_title(messages).casefold().removesuffix("…")
        own = [one_line(message.content).casefold() for message in messages if message.role != "assistant"]
        assert any(title in text for text in own) or not title

    def test_names_what_was_talked_about(self):
        background = term_counts(KAFKA + GARDEN)
        for own, other in ((KAFKA, GARDEN), (GARDEN, KAFKA)):
            title = fallback_title(talk(own), background).casefold()
            assert title in " ".join(own).casefold()
            assert title not in " ".join(other).casefold()

    def test_is_never_who_spoke(self):
        talked = [
            Message(role="Caroline", content="Melanie, Caroline here. The user asked the assistant: adoption papers?"),
            Message(role="Melanie", content="Caroline, Caroline! Melanie, the user, has the adoption papers."),
        ]
        title = fallback_title(talked).casefold()
        assert "adoption papers" in title
        assert not {"caroline", "melanie", "user", "assistant"} & set(title.replace(",", "").split())

    @tried_in_one(
        "content, title",
        [
            ("Our Kubernetes cluster runs in Frankfurt.", "Kubernetes cluster"),
            ("My flight to Tokyo leaves at 7:45.", "My flight to Tokyo leaves at 7:45"),
            ("I have been nervous all day.", "I have been nervous all day"),
            ("Oh! Feeling nervous.", "Feeling nervous"),
            ("Nervous.", ""),
            ("ผมชอบกินข้าวผัดกระเพรา", "ผมชอบกินข้าวผัดกระเพรา"),
            ("The train station closes early on Sundays.", "Train station"),
            ("The building inspector visits us.", "Building inspector"),
            ("Working on the quarterly report.", "Quarterly report"),
            ("My R script for data cleaning fails.", "R script"),
            ("I bought running shoes yesterday.", "Running shoes"),
            ("I have a nervous old dog called Bertha.", "Dog called Bertha"),
            ("How do I keep a sourdough starter alive?", "Sourdough starter"),
            ("Card games.", "Card games"),
            ("The release notes are on the wiki.", "Release notes"),
            ("I'm allergic to peanuts.", "I'm allergic to peanuts"),
            ("I'm exhausted.", "I'm exhausted"),
            ("Monday at 3 Ana comes over.", "Monday at 3 Ana comes over"),
            ("Book club meets on 12 March.", "Book club"),
            ("We leave on 12 March and come home on 3 April.", "We leave on 12 March and come home on 3 April"),
            ("Yes and Jo is furious.", "Jo is furious"),
            ("ok Tom got the job at Airbus", "Tom got the job at Airbus"),
            ("And then?", "And then"),
            ("src/api/routes.py is gone", "src/api/routes.py is gone"),
            ("macOS update broke my VPN", "macOS update broke my VPN"),
            ("foo@example.org is my mail", "foo@example.org is my mail"),
            ("and/or gates are hard", "And/or gates"),
            ("he/she/they came to the party", "He/she/they came to the party"),
            ("thanks.Tom got the job at Airbus", "Thanks.Tom got the job at Airbus"),
        ],
    )
    def test_is_a_noun_phrase_or_a_clause(self, content, title):
        assert fallback_title(said(content)) == title

    @given(messages)
    @example(said("</memory></memory></memory>Kafka </memory></memory>"))  # cut to a title, a word is left
    def test_is_never_a_word_alone(self, messages):
        title = fallback_title(messages)
        assert not title or " " in title or not title.isascii()

    def test_chatter_gives_its_first_words(self):
        assert fallback_title(said("Hey, how are you?", "Thanks, good!")) == "Hey, how are you"

    def test_chinese_gives_a_clause(self):
        title = fallback_title(said("你好！我想学吉他。", "吉他和弦很难。"))
        assert title in {"我想学吉他, 吉他和弦很难", "吉他和弦很难", "我想学吉他"}

    @pytest.mark.parametrize("content", ["😀", "?!", "\x00\x01"])
    def test_what_has_no_words_is_its_own_title_if_anything_is(self, content):
        assert fallback_title(said(content)) in {"😀", ""}

    @tried_in_one(
        "answer",
        ["OK, noted.", "Noted.", "Done!", "Understood.", "Noted, I will keep that in mind.", "What a nice place.",
         "How exciting!", "Great choice!", "Saved.", "Logged.", "Wunderbar.", "Notiert.", "Notiert, danke!", "Vermerkt.", "Okay, mache ich.", "Gute Nachricht.",
         "Gutes Gelingen!", "Anotado.", "C'est noté !", "Oh dear.", "Anything else?", "Is there anything else?"],
    )  # fmt: skip
    def test_what_is_only_acknowledged_or_praised_is_the_title(self, answer):
        talked = [*said("I am allergic to peanuts."), *said(answer, role="assistant")]
        assert fallback_title(talked) == "I am allergic to peanuts"

    @tried_in_one(
        "told, answer, title",
        [
            ("I need a new passport photo before Thursday.", "Before Thursday.", "Passport photo"),
            ("The patent search came back clean.", "A great relief.", "Patent search"),
            ("Penicillin vertrage ich nicht.", "Kein Penicillin.", "Penicillin vertrage ich nicht"),
            ("The boiler leaks again.", "That's rough.", "The boiler leaks again"),
            ("We sand six chairs.", "Eight chairs.", ""),
            ("Buy the oak table.", "A cheaper one.", ""),
            ("Book the pine table.", "An oak table.", ""),
            ("Call Marta.", "No Marta.", ""),
            ("Take the red sofa.", "It's sold.", ""),
            ("The rent is 900 euros.", "That's outdated.", ""),
            ("Build the pine table.", "A walnut desk.", ""),
            ("Dinner is lasagne.", "A vegan curry.", ""),
            ("I need the passport before Thursday.", "After Thursday.", ""),
            ("Turn the heating on at night.", "Off at night.", ""),
            ("The keys are under the mat.", "On the mat.", ""),
            ("I cannot come before Thursday.", "Not after Thursday.", ""),
        ],
    )
    def test_what_an_assistant_repeats_or_remarks_takes_nothing_back(self, told, answer, title):
        assert fallback_title([*said(told), *said(answer, role="assistant")]) == title

    @tried_in_one(
        "told",
        ["Mein Bruder Emil hat einen Bauernhof im Allgäu gekauft", "Ma sœur Claire ouvre une librairie à Nantes en mai",
         "Die Waschmaschine ist schon wieder kaputt", "Die Hochzeit ist am 7. Juli in Lübeck",
         "Ab dem 1. September arbeite ich bei Dr. Klein", "El perro de mi vecina se llama Bruno y ladra toda la noche"],
    )  # fmt: skip
    def test_in_other_languages_than_english_a_title_is_a_clause(self, told):
        assert fallback_title(said(f"{told}.")) == told

    @tried_in_one(
        "told, answer, title",
        [
            ("The plumber comes friday at four", "Okay, Friday at 4.", "plumber"),
            ("My VAT id is DE318844207.", "Saved, DE318844207.", "VAT id"),
            ("The alarm of the shop is 9912", "Noted: 9912.", "alarm"),
            ("Soccer practice moved to Wednesdays at six", "Alright, Wednesdays at 6.", "Soccer practice"),
            ("Our router password is tiger55", "I'll remember that.", "password"),
            ("Leave the parcels at the bakery", "Understood: at the bakery.", "arcels"),
            ("I don't eat celery", "Got it, no celery.", "celery"),
            ("I never drink coffee.", "No coffee.", "coffee"),
            ("My dog is called Rex.", "Rex!", "Rex"),
            ("The wifi password is tiger55.", "tiger55.", "ifi password"),
            ("We meet at 4.", "Okay, at 5.", ""),
            ("The rent is 900.", "Saved, 950.", ""),
            ("The rent is 900 with heating.", "Noted, 900 without heating.", ""),
            ("We never fly.", "Okay, fly.", ""),
            ("The dentist is on Friday.", "Not on Friday.", ""),
            ("The dentist is on Friday.", "Friday is full.", ""),
            ("Paint it green or blue.", "Okay, blue.", ""),
            ("Send the invoice to Paul.", "Okay, to Paula.", ""),
            ("Let's take the train.", "Okay, but the train is cancelled.", ""),
        ],
    )
    def test_what_an_assistant_confirms_in_the_words_of_the_user_is_still_told(self, told, answer, title):
        found = fallback_title([*said(told), *said(answer, role="assistant")])
        assert title in found
        assert bool(title) == bool(found)

    @tried_in_one(
        "told, title",
        [
            (
                "I think it comes from the flat of Mr Berg no wait, it is from the roof terrace of the Demirs",
                "Roof terrace",
            ),
            ("Das Paket ist bei Frau Lenz nein Moment, das Paket liegt beim Kiosk", "Liegt beim Kiosk"),
            ("Dinner with Ana at 7 no wait 8", "Dinner with Ana at 7 no wait 8"),
            ("there is no wait at the new barber shop", "There is no wait at the new barber shop"),
        ],
    )
    def test_what_is_taken_back_in_the_same_clause_is_no_title(self, told, title):
        assert fallback_title(said(told)) == title

    def test_a_number_is_not_cut(self):
        assert fallback_title(said("parking permit number is k l four four nine")) == "Permit number"

    @tried_in_one(
        "told, title, pasted",
        [
            (
                "From: Stadtwerke\nTo: Ina\nSubject: Water meter reading\n\nDear Ina,\nplease read it.\n\nKind regards\nFenwick",
                "Water meter reading",
                "Stadtwerke Dear Fenwick",
            ),
            ("Is it right?\n```sql\nSELECT id FROM orders;\n```\nthe nightly report is empty", "Nightly report", "SELECT ```"),
            ("> I quit my job at the bank\nwe plan a surprise party for my colleague", "Surprise party", "quit bank"),
        ],
    )  # fmt: skip
    def test_what_is_pasted_beside_what_is_said_is_neither_title_nor_summary(self, told, title, pasted):
        assert title in fallback_title(said(told))
        assert not [word for word in pasted.split() if word in fallback_summary(said(told))]

    @pytest.mark.parametrize(
        ("told", "word"),
        [
            ("```python\nimport rockets\n```", "import"),
            ("From: Rome\nTo: the sea", "Rome"),
            ("```\nRing Ana\n```\nNotes", "Ring"),
            ("Look:\n```foo()``` fails.\nMy server runs Debian in Leipzig.", "Leipzig"),
            ("```python\nprint(1)```\nMy server runs Debian in Leipzig.", "Leipzig"),
            ("Dear me, I lost my job at Siemens!\nCan you help?", "Siemens"),
            ("Liebe Oma Käthe kommt am 3. Mai aus Hamburg zu Besuch!\nWas koche ich?", "Hamburg"),
            ("Kind regards from Ana, she moves to Kiel\nHow far is that?", "Kiel"),
            ("It says:\nKind regards\n\nI will stay with Ana in Kiel then.", "Kiel"),
        ],
    )
    def test_what_is_all_that_was_said_or_no_code_and_no_mail_is_told(self, told, word):
        assert word in fallback_summary(said(told))

    @pytest.mark.parametrize(("begin", "part"), [("", "To:\n"), ("It is from above no wait a b", "!")])
    def test_what_looks_like_a_mail_or_a_correction_takes_a_time_that_grows_with_its_length(self, begin, part):
        taken = []
        for length in (1_000, 10_000):
            text, tries = begin + part * (length // len(part)), []
            for _ in range(3):  # of which a collection of garbage, or what is done once, slows one
                began = time.thread_time()
                fallback_title(said(text))
                tries.append(time.thread_time() - began)
            taken.append(min(tries))
        assert taken[1] < 40 * max(taken[0], 0.001)  # ten times the length

    @pytest.mark.parametrize("answer", ["Noted, but cashews.", "Done, cashews.", "Never mind.", "No."])
    def test_what_may_be_taken_back_beside_it_is_not(self, answer):
        assert fallback_title([*said("I take peanuts."), *said(answer, role="assistant")]) == ""

    @tried_in_one(
        "told",
        ["I no longer drink coffee", "I can't stand loud restaurants", "Tom has not signed the contract yet",
         "I hardly ever watch television", "I dont eat pork sausages", "The boiler isnt broken anymore",
         "Wir fahren nie wieder nach Mallorca", "Meine Frau mag keine Katzen"],
    )  # fmt: skip
    def test_what_is_denied_is_told_with_the_denial(self, told):
        assert fallback_title(said(told)) == told

    @pytest.mark.parametrize(
        ("told", "title"),
        [
            ("Visit 10 Downing Street London", "Downing Street London"),
            ("I see Frau Dr. Petersen", "Frau Dr. Petersen"),
            ("Visite samedi à 11h", "Visite samedi à 11h"),
        ],
    )
    def test_an_address_and_a_doctor_are_whole_and_an_hour_has_its_clause(self, told, title):
        assert fallback_title(said(told)) == title

    def test_what_only_the_assistant_says_makes_no_title(self):
        assert fallback_title(said("The report on Kafka partitions is done.", role="assistant")) == ""

    @pytest.mark.parametrize(
        ("question", "answer", "title"),
        [
            ("How do I get a refund?", "Send us the receipt.", "How do I get a refund"),
            ("Where do we keep the ladder?", "Behind the shed.", "Where do we keep the ladder"),
            ("How about the oak table?", "The other one.", ""),  # a proposal, in whatever words
            ("Which table do we buy?", "Pine is cheaper.", ""),
            ("When do we meet on Monday?", "Tuesday!", ""),
        ],
    )
    def test_a_question_that_a_few_words_answer_is_the_title_and_none_that_they_may_take_back(
        self, question, answer, title
    ):
        talked = [*said(question), *said(answer, role="assistant"), *said("Thanks!")]
        assert fallback_title(talked) == title

    def test_names_nothing_that_was_taken_back(self):
        corrected = said(
            "Ask Marta to water the orchids.", "No, Marta is in Rome, I'll ask Pavel.", "Pavel it is, then."
        )
        assert "Marta" not in fallback_title(corrected)


class TestSummary:
    @pytest.mark.parametrize(
        ("common", "beginning"), [("tomato vine climb", "User: My kafka"), ("kafka broker drop", "User: Our tomato")]
    )
    def test_of_sentences_that_are_all_too_long_the_rarest_is_cut(self, common, beginning):
        spoken = said("Our tomato vines climbed" + " and climbed" * 40, "My kafka broker dropped" + " and dropped" * 40)
        summary = fallback_summary(spoken, dict.fromkeys(common.split(), 9_000))
        assert summary.startswith(beginning)
        assert summary.endswith("…")

    def test_the_number_of_an_item_stays_with_it(self):
        places = ["inn", "mill", "lake", "fort", "pier", "zoo"]
        items = [
            f"{n}. Walk to the {place} and stay there until it is dark." for n, place in enumerate(places, start=1)
        ]
        left = fallback_summary(said("\n".join(items)))
        for item in items:
            left = left.replace(item, "")
        assert set(left.split()) == {"User:", "Earlier:"}

    @given(messages)
    def test_is_one_line_not_blank_and_not_too_long(self, messages):
        summary = fallback_summary(messages)
        assert summary.strip()
        assert len(summary) <= SUMMARY_LENGTH
        assert len(summary.splitlines()) == 1
        assert "</memory" not in summary

    def test_says_who_said_what_and_names_a_speaker_once_in_a_row(self):
        talked = said("The import failed. It was late.") + said("Use Kafka.", role="assistant")
        assert fallback_summary(talked) == "User: The import failed. It was late. Assistant: Use Kafka."

    def test_leaves_the_pleasantries_out(self):
        chatter = ["Good morning to you!", "Good morning, how are you?", "I am fine, and you?"] * 6
        summary = fallback_summary(
            said(*chatter, "The door code of the cellar is 4711.", *chatter), term_counts(chatter)
        )
        assert "The door code of the cellar is 4711." in summary

    def test_a_sentence_longer_than_a_summary_is_cut_between_words(self):
        summary = fallback_summary(said("word " * 200))
        assert summary.endswith("word…")
        assert len(summary) <= SUMMARY_LENGTH


NAMES = st.permutations(["Marta", "Pavel", "Ingrid", "Tomasz", "Yusuf"])
PROPOSALS = [
    "ask {} to feed the cat",
    "Could you ask {} to feed the cat while I am in Porto next week?",
    "{} should feed the cat. The key is under the blue pot.",
]
CORRECTIONS = [
    ["she can't, I'll ask {}", "{} will"],
    ["No, not this time: {} will feed the cat.", "OK."],
    ["Actually, {} lives nearer.", "{} then."],
    ["I changed my mind, I'll ask {}.", "Good idea, {} has the key to the house.", "Thanks!"],
    ["I'd rather ask {} instead.", "{} it is, I have noted that.", "Great, thanks, bye!"],
]
BEFORE = st.lists(
    st.sampled_from(
        [
            "I repainted the fence in teal on Saturday.",
            "Which brush works for rough cedar?",
            "A wide flat one with natural bristles, and two thin coats of oil in between.",
            "Hello!",
            "The quarterly numbers of the bakery came in at 41,200 euros, mostly rye and spelt.",
        ]
    ),
    max_size=8,
)

CHANGES = [
    ("We meet Monday.", "Let's do Tuesday then."),
    ("The tasting at the harbour office begins at 9:30, with bread for everybody.", "We begin the tasting at 10:15."),
    ("We need six chairs for the long table in the garden behind the mill.", "Make that nine chairs."),
    ("Book the hotel in Porto for the four of us, with breakfast.", "Book it in Braga."),
    ("Marta feeds the cat.", "Pavel feeds the cat."),
    ("Dinner at the old mill is at 7 pm, and the twins bring the cake.", "Say 8 pm."),
    ("Treffen wir uns am Montag.", "Dann am Dienstag."),
    ("The appointment at the dentist is at 9.", "10:15 suits Ingrid better."),
    ("The appointment at the dentist is at 9.", "Sorry, 11 works better for Ingrid and her mother."),
    ("The plumber comes on Monday, he needs the key.", "Wednesday would be better for the neighbours upstairs."),
    ("The plumber comes on Monday, he needs the key.", "I asked around, and for Ingrid Tuesday is better."),
    ("Let us bake 40 loaves for the fair.", "Make it 55 for a start."),
    ("The choir sings at 7 pm in the old chapel.", "Let's say 8:30 because of the buses."),
    ("The choir sings at 7 pm in the old chapel.", "How about noon, so that the children come?"),
    ("Der Termin ist um 9 Uhr.", "10:15 passt Ingrid besser."),
    ("Ask Marta to feed the cat.", "Pavel suits us better."),
    ("Ask Marta to feed the cat.", "Rather Pavel, please."),
    ("Ask Marta to feed the cat.", "Pavel instead?"),
    ("Ask Marta to feed the cat.", "Let's go with Pavel."),
    ("Ask Marta to feed the cat.", "Actually Pavel."),
    ("Ask Marta to feed the cat.", "Make it Pavel."),
    ("Ask Marta to feed the cat.", "Pavel would be cheaper."),
    ("Ask Marta to feed the cat.", "I asked Pavel, he is nearer."),
    ("Let's meet at ten.", "Quarter to nine would be better."),
    ("Let's meet at ten.", "half past ten suits Ingrid better"),
    ("Let's meet at ten.", "Noon?"),
    ("Let's meet at ten.", "Midnight, for the fireworks."),
    ("Let's meet at ten.", "the evening instead"),
    ("Let's meet at ten.", "tomorrow"),
    ("Let's meet at ten.", "next week rather"),
    ("Let's meet at ten.", "Could we do eleven?"),
    ("The train leaves on Thursday morning.", "Friday evening, they say now."),
    ("The concert is on the 5th of May.", "It's the 12th."),
    ("The concert is on the 5th of May.", "They postponed it to June."),
    ("I offered them 300 euros for the sofa.", "They want 350 now."),
    ("The ticket costs 40 euros.", "Now it's forty-five."),
    ("Book the hotel in Porto.", "Back to Braga, as before."),
    ("Frag Marta wegen der Katze.", "Pavel passt besser."),
]

TAKEN_BACK = [
    ("Ask Marta to feed the cat.", "Pavel!", "marta"),
    ("ask marta to feed the cat", "pavel suits us better", "marta"),
    ("ask marta to feed the cat", "my brother could", "marta"),
    ("Marta feeds the cat on Sunday.", "Marta is ill.", "cat"),
    ("Marta feeds the cat on Sunday.", "Pavel took it over.", "marta"),
    ("We need six chairs.", "Eight, Ingrid brings her parents.", "six"),
    ("Let's meet at ten.", "An hour later, please.", "ten"),
    ("Paint the fence green.", "Blue would be nicer.", "green"),
    ("Paint the fence green.", "Let's take blue.", "green"),
    ("Buy the oak table.", "The other one.", "oak"),
    ("Buy the oak table.", "Forget it.", "oak"),
    ("Buy the oak table.", "Never mind.", "oak"),
    ("Buy the oak table.", "On second thought, we have one.", "oak"),
    ("Buy the oak table.", "Scrap that.", "oak"),
    ("Buy the oak table.", "Neither.", "oak"),
    ("Buy the oak table.", "It is sold out.", "oak"),
    ("Buy the oak table.", "I take that back.", "oak"),
    ("Buy the oak table.", "Pine is cheaper.", "oak"),
    ("Book the hotel in Porto.", "We are staying with my aunt after all.", "porto"),
    ("We take the bus to the fair.", "The tram is faster.", "bus"),
    ("We take the bus to the fair.", "By bike, I'd say.", "bus"),
    ("We take the bus to the fair.", "Let's walk.", "bus"),
    ("The password is heron-lake.", "I have set a new one: otter-pond.", "heron"),
    ("Use Postgres for the queue.", "Replace it with Redis.", "postgres"),
    ("Pide a Marta que cuide al gato.", "Mejor Pavel.", "marta"),
    ("让玛尔塔喂猫吧。", "算了。", "玛尔塔"),
]

BACK_AND_FORTH = [
    ["We meet Monday.", "Tuesday would be better.", "Monday after all."],
    ["Ask Marta to feed the cat.", "Pavel instead?", "No, stay with Marta."],
    ["Ask Marta to feed the cat.", "Pavel suits us better.", "Marta again, as before."],
    ["Let's meet at ten.", "Noon instead?", "I'd stick to ten."],
    ["Paint it green.", "Blue is nicer.", "Leave it green."],
    ["Offer 300 euros.", "Offer 250.", "Stay at 300."],
]

OTHER_THINGS = [
    ("The appointment at the dentist is at 9.", "The bakery opens at 8, which suits me."),
    ("The appointment at the dentist is at 9.", "Tea at 4 pm suits the twins better."),
    ("The plumber comes on Monday, he needs the key.", "The shop sells better on Sundays."),
    ("The plumber comes on Monday, he needs the key.", "She works on Friday."),
    ("We need six chairs for the long table.", "They say two coats are enough."),
    ("We need six chairs for the long table.", "Twelve eggs make the dough better."),
    ("The appointment at the dentist is at 9.", "9 suits Ingrid better."),
    ("The green paint is for the fence.", "Teal suits the fence better, and 10:15 is late."),
    ("Marta feeds the cat.", "Pavel is a better cook than Marta."),
    ("Marta feeds the cat.", "Pavel sings in the choir of the mill."),
    ("Marta feeds the cat.", "The weather in Vienna is nicer in May than here."),
    ("Ask Marta to feed the cat.", "Ask Pavel to water the orchids."),
    ("Ask Marta to feed the cat.", "I met Pavel at the bakery yesterday."),
    ("Ask Marta to feed the cat.", "My sister's name is Ingrid."),
    ("The dentist expects me at ten.", "The choir sings at noon in the old chapel."),
    ("The dentist expects me at ten.", "Lunch with the neighbours is at half past twelve."),
    ("The dentist expects me at ten.", "The bakery opens at quarter to seven."),
    ("The plumber comes on Monday.", "My parents visit us next week with the twins."),
    ("The plumber comes on Monday.", "In the evening we watched a film about otters."),
    ("The sofa costs 300 euros.", "The lamp in the attic weighs 12 kilos."),
    ("The sofa costs 300 euros.", "We had 25 guests at the wedding."),
    ("The concert is on the 5th of May.", "The lease ends in October."),
    ("The concert is on the 5th of May.", "The exhibition of the photographers opens on the 12th."),
    ("My brother lives in Porto.", "My colleague Tomasz moved from Gdansk to Oslo."),
    ("Use Postgres for the queue.", "Redis was written in C by an Italian."),
    ("The train leaves on Thursday morning.", "Midnight blue is the colour of the year."),
    ("The train leaves on Thursday morning.", "Breakfast on the terrace costs nine euros."),
    ("Frag Marta wegen der Katze.", "Der Zug nach Wien fährt um neun."),
]


class TestCorrections:
    @given(
        names=NAMES,
        proposal=st.sampled_from(PROPOSALS),
        corrections=st.lists(st.sampled_from(CORRECTIONS), min_size=1, max_size=3),
        before=BEFORE,
        after=BEFORE,
    )
    def test_nothing_is_told_without_what_takes_it_back(self, names, proposal, corrections, before, after):
        name, *others = names
        scripted = [(name, proposal.format(name))]
        for other, lines in zip(others, corrections, strict=False):
            scripted += [(other, line.format(other)) for line in lines]
        contents = [*before, *(content for _, content in scripted), *after]
        summary = fallback_summary([
            Message(role="user" if number % 2 else "assistant", content=content)
            for number, content in enumerate(contents)
        ])  # fmt: skip
        settled = scripted[-1][0]
        told = [each for each, _ in scripted if each in summary]
        assert settled in told or not told, summary
        if not after:  # it is the end of the conversation
            assert settled in summary.partition(EARLIER)[0], summary
            assert name not in summary.partition(EARLIER)[0], summary

    @given(change=st.sampled_from(CHANGES), before=BEFORE, between=BEFORE, after=BEFORE, data=st.data())
    def test_another_detail_in_the_same_role_is_told_with_the_former_or_alone(
        self, change, before, between, after, data
    ):
        former, later = change
        contents = [*before, former, *between, later, *after]
        roles = data.draw(
            st.lists(st.sampled_from(["user", "assistant"]), min_size=len(contents), max_size=len(contents))
        )
        summary = fallback_summary(
            list(map(lambda role, content: Message(role=role, content=content), roles, contents))
        )
        assert later in summary or former not in summary, summary

    @given(change=st.sampled_from(TAKEN_BACK), before=BEFORE, between=BEFORE, after=BEFORE, data=st.data())
    def test_what_may_take_back_what_is_just_before_it_is_told_with_it(self, change, before, between, after, data):
        former, later, word = change
        contents = [*before, former, *between[:2], later, *after]
        roles = data.draw(
            st.lists(st.sampled_from(["user", "assistant"]), min_size=len(contents), max_size=len(contents))
        )
        talked = list(map(lambda role, content: Message(role=role, content=content), roles, contents))
        summary, title = fallback_summary(talked), fallback_title(talked).casefold()
        assert later in summary or former not in summary, summary
        assert word not in one_line(title).split(), title

    @pytest.mark.parametrize(
        ("former", "later", "between"),
        [*((*each, 6) for each in CHANGES), *((former, later, 2) for former, later, _ in TAKEN_BACK)],
    )
    def test_what_was_said_needs_what_takes_it_back_across_other_things(self, former, later, between):
        aside = ["Which brush works for rough cedar?", "A wide flat one with natural bristles."]
        for number in range(between + 1):
            contents = [former, *(aside * 3)[:number], later]
            sentences = [Sentence("User", content, place) for place, content in enumerate(contents)]
            assert len(contents) - 1 in needed_with(sentences)[0], contents

    @given(turns=st.sampled_from(BACK_AND_FORTH), before=BEFORE, between=BEFORE, after=BEFORE)
    def test_what_was_settled_in_the_end_is_told_with_what_went_back_and_forth(self, turns, before, between, after):
        contents = [*before, *(each for turn in turns for each in (turn, *between[:1])), *after]
        summary = fallback_summary([
            Message(role="user" if number % 2 else "assistant", content=content)
            for number, content in enumerate(contents)
        ])  # fmt: skip
        told = [turn for turn in turns if turn in summary]
        assert turns[-1] in told or not told, summary

    @given(other=st.sampled_from(OTHER_THINGS), before=BEFORE, roles=st.permutations(["user", "assistant", "user"]))
    def test_a_title_and_a_summary_say_something_where_nothing_is_taken_back(self, other, before, roles):
        talked = [Message(role=role, content=content) for role, content in zip(roles, other, strict=False)]
        summary = fallback_summary([*said(*before), *talked])
        assert any(content in summary for content in [*before, *other]), summary
        if not before:
            assert all(content in summary for content in other), summary

    def test_a_correction_in_the_midst_of_a_pasted_text_is_told_with_what_it_takes_back(self):
        ledger = [f"The ledger of {year} lists {year % 97} barrels of cider." for year in range(1900, 1925)]
        text = " ".join(["Ask Marta to feed the cat.", *ledger, "No, not Marta, Pavel feeds the cat.", *ledger])
        summary = fallback_summary(said(text))
        assert "not Marta" in summary or "Ask Marta" not in summary, summary

    def test_a_sentence_is_not_cut_before_what_takes_it_back(self):
        talked = said(
            f"Ask Marta Weber to feed the cat{', and to water the orchids' * 12}, no, wait, ask Pavel instead"
        )
        assert fallback_summary(talked).startswith("User: ask Pavel instead")
        assert fallback_title(talked) == "Ask Pavel instead"
        assert fallback_title(said("Ask Marta Weber, no, Pavel Novak to feed the cat.")) == "Pavel Novak"

    def test_what_has_no_room_beside_what_takes_it_back_is_left_out(self):
        former = f"Ask Marta to feed the cat{' and to look after the orchids in the hall' * 6}."
        later = f"Pavel suits us better{' and he has the key of the old mill by the pond' * 3}."
        summary = fallback_summary(said(former, later, "Which brush works for rough cedar?"))
        assert "Pavel" in summary or "Marta" not in summary, summary

    def test_a_title_of_what_went_on_is_what_is_still_said_in_the_end(self):
        talked = [*said("Message number 1"), *said("Message number 2", role="assistant")]
        assert fallback_title(talked) == "Message number"

    def test_the_end_is_not_told_without_the_question_that_may_take_it_back(self):
        for question in ("Pavel instead?", "Or Pavel?"):
            summary = fallback_summary(said("Who feeds the cat?", "Marta will.", question))
            assert question in summary or "Marta" not in summary

    @tried_in_one("former, later", OTHER_THINGS)
    def test_a_preference_in_other_matters_takes_nothing_back(self, former, later):
        assert not Sentence("User", later, 1).says_anew(Sentence("User", former, 0))

    def test_what_is_preferred_in_other_words_stands_first(self):
        talked = said("The appointment is at 9.", "Bring the insurance card.", "10:15 suits Ingrid better.")
        assert fallback_summary(talked).startswith("User: 10:15 suits Ingrid better.")

    def test_details_of_other_things_are_told_by_themselves(self):
        meeting, train = said("We meet Monday at the harbour office.", "The night train to Vienna leaves on Friday.")
        assert not Sentence("User", train.content, 1).says_anew(Sentence("User", meeting.content, 0))

    def test_what_was_settled_last_comes_first(self):
        talked = said("ask Marta to feed the cat", "she can't, I'll ask Pavel", "Pavel will")
        assert (
            fallback_summary(talked)
            == "User: she can't, I'll ask Pavel Pavel will Earlier: User: ask Marta to feed the cat"
        )

    def test_a_long_talk_before_does_not_push_the_end_out(self):
        talked = said(
            *(f"The ledger of {year} lists {year % 97} barrels of cider in the cellar." for year in range(1900, 1990))
        )
        talked += said("Ask Marta to feed the cat.", "She can't, I'll ask Pavel.", "Pavel will.", "Thanks, bye!")
        summary = fallback_summary(talked)
        assert summary.startswith("User: She can't, I'll ask Pavel. Pavel will. Earlier: ")

    def test_an_answer_is_told_with_its_question(self):
        talked = [*said("Shall I book Friday for the dentist?", role="assistant"), *said("No.")]
        assert fallback_summary(talked) == "Assistant: Shall I book Friday for the dentist? User: No."
        more = [*talked, *said("The roses by the gate need pruning before the frost.")]
        summary = fallback_summary(more)
        assert "dentist? User: No." in summary or "dentist" not in summary


@pytest.mark.parametrize("pasted", ["-", "the ---", "- ", "now ", "about ", "."])
def test_what_is_pasted_without_an_end_is_read_in_no_time(pasted):
    began = time.process_time()
    fallback_summary([Message(role="user", content=pasted * 10_000)] * 5)
    assert time.process_time() - began < 2  # trying each dash with each behind it takes a second for each message


def test_long_messages_full_of_details_are_analyzed_once_each_and_not_for_every_pair(monkeypatch):
    calls = []
    monkeypatch.setattr(corrections, "analyze", lambda text: calls.append(text) or analyze(text))
    told = [" ".join(f"Visit {n} of Ward{n} took {n} days." for n in range(30 * k, 30 * k + 30)) for k in range(6)]
    assert fallback_summary(said(*told))
    assert len(calls) < 30 * 6 * 10  # for every pair there were twenty times as many
