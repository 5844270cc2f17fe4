"""A server of a small language model, which all tests here share."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest


@pytest.fixture(scope="session")
def server():
    """The address of the server; it ends with the tests."""
    command = [sys.executable, Path(__file__).with_name("serve.py")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), "the server did not start"
        yield f"{address}/v1"
        process.stdin.close()
        assert process.wait(timeout=60) == 0


@pytest.fixture
def address(server):
    """Where the models are to be found."""
    return server


@pytest.fixture
def requests():
    """What was sent to the server."""
    return []


@pytest.fixture
def http_client(requests, socket_enabled):
    with httpx.Client(event_hooks={"request": [requests.append]}) as client:
        yield client


@pytest.fixture
def langchain_model(address, http_client):
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(
        model="smollm2", base_url=address, api_key="none",
        max_tokens=800, max_retries=0, timeout=240, http_client=http_client,
    )  # fmt: skip


@pytest.fixture
def llama_index_model(address, http_client):
    from llama_index.llms.openai_like import OpenAILike

    return OpenAILike(
        model="smollm2", api_base=address, api_key="none", is_chat_model=True, should_use_structured_outputs=True,
        context_window=4096, temperature=0, max_tokens=800, max_retries=0, timeout=240, http_client=http_client,
    )  # fmt: skip


@pytest.fixture(params=["langchain_model", "llama_index_model"])
def model(request):
    return request.getfixturevalue(request.param)
