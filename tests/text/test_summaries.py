"""Text: sentences and summaries."""

import pytest
from cases import tried_in_one
from hypothesis import example, given
from hypothesis import strategies as st

from memory_retrievers.errors import ValidationError
from memory_retrievers.text.summaries import sentences, summarize

PYTHON = """
    Python is a programming language. Python is widely used.
    The weather is nice today. Python has many libraries.
    Random sentence here. Python is popular for data science.
    Another random sentence. Python is easy to learn.
    Some other content here. Python programming is fun.
"""
FRAGMENTS = [
    "Cats purr. ",
    "3.14",
    ".",
    "!?",
    "。",
    "好",
    "\n",
    " ",
    "the ",
    "zebra ",
    "\u2028",
    "\x00",
    '"',
    "v1.5.9",
    "a" * 30,
]
texts = st.lists(st.sampled_from(FRAGMENTS) | st.characters(), max_size=60).map("".join)


class TestSentences:
    @tried_in_one(
        "text, parts",
        [
            ("", []),
            (" \n ", []),
            ("No end", ["No end"]),
            ("Pi is 3.14. Yes!", ["Pi is 3.14.", "Yes!"]),
            ("See memory.py and example.com now. Go", ["See memory.py and example.com now.", "Go"]),
            ("Wait... What?! Fine.", ["Wait...", "What?!", "Fine."]),
            ('She said "no!" Then left.', ['She said "no!"', "Then left."]),
            ("好的。我们走！「行。」去哪？", ["好的。", "我们走！", "「行。」", "去哪？"]),
            ("first line\nsecond line", ["first line", "second line"]),
            ("Dr. Wiegand rang. Mr. and Mrs. Lee too.", ["Dr. Wiegand rang.", "Mr. and Mrs. Lee too."]),
            ("We live on Park St. It is quiet near St. Mary.", ["We live on Park St.", "It is quiet near St. Mary."]),
            ("Sabine kommt am 5. mit dem Zug.", ["Sabine kommt am 5. mit dem Zug."]),
            ("Neuer Termin 28. Januar. Der am 21. fällt aus.", ["Neuer Termin 28. Januar.", "Der am 21. fällt aus."]),
            ("Do:\n1. Wait. Then\n 2. go\n## 3. End", ["Do:", "1. Wait.", "Then", "2. go", "## 3. End"]),
            ("4.\n5. Bob comes.\nBye", ["4.", "5.", "Bob comes.", "Bye"]),  # no list
            ("24. 12. Oma\n31. 12. Jonas", ["24. 12. Oma", "31. 12. Jonas"]),
            ("My GP is Dr.\u00a0Wiegand. She is in Kiel.", ["My GP is Dr.\u00a0Wiegand.", "She is in Kiel."]),
            ("Sie war beim Arzt (Prof. Dr.) in Kiel. Er half.", ["Sie war beim Arzt (Prof. Dr.) in Kiel.", "Er half."]),
            ("1. 2.5 kg flour\n2. 3.5 l milk", ["1. 2.5 kg flour", "2. 3.5 l milk"]),
            ("Am 12. 2. Frau Wirth. Danach frei.", ["Am 12. 2. Frau Wirth.", "Danach frei."]),
            ("- 3.2. Kessler\n- 12. 2. Wirth", ["- 3.2. Kessler", "- 12. 2. Wirth"]),
            ("I use version 1.5. It works.", ["I use version 1.5.", "It works."]),
            ("1. Mai frei.\n2. Juni nicht.", ["1. Mai frei.", "2. Juni nicht."]),
            ("There were 12. Julia left.", ["There were 12.", "Julia left."]),
            ("Vom 3. März an. I am 79. My wife is 80.", ["Vom 3. März an.", "I am 79.", "My wife is 80."]),
        ],
    )
    def test_end_at_punctuation_and_line_breaks_but_not_inside_numbers_and_names(self, text, parts):
        assert sentences(text) == parts

    @given(texts)
    def test_lose_nothing_but_white_space(self, text):
        assert "".join("".join(sentences(text)).split()) == "".join(text.split())
        assert all(part == part.strip() != "" for part in sentences(text))


class TestFrequency:
    @pytest.mark.parametrize(
        ("length", "summary"),
        [
            (60, "Python is widely used. Python programming is fun."),
            (30, "Python programming is fun."),
            (
                200,
                (
                    "Python is a programming language. Python is widely used. Python has many libraries. "
                    "Random sentence here. Python is easy to learn. Python programming is fun."
                ),
            ),
        ],
    )
    def test_picks_what_the_specification_says(self, length, summary):
        assert summarize(PYTHON, length) == summary

    def test_keeps_numbers_whole(self):
        assert summarize("Pi is 3.14 they say. " * 10, 40) == "Pi is 3.14 they say."

    def test_repeated_sentences_do_not_make_it_longer(self):
        assert len(summarize("Same same. " * 100, 100)) <= 100

    def test_cuts_where_no_sentence_fits(self):
        assert summarize("  Incomprehensibilities.  ", 5) == "Incom"


class TestSummarize:
    @given(texts, st.integers(1, 120))
    @example("\n" * 30 + "x", 3)
    @example("\x1f!\x1f" * 30, 3)
    def test_is_never_too_long_and_blank_only_for_blank_text(self, text, length):
        summary = summarize(text, length)
        assert len(summary) <= length
        assert bool(summary.strip()) == bool(text.strip())

    @given(texts)
    def test_what_fits_is_unchanged(self, text):
        assert summarize(text, len(text) + 1) == text

    @given(texts, st.integers(1, 120))
    def test_has_no_word_that_the_text_lacks(self, text, length):
        summary = summarize(text, length)
        remaining = "".join(text.split())
        for character in "".join(summary.split()):
            assert character in remaining

    @pytest.mark.parametrize("length", [0, -1])
    def test_no_room_is_an_error(self, length):
        with pytest.raises(ValidationError, match="at least 1"):
            summarize("Something.", length)

    def test_a_very_long_text_is_quick(self):
        text = " ".join(f"Sentence number {number} is about thing{number}." for number in range(20_000))
        assert 0 < len(summarize(text, 300)) <= 300
