"""Every notebook runs from top to bottom without a network, and puts out what is committed.

``UPDATE_SNAPSHOTS=1`` writes what they put out into the notebooks instead of comparing with it.
"""

import base64
import difflib
import io
import os
import re
import socket
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

NAMES = (
    "01_langchain_agent.ipynb",
    "02_llama_index_query_engine.ipynb",
    "03_forgetting_curves.ipynb",
    "04_measure_on_your_data.ipynb",
)
UPDATE = "UPDATE_SNAPSHOTS" in os.environ
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
DECIMAL = re.compile(r"\d+\.\d+")
LAST_DIGITS = 0.02  # the bundled embedder computes with bytes, and not all processors do so alike
MEASURED_ALIKE = 0.8  # by difflib; for cells with the tag "measured", whose places may change for the same reason
PROVIDER = re.compile(r"^(\w+ = ).+  # (?:.+; )?or ((?:init_chat_model|OpenAI)\(.+\))$", re.MULTILINE)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def text_of(cell):
    """What a cell has put out as text."""
    outputs = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
    return "".join(outputs)


def pictures_of(cell):
    """The pictures that a cell has put out, as arrays of rows, columns and colours."""
    from matplotlib.image import imread

    data = [output.get("data", {}).get("image/png") for output in cell.outputs]
    return [imread(io.BytesIO(base64.b64decode(picture))) for picture in data if picture]


def reads_alike(committed, now):
    """Whether two texts are the same but for the last digits of what stands behind a point."""
    if DECIMAL.split(committed) != DECIMAL.split(now):
        return False
    pairs = zip(DECIMAL.findall(committed), DECIMAL.findall(now), strict=True)
    return all(abs(float(one) - float(other)) <= LAST_DIGITS for one, other in pairs)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_puts_out_what_is_committed(name, read_notebook, execute, notebooks):
    ran = execute(read_notebook(name))
    ran.metadata = nbformat.from_dict(METADATA)
    if UPDATE:
        (notebooks / name).write_text(nbformat.writes(ran) + "\n", "utf-8")
    for committed, now in zip(code_cells(read_notebook(name)), code_cells(ran), strict=True):
        assert [output.output_type for output in now.outputs] == [output.output_type for output in committed.outputs]
        assert len(pictures_of(now)) == len(pictures_of(committed)), now.id
        if "measured" in now.metadata.get("tags", []):
            alike = difflib.SequenceMatcher(None, text_of(committed), text_of(now), autojunk=False).ratio()
            assert alike >= MEASURED_ALIKE, text_of(now)
        else:
            assert reads_alike(text_of(committed), text_of(now)), text_of(now)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_committed_as_it_ran_once_from_top_to_bottom(name, read_notebook):
    notebook = read_notebook(name)
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {"stream", "display_data"}
    assert {output.name for output in outputs if output.output_type == "stream"} == {"stdout"}
    assert notebook.metadata == METADATA
    assert all(set(cell.metadata) <= {"tags"} for cell in notebook.cells)


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_small_and_tells_nothing_of_the_machine_it_ran_on(name, notebooks):
    text = (notebooks / name).read_text("utf-8")
    assert len(text) < 250_000
    private = [str(Path.home()), sys.prefix, tempfile.gettempdir(), "/home/", "site-packages", ".py:"]
    assert [each for each in private if each in text] == []


@pytest.mark.parametrize(("name", "pictures"), [(NAMES[2], 5), (NAMES[3], 2)])
def test_there_is_something_to_see_in_every_picture(name, pictures, read_notebook):
    drawn = [picture for cell in code_cells(read_notebook(name)) for picture in pictures_of(cell)]
    assert len(drawn) == pictures
    for picture in drawn:
        height, width, _ = picture.shape
        assert 200 < height < width < 1_000
        colours = (picture[..., :3] * 15).round().astype(int) @ (256, 16, 1)
        assert len(set(colours.ravel().tolist())) > 20


@pytest.mark.parametrize("name", NAMES[:2])
def test_a_notebook_goes_on_with_the_model_of_a_provider_once_its_lines_are_changed(name, read_notebook, execute):
    notebook = read_notebook(name)
    changes = 0
    for cell in code_cells(notebook):
        cell.source, changed = PROVIDER.subn(r"\1\2", cell.source)
        changes += changed
    assert changes == 2
    notebook.cells.insert(1, nbformat.v4.new_code_cell(MODEL_OF_A_PROVIDER[name]))
    assert "I see." in "".join(text_of(cell) for cell in code_cells(execute(notebook)))


def test_the_kernel_of_a_notebook_cannot_reach_the_network(execute, socket_enabled):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        _, port = server.getsockname()
        attempt = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), timeout=5)"
        with pytest.raises(CellExecutionError):
            execute(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(attempt)]))
        with pytest.raises(TimeoutError):
            server.accept()


def test_the_readme_lists_every_notebook(notebooks):
    assert sorted(path.name for path in notebooks.glob("*.ipynb")) == sorted(NAMES)
    listed = re.findall(r"\]\((\w+\.ipynb)\)", (notebooks / "README.md").read_text("utf-8"))
    assert listed == list(NAMES)


def test_each_notebook_says_what_it_needs_as_the_readme_does(notebooks, read_notebook):
    readme = (notebooks / "README.md").read_text("utf-8")
    for name in NAMES:
        (needed,) = re.findall(r"It needs `(pip install [^`]+)`", read_notebook(name).cells[0].source)
        (row,) = [line for line in readme.splitlines() if f"({name})" in line]
        assert f"`{needed}`" in row


MODEL_OF_A_PROVIDER = {
    NAMES[0]: '''
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage


class AnyChatModel(GenericFakeChatModel):
    """Knows nothing of the script, as the model of a provider would not."""

    def bind_tools(self, tools, **options):
        return self


def init_chat_model(name):
    assert name.startswith("openai:")
    return AnyChatModel(messages=(AIMessage("I see.") for _ in range(99)))
''',
    NAMES[1]: """
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.llms import MockFunctionCallingLLM


def OpenAI(*, model):
    assert model
    answer = ChatMessage(role="assistant", content="I see.")
    return MockFunctionCallingLLM(response_generator=lambda *_, **__: answer, is_chat_model=True)
""",
}
