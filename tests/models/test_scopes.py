"""Scopes: which paths are allowed, how they are joined, and which scopes lie below one."""

import string

import pytest
from cases import tried_in_one
from hypothesis import example, given
from hypothesis import strategies as st

from memory_retrievers.errors import ValidationError
from memory_retrievers.models.scopes import child_range, join, parse

segments = st.text(
    st.sampled_from(string.ascii_letters + string.digits + "-_.@|é猫") | st.just(" "), min_size=1, max_size=12
)
valid_segments = segments.filter(lambda segment: segment not in {".", ".."} and segment == segment.strip())
valid_scopes = st.lists(valid_segments, min_size=1, max_size=5).map("/".join)
near_scopes = st.text("a/0.é", max_size=6)


class TestParse:
    @tried_in_one(
        "scope",
        [
            "c1",
            "user/alice",
            "user/alice@example.com",
            "auth0|123",
            "org/Größe GmbH/チーム",
            "user/ann marie",
            "...",
            "user/.hidden",
            "user/%2F",
            "a\\b",
            "/".join("abcdefghij"),
            "a" * 200,
            "é" * 200,
            f"{'a' * 200}/{'b' * 200}/{'c' * 110}",
        ],
    )
    def test_a_valid_scope_comes_back_unchanged(self, scope):
        assert parse(scope) == scope

    @tried_in_one("scope", [None, 7, b"user/alice", ["user"], ("a",), True])
    def test_what_is_no_string_is_refused(self, scope):
        with pytest.raises(ValidationError, match="must be a string"):
            parse(scope)

    def test_an_empty_scope_is_never_everyone(self):
        with pytest.raises(ValidationError, match="must not be empty"):
            parse("")

    @pytest.mark.parametrize("scope", ["/", "/user", "user/", "user//alice", "//"])
    def test_an_empty_segment_is_refused(self, scope):
        with pytest.raises(ValidationError, match="a segment is empty"):
            parse(scope)

    @pytest.mark.parametrize("scope", [".", "..", "user/..", "./user", "user/../bob"])
    def test_dots_are_no_segments(self, scope):
        with pytest.raises(ValidationError, match="are not segments"):
            parse(scope)

    @pytest.mark.parametrize("scope", [" ", " user", "user ", "user/ alice", "user /alice"])
    def test_a_space_at_either_end_of_a_segment_is_refused(self, scope):
        with pytest.raises(ValidationError, match="begins or ends with a space"):
            parse(scope)

    @tried_in_one("character", ["\x00", "\n", "\t", "\x7f", "\xa0", "\u200b", "\u202e", "\ue000", "\ud800", "\u2028"])
    def test_what_does_not_print_is_refused(self, character):
        with pytest.raises(ValidationError, match="does not print"):
            parse(f"user/al{character}ice")

    def test_ten_segments_are_the_most(self):
        with pytest.raises(ValidationError, match="11 segments"):
            parse("/".join("abcdefghijk"))

    def test_two_hundred_characters_are_the_most_for_a_segment(self):
        with pytest.raises(ValidationError, match="longer than 200 characters"):
            parse(f"user/{'a' * 201}")

    def test_five_hundred_and_twelve_bytes_are_the_most(self):
        assert parse("/".join(["é" * 127] * 2 + ["aa"]))  # 2 * (254 + 1) + 2 = 512
        with pytest.raises(ValidationError, match="longer than 512 bytes"):
            parse("/".join(["é" * 127] * 2 + ["aaa"]))

    @pytest.mark.parametrize(("one", "other"), [("User", "user"), ("caf\u00e9", "cafe\u0301"), ("a b", "a  b")])
    def test_scopes_are_compared_exactly_as_given(self, one, other):
        assert parse(one) == one != other == parse(other)

    @given(st.text(st.characters(exclude_categories=()), max_size=40))
    def test_any_string_is_either_unchanged_or_refused(self, text):
        try:
            scope = parse(text)
        except ValidationError:
            return
        assert scope == text


class TestJoin:
    @pytest.mark.parametrize(
        ("root", "relative", "joined"),
        [
            ("user/alice", "work", "user/alice/work"),
            ("user/alice", "work/projects", "user/alice/work/projects"),
            ("user/alice", ".", "user/alice"),
        ],
    )
    def test_a_relative_scope_lies_below_the_root(self, root, relative, joined):
        assert join(root, relative) == joined

    @tried_in_one("relative", ["", "..", "../bob", "./work", "/user/bob", "work/..", "work/", "wo\nrk"])
    def test_nothing_leads_out_of_the_root(self, relative):
        with pytest.raises(ValidationError):
            join("user/alice", relative)

    def test_a_malformed_root_is_refused(self):
        with pytest.raises(ValidationError):
            join("", ".")

    def test_the_whole_keeps_the_limits(self):
        with pytest.raises(ValidationError, match="segments"):
            join("a/b/c/d/e/f", "g/h/i/j/k")
        with pytest.raises(ValidationError, match="512 bytes"):
            join("é" * 200, "é" * 100)

    @given(valid_scopes, valid_scopes)
    def test_whatever_is_joined_is_the_root_or_below_it(self, root, relative):
        low, high = child_range(root)
        assert low <= join(root, relative) < high


class TestChildRange:
    @given(near_scopes, near_scopes)
    @example("user/1", "user/10")
    @example("user/1", "user/1/work")
    @example("user/1", "user/1")
    def test_it_holds_exactly_what_begins_with_the_scope_and_a_slash(self, scope, other):
        low, high = child_range(scope)
        assert (low <= other < high) == other.startswith(f"{scope}/")

    @given(valid_scopes, valid_scopes)
    def test_it_holds_in_utf_8_too_as_databases_compare(self, scope, other):
        low, high = (bound.encode() for bound in child_range(scope))
        assert low <= f"{scope}/{other}".encode() < high
        assert (low <= other.encode() < high) == other.startswith(f"{scope}/")
