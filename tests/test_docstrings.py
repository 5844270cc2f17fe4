"""Every public name says what it does, what it takes, and how it fails."""

import ast
import importlib
import inspect
import re
import textwrap

from pydantic import BaseModel

from memory_retrievers import errors

MODULES = [
    "memory_retrievers",
    "memory_retrievers.errors",
    "memory_retrievers.langchain",
    "memory_retrievers.backends.language_models",
    "memory_retrievers.llama_index",
    "memory_retrievers.protocols",
    "memory_retrievers.remote",
    "memory_retrievers.server",
    "memory_retrievers.settings",
    "memory_retrievers.testing",
]
SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields|Note|Example|Examples):$", re.MULTILINE)


def public_names(module):
    names = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]  # fmt: skip
    return [(name, getattr(module, name)) for name in names]


def described():
    """Each public class and function, and each public member that a class of ours defines, once."""
    found = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for label, value in public_names(module):
            if inspect.isclass(value) or inspect.isfunction(value):
                found.setdefault(value, f"{name}.{label}")
            if inspect.isclass(value):
                for owner in inspect.getmro(value):
                    if owner.__module__.startswith("memory_retrievers."):
                        found |= {
                            function: f"{owner.__module__}.{owner.__name__}.{member}"
                            for member, function in members(owner)
                            if function not in found
                        }
    return {label: value for value, label in found.items()}


def members(owner):
    for member, raw in vars(owner).items():
        value = raw.fget if isinstance(raw, property) else getattr(raw, "__func__", raw)
        # pydantic puts a model_post_init of its own where there are private attributes
        if not member.startswith("_") and member != "model_post_init" and inspect.isfunction(value):
            yield member, value


DESCRIBED = described()
FUNCTIONS = {label: value for label, value in DESCRIBED.items() if inspect.isfunction(value)}


def own_text(value):
    return inspect.cleandoc(value.__doc__ or "")


def section(text, name):
    """The entries of a section of a Google-style docstring: name → description."""
    _, found, after = text.partition(f"\n{name}:\n")
    lines = SECTION.split(after)[0] if found else ""
    entries = re.findall(r"^    \*{0,2}(\w+)(?: \([^)]*\))?: *(.*)$", lines, re.MULTILINE)
    return dict(entries)


def test_all_public_names_are_looked_at():
    assert len(DESCRIBED) > 150
    assert {"memory_retrievers.AgentMemory", "memory_retrievers.llama_index.MemoryRetriever"} <= set(DESCRIBED)


def test_every_name_has_a_docstring_whose_first_paragraph_is_a_sentence():
    openings = {label: own_text(value).split("\n\n")[0] for label, value in DESCRIBED.items()}
    assert {label: opening for label, opening in openings.items() if not re.search(r"\w.*[.:?]$", opening)} == {}


def test_arguments_that_are_described_are_all_of_them_and_no_others():
    described_ones = {label: section(own_text(value), "Args") for label, value in FUNCTIONS.items()}
    taken = {label: parameters(value) for label, value in FUNCTIONS.items()}
    assert {
        label: (told, taken[label]) for label, told in described_ones.items() if told and set(told) != taken[label]
    } == {}


def test_an_error_that_a_function_raises_is_in_its_docstring():
    assert sum(bool(raised(value)) for value in FUNCTIONS.values()) > 5
    unsaid = {label: raised(value) - set(section(own_text(value), "Raises")) for label, value in FUNCTIONS.items()}
    assert {label: names for label, names in unsaid.items() if names} == {}


def test_every_setting_has_its_reason():
    settings = {label: value for label, value in DESCRIBED.items() if label.endswith("Settings")}
    assert len(settings) == 6
    missing = {
        label: [name for name in fields(value) if not reasons(value).get(name)] for label, value in settings.items()
    }
    assert {label: names for label, names in missing.items() if names} == {}


def reasons(settings):
    """What is said of each field, in the class itself or in the one of ours that it has the field from."""
    classes = [each for each in settings.__mro__ if each.__module__.startswith("memory_retrievers.")]
    return {name: text for each in reversed(classes) for name, text in section(own_text(each), "Attributes").items()}


def parameters(function):
    names = inspect.signature(function).parameters
    return {name for name in names if name not in {"self", "cls"} and not name.startswith("_")}


def raised(function):
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    calls = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    return {call.func.id for call in calls if isinstance(call.func, ast.Name)} & set(errors.__all__)


def fields(settings):
    return settings.model_fields if issubclass(settings, BaseModel) else settings.__dataclass_fields__
