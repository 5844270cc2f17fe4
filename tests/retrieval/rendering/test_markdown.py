"""Markdown: byte for byte what is specified, whatever the texts contain."""

import itertools
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cases import try_each
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rendered import retrieved_block

from memory_retrievers.models import DetailLevel
from memory_retrievers.models.messages import Message
from memory_retrievers.retrieval.markdown import NO_RECENT_MEMORIES, recent_block

SNAPSHOTS = Path(__file__).parent / "snapshots"
HELLO = [("user", "Hello")]
SPECIFIED_LEVELS = [level for level in DetailLevel if level is not DetailLevel.EXCERPTS]


def snapshot(name):
    return (SNAPSHOTS / name).read_text(encoding="utf-8").removesuffix("\n")


@pytest.fixture(scope="module")
def facts(make_fact):
    return [
        make_fact(rank=1, sources=("e1", "e2", "e3")),
        make_fact("Assistant should answer in metric units", rank=2, category="guideline", sources=("e4",)),
    ]


@pytest.fixture(scope="module")
def episodes(make_episode):
    return [
        make_episode(
            "Switch from cron jobs to Kafka",
            rank=1,
            score=0.923817,
            days_ago=2,
            surprise=0.9,
            summary="The user reported a failed nightly import; the assistant proposed streaming with Kafka and the user agreed.",
            messages=[
                ("user", 'The nightly import died again.\nThird time "this week".'),
                ("assistant", "Want to stream it through Kafka instead?"),
                ("user", "Yes, let us do it."),
            ],
        ),
        make_episode(
            "",
            rank=2,
            score=0.866489,
            days_ago=1,
            surprise=0.2,
            summary="The user asked for metric units in reports.",
            messages=[("user", "Metric units, please.")],
        ),
        make_episode(
            "Garden irrigation plan",
            rank=3,
            score=0.397089,
            days_ago=8,
            surprise=0.6,
            summary="The user sketched a drip irrigation layout for the garden.",
            messages=[("user", "Here is my sketch.")],
        ),
    ]


class TestMemoryBlock:
    def test_the_worked_example_is_reproduced_byte_for_byte(self, facts, episodes, now):
        assert retrieved_block(facts, episodes, now=now) == snapshot("worked_example.md")

    def test_facts_alone_are_the_context_block(self, facts, now):
        assert retrieved_block(facts, [], now=now) == snapshot("context.md")

    def test_episodes_alone_have_no_section_of_facts(self, episodes, now):
        block = retrieved_block([], episodes, now=now)
        assert block == snapshot("worked_example.md").split("\n\n", 1)[1]
        assert block.startswith("## Episodic Memories\n\n### Switch")

    def test_without_memories_there_is_nothing(self, now):
        assert retrieved_block([], [], now=now) == ""

    @pytest.mark.parametrize("detail", SPECIFIED_LEVELS)
    def test_details_are_told_by_level_and_rank_and_surprise(self, make_episode, now, detail):
        def check(rank, surprise):
            surprising = surprise >= 0.7
            expected = {
                DetailLevel.AUTO: surprising and rank in {1, 2},
                DetailLevel.NONE: False,
                DetailLevel.LOW: surprising and rank == 1,
                DetailLevel.HIGH: True,
            }[detail]
            block = retrieved_block(
                [], [make_episode(rank=rank, surprise=surprise, messages=HELLO)], now=now, detail=detail
            )
            assert block.endswith('\n\n**Details:**\n- user: "Hello"') == ("Details" in block) == expected
            assert (", key moment]" in block) == surprising

        try_each(check, itertools.product((1, 2, 3, 4), (0.0, 0.69, 0.7, 1.0)))

    def test_an_episode_without_messages_has_no_details(self, make_episode, now):
        block = retrieved_block([], [make_episode(surprise=1.0)], now=now, detail=DetailLevel.HIGH)
        assert block.endswith("**Summary:** The user moved.")

    @pytest.mark.parametrize(
        ("sources", "told"),
        [
            ((), "0 conversations"),
            (("e1",), "1 conversation"),
            (("e1", "e2"), "2 conversations"),
            (("e1", "e1"), "1 conversation"),
        ],
    )
    def test_different_sources_are_counted(self, make_fact, now, sources, told):
        assert retrieved_block([make_fact(sources=sources)], [], now=now).endswith(f"(sources: {told})")

    def test_no_sources_are_not_told_beyond_the_specification(self, make_fact, now):
        told = [
            retrieved_block([make_fact(sources=each)], [], now=now, fact_display_length=280) for each in ((), ("e",))
        ]
        assert told == [
            f"## Semantic Memory\n- [identity] User lives in Lyon{end}" for end in ("", " (sources: 1 conversation)")
        ]

    @pytest.mark.parametrize("title", ["", " \n", "\u202e"])
    def test_an_untitled_episode_is_named_after_its_rank(self, make_episode, now, title):
        assert "\n### Memory 7 [rank: 7," in retrieved_block([], [make_episode(title, rank=7)], now=now)

    @pytest.mark.parametrize(
        ("score", "shown"),
        [
            (0.995, "0.99"),
            (0.125, "0.12"),
            (0.375, "0.38"),
            (0.865, "0.86"),
            (1.0, "1.00"),
            (0.004, "0.00"),
            (0.5, "0.50"),
        ],
    )
    def test_scores_are_rounded_half_to_even_from_the_binary_value(self, make_episode, now, score, shown):
        assert f"score: {shown}]" in retrieved_block([], [make_episode(score=score)], now=now)

    def test_every_line_stays_one_line(self, make_fact, make_episode, now):
        facts = [make_fact("User\nlives\u2028in  Lyon")]
        episodes = [make_episode("Moving\r\nhouse", summary=" The user\n\n## moved. ")]
        assert retrieved_block(facts, episodes, now=now).splitlines() == [
            "## Semantic Memory",
            "- [identity] User lives in Lyon (sources: 1 conversation)",
            "",
            "## Episodic Memories",
            "",
            "### Moving house [rank: 1, score: 0.90]",
            "**When:** 2 days ago",
            "**Summary:** The user ## moved.",
        ]

    @pytest.mark.parametrize(
        ("role", "shown"),
        [
            ("User", "user"),
            ("SYSTEM", "system"),
            ("Tool: Search", "tool: search"),
            ("a\nb", "a b"),
            ("@ann_1", "@ann_1"),
            ("\u200f\x07", "unknown"),
            ("# Heading", "\\# heading"),
            ("- item", "\\- item"),
            ("[x]", "\\[x]"),
            ("1. one", "1\\. one"),
            ("23) two", "23\\) two"),
            ("1.5", "1.5"),
            ("```", "\\```"),
            ("</memory>", "&lt;/memory>"),
        ],
    )
    def test_roles_are_shown_in_lower_case_and_cannot_begin_a_block(self, make_episode, now, role, shown):
        block = retrieved_block([], [make_episode(messages=[(role, "Hello")])], now=now, detail=DetailLevel.HIGH)
        assert block.endswith(f'\n- {shown}: "Hello"')

    @pytest.mark.parametrize(
        ("fact", "shown"),
        [
            ("x" * 280, "x" * 280),
            ("x" * 281, "x" * 279 + "…"),
            (" \n".join("y" * 200), " ".join("y" * 140)[:279] + "…"),
        ],
    )
    def test_long_facts_are_cut_to_the_length_asked_for(self, make_fact, now, fact, shown):
        block = retrieved_block([make_fact(fact)], [], now=now, fact_display_length=280)
        assert block == f"## Semantic Memory\n- [identity] {shown} (sources: 1 conversation)"

    def test_facts_are_whole_otherwise(self, make_fact, now):
        assert "x" * 5_000 in retrieved_block([make_fact("x" * 5_000)], [], now=now)

    def test_what_ends_in_the_future_is_just_now(self, make_episode, now):
        assert "**When:** just now" in retrieved_block([], [make_episode(days_ago=-3)], now=now)

    def test_when_is_told_from_the_end_not_from_the_last_review(self, make_episode, now):
        episode = make_episode(days_ago=8, last_reviewed_at=now - timedelta(days=1))
        assert "**When:** last week" in retrieved_block([], [episode], now=now)


class TestRecentBlock:
    def test_recent_episodes_have_neither_rank_nor_details(self, episodes, now):
        assert recent_block([hit.memory for hit in episodes[:2]], now=now) == snapshot("recent.md")

    def test_without_episodes_a_sentence_says_so(self, now):
        assert recent_block([], now=now) == NO_RECENT_MEMORIES == "No recent memories found."


FRAGMENTS = (
    "# ", "## Episodic Memories", "### x [rank: 1, score: 1.00]", "- ", "* ", "+ ", "1. ", "23) ", "> ", "```", "~~~python",
    "    indented", "\t", "---", "***", "===", "|a|b|", "|-|-|", "<div>", "<!-- ", "<script>", "</memory>", "</ MEMORY x",
    "</scene_memory>", "<", "/", "memory", "[x]: http://y.z", "[x]", ": ", "[^1]: note", "![i](j)", "**Details:**", "**", "`",
    '"', "\\", "'", "\n", "\n\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029", "\xa0", "\u3000", "\x00", "\x1b",
    "\x7f", "\u202e", "\u2066", "\u200e", "\u061c", "\ud800", "\udfff", "&lt;", "é", "猫", "\N{GRINNING FACE}", "word", " ",
)  # fmt: skip
nasty_text = st.lists(st.sampled_from(FRAGMENTS) | st.characters(exclude_categories=()), max_size=8).map("".join)
conversations = st.lists(st.tuples(nasty_text, nasty_text), max_size=3)
stories = st.lists(st.tuples(nasty_text, nasty_text, conversations), max_size=3)


class TestStructure:
    """What users and models wrote never becomes a block of its own."""

    @given(st.lists(nasty_text, max_size=3), stories)
    @example(["x\n```\ny"], [("a\n# b", "c\n\n<div>", [("[x]", "y"), ("- - -", "\n"), ("~~~", "")])])
    @example(["</memory>"], [("</memory>", "</ memory>", [("</memory>", "</memory>")])])
    def test_any_content_gives_the_blocks_of_harmless_content(self, make_fact, make_episode, now, facts, stories):
        harmless_facts = [make_fact("harmless") for _ in facts]
        harmless_stories = [make_episode("harmless", messages=[HELLO[0] for _ in talk]) for _, _, talk in stories]
        block = retrieved_block(
            [_forced(hit, fact=fact) for hit, fact in zip(harmless_facts, facts, strict=True)],
            [
                _forced(
                    hit,
                    title=title,
                    summary=summary,
                    messages=tuple(Message.model_construct(role=role, content=content) for role, content in talk),
                )
                for hit, (title, summary, talk) in zip(harmless_stories, stories, strict=True)
            ],
            now=now,
            detail=DetailLevel.HIGH,
        )
        harmless = retrieved_block(harmless_facts, harmless_stories, now=now, detail=DetailLevel.HIGH)
        assert _blocks(block) == _blocks(harmless)
        assert "</memory" not in block.lower()
        assert "</scene_memory" not in block.lower()
        assert len(block.splitlines()) == len(harmless.splitlines())
        block.encode()

    @given(nasty_text, nasty_text)
    def test_so_it_is_with_recent_memories(self, make_episode, now, title, summary):
        harmless = make_episode("harmless")
        block = recent_block([_forced(harmless, title=title, summary=summary).memory], now=now)
        assert _blocks(block) == _blocks(recent_block([harmless.memory], now=now))
        assert "</memory" not in block.lower()


def _forced(hit, **texts):
    """The same hit with texts that the model's own checks would mend or refuse."""
    return replace(hit, memory=hit.memory.model_construct(**dict(hit.memory) | texts))


def _blocks(markdown):
    parser, environment = MarkdownIt("commonmark").enable("table"), {}
    tokens = parser.parse(markdown, environment)
    assert not environment.get("references")
    assert not {"html_block", "fence", "code_block", "hr"} & {token.type for token in tokens}
    return [(token.type, token.tag, token.nesting, token.level) for token in tokens]
