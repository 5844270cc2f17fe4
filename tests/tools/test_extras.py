import sys
from types import ModuleType

import pytest

from memory_retrievers.errors import Extra, MissingExtraError, lazy_names

EXTRA = Extra(package="no-such-framework", module="no_such_framework", name="fancy")


def test_a_name_is_loaded_from_its_home_when_it_is_asked_for(monkeypatch):
    load = lazy_names("our.adapter", {"Thing": "our_home"}, EXTRA)
    home = ModuleType("our_home")
    home.Thing = object()
    monkeypatch.setitem(sys.modules, "our_home", home)
    assert load("Thing") is home.Thing


def test_a_name_without_a_home_is_no_attribute():
    with pytest.raises(AttributeError, match=r"^module 'our\.adapter' has no attribute 'Other'$"):
        lazy_names("our.adapter", {}, EXTRA)("Other")


def test_what_is_not_installed_is_named_with_the_command_that_installs_it():
    load = lazy_names("our.adapter", {"Thing": "no_such_framework.things"}, EXTRA)
    message = r'^no-such-framework is not installed; run: pip install "memory-retrievers\[fancy\]"$'
    with pytest.raises(MissingExtraError, match=message):
        load("Thing")


def test_another_missing_module_is_not_blamed_on_the_extra():
    load = lazy_names("our.adapter", {"Thing": "no_such_module"}, EXTRA)
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module'") as caught:
        load("Thing")
    assert not isinstance(caught.value, MissingExtraError)


def test_a_file_of_the_users_own_that_hides_a_package_is_named(monkeypatch, tmp_path):
    shadow = tmp_path / "no_such_framework.py"
    shadow.touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtraError) as caught:
        lazy_names("our.adapter", {"Thing": "no_such_framework.things"}, EXTRA)("Thing")
    del sys.modules["no_such_framework"]
    told = f"no-such-framework was imported from {shadow}, which lacks a part: if that file is yours, rename it;"
    assert str(caught.value) == f'{told} if not, run: pip install "memory-retrievers[fancy]"'
