import pytest
from hypothesis import given
from hypothesis import strategies as st
from levels import estimate_tokens

from memory_retrievers.errors import ValidationError
from memory_retrievers.models import ResponseLevel
from memory_retrievers.models.memories import in_our_words
from memory_retrievers.tools.arguments import ManagementArguments
from memory_retrievers.tools.responses import preview
from memory_retrievers.tools.tool import Answer

MINIMAL, STANDARD, FULL = ResponseLevel


def levels(minimal, standard, full, *, level):
    return Answer(minimal, standard, lambda: full).output(level, response_format="levels").artifact


def test_there_are_three_levels():
    assert list(ResponseLevel) == ["minimal", "standard", "full"]


@pytest.mark.parametrize("given", ["full", " Full ", "FULL", ResponseLevel.FULL])
def test_a_level_is_read_from_a_word_in_any_case(given):
    assert ManagementArguments(response_level=given).response_level is FULL


@pytest.mark.parametrize("given", ["invalid", "", "none", 3])
def test_an_unknown_level_is_refused(given):
    with (
        pytest.raises(ValidationError, match=r"^Invalid response_level: .*Must be one of: minimal, standard, full$"),
        in_our_words(),
    ):
        ManagementArguments(response_level=given)


@pytest.mark.parametrize(("level", "keys"), [(MINIMAL, 2), (STANDARD, 3), (FULL, 4)])
def test_each_level_has_what_the_one_before_has(level, keys):
    answer = levels({"success": True, "id": "m1"}, {"preview": "Nightly"}, {"complete_data": {"tags": []}}, level=level)
    assert list(answer) == ["success", "id", "preview", "complete_data"][:keys]


def test_a_later_value_takes_the_place_of_an_earlier_one_where_it_stood():
    answer = levels({"success": True}, {"results": ["short"], "total": 1}, {"results": ["whole"]}, level=FULL)
    assert list(answer.items()) == [("success", True), ("results", ["whole"]), ("total", 1)]


def test_what_is_none_is_left_out_and_what_is_merely_false_is_not():
    answer = levels({"success": False, "count": 0}, {"note": "", "hints": [], "cause": None}, {}, level=STANDARD)
    assert answer == {"success": False, "count": 0, "note": "", "hints": []}


objects = st.dictionaries(st.sampled_from("abcdef"), st.none() | st.integers() | st.lists(st.integers()))


@given(objects, objects, objects)
def test_levels_only_ever_add_keys(minimal, standard, full):
    seen = [set(levels(minimal, standard, full, level=level)) for level in ResponseLevel]
    overwritten = {key for part in (standard, full) for key, value in part.items() if value is None}
    assert seen[0] - overwritten <= seen[1]
    assert seen[1] - overwritten <= seen[2]
    assert None not in levels(minimal, standard, full, level=FULL).values()


def test_a_preview_is_cut_behind_so_many_characters():
    assert preview("A" * 150, 100) == "A" * 100 + "..."
    assert preview("A" * 100, 100) == "A" * 100
    assert preview("short", 100) == "short"


def test_a_preview_counts_code_points_after_white_space_has_been_made_one():
    assert preview("咖啡\n\n\t很好喝", 4) == "咖啡 很..."
    assert preview("👩‍🚀 in space", 3) == "👩‍🚀..."
    assert preview("  a \u3000 b  ", 3) == "a b"


@given(st.text(), st.integers(0, 60))
def test_a_preview_is_one_line_and_at_most_three_characters_longer(text, length):
    shown = preview(text, length)
    assert len(shown) <= length + 3
    assert shown.splitlines() == [shown] * bool(shown)


@pytest.mark.parametrize(("text", "tokens"), [("Hello world", 2), ("", 1), ("x" * 400, 100)])
def test_tokens_are_a_quarter_of_the_characters(text, tokens):
    assert estimate_tokens(text) == tokens
