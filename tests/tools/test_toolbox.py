import json

import pytest

from memory_retrievers.errors import ConfigurationError, NotFoundError, ValidationError
from memory_retrievers.tools.registry import REGISTRY
from memory_retrievers.tools.toolbox import LocalToolbox, error_object, error_text


def test_a_toolbox_calls_tools_by_name(context):
    assert LocalToolbox(context).call("recent_memory", {"limit": 1}) == REGISTRY["recent_memory"].call(
        context, {"limit": 1}
    )


def test_a_toolbox_names_the_tools_it_knows_when_asked_for_another(context):
    with pytest.raises(NotFoundError, match=r"Unknown tool: memory_wipe\. Known tools: retrieve_memory"):
        LocalToolbox(context).call("memory_wipe", {})


def test_a_toolbox_refuses_arguments_that_do_not_fit(context):
    with pytest.raises(ValidationError, match=r"^query: Field required$"):
        LocalToolbox(context).call("retrieve_memory", {})


@pytest.mark.parametrize("error", [NotFoundError("Memory not found: m9"), ConfigurationError("no"), KeyError("k")])
def test_every_error_has_one_shape(error):
    assert error_object(error) == {"error": True, "error_type": type(error).__name__, "message": str(error)}


def test_an_error_for_a_model_is_json_in_its_own_script():
    assert json.loads(error_text(NotFoundError("not found: 咖啡"))) == error_object(NotFoundError("not found: 咖啡"))
    assert "咖啡" in error_text(NotFoundError("not found: 咖啡"))
