"""Scope isolation: no id and no text of another scope in any answer, ever."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_retrievers import AgentMemory, Message, NotFoundError, RetrievalSettings
from memory_retrievers.testing import FixedClock, HashEmbedder
from memory_retrievers.tools.registry import LocalToolbox
from memory_retrievers.tools.tool import ToolContext

NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)

# Neighbours of the kinds that prefix matching, LIKE patterns, case folding and normalisation confuse.
SCOPES = [
    "user/1", "user/10", "user/1/work", "user/1 0", "User/1", "USER/1", "user/%", "user/_", "user/1%", "user", "use",
    "user@1", "user/a@b.c", "user/é", "user/e\u0301", "user/É", "user/用户", "user/ß", "user/SS", "user/1/work/x", "%", "_",
]  # fmt: skip
WORDS = ["basil", "mint", "boat", "Lyon", "4711", "用户", "café"]


@st.composite
def histories(draw):
    """For some scopes, some memories; ids and texts repeat across scopes, and each text carries its scope's mark."""
    scopes = draw(st.lists(st.sampled_from(SCOPES), unique=True, min_size=2, max_size=6))
    return {
        scope: draw(st.lists(st.tuples(st.booleans(), st.sampled_from(WORDS)), min_size=1, max_size=4))
        for scope in scopes
    }


def mark(scope):
    return f"mark{SCOPES.index(scope)}x"


@settings(max_examples=60, deadline=None)
@given(
    histories(),
    st.sampled_from(SCOPES),
    st.sampled_from(WORDS),
    st.booleans(),
    st.sampled_from(["sqlite_bm25", "rank_bm25"]),
)
def test_no_foreign_id_or_text_is_in_any_answer(history, asked, word, children, keyword):
    memory = AgentMemory.in_memory(embedder=HashEmbedder(32), keyword=keyword)
    for scope, entries in history.items():
        for number, (is_fact, text) in enumerate(entries):
            content = f"{text} {mark(scope)}"
            if is_fact:
                memory.remember_fact(scope=scope, fact=content, id=f"m{number}", keywords=[mark(scope)])
            else:
                memory.remember_episode(scope=scope, summary=content, title=mark(scope), id=f"m{number}")
    query = f"{word} {' '.join(map(mark, SCOPES))}"
    result = memory.retrieve(query, scope=asked, include_child_scopes=children, episodic_limit=100, semantic_limit=100)
    answers = [
        result.to_markdown("high"),
        json.dumps(result.to_dict(), ensure_ascii=False),
        memory.context(word, scope=asked, include_child_scopes=children).to_markdown(),
        memory.recent(asked).to_markdown(),
        str([review.memories for review in memory.pending_reviews(asked)]),
    ]
    allowed = {scope for scope in history if scope == asked or (children and scope.startswith(f"{asked}/"))}
    for answer in answers:
        assert not [scope for scope in SCOPES if scope not in allowed and mark(scope) in answer]
    # everything that is allowed is there: isolation does not come from finding nothing
    found = {(hit.memory.scope, hit.memory.id) for hit in (*result.semantic, *result.episodic)}
    assert found == {(scope, f"m{number}") for scope in allowed for number in range(len(history[scope]))}
    memory.close()


@settings(max_examples=40, deadline=None)
@given(histories(), st.sampled_from(SCOPES), st.sampled_from(WORDS), st.booleans())
def test_nothing_that_was_said_in_another_scope_is_in_any_answer(history, asked, word, children):
    with AgentMemory.in_memory(embedder=HashEmbedder(32)) as memory:
        for scope, entries in history.items():
            said = [Message(role="user", content=f"{text} {mark(scope)}") for _, text in entries]
            memory.add_messages(scope, said, conversation="one")
        query = f"{word} {' '.join(map(mark, SCOPES))}"
        result = memory.retrieve(query, scope=asked, include_child_scopes=children, episodic_limit=100)
        toolbox = LocalToolbox(ToolContext(memory=memory, root=asked))
        answers = [
            result.to_markdown("high"),
            json.dumps(result.to_dict(), ensure_ascii=False),
            memory.explain(word, scope=asked, include_child_scopes=children).to_text(),
            memory.recent(asked).to_markdown(),
            toolbox.call("memory_list", {}).content,
            toolbox.call("memory_search", {"query": query, "include_child_scopes": children}).content,
        ]
        allowed = {scope for scope in history if scope == asked or (children and scope.startswith(f"{asked}/"))}
        for answer in answers:
            assert not [scope for scope in SCOPES if scope not in allowed and mark(scope) in answer]
        assert {hit.memory.scope for hit in result.episodic} == allowed
        for scope in set(history) - {asked}:
            (foreign,) = memory.retrieve(query, scope=scope).episodic
            with pytest.raises(NotFoundError):
                memory.get(foreign.memory.id, scope=asked)
            with pytest.raises(NotFoundError):
                memory.forget(foreign.memory.id, scope=asked)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=6), st.sampled_from(WORDS))
def test_what_is_said_in_one_scope_changes_no_rank_or_score_in_another(others, word):
    with AgentMemory.in_memory(embedder=HashEmbedder(32), clock=FixedClock(NOW)) as memory:
        memory.add_messages("user/1", [Message(role="user", content=f"I mentioned {text}") for text in WORDS])
        before = memory.retrieve(word, scope="user/1").to_dict()
        memory.add_messages("user/10", [Message(role="user", content=f"{text} and {word}") for text in others])
        assert memory.retrieve(word, scope="user/1").to_dict() == before


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=6), st.sampled_from(WORDS))
def test_what_is_added_to_one_scope_changes_no_rank_or_score_in_another(others, word):
    memory = AgentMemory.in_memory(embedder=HashEmbedder(32), keyword="sqlite_bm25")
    for text in WORDS:
        memory.remember_fact(scope="user/1", fact=f"User mentioned {text}")
    before = [(hit.memory.id, hit.score) for hit in memory.retrieve(word, scope="user/1").semantic]
    for text in others:
        memory.remember_fact(scope="user/10", fact=f"User mentioned {text} and {word}")
    assert [(hit.memory.id, hit.score) for hit in memory.retrieve(word, scope="user/1").semantic] == before
    memory.close()


@settings(max_examples=60, deadline=None)
@given(
    histories(),
    st.sampled_from(SCOPES),
    st.sampled_from(WORDS),
    st.booleans(),
    st.sampled_from(
        [RetrievalSettings(), RetrievalSettings(exact_limit=0, candidate_depth=1), RetrievalSettings.reference()]
    ),
)
def test_no_explanation_tells_of_a_foreign_id_or_text(history, asked, word, children, profile):
    with AgentMemory.in_memory(embedder=HashEmbedder(32), keyword="sqlite_bm25", retrieval=profile) as memory:
        for scope, entries in history.items():
            for number, (is_fact, text) in enumerate(entries):
                content, id = f"{text} {mark(scope)}", f"{mark(scope)}m{number}"
                if is_fact:
                    memory.remember_fact(scope=scope, fact=content, id=id)
                else:
                    said = [Message(role=mark(scope), content=content)]
                    memory.remember_episode(scope=scope, summary=content, id=id, messages=said)
        allowed = {scope for scope in history if scope == asked or (children and scope.startswith(f"{asked}/"))}
        explained = memory.explain(word, scope=asked, include_child_scopes=children, semantic_limit=2, episodic_limit=1)
        answers = [explained.to_text(), json.dumps(explained.to_dict())]
        for scope, entries in history.items():
            for number in range(len(entries)):
                id = f"{mark(scope)}m{number}"
                question = {"query": word, "scope": asked, "include_child_scopes": children, "episodic_limit": 1}
                if scope in allowed:
                    missing = memory.explain_missing(id, **question)
                    assert (missing.id, missing.scope) == (id, scope)
                    answers += [missing.to_text(), json.dumps(missing.to_dict())]
                else:
                    with pytest.raises(NotFoundError, match=f"^Memory not found: {id}$"):
                        memory.explain_missing(id, **question)
        for answer in answers:
            assert not [scope for scope in SCOPES if scope not in allowed and mark(scope) in answer]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=6), st.sampled_from(WORDS))
def test_what_is_added_to_one_scope_changes_no_explanation_in_another(others, word):
    with AgentMemory.in_memory(embedder=HashEmbedder(32), keyword="sqlite_bm25", clock=FixedClock(NOW)) as memory:
        for number, text in enumerate(WORDS):
            said = [Message(role="Ann", content=f"I mentioned {text}")]
            memory.remember_episode(scope="user/1", summary=f"User mentioned {text}", id=f"m{number}", messages=said)

        def told():
            missing = memory.explain_missing("m3", query=word, scope="user/1", episodic_limit=2)
            return memory.explain(word, scope="user/1").to_dict(), missing.to_dict()

        before = told()
        for text in others:
            memory.remember_episode(
                scope="user/10", summary=f"User mentioned {text}", messages=[Message(role="Ann", content=word)]
            )
        assert told() == before


ALIKE = ["user/10", "user/1 0", "User/1", "user", "user/1/work"]  # beside user/1
BY_ID = {
    "get": lambda memory, key: memory.get(key, scope="user/1"),
    "history": lambda memory, key: memory.history(key, scope="user/1"),
    "events": lambda memory, key: memory.events("user/1", id=key),
    "explain_missing": lambda memory, key: memory.explain_missing(key, query="basil", scope="user/1"),
    "update": lambda memory, key: memory.update(key, scope="user/1", fact="New"),
    "invalidate": lambda memory, key: memory.invalidate(key, scope="user/1"),
    "review": lambda memory, key: memory.review(key, scope="user/1", rating="good"),
    "forget": lambda memory, key: memory.forget(key, scope="user/1"),
    "replaces": lambda memory, key: memory.remember_fact(scope="user/1", fact="New", replaces=key),
    "conversation": lambda memory, key: memory.transcript("user/1", key),
    "flush": lambda memory, key: memory.flush("user/1", key).to_dict(),
    "tags": lambda memory, key: memory.list("user/1", tags=[key]),
    "metadata": lambda memory, key: memory.retrieve("basil", scope="user/1", metadata={key: 1}).to_dict(),
}
BY_TOOL = {
    "memory_get": lambda key: {"id": key},
    "memory_get_score": lambda key: {"id": key},
    "memory_set_score": lambda key: {"id": key, "score": 0.9},
    "memory_update": lambda key: {"id": key, "content": "New"},
    "memory_delete": lambda key: {"ids": [key]},
    "memory_move": lambda key: {"memory_ids": [key], "target_scope": "sub"},
    "memory_consolidate": lambda key: {"memory_ids": ["own", key]},
    "memory_discover_associations": lambda key: {"memory_id": key},
    "memory_batch_update": lambda key: {"updates": [{"id": key, "content": "New"}]},
    "memory_store": lambda key: {"content": "New", "replaces": key},
    "memory_manage": lambda key: {"operation": "delete", "memory_id": key},
    "memory_list": lambda key: {"tags": [key]},
    "memory_search": lambda key: {"query": "basil", "metadata": {key: 1}},
}


def outcome(work):
    """What a caller sees of a call: its answer, or the kind and words of its error."""
    try:
        return str(work())
    except Exception as error:  # noqa: BLE001 - whatever it raises is compared
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("verb", [*BY_ID, *BY_TOOL])
def test_what_another_scope_has_is_what_nobody_has(verb):
    with AgentMemory.in_memory(embedder=HashEmbedder(32), clock=FixedClock(NOW)) as memory:
        memory.remember_fact(scope="user/1", id="own", fact="Mine")
        for scope in ALIKE:
            name = f"{scope}-theirs"
            memory.remember_fact(scope=scope, id=name, fact=f"{name} basil", tags=[name], metadata={name: 1})
            memory.remember_episode(scope=scope, summary=f"{name} basil", conversation_id=name)
            memory.add_messages(scope, [Message(role="user", content=f"{name} basil")], conversation=name)

        def held():
            return [
                (memory.list(each), memory.events(each), memory.waiting(each), memory.stats(each)) for each in ALIKE
            ]

        def asked(key):
            if verb in BY_ID:
                return outcome(lambda: BY_ID[verb](memory, key))
            context = ToolContext(memory=memory, root="user/1", allow_scopes=True, kinds="all", deletes="all")
            return LocalToolbox(context).call(verb, {**BY_TOOL[verb](key), "response_level": "full"}).content

        before = held()
        for scope in set(ALIKE) - ({"user/1/work"} if verb in BY_TOOL else set()):  # tools reach all below their root
            theirs = asked(f"{scope}-theirs").replace(f"{scope}-theirs", "ID")
            assert theirs == asked(f"{scope}-nobody").replace(f"{scope}-nobody", "ID")
        assert held() == before
