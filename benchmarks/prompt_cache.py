"""How much of a prompt a provider's cache can reuse from turn to turn, with and without a memory in it.

Sessions of the sample history are said again, each in a thread of its own, to an agent with ``AgentMemoryMiddleware``
and a scripted model that keeps its prompts. A prefix cache holds what a prompt has in common with the beginning of the
one before it in the thread: counted in characters, without what the memory itself has added, beside the same sessions
without a memory. It needs no network.

    python benchmarks/prompt_cache.py [--sessions 200]
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, cycle, islice, pairwise
from typing import Final, Literal, Self

from langchain.agents import create_agent
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from memory_retrievers import AgentMemory
from memory_retrievers.evaluation.samples import SCOPE, load_history
from memory_retrievers.langchain import AgentMemoryMiddleware
from memory_retrievers.models import EpisodicDraft
from memory_retrievers.testing import FixedClock

Mode = Literal["none", "tail", "system"]
"""Without a memory, or with one at either place."""

PROMPT: Final = "You are the assistant of a software engineer. Be brief, and say so when you do not know. " * 5
MODES: Final[tuple[Mode, ...]] = ("none", "tail", "system")
_OF_MEMORY: Final = re.compile(r"\s*<(profile|memory)>.*?(</\1>|$)", re.DOTALL)
NOW: Final = datetime(2026, 3, 1, 9, tzinfo=UTC)


@tool
def calendar() -> str:
    """Look into the calendar."""
    return "Nothing today."


@dataclass(frozen=True)
class Session:
    """One conversation.

    Attributes:
        turns: What the user says, and what is answered.
    """

    turns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Replay:
    """What the sessions of one mode gave.

    Attributes:
        shared: Characters that prompts have in common with the beginning of the one before, without the memory's.
        recalled: What the memory recalled in each model call, in order.
    """

    shared: int
    recalled: tuple[str, ...]


class ListeningChatModel(GenericFakeChatModel):
    """Says what it was told to say, accepts tools, and keeps its prompts."""

    prompts: list[Sequence[BaseMessage]] = Field(default_factory=list)

    def bind_tools(self, tools: object, **options: object) -> Self:  # type: ignore[override]
        """The model itself, whatever the tools are."""
        del tools, options
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: object,
    ) -> ChatResult:
        self.prompts.append(list(messages))
        return super()._generate(messages, stop, run_manager, **options)


def sessions(count: int) -> list[Session]:
    """So many sessions, those of the sample history over and over."""
    told = [draft for draft in load_history(scope=SCOPE, now=NOW) if isinstance(draft, EpisodicDraft)]
    found = [Session(turns) for draft in told if len(turns := _turns(draft)) > 1]
    return list(islice(cycle(found), count))


def _turns(draft: EpisodicDraft) -> tuple[tuple[str, str], ...]:
    pairs = pairwise(draft.messages)
    return tuple(
        (said.content, told.content) for said, told in pairs if (said.role, told.role) == ("user", "assistant")
    )


def replay(memory: AgentMemory, said: Sequence[Session], *, mode: Mode, with_tools: bool) -> Replay:
    """Say the sessions to an agent.

    Args:
        memory: What it remembers; nothing is added to it.
        said: The sessions.
        mode: Where the memory stands.
        with_tools: Whether the model looks into the calendar before each answer.
    """
    shared, recalled = 0, list[str]()
    model = ListeningChatModel(messages=chain.from_iterable(_script(each, with_tools=with_tools) for each in said))
    place = [] if mode == "none" else [AgentMemoryMiddleware(memory=memory, placement=mode, record=False)]
    agent = create_agent(model, tools=[calendar], system_prompt=PROMPT, middleware=place, checkpointer=InMemorySaver())
    for number, session in enumerate(said):
        model.prompts.clear()
        for question, _ in session.turns:
            run: RunnableConfig = {"configurable": {"user_id": SCOPE, "thread_id": str(number)}}
            agent.invoke({"messages": [{"role": "user", "content": question}]}, run)
        prompts = ["\n".join(f"{each.type}: {each.text}" for each in prompt) for prompt in model.prompts]
        recalled += [_recalled(prompt) for prompt in prompts]
        shared += sum(_shared(earlier, later) for earlier, later in pairwise(prompts))
    return Replay(shared, tuple(recalled))


def _shared(earlier: str, later: str) -> int:
    """The characters of the conversation that two prompts have in common at their beginning."""
    most = min(len(earlier), len(later))
    length = next((place for place in range(most) if earlier[place] != later[place]), most)
    return len(_OF_MEMORY.sub("", earlier[:length]).rstrip())


def _script(session: Session, *, with_tools: bool) -> Iterator[AIMessage]:
    for number, (_, answer) in enumerate(session.turns):
        if with_tools:
            call = {"name": "calendar", "args": {}, "id": str(number), "type": "tool_call"}
            yield AIMessage("", tool_calls=[call])
        yield AIMessage(answer)


def _recalled(prompt: str) -> str:
    """What the memory recalled; empty if that is nothing."""
    return prompt.rpartition("<memory>")[2].partition("</memory>")[0] if "</memory>" in prompt else ""


def filled() -> AgentMemory:
    """A memory of the sample history, to be closed."""
    memory = AgentMemory.in_memory(clock=FixedClock(NOW))
    memory.remember_many(load_history(scope=SCOPE, now=NOW))
    return memory


def measure(memory: AgentMemory, count: int, *, with_tools: bool) -> dict[Mode, Replay]:
    """The sessions with each placement, and without a memory."""
    said = sessions(count)
    return {mode: replay(memory, said, mode=mode, with_tools=with_tools) for mode in MODES}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sessions", type=int, default=200)
    count = parser.parse_args().sessions
    print(f"{count} sessions of the sample history; shared prefix, of that without a memory")
    with filled() as memory:
        for with_tools in (False, True):
            found = measure(memory, count, with_tools=with_tools)
            for mode in ("tail", "system"):
                same = sum(a == b for a, b in zip(found[mode].recalled, found["system"].recalled, strict=True))
                print(
                    f'{"with" if with_tools else "without"} tools, placement="{mode}": '
                    f"{found[mode].shared / found['none'].shared:.2%}; the same evidence as in the system message in "
                    f"{same} of {len(found[mode].recalled)} model calls, some in {sum(map(bool, found[mode].recalled))}"
                )


if __name__ == "__main__":
    main()
