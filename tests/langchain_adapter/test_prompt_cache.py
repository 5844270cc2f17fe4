"""What a prompt cache can reuse, as ``benchmarks/prompt_cache.py`` measures it, on a few sessions."""

import prompt_cache
import pytest


@pytest.mark.parametrize("with_tools", [False, True])
def test_a_memory_behind_the_question_leaves_the_beginning_of_every_prompt_as_it_is(with_tools):
    found = prompt_cache.measure(3, with_tools=with_tools)
    share = {mode: replay.shared / found["none"].shared for mode, replay in found.items()}
    assert share["none"] == 1
    assert share["system"] < share["tail"] <= 1
    assert with_tools or share["tail"] >= 0.99
    assert found["tail"].recalled == found["system"].recalled
    assert any(found["tail"].recalled)
    assert not any(found["none"].recalled)
