"""The stories of three weeks are told as they promise."""

import re
from dataclasses import dataclass

import pytest

# LlamaIndex's workflows look at every attribute of an agent, deprecated ones of pydantic included.
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")


@dataclass(frozen=True)
class Story:
    """What an example is about."""

    file: str
    episode: str
    advice: str
    before: str
    after: str


STORIES = [
    Story(
        file="langchain_three_weeks.py",
        episode="A nightly import that is to go through Kafka",
        advice="they decided to stream it through Kafka",
        before="Alice lives in Lyon",
        after="Alice lives in Nantes",
    ),
    Story(
        file="llama_index_three_weeks.py",
        episode="A shop that goes down with every restore",
        advice="the assistant advised a read replica",
        before="Bo's staging database is restored every Monday",
        after="Bo's staging database is restored every Friday",
    ),
]


@pytest.fixture(scope="module", params=STORIES, ids=lambda story: story.file)
def told(request, run_example):
    """A story, and what its example printed, section by section."""
    return request.param, run_example(request.param.file).removeprefix("\n== ").split("\n== ")


def reviews(section):
    """Title, rating, and stability before and after, of each review that a week has brought."""
    line = re.compile(r"^reviewed: (.+) \((\w+)\), stability ([\d.]+) -> ([\d.]+) days$", re.MULTILINE)
    return [(title, rating, float(before), float(after)) for title, rating, before, after in line.findall(section)]


def test_three_weeks_go_by_and_what_they_left_is_shown(told):
    _, sections = told
    assert [section.splitlines()[0][:8] for section in sections[:3]] == ["Week 1, ", "Week 2, ", "Week 3, "]
    assert [date for section in sections for date in re.findall(r"^Week \d, (.+)", section)] == [
        *("02 March 2026", "09 March 2026", "16 March 2026"),
    ]
    assert len(sections) == 5


def test_in_week_three_the_model_reads_what_was_said_in_week_one(told):
    story, (*_, prompt, _) = told
    notes = prompt[prompt.index("<memory>") :]
    episode = notes[notes.index(f"### {story.episode}") :]
    assert episode.splitlines()[1] == "**When:** 2 weeks ago"
    assert story.advice in episode.splitlines()[2]


def test_it_reads_what_holds_now_and_not_what_held_before(told):
    story, (*_, prompt, _) = told
    assert f"] {story.after}" in prompt
    assert story.before not in prompt


def test_what_changes_in_week_two_takes_the_place_of_what_was_learned_in_week_one(told):
    story, (one, two, three, _, history) = told
    assert f"learned: {story.before}" in one.splitlines()
    assert [f"no longer holds: {story.before}", f"learned: {story.after}"] == two.splitlines()[-2:]
    assert "learned" not in three
    assert history.splitlines()[1:] == [
        f"{story.before}: from 02 March, until 09 March",
        f"{story.after}: from 09 March, holds",
    ]


def test_what_was_of_no_use_fades_sooner_and_what_was_used_fades_later(told):
    story, (one, two, three, *_) = told
    assert reviews(one) == []
    ((title, rating, fresh, useless),) = reviews(two)
    assert (title, rating) == (story.episode, "again")
    assert fresh > useless
    by_title = {title: rest for title, *rest in reviews(three)}
    assert len(by_title) == 2
    assert by_title[story.episode][:2] == ["good", useless]
    assert all(before < after for _, before, after in by_title.values())
