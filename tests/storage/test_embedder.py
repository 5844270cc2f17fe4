"""What tells one embedder from another: all of its vector for one sentence, whatever the numbers it begins with."""

import json
import zlib
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers import AgentMemory, ConfigurationError, EmbeddingError, EmbeddingMismatchError
from memory_retrievers.models.storage import Fingerprint
from memory_retrievers.storage import migrate as moving
from memory_retrievers.testing import HashEmbedder, inside

DIMENSION = 4096
FIRST = 16
"""So many numbers of the vector were noted by older versions."""


class Words:
    """One number for each word, none of them among the first; ``seed`` makes another model of it."""

    def __init__(self, seed=0, *, empty=range(FIRST)):
        self.seed, self.empty = seed, empty

    def embed_query(self, text):
        vector = np.zeros(DIMENSION, np.float32)
        for word in text.lower().split():
            place = zlib.crc32(word.strip(".").encode(), self.seed) % DIMENSION
            vector[place if place not in self.empty else DIMENSION - 1] += 1
        return vector / np.linalg.norm(vector)

    def embed_documents(self, texts):
        return np.array([self.embed_query(text) for text in texts], np.float32)


class Mirrored(HashEmbedder):
    """Another model of the same dimension."""

    def embed_query(self, text):
        return [-number for number in super().embed_query(text)]


def opened(place, embedder):
    make = AgentMemory.connect if "://" in str(place) else AgentMemory.open
    return make(place, embedder=embedder, embedder_id="same name", dense="exact")


def old_notes(embedder):
    """The notes of a store that an older version filled with this embedder."""
    vector = [float(number) for number in embedder.embed_query("The quick brown fox jumps over the lazy dog.")]
    return {
        "embedder_id": "same name",
        "dimension": str(len(vector)),
        "probe": json.dumps(vector[:FIRST]),
    }


def filled(place, embedder):
    with opened(place, embedder) as memory:
        memory.remember_fact(scope="c1", fact="Ruth keeps bees", id="f1")


def as_an_older_version_left_it(place, embedder):
    filled(place, embedder)
    with opened(place, embedder) as memory:
        inside(memory).ledger.write_notes(old_notes(embedder))


@pytest.fixture(params=["disk", "postgres"])
def place(request, tmp_path):
    return tmp_path / "store" if request.param == "disk" else request.getfixturevalue("postgres_url")


def test_a_store_of_a_sparse_embedder_is_opened_again_and_refuses_another(place):
    filled(place, Words())
    with opened(place, Words()) as memory:
        assert memory.retrieve("bees", scope="c1").semantic[0].memory.id == "f1"
    with opened(place, Words(seed=1)) as memory, pytest.raises(EmbeddingMismatchError, match="other vectors"):
        memory.retrieve("bees", scope="c1")


@pytest.mark.parametrize("embedder", [Words(), Words(empty=()), HashEmbedder(256), HashEmbedder(8)])
def test_a_store_that_an_older_version_filled_opens_with_its_embedder(place, embedder):
    as_an_older_version_left_it(place, embedder)
    with opened(place, embedder) as memory:
        assert memory.retrieve("bees", scope="c1").semantic[0].memory.id == "f1"
        memory.remember_fact(scope="c1", fact="Omar collects stamps")
        assert memory.verify().ok


@pytest.mark.parametrize("embedder", [HashEmbedder(256), HashEmbedder(8)])
def test_a_store_that_an_older_version_filled_still_refuses_another_embedder(place, embedder):
    as_an_older_version_left_it(place, embedder)
    with (
        opened(place, Mirrored(len(embedder.embed_query("x")))) as memory,
        pytest.raises(EmbeddingMismatchError, match="other vectors"),
    ):
        memory.retrieve("bees", scope="c1")


@pytest.mark.parametrize(("fill", "numbers"), [(as_an_older_version_left_it, 16), (filled, 64)])
def test_an_export_of_either_form_is_read_with_its_embedder_and_with_no_other(tmp_path, fill, numbers):
    fill(tmp_path / "store", HashEmbedder())
    with opened(tmp_path / "store", HashEmbedder()) as memory:
        memory.export(tmp_path / "export")
    assert len(json.loads((tmp_path / "export").read_text().splitlines()[0])["probe"]) == numbers
    imported = partial(AgentMemory.import_, tmp_path / "export", embedder_id="same name")
    with imported(into=tmp_path / "copy", embedder=HashEmbedder()) as copy:
        assert copy.retrieve("bees", scope="c1").semantic[0].memory.id == "f1"
    with pytest.raises(EmbeddingMismatchError, match=r"line 1: .*other vectors"):
        imported(into=tmp_path / "other", embedder=Mirrored())


@pytest.mark.parametrize("old", ["source", "target", "neither"])
def test_a_store_moves_to_one_whose_fingerprint_has_the_other_form(tmp_path, old):
    for name in ("source", "target"):
        (as_an_older_version_left_it if name == old else filled)(tmp_path / name, Words())
    with opened(tmp_path / "source", Words()) as source, opened(tmp_path / "target", Words()) as target:
        target.forget("f1", scope="c1")
        moving.move(inside(source).ledger, inside(target).store)
        assert moving.check(inside(source).ledger, inside(target).store).ok
        assert target.retrieve("bees", scope="c1").semantic[0].memory.id == "f1"


@pytest.mark.parametrize("probe", [[], [0.5], [0.5] * 15, [0.5] * 17, [0.5] * 65])
def test_an_export_with_a_fingerprint_of_no_known_form_is_refused(tmp_path, probe):
    filled(tmp_path / "store", HashEmbedder())
    with opened(tmp_path / "store", HashEmbedder()) as memory:
        memory.export(tmp_path / "export")
    header, *rest, _checksum = (tmp_path / "export").read_text().splitlines()
    (tmp_path / "export").write_text("\n".join([json.dumps(json.loads(header) | {"probe": probe}), *rest, ""]))
    with pytest.raises(EmbeddingMismatchError, match=r"line 1: .*other vectors"):
        AgentMemory.import_(
            tmp_path / "export", into=tmp_path / "copy", embedder=HashEmbedder(), embedder_id="same name"
        )


@pytest.mark.embedded("it looks at a store on disk")
def test_an_embedder_that_knows_no_word_of_the_sentence_is_named_and_nothing_is_stored(tmp_path):
    class Coffee(Words):
        id = "coffee"  # with an id its vectors are taken as they are, but for the first

        def embed_query(self, text):
            return super().embed_query(text) if "coffee" in text else np.zeros(DIMENSION, np.float32)

    def function(texts):
        return [Coffee().embed_query(text) for text in texts]

    for name, embedder in (("unchecked", Coffee()), ("checked", function)):
        with AgentMemory.open(tmp_path / name, embedder=embedder) as memory:
            with pytest.raises(EmbeddingError, match=r"the zero vector for 'The quick brown fox.*does not know"):
                memory.remember_fact(scope="c1", fact="Ruth likes coffee")
            assert memory.scopes() == []


@pytest.mark.parametrize("given", [lambda vector: list(vector * 3), lambda vector: vector * 3])
def test_an_embedder_with_an_id_that_gives_no_unit_vectors_is_told_how_it_is_taken(given):
    class Plain:
        id = "plain"

        def embed_documents(self, texts):
            return [self.embed_query(text) for text in texts]

        def embed_query(self, text):
            return given(np.array(HashEmbedder().embed_query(text)))

    with AgentMemory.in_memory(embedder=Plain()) as memory:
        with pytest.raises(ConfigurationError, match="give embedder_id='plain'"):
            memory.remember_fact(scope="c1", fact="Ruth likes coffee")
        assert memory.scopes() == []
    with AgentMemory.in_memory(embedder=Plain(), embedder_id="plain") as memory:
        memory.remember_fact(scope="c1", fact="Ruth likes coffee")
        assert memory.retrieve("coffee", scope="c1").semantic


@given(
    seed=st.integers(0, 2**32 - 1),
    dimension=st.sampled_from([16, 17, 64, 384, 4096]),
    nonzero=st.sampled_from([1, 2, 16, 1.0]),
)
def test_a_vector_that_varies_a_little_is_the_same_and_an_unrelated_one_is_not(seed, dimension, nonzero):
    random = np.random.default_rng(seed)

    def vector():
        numbers = random.standard_normal(dimension)
        if nonzero != 1.0:
            numbers[random.permutation(dimension)[min(nonzero, dimension - 1) :]] = 0
        return numbers / np.linalg.norm(numbers)

    one, other = vector(), vector()
    noise = random.standard_normal(dimension)
    noise -= noise @ one * one
    varied = 0.985 * one + np.sqrt(1 - 0.985**2) * noise / np.linalg.norm(noise)
    taken = Fingerprint.noted(Fingerprint.of("e", one).notes())
    assert taken.has_vectors_like(Fingerprint.of("e", varied))
    if abs(one @ other) < 0.7:
        assert not taken.has_vectors_like(Fingerprint.of("e", other))


def test_the_fingerprint_of_a_long_vector_is_short_and_stays_what_it_is_between_versions():
    notes = Fingerprint.of("words", Words().embed_query("The quick brown fox jumps over the lazy dog.")).notes()
    assert len(notes["probe"]) < 700
    assert json.loads(notes["probe"])[:4] == [-0.30151, -0.90453, 0.90453, 0.90453]
