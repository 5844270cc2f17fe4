"""What the tests of the manager start from."""

import pytest

from memory_retrievers.models import Origin, SemanticDraft


@pytest.fixture
def manager(memory):
    return memory.manager


@pytest.fixture
def draft():
    """A memory as a tool stores it."""

    def make(text, *, scope="user/1", **fields):
        return SemanticDraft(scope=scope, fact=text, **{"origin": Origin.TOOL} | fields)

    return make
