"""Draws the picture of the README from a run of the real thing, so that it cannot show what does not happen.

    python scripts/draw_picture.py [--check]

Two threads of one user, three weeks apart: what was said in the first, what stands behind the question in the second.
The model's words are written here; what it is told, and how long that is, comes from the middleware. With ``--check``
nothing is written, and the exit code tells whether the picture is the one that would be drawn.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from memory_retrievers import AgentMemory
from memory_retrievers.langchain import AgentMemoryMiddleware
from memory_retrievers.testing import FixedClock
from memory_retrievers.text.analysis import estimate_tokens

PICTURE: Final = Path(__file__).parents[1] / "docs" / "images" / "three_weeks_later.svg"

FIRST: Final = (
    ("The nightly import died again.", "Again? Shall we stream it through Kafka instead?"),
    ("Yes, Kafka. Pavel has the keys of the cluster.", "Kafka it is, and Pavel for the keys."),
)
LAST: Final = ("Who was it that can open the Kafka cluster?", "Pavel. He has its keys.")

WIDTH, HEIGHT, LINE, COLUMN = 1000, 456, 19, 51
STYLE: Final = """
.page{fill:#ffffff}.frame{fill:none;stroke:#d0d7de}.user{fill:#ddf4ff}.model{fill:#f1f3f5}.block{fill:#fff8c5}
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2328}
.head{font:600 16px system-ui,-apple-system,Segoe UI,sans-serif}.note{font:13px system-ui,sans-serif;fill:#57606a}
@media (prefers-color-scheme:dark){.page{fill:#0d1117}.frame{stroke:#3d444d}.user{fill:#0c2d48}.model{fill:#21262d}
.block{fill:#3b2f00}text{fill:#e6edf3}.note{fill:#9ba7b4}}
"""


class Scripted(GenericFakeChatModel):
    """Says what it is given to say, and keeps what it was told."""

    prompts: list[list[BaseMessage]] = Field(default_factory=list)

    def _generate(self, messages: list[BaseMessage], *_: object, **__: object) -> ChatResult:
        self.prompts.append(messages)
        return super()._generate(messages)


def recalled() -> str:
    """What the middleware puts behind the last question, three weeks after the first thread."""
    clock = FixedClock(datetime(2026, 3, 2, 9, tzinfo=UTC))
    model = Scripted(messages=iter([AIMessage(answer) for _, answer in (*FIRST, LAST)]))
    with AgentMemory.in_memory(clock=clock) as memory:
        middleware = AgentMemoryMiddleware(memory=memory, process="never")
        agent = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
        for thread, questions in (("monday", FIRST), ("three weeks later", (LAST,))):
            config: RunnableConfig = {"configurable": {"user_id": "user/ines", "thread_id": thread}}
            for question, _ in questions:
                agent.invoke({"messages": [{"role": "user", "content": question}]}, config)
                clock.advance(minutes=1)
            clock.advance(days=1)
            memory.process_due()
            clock.advance(days=20)
    return model.prompts[-1][-1].text.removeprefix(LAST[0]).strip()


def draw(block: str) -> str:
    """The picture as SVG, which brings no font and loads nothing."""
    parts, top = list[str](), 62
    for question, answer in FIRST:
        for who, words in (("user", question), ("model", answer)):
            part, height = bubble(24, top, who, words)
            parts.append(part)
            top += height + 10
    parts.append(note(24, top + 16, "The conversation falls silent and becomes an episode:"))
    parts.append(note(24, top + 36, "by rules, or by your model. One file on disk, no server, no key."))
    part, height = bubble(524, 62, "user", LAST[0])
    parts.append(part)
    top = 62 + height + 10
    parts.append(note(524, top + 12, f"What the middleware puts behind it: {estimate_tokens(block)} tokens"))
    part, height = bubble(524, top + 22, "block", block)
    parts.append(part)
    parts.append(bubble(524, top + 22 + height + 10, "model", LAST[1])[0])
    frames = "".join(
        f'<rect class="frame" x="{x}" y="8" width="484" height="{HEIGHT - 16}" rx="10"/>'
        f'<text class="head" x="{x + 16}" y="40">{head}</text>'
        for x, head in ((8, "Monday, one thread"), (508, "Three weeks later, another thread"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="What was said on Monday is recalled three weeks later in another thread"><style>{STYLE}</style>'
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>{frames}{"".join(parts)}</svg>\n'
    )


def bubble(left: int, top: int, kind: str, words: str) -> tuple[str, int]:
    """A box with words, each line cut to its width, and how high it is in pixels."""
    lines = [
        piece for line in words.splitlines() if line for piece in textwrap.wrap(line, COLUMN, subsequent_indent="  ")
    ]
    height = LINE * len(lines) + 13
    texts = "".join(
        f'<text x="{left + 12}" y="{top + 22 + LINE * at}" xml:space="preserve">{escape(line)}</text>'
        for at, line in enumerate(lines)
    )
    return f'<rect class="{kind}" x="{left}" y="{top}" width="452" height="{height}" rx="8"/>{texts}', height


def note(left: int, top: int, words: str) -> str:
    """A line of small print."""
    return f'<text class="note" x="{left}" y="{top}">{escape(words)}</text>'


def main() -> int:
    """Draw, or look whether the picture is still true."""
    parser = argparse.ArgumentParser(description="Draws the picture of the README.")
    parser.add_argument("--check", action="store_true", help="write nothing; the exit code is 1 if it would change")
    picture = draw(recalled())
    if parser.parse_args().check:
        return int(PICTURE.read_text("utf-8") != picture)
    PICTURE.write_text(picture, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
