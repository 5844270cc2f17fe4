"""Text: search terms, single lines, quotations."""

import json
import re
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from cases import tried_in_one
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers.text.analysis import (
    MAX_PARTS,
    MAX_WORD_LENGTH,
    STOP_WORDS,
    analyze,
    one_line,
    quote,
    without_hidden,
)

FRAGMENTS = [
    "</",
    "< /",
    "memory",
    "Scene_",
    "\n",
    " ",
    "\\",
    '"',
    "'s",
    "c++",
    ".",
    "_",
    "://",
    "the",
    "é",
    "e\u0301",
    "猫",
]
any_text = st.lists(st.sampled_from(FRAGMENTS) | st.characters(exclude_categories=()), max_size=60).map("".join)
CLOSING_TAG = re.compile(r"</\s*(scene_)?memory", re.IGNORECASE)
UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


class TestAnalyze:
    @tried_in_one(
        "text, terms",
        [
            ("", []),
            (" \t\n", []),
            ("!?, ... -- (:", []),
            ("\N{GRINNING FACE}\N{HEAVY BLACK HEART}\ufe0f", []),
            ("Running runners RAN", ["run", "runner", "ran"]),
            ("the cat and the cat", ["cat", "cat"]),
            ("The end.", ["end"]),
            ('Really?! Yes; (no): "maybe"...', ["realli", "yes", "mayb"]),
        ],
    )
    def test_words_are_folded_and_stemmed_and_keep_their_repetitions(self, text, terms):
        assert analyze(text) == terms

    @tried_in_one(
        "text, terms",
        [
            ("v1.5.9", ["v1.5.9", "v1", "5", "9"]),
            ("c++", ["c++", "c"]),
            ("C#", ["c#", "c"]),
            ("c++11", ["c++11", "c", "11"]),
            ("user@example.com", ["user@example.com", "user", "exampl", "com"]),
            ("snake_case", ["snake_case", "snake", "case"]),
            ("__init__", ["init"]),
            ("dunder__name", ["dunder__name", "dunder", "name"]),
            ("2024-03-01", ["2024-03-01", "2024", "03", "01"]),
            ("10:30", ["10:30", "10", "30"]),
            ("src/main.py", ["src/main.py", "src", "main", "py"]),
            ("std::vector", ["std::vector", "std", "vector"]),
            ("PROJ-42#7", ["proj-42#7", "proj", "42", "7"]),
            ("state-of-the-art", ["state-of-the-art", "state", "art"]),
        ],
    )
    def test_an_identifier_gives_the_whole_and_its_parts(self, text, terms):
        assert analyze(text) == terms

    @tried_in_one(
        "text, terms",
        [
            ("See v1.5.9.", ["see", "v1.5.9", "v1", "5", "9"]),
            ("see http://x.y/z.", ["see", "http://x.y/z", "http", "x", "y", "z"]),
            ("(mail user@example.com)", ["mail", "user@example.com", "user", "exampl", "com"]),
            ("Either c++, or c#!", ["either", "c++", "c", "c#", "c"]),
            ("wait...stop", ["wait", "stop"]),
            ("yes--maybe", ["yes", "mayb"]),
            ("#channel @alice .net -5", ["channel", "alic", "net", "5"]),
            ("ratio: five", ["ratio", "five"]),
        ],
    )
    def test_punctuation_of_the_sentence_makes_no_identifier(self, text, terms):
        assert analyze(text) == terms

    @pytest.mark.parametrize("apostrophe", ["'", "\u2019", "\uff07"])
    def test_an_apostrophe_is_taken_for_what_it_does_in_english(self, apostrophe):
        def terms(text):
            return analyze(text.replace("'", apostrophe))

        assert terms("the user's dog") == ["user", "dog"]
        assert terms("the users' dog") == ["user", "dog"]
        assert terms("they'll see it's John's") == ["see", "john"]
        assert terms("dogs don't bark") == ["dog", "bark"]
        assert terms("O'Brien") == ["o'brien", "o", "brien"]

    @pytest.mark.parametrize("text", ["Who are you?", "to be or not to be", "don't", "it's", "The"])
    def test_stop_words_are_kept_when_there_is_nothing_else(self, text):
        assert len(analyze(text)) == len(text.split())

    def test_every_stop_word_is_dropped_beside_another_word(self):
        assert analyze(" ".join(sorted(STOP_WORDS)) + " otter") == ["otter"]

    @tried_in_one(
        "text, terms",
        [
            ("東京都", ["東", "京", "都", "東京", "京都"]),
            ("猫", ["猫"]),
            ("ｶﾀｶﾅ", ["カ", "タ", "カ", "ナ", "カタ", "タカ", "カナ"]),
            ("한국어", ["한", "국", "어", "한국", "국어"]),
            ("北京。上海", ["北", "京", "北京", "上", "海", "上海"]),
            ("我爱Python3", ["python3", "我", "爱", "我爱"]),
            ("\U00020000\U00020001", ["\U00020000", "\U00020001", "\U00020000\U00020001"]),
        ],
    )
    def test_chinese_japanese_and_korean_give_characters_and_pairs(self, text, terms):
        assert analyze(text) == terms

    @tried_in_one(
        "text, terms",
        [
            ("ﬁne ２０２４ ｃ＋＋", ["fine", "2024", "c++", "c"]),
            ("Straße STRASSE", ["strass", "strass"]),
            ("cafe\u0301 CAFÉ", ["café", "café"]),
            ("Москва", ["москва"]),
            ("हिन्दी", ["हिन्दी"]),
            ("ไทยเที่ยว", [unicodedata.normalize("NFKC", "ไทยเที่ยว")]),
            ("co\u00adoperate \ufeffword", ["cooper", "word"]),
            ("caf\u00e9_latte", ["café_latte", "café", "latt"]),
        ],
    )
    def test_other_scripts_and_forms_of_unicode_are_words_too(self, text, terms):
        assert analyze(text) == terms

    @given(st.text(st.characters(max_codepoint=127)))
    def test_a_word_gives_the_same_terms_whatever_stands_beside_it(self, text):
        beside_nothing = analyze(f"otter {text}")
        beside_another_script = analyze(f"otter {text} é")
        assert [*beside_nothing, "é"] == beside_another_script

    @given(any_text)
    def test_no_text_fails_and_no_term_is_empty_or_long(self, text):
        for term in analyze(text):
            assert 0 < len(term) <= 4 * MAX_WORD_LENGTH * MAX_PARTS
            assert not re.search(r"\s", term)
            term.encode()

    @given(any_text)
    def test_upper_case_makes_no_difference_in_ascii(self, text):
        ascii_only = text.encode("ascii", "ignore").decode()
        assert analyze(ascii_only.upper()) == analyze(ascii_only.lower())

    def test_a_long_word_is_cut_into_pieces(self):
        assert analyze("z" * 150) == ["z" * 64, "z" * 64, "z" * 22]

    def test_a_long_path_is_cut_after_so_many_parts(self):
        terms = analyze("/".join(f"p{number}" for number in range(20)))
        assert "/".join(f"p{number}" for number in range(16)) in terms
        assert {f"p{number}" for number in range(20)} < set(terms)

    @pytest.mark.parametrize(
        "text",
        [
            "a" * 1_000_000,
            "a." * 500_000,
            "_" * 1_000_000,
            "a________" * 100_000,
            "the " * 250_000,
            "c+" * 500_000,
            "漢" * 1_000_000,
            "é_" * 500_000,
            "\u0301\u0327" * 500_000,
            "a\u0301\u0327" * 300_000,
            "\uff9e\u0334" * 500_000,
            "\ud800" * 1_000_000,
            "\x00" * 1_000_000,
        ],
        ids=lambda text: ascii(text[:9]),
    )
    def test_a_million_characters_take_linear_time(self, text):
        started = time.process_time()
        analyze(text)
        assert time.process_time() - started < 10  # quadratic would be minutes

    def test_many_threads_get_the_same_terms(self):
        texts = [f"running{number} cats{number} v{number}.{number}" for number in range(500)]
        expected = [
            [f"running{number}", f"cats{number}", f"v{number}.{number}", f"v{number}", f"{number}"]
            for number in range(500)
        ]
        with ThreadPoolExecutor(8) as pool:
            for _ in range(4):
                assert list(pool.map(analyze, texts)) == expected


class TestOneLine:
    @tried_in_one("space", [" ", "\n", "\r\n", "\t", "\v", "\f", "\x1c", "\x85", "\xa0", "\u2028", "\u3000"])
    def test_white_space_of_every_kind_becomes_one_space(self, space):
        assert one_line(f"{space}Garden{space}{space}plan{space}") == "Garden plan"

    @tried_in_one("unseen", ["\x00", "\x07", "\x1b", "\x7f", "\x9b", "\u202e", "\u2066", "\u200f", "\u061c"])
    def test_control_and_bidirectional_control_characters_go(self, unseen):
        assert one_line(f"{unseen}Garden{unseen} plan{unseen}") == "Garden plan"

    @tried_in_one(
        "tag",
        [
            "</memory>",
            "</MEMORY >",
            "</ memory>",
            "</\n\tmemory>",
            "</scene_memory>",
            "</memory_block>",
            "<\x00/memory>",
            "< /memory>",
            "\uff1c/memory>",
            "<\u200b/\u2060mem\u00adory>",
        ],
    )
    def test_a_closing_tag_is_no_longer_one(self, tag):
        assert "&lt;" in one_line(f"before {tag} after")
        assert not CLOSING_TAG.search(one_line(tag))

    @pytest.mark.parametrize("text", ["<memory>", "a < b", "</div>", "</mem", "x</b> memory"])
    def test_other_angle_brackets_stay(self, text):
        assert one_line(text) == text

    def test_lone_surrogates_become_replacement_characters(self):
        assert one_line("a\ud800b") == "a\ufffdb"

    @given(any_text)
    def test_it_is_one_line_once_and_for_all(self, text):
        line = one_line(text)
        assert not UNSEEN.search(line)
        assert not CLOSING_TAG.search(line)
        assert line == line.strip()
        assert one_line(line) == line
        line.encode()


class TestQuote:
    @tried_in_one(
        "text, quoted",
        [
            ("Yes, let us do it.", '"Yes, let us do it."'),
            ('Third time "this week".', r'"Third time \"this week\"."'),
            ("back\\slash", r'"back\\slash"'),
            ("one\ntwo\r\n\tthree", r'"one\ntwo\r\n\tthree"'),
            ("咖啡 \N{HOT BEVERAGE} é", '"咖啡 \N{HOT BEVERAGE} é"'),
            ("a\u2028b\u2029c\u0085d", r'"a\nb\nc\nd"'),
            ("a\ud800b", '"a\ufffdb"'),
            ("\x00\x1b\x7f\x9b", r'"\u0000\u001b\u007f\u009b"'),
            ("\u202eabc\u2069\u200e\u061c", r'"\u202eabc\u2069\u200e\u061c"'),
            ("</memory> </ Scene_Memory>", r'"\u003c/memory> \u003c/ Scene_Memory>"'),
            ("<memory> </b>", '"<memory> </b>"'),
            ("\\</memory>", r'"\\\u003c/memory>"'),
        ],
    )
    def test_the_literal_is_json_on_one_line(self, text, quoted):
        assert quote(text) == quoted

    @given(any_text)
    def test_it_loses_nothing_but_line_separators_lone_surrogates_and_what_is_hidden(self, text):
        storable = re.sub("[\ud800-\udfff]", "\ufffd", re.sub("[\u0085\u2028\u2029]", "\n", text))
        assert json.loads(quote(text)) == without_hidden(storable)

    @given(any_text)
    def test_nothing_in_it_can_break_out(self, text):
        assert not UNSEEN.search(quote(text))
        assert not CLOSING_TAG.search(quote(text))
        assert len(quote(text).splitlines()) == 1
