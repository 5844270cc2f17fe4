"""A search that reads the database statement by statement finds what is updated between two of them."""

from memory_retrievers import AgentMemory, RetrievalSettings, SemanticMemory
from memory_retrievers.testing import HashEmbedder, inside

SCOPE = "user/ines"


def test_a_fact_that_is_updated_between_two_statements_is_measured_as_it_is_now(tmp_path, monkeypatch):
    settings = RetrievalSettings(snapshot_bytes=0)
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder(64), retrieval=settings) as memory:
        facts = [SemanticMemory.new(scope=SCOPE, fact=f"{drink} is drunk") for drink in ("tea", "coffee", "milk")]
        tea, *_ = memory.remember_many(facts)
        store = inside(memory)
        measure, is_updated = store.dense.similarities, []

        def updated_before(*arguments):
            if not is_updated:
                is_updated.append(memory.update(scope=SCOPE, id=tea.id, fact="green tea is drunk"))
            return measure(*arguments)

        monkeypatch.setattr(store.dense, "similarities", updated_before)
        first = memory.retrieve("green tea is drunk", scope=SCOPE, record=False).semantic[0]

    assert is_updated
    assert first.memory.fact == "green tea is drunk"
    assert first.explanation.evidence.cosine > 0.8
