"""What ``memory_sync`` takes in is bounded before it is read: by bytes, by values, by memories and by depth."""

import base64
import gzip
import json
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers import AgentMemory, ToolSettings
from memory_retrievers.errors import ValidationError
from memory_retrievers.models.fields import json_extent
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.tool import ToolContext

from .conftest import everything, imported, sync

MOST_HELD = 64 * 2**20
LONGEST = 5.0  # seconds of work, traced; the bomb took 39 s and more


def packed(document):
    return base64.b64encode(gzip.compress(document, mtime=0)).decode()


def measured(call):
    """The error that a call ends with, the bytes it held at most, and its seconds of work."""
    tracemalloc.start()
    started = time.process_time()
    try:
        with pytest.raises(ValidationError) as raised:
            call()
        return str(raised.value), tracemalloc.get_traced_memory()[1], time.process_time() - started
    finally:
        tracemalloc.stop()


# Each is refused for what the first word says; the first is what a review tried: 128 kB that unpack to 100 MB.
BOMBS = {
    "import_max_bytes": lambda: b'{"memories":[' + b"{}," * 33_000_000 + b"{}]}",
    "import_max_values": lambda: b'{"memories":[{"content":"x"}],"other":[' + b"[]," * 2_500_000 + b"[]]}",
    "import_max_memories": lambda: b'{"memories":[' + b"{}," * 50_000 + b"{}]}",
    "import_max_depth": lambda: b'{"memories":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("bound", BOMBS)
def test_a_bomb_is_refused_by_its_bound_before_it_takes_memory_or_time(alice, bound):
    before = everything(alice)
    data = packed(BOMBS[bound]())
    assert len(data) < 200_000
    message, held, seconds = measured(lambda: sync(alice, "import", data=data))
    assert bound in message
    assert held < MOST_HELD, f"{held / 2**20:.0f} MB"
    assert seconds < LONGEST
    assert everything(alice) == before


def test_the_largest_document_that_is_taken_in_holds_no_more_memory(small):
    context = ToolContext(memory=small, root="user/alice")
    most = context.manager.settings.import_max_memories
    document = {"memories": [{"content": f"note {number}"} for number in range(most)]}
    document["other"] = [[]] * (context.manager.settings.import_max_values // 2 - 2 * most)
    data = json.dumps(document)
    tracemalloc.start()
    try:
        assert sync(context, "import", data=data)["item_count"] == most
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert held < 2 * MOST_HELD, f"{held / 2**20:.0f} MB"


def test_data_of_many_small_pieces_costs_no_list_of_them(alice):
    data = "ab " * 2_700_000
    message, held, _ = measured(lambda: sync(alice, "import", data=data))
    assert "neither JSON nor base64 of gzip" in message
    assert held < MOST_HELD, f"{held / 2**20:.0f} MB"


def test_packed_data_may_be_broken_into_lines(alice):
    data = packed(b'{"memories": [{"content": "green tea"}]}')
    lines = "\r\n".join(data[start : start + 20] for start in range(0, len(data), 20))
    assert imported(alice, lines)["item_count"] == 1


DOCUMENT = '{"memories": [{"content": "x", "metadata": {"k": [1]}}, {"content": "y"}]}'


@pytest.mark.parametrize(
    ("bound", "enough", "message"),
    [
        ("import_max_bytes", len(DOCUMENT), f"the data is larger than {len(DOCUMENT) - 1} bytes"),
        ("import_max_values", 9, "it has 9 values, at most 8 are allowed"),
        ("import_max_memories", 2, "it has 2 memories, at most 1 are allowed"),
        ("import_max_depth", 5, "it is nested 5 deep, at most 4 are allowed"),
    ],
)
def test_every_bound_is_a_setting_and_its_error_names_it(clock, bound, enough, message):
    def context(most):
        settings = ToolSettings(**{bound: most})
        memory = AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock, tools=settings, dense="exact")
        return ToolContext(memory=memory, root="user/alice")

    narrow = context(enough - 1)
    with narrow.memory, pytest.raises(ValidationError, match=message) as raised:
        sync(narrow, "import", data=DOCUMENT)
    assert bound in str(raised.value)
    wide = context(enough)
    with wide.memory:
        assert sync(wide, "import", data=DOCUMENT)["item_count"] == 2


def test_metadata_as_deep_as_a_memory_may_have_is_taken_in(alice):
    nested = "x"
    for _ in range(250):
        nested = [nested]
    assert imported(alice, {"memories": [{"content": "x", "metadata": {"k": nested}}]})["item_count"] == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('[]{},"\\ü☃ab', max_size=8),
    lambda each: st.lists(each, max_size=4) | st.dictionaries(st.text('[]{},"\\a', max_size=4), each, max_size=4),
    max_leaves=30,
)


def _depth(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)


def _values(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_values, inner))


@given(value=JSON, indent=st.sampled_from([None, 1]), ascii=st.booleans())
def test_the_extent_of_json_is_known_without_reading_it(value, indent, ascii):
    extent = json_extent(json.dumps(value, indent=indent, ensure_ascii=ascii).encode())
    assert extent.depth == _depth(value)
    assert _values(value) <= extent.values <= 2 * _values(value)


def test_strings_and_escapes_may_lie_across_the_pieces_that_are_looked_at():
    for shift in range(12):
        text = b'["' + b"x" * (2**20 - 8 + shift) + rb'[\"\\", [[1, 2]]]'
        assert json_extent(text) == (6, 3)
