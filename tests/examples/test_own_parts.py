"""The examples about a Chroma collection, an embedder, a model, a server of one's own show what they promise."""

import pytest


def test_a_collection_is_adopted_followed_and_written_to(run_example):
    lines = run_example("adopt_chroma.py").splitlines()
    machine, drawer = "The espresso machine needs descaling every month", "Filters are kept in the drawer"
    assert lines[0].startswith("AdoptionReport(adopted=3, updated=0, forgotten=0, unchanged=0")
    assert {line[9:39] for line in lines[2:4]} == {machine[:30], drawer}
    assert lines[4].startswith("AdoptionReport(adopted=0, updated=0, forgotten=1, unchanged=2")
    assert lines[5] == (
        "in the collection: ['The door code of the workshop is 4711', "
        f"'{machine}', 'The espresso machine was descaled today']"
    )


def test_a_function_embeds_and_an_object_with_one_method_is_the_language_model(run_example):
    lines = run_example("own_embedder_and_llm.py").splitlines()
    assert lines[1] == "- [identity] Alice lives in Nantes (sources: 1 conversation)"
    assert lines[5].startswith("### A move [rank: 1, ")
    assert lines[7] == "**Summary:** Alice has moved from Lyon to Nantes."


@pytest.mark.enable_socket
def test_a_server_answers_a_token_about_its_own_scope_alone(run_example):
    assert run_example("http_client.py").splitlines() == [
        "## Semantic Memory",
        "- [identity] Alice is allergic to peanuts",
        "Bo's memory: 403, Forbidden",
        "preference: Alice likes Thai food",
        "identity: Alice is allergic to peanuts",
    ]


@pytest.mark.enable_socket
def test_an_mcp_client_lists_the_tools_stores_and_looks_up(run_example):
    listed, *rest = run_example("mcp_client.py").splitlines()
    assert listed.endswith(" tools, among them retrieve_memory, memory_store, memory_update, memory_delete")
    assert rest == [
        "## Semantic Memory",
        "- [identity] Alice is allergic to peanuts",
        '{"success":false,"error":true,"error_type":"NotFoundError","message":"Memory not found: m9"}',
    ]
