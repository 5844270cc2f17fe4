"""The token comparison that the documentation quotes."""

import re
import sys

import pytest
import scene_tokens
from scene_story import STORY

from memory_retrievers.text.analysis import estimate_scene_tokens


def test_the_block_costs_at_most_six_tenths_of_the_older_layout():
    assert estimate_scene_tokens(scene_tokens.after()) <= 0.6 * estimate_scene_tokens(scene_tokens.before())


def test_both_tell_all_twenty_events():
    assert len(STORY) == 20
    assert len(re.findall(r"(?m)^\[★", scene_tokens.after())) == 20
    assert len(re.findall(r"(?m)^\[★", scene_tokens.before())) == 20


def test_the_summaries_are_as_long_as_either_prompt_asks_for():
    assert all(12 <= len(told.verbose.split()) <= 32 for told in STORY)
    assert all(8 <= len(told.event.summary.split()) <= 18 for told in STORY)


def test_the_older_layout_is_that_of_the_specification():
    older = scene_tokens.before()
    assert older.startswith("<scene_memory>\n(Current chat has #1400 messages)\n")
    assert "\n    ⤷ IMMEDIATELY AFTER\n    💔 Emotional: Ilse feels shaken\n" in older
    assert "\n    ⤷ Shortly after\n" in older
    assert older.count("[Secret] ") == 2
    assert "Emotional state: resolute (as of msgs #1390-1396)\nPresent: Tamsin, Warden Holt\n" in older
    assert not re.search(r"⤷|💔|\[Secret\]", scene_tokens.after())


def test_the_command_prints_the_figures_and_fails_above_the_limit(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["scene_tokens.py"])
    with pytest.raises(SystemExit) as ended:
        scene_tokens.main()
    assert not ended.value.code
    assert re.search(r"after / before +0\.\d\d \(at most 0.6\)", capsys.readouterr().out)
    monkeypatch.setattr(scene_tokens, "MOST", 0.01)
    with pytest.raises(SystemExit) as ended:
        scene_tokens.main()
    assert ended.value.code
