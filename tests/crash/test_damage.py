"""Whatever happens to Chroma's files, searches answer right: from the records, until the projection is made anew.

The store is opened in processes of their own, since damaged files may crash the interpreter within Chroma.
"""

import os
import random
import shutil
import signal

import pytest
from crash.journal import Journal
from crash.process import run

from memory_retrievers.storage.open import CHROMA_DIRECTORY

MOST_DEATHS = 2  # then the files are taken for damaged and thrown away

CRASHES = {-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT, -signal.SIGILL}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A store whose Chroma has written all of its files, and the account of it."""
    store, journal = tmp_path_factory.mktemp("filled") / "store", Journal()
    for act in ("fill", "retrieve"):
        assert run(store, "--dense", "chroma", "--act", act, journal=journal).exitcode == 0
    assert {"chroma.sqlite3", "data_level0.bin", "header.bin", "length.bin"} <= {file.name for file in files(store)}
    return store, journal


@pytest.fixture
def damaged(filled, tmp_path):
    """A copy of it for every test to damage."""
    store = tmp_path / "store"
    shutil.copytree(filled[0], store)
    return store


@pytest.fixture
def answers_right(filled, damaged):
    def answers_right(dense="chroma"):
        """Open it until it does not crash; then all is found, and the parts agree, at the latest after a rebuild."""
        for _ in range(MOST_DEATHS + 1):
            journal = Journal(acknowledged=dict(filled[1].acknowledged))
            result = run(damaged, "--dense", dense, "--searches", "30", journal=journal)
            if result.exitcode not in CRASHES:
                break
        assert (result.exitcode, result.error, result.lost, result.unfound) == (0, None, [], [])
        if result.disagreements:
            assert all("Chroma index" in problem for problem in result.disagreements)
            mended = run(damaged, "--dense", dense, "--act", "rebuild dense", journal=journal)
            assert mended.exitcode == 0
            assert run(damaged, "--dense", dense, journal=journal).disagreements == []

    return answers_right


def files(store):
    return sorted(file for file in (store / CHROMA_DIRECTORY).rglob("*") if file.is_file())


def removed(file):
    file.unlink()


def emptied(file):
    file.write_bytes(b"")


def halved(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def overwritten(file):
    file.write_bytes(random.Random(7).randbytes(file.stat().st_size))


@pytest.mark.parametrize("damage", [removed, emptied, halved, overwritten])
def test_chroma_s_database_and_its_index_files_may_be_damaged(damaged, answers_right, damage):
    (database,) = damaged.glob(f"{CHROMA_DIRECTORY}/chroma.sqlite3")
    damage(database)
    answers_right()
    for file in files(damaged):
        if file.name != database.name:
            damage(file)
    answers_right()


@pytest.mark.parametrize("dense", ["chroma", "auto"])
@pytest.mark.parametrize("seed", range(3))
def test_bits_of_chroma_s_files_may_flip(damaged, answers_right, seed, dense):
    positions = random.Random(seed)
    for file in files(damaged):
        content = bytearray(file.read_bytes())
        for _ in range(20 if content else 0):
            content[positions.randrange(len(content))] ^= 1 << positions.randrange(8)
        file.write_bytes(content)
    answers_right(dense)


def test_the_directory_of_chroma_may_be_gone_empty_or_a_file(damaged, answers_right):
    directory = damaged / CHROMA_DIRECTORY
    shutil.rmtree(directory)
    answers_right()
    shutil.rmtree(directory)
    directory.mkdir()
    answers_right()
    shutil.rmtree(directory)
    directory.write_text("not a directory")
    answers_right()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
def test_the_directory_of_chroma_may_be_unreadable(damaged, answers_right):
    directory = damaged / CHROMA_DIRECTORY
    directory.chmod(0)
    try:
        answers_right()
    finally:
        directory.chmod(0o700)
