"""What a prompt cache can reuse, as ``benchmarks/prompt_cache.py`` measures it, on a few sessions."""

import prompt_cache
import pytest


@pytest.fixture(scope="module")
def memory():
    """The sample history, which no replay changes."""
    with prompt_cache.filled() as memory:
        yield memory


@pytest.mark.parametrize("with_tools", [False, True])
def test_a_memory_behind_the_question_leaves_the_beginning_of_every_prompt_as_it_is(memory, with_tools):
    found = prompt_cache.measure(memory, 3, with_tools=with_tools)
    share = {mode: replay.shared / found["none"].shared for mode, replay in found.items()}
    assert share["none"] == 1
    assert share["system"] < share["tail"] <= 1
    assert with_tools or share["tail"] >= 0.99
    assert found["tail"].recalled == found["system"].recalled
    assert any(found["tail"].recalled)
    assert not any(found["none"].recalled)
