import base64
import hashlib
import json
from html.parser import HTMLParser

import pytest

from memory_retrievers import AgentMemory, Message
from memory_retrievers.cli.inspect import MOST_CHARACTERS, MOST_MESSAGES, page_of, survey_of
from memory_retrievers.testing import HashEmbedder


class Page(HTMLParser):
    """The elements of a page, each with its attributes, and the text of those that hold raw text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.raw, self._inside = [], {}, None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._inside = dict(attributes).get("id", tag) if tag in {"script", "style", "title"} else None

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, text):
        if self._inside is not None:
            self.raw[self._inside] = self.raw.get(self._inside, "") + text

    @property
    def tags(self):
        return [tag for tag, _ in self.elements]

    @property
    def data(self):
        return json.loads(self.raw["data"])

    @property
    def policy(self):
        (policy,) = (attributes["content"] for _, attributes in self.elements if "http-equiv" in attributes)
        return policy


@pytest.fixture
def page(stocked):
    explained = stocked.explain("Where does Ruth live?", scope="user/ruth")
    return Page(page_of(survey_of(stocked, explained=explained), title="ruth's store"))


def test_a_page_has_the_parts_that_it_promises(page):
    ids = {attributes["id"] for _, attributes in page.elements if "id" in attributes}

    assert {"ranking", "memories", "waiting", "characters", "search", "kind", "scope", "counts"} <= ids
    assert page.raw["title"] == "ruth's store – memory"
    assert page.data["title"] == "ruth's store"
    assert page.tags.count("h1") == 1
    assert ("html", {"lang": "en"}) in page.elements
    assert "noscript" in page.tags


def test_everything_of_a_store_is_in_its_page(page, stocked):
    data = page.data
    story, new, ruth, tom = data["scopes"]

    assert data["now"] == "2026-03-01T09:00:00Z"
    assert data["counts"] == stocked.stats().model_dump()
    assert story["characters"] == [
        {"name": "Oren", "emotion": "afraid", "intensity": 5, "knows": 1, "shifts": ["afraid"]}
    ]
    assert ["scene location", "the mill"] in story["memories"][0]["fields"]
    assert [message["content"] for message in new["queue"]] == ["Hello, I am new."]
    assert [review["query"] for review in ruth["reviews"]] == ["hives"]
    assert {memory["headline"] for memory in tom["memories"]} == {"Tom keeps goats"}
    shown = {memory["headline"]: memory for memory in ruth["memories"]}
    assert shown["Ruth lives in Lyon"]["marks"] == ["no longer valid"]
    assert shown["Ruth lives in Nantes"]["marks"] == []
    assert shown["The wedding day"]["marks"] == ["never fades"]
    assert shown["Ruth buys bees"]["marks"] == ["key moment"]
    assert shown["Ruth buys bees"]["text"] == "Ruth bought two hives at the market in Lyon."
    assert ["tags", "garden"] in shown["Ruth buys bees"]["fields"]
    assert [message["role"] for message in shown["Ruth buys bees"]["messages"]] == ["user", "assistant"]


def test_every_episode_has_its_curve_and_no_fact_has(page):
    memories = [memory for scope in page.data["scopes"] for memory in scope["memories"]]

    assert all(("curve" in memory) == (memory["kind"] == "episodic") for memory in memories)
    (bees,) = (memory["curve"] for memory in memories if memory["id"] == "bees")
    assert (bees["created"], bees["reviewed"], bees["ahead"]) == (-10, -4, 30)
    assert bees["points"][0] == [-4, 1]


def test_the_shares_of_the_stages_add_up_to_the_score_before_forgetting(page, stocked):
    explained = page.data["explained"]
    places = explained["semantic"] + explained["episodic"]

    assert explained["query"] == "Where does Ruth live?"
    assert [place["id"] for place in explained["episodic"]] == [
        hit.memory.id for hit in stocked.retrieve("Where does Ruth live?", scope="user/ruth", record=False).episodic
    ]
    assert len(places) >= 3
    for place in places:
        shares = sum(stage["share"] for stage in place["stages"])
        assert shares == pytest.approx(place["score_before_forgetting"])
        assert 0 < place["score"] <= place["score_before_forgetting"] <= 1 + 1e-9


def test_the_policy_allows_this_style_and_this_script_alone(page):
    def hash_of(text):
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    rules = dict(rule.split(" ", 1) for rule in page.policy.split("; "))
    assert rules == {
        "default-src": "'none'",
        "script-src": hash_of(page.raw["script"]),
        "style-src": hash_of(page.raw["style"]),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
    }


def test_a_page_refers_to_nothing_outside_itself(page):
    references = {"src", "srcset", "href", "action", "data", "poster", "style"}
    found = {attributes[name] for _, attributes in page.elements for name in references & attributes.keys()}

    assert found == {"data:,", "#memories"}
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert not [part for part in ("url(", "@import") if part in page.raw["style"]]
    for forbidden in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "fetch(",
        "http://127",
    ):
        assert forbidden not in page.raw["script"]


def test_hostile_texts_stay_texts(hostile, stocked, hostile_text, hostile_scope):
    explained = hostile.explain(hostile_text, scope=hostile_scope)
    page = Page(page_of(survey_of(hostile, explained=explained), title=hostile_text))
    harmless = Page(page_of(survey_of(stocked), title="store"))

    assert page.tags == harmless.tags
    assert page.policy == harmless.policy
    assert not set("<>&\u2028\u2029") & set(page.raw["data"])
    (scope,) = page.data["scopes"]
    assert scope["scope"] == hostile_scope
    assert [memory["headline"] for memory in scope["memories"]] == [hostile_text] * 3
    assert page.data["title"] == hostile_text


def test_long_texts_and_long_episodes_are_cut_and_say_so(clock):
    with AgentMemory.in_memory(embedder=HashEmbedder(), clock=clock) as memory:
        messages = [Message(role="user", content="ab" * 50_000)] * (MOST_MESSAGES + 2)
        memory.remember_episode(scope="c1", title="t", summary="s" * 100_000, messages=messages)
        memory.remember_fact(scope="c1", fact="f" * 100_000, metadata={"m": "x" * 100_000})
        text = page_of(survey_of(memory), title="store")

    assert len(text) < 250_000
    fact, episode = sorted(Page(text).data["scopes"][0]["memories"], key=lambda each: each["kind"], reverse=True)
    assert fact["headline"] == f"{'f' * MOST_CHARACTERS}… (100,000 characters in all)"
    assert (len(episode["messages"]), episode["hidden_messages"]) == (MOST_MESSAGES, 2)


def test_a_title_with_half_a_character_is_written_all_the_same(stocked):
    text = page_of(survey_of(stocked), title="store\udc80")

    assert "store\ufffd" in text.encode().decode()
