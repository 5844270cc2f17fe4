"""What is made for the documentation site: the import diagram, tables of settings, commands, and what a page lists."""

import importlib
import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest

import memory_retrievers
from memory_retrievers import AgentMemory, RetrievalSettings, protocols
from memory_retrievers.backends import embeddings, language_models
from memory_retrievers.langchain import MemoryRetriever
from memory_retrievers.storage import options as parts

ROOT = Path(memory_retrievers.__file__).parents[1]

pytestmark = pytest.mark.skipif(not (ROOT / "scripts" / "site").exists(), reason="it is part of a checkout only")


@pytest.fixture
def maker(monkeypatch):
    """Imports what makes a part of the site."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "site"))
    return importlib.import_module


def drawn(maker):
    """The import diagram of this package."""
    diagram = maker("import_diagram").import_diagram((ROOT / "pyproject.toml").read_text("utf-8"))
    return ET.fromstring(diagram)  # noqa: S314 - made here


def referenced():
    """The names that the pages of the reference describe."""
    pages = "\n".join(page.read_text("utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    return set(re.findall(r"^::: memory_retrievers\.(\S+)", pages, re.MULTILINE))


def test_the_reference_describes_every_public_name():
    errors = set(memory_retrievers.errors.__all__)  # whose page describes the module as a whole
    assert "errors" in referenced()
    assert set(memory_retrievers.__all__) - errors <= referenced()


def test_the_reference_describes_every_public_name_of_a_memory():
    described = {name.removeprefix("AgentMemory.") for name in referenced() if name.startswith("AgentMemory.")}
    assert described == {name for name in dir(AgentMemory) if not name.startswith("_")}


@pytest.mark.parametrize("package", ["langchain", "llama_index", "protocols", "remote", "server", "testing"])
def test_the_reference_describes_every_public_name_of_a_package(package):
    names = {name.rsplit(".", 1)[1] for name in referenced() if name.startswith(f"{package}.")}
    assert set(importlib.import_module(f"memory_retrievers.{package}").__all__) <= names


def test_the_reference_promises_that_no_part_may_be_brought_but_those_that_an_argument_takes():
    page = (ROOT / "docs" / "reference" / "protocols.md").read_text("utf-8")
    brought = set(re.findall(r"^::: .*\.(\w+)$", page.partition("\n## What they are given")[0], re.MULTILINE))
    types = " ".join(str(annotation) for annotation in parts.StoreOptions.__annotations__.values())
    for module, alias in ((embeddings, "AnyEmbedder"), (language_models, "AnyLanguageModel"), (parts, "DenseEngine")):
        types = types.replace(alias, str(getattr(module, alias)))
    taken = set(re.findall(r"\w+", types)) & set(protocols.__all__)
    assert brought == taken | {str(MemoryRetriever.model_fields["memory"].annotation.__name__)}


def test_the_import_diagram_shows_every_module_of_the_package_above_what_it_may_import(maker):
    heights = {text.text: float(text.get("y")) for text in drawn(maker).iter("text")}
    modules = {file.stem for file in (ROOT / "memory_retrievers").glob("*.py")}
    packages = {file.parent.name for file in (ROOT / "memory_retrievers").glob("*/__init__.py")}
    assert set(heights) == (modules | packages) - {"__init__"}
    assert heights["cli"] < heights["memory"] < heights["retrieval"] < heights["models"]
    assert heights["langchain"] == heights["llama_index"]


def test_the_boxes_of_the_import_diagram_lie_side_by_side_within_the_picture(maker):
    diagram = drawn(maker)
    *_, width, height = map(float, diagram.get("viewBox").split())
    rows = {}
    for box in diagram.iter("rect"):
        left, top = float(box.get("x")), float(box.get("y"))
        rows.setdefault(top, []).append((left, left + float(box.get("width"))))
        assert left >= 0
        assert left + float(box.get("width")) <= width
        assert top + float(box.get("height")) <= height
    assert all(right < left for row in rows.values() for (_, right), (left, _) in pairwise(row))


def test_a_table_of_settings_has_every_field_and_marks_what_differs(maker):
    profiles = {"default": RetrievalSettings(), "reference()": RetrievalSettings.reference()}
    head, _, *rows = maker("settings_tables").settings_table(profiles).splitlines()
    assert head == "| field | default | reference() |"
    assert [row.split("`")[1] for row in rows] == list(RetrievalSettings.model_fields)
    assert "| `decay_weight` | 0.05 | **1.0** |" in rows
    assert "| `whole_days` | no | **yes** |" in rows
    assert "| `fact_display_length` | 280 | **–** |" in rows
    assert "| `exact_limit` | 150,000 | 150,000 |" in rows


def test_the_reference_of_the_command_line_has_commands_with_their_arguments_and_options(maker):
    sections = maker("command_line").command_line().split("\n\n## ")
    (retrieve,) = [section for section in sections if section.startswith("`memory-retrievers retrieve`")]
    assert "Print the memories that answer a query." in retrieve
    assert "| `QUERY` | What to search for, in plain words. Required. |" in retrieve
    assert re.search(
        r"^\| `--store` \| .* Default: `agent-memory`\. Environment: `MEMORY_RETRIEVERS_STORE`\.",
        retrieve,
        re.MULTILINE,
    )
    assert any("### `memory-retrievers eval synthetic`" in section for section in sections)


def test_a_docstring_becomes_markdown_with_links_to_the_sections_that_are_told(maker):
    pytest.importorskip("griffe")
    told = maker("roles").as_markdown(
        "See :meth:`~a.B.open` and ``x`` (specification §2.3, §9.9).", sections=frozenset({"2.3"})
    )
    assert told == "See `open` and `x` (specification [§2.3][s2-3], §9.9)."


def test_a_model_is_not_shown_as_what_takes_anything(maker):
    griffe = pytest.importorskip("griffe")
    extensions = griffe.load_extensions(maker("roles").RolesAndSections)
    package = griffe.load("memory_retrievers", search_paths=[ROOT], extensions=extensions)
    assert "__init__" not in package["settings.RetrievalSettings"].all_members
