"""What was said is known elsewhere at once, threads stay apart, and tools and host share one memory."""

import pytest


# LlamaIndex's workflows look at every attribute of an agent, deprecated ones of pydantic included.
@pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")
@pytest.mark.parametrize("file", ["langchain_another_thread.py", "llama_index_another_session.py"])
def test_what_was_said_is_known_in_another_thread_a_minute_later_after_a_restart(told, file):
    sections = told(file)
    monday, another = sections["monday"], sections["another"]
    assert monday[0] == "prompt: I have moved to Nantes, rue Crébillon."
    assert monday[1].endswith(": Welcome to Nantes!")
    assert another[0] == "prompt: Which city do I live in?"
    assert '- user: "I have moved to Nantes, rue Crébillon."' in another
    assert "Episodes made so far: 0" in sections


def test_two_threads_at_once_are_never_one_episode_and_both_are_known_in_a_third(told):
    third, bread, work = told("two_threads_at_once.py").values()
    assert '- user: "Gustave is fed with rye flour every morning."' in third
    assert '- user: "The cluster is upgraded on Thursday."' in third
    assert bread == [
        "user: My sourdough starter is called Gustave.",
        "assistant: A fine name.",
        "user: Gustave is fed with rye flour every morning.",
        "assistant: Rye keeps him lively.",
    ]
    assert work == [
        "user: Our Kubernetes cluster runs version 1.34.",
        "assistant: Noted.",
        "user: The cluster is upgraded on Thursday.",
        "assistant: On Thursday, then.",
    ]


def test_tools_and_host_share_one_memory(told):
    found, recent, mended, left = told("shared_by_tools_and_host.py").values()
    both = {"The bakery on the corner opens at seven", "The bakery on the corner is closed on Mondays"}
    assert set(found) == both
    assert {line.removeprefix("- [note] ").removesuffix(" (noted just now)") for line in recent[1:]} == both
    assert "- [note] The bakery on the corner opens at eight" in mended
    assert left == ["The bakery on the corner opens at eight"]
