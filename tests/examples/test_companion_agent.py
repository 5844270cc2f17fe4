"""The companion's evening is remembered, and told from one point of view."""

import pytest


@pytest.fixture(scope="module")
def evening(run_example):
    """What the companion's example printed, section by section."""
    return run_example("companion_agent.py").removeprefix("\n== ").split("\n== ")


def test_what_happens_in_an_evening_is_remembered_as_it_goes_by(evening):
    lines = evening[0].splitlines()
    assert [line.split(":")[0] for line in lines[1:]] == ["Ives", "Mira", "remembered"] * 2 + ["Ives", "Mira"]
    assert lines[3] == "remembered: Ives showed Mira a deed of the inn with a moneylender's seal."


def test_the_companion_is_given_the_story_as_her_character_knows_it(evening):
    _, prompt, tam, _ = evening
    assert "You are Mira" in prompt
    assert "(#805 messages)" in prompt
    headings = ["## The Story So Far", "## Leading Up To This Moment", "## Current Scene"]
    assert [line for line in prompt.splitlines() if line.startswith("##")] == headings
    assert "Present: Ives\n" in prompt
    assert "- Mira: curious → shocked → angry\n" in prompt
    assert "[★★★] Ives rented the attic room and paid Mira in old silver." in prompt.partition(headings[1])[2]
    assert "sold the deed" not in prompt
    assert "sold the deed" in tam
    assert "old silver" not in tam


def test_how_the_characters_came_to_feel_what_they_feel_is_kept(evening):
    assert evening[3].splitlines()[1:] == [
        "Mira: curious -> shocked -> angry; knows of 4 events",
        "Tam: neutral; knows of 2 events",
        "Ives: neutral; knows of 3 events",
    ]
