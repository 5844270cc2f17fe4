"""How many tokens a language model counts in a text: by cl100k where its table is at hand, else by a rule of thumb.

``llama-index-core`` ships the table and installs ``tiktoken``. It is read from there as a file: LlamaIndex is not
imported, and nothing is fetched.
"""

from __future__ import annotations

import base64
import functools
import importlib.metadata
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TABLE: Final = "llama_index/core/_static/tiktoken_cache/9b5ad71b2ce5302211f9c61530b329a4922fc6a4"
_CL100K_TOKENS: Final = 100_256
_CL100K_PATTERN: Final = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|"""
    r"""\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounter:
    """Counts tokens.

    Attributes:
        name: How it counts, for the heading of a table.
        count: The number of tokens of a text.
    """

    name: str
    count: Callable[[str], int]


@functools.cache
def token_counter() -> TokenCounter:
    """cl100k, or a quarter of the characters where tiktoken or its table is not installed."""
    table = _table()
    if table is None or importlib.util.find_spec("tiktoken") is None:
        return TokenCounter(name="characters / 4", count=lambda text: -(-len(text) // 4))
    import tiktoken

    lines = (line.split() for line in table.read_bytes().splitlines() if line)
    encoding = tiktoken.Encoding(
        "cl100k",
        pat_str=_CL100K_PATTERN,
        mergeable_ranks={base64.b64decode(token): int(rank) for token, rank in lines},
        special_tokens={},
        explicit_n_vocab=_CL100K_TOKENS,
    )
    return TokenCounter(name="cl100k", count=lambda text: len(encoding.encode_ordinary(text)))


def _table() -> Path | None:
    try:
        installed = importlib.metadata.distribution("llama-index-core")
    except importlib.metadata.PackageNotFoundError:
        return None
    table = Path(str(installed.locate_file(_TABLE)))
    return table if table.is_file() else None
