"""Files of a store: for their owner alone whatever the umask, never through a link, readable where nothing can be written."""

import contextlib
import errno
import functools
import os
import shutil
import stat
import subprocess
import sys

import pytest
from patience import PATIENCE

from memory_retrievers import AgentMemory, BackendError, ConfigurationError, DiskFullError, Message, ValidationError
from memory_retrievers.backends.files import new_directory, new_file
from memory_retrievers.backends.processes import DIRECTORY, GATE, TURN
from memory_retrievers.models import SemanticDraft
from memory_retrievers.storage.open import CHROMA_DIRECTORY, STORE_FILE
from memory_retrievers.testing import HashEmbedder
from memory_retrievers.tools.sync import confined, read_file, write_file

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes and links of POSIX")


def opened(path, **given):
    return AgentMemory.open(path, embedder=HashEmbedder(), **given)


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request):
    """The process's umask while a test runs; the package itself never sets it."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(directory):
    """The modes of a directory and of all in it, without SQLite's files that others may have taken away meanwhile."""
    found = {}
    for path in (directory, *directory.rglob("*")):
        with contextlib.suppress(FileNotFoundError):
            found[str(path.relative_to(directory))] = (path.is_dir(), stat.S_IMODE(path.stat().st_mode))
    return found


def unlike(directory, *, file, folder):
    return {
        name: oct(mode) for name, (is_dir, mode) in modes(directory).items() if mode != (folder if is_dir else file)
    }


@pytest.mark.parametrize(
    ("umask", "shared", "file", "folder"),
    [(0o000, False, 0o600, 0o700), (0o077, True, 0o660, 0o2770)],
    ids=["private", "shared"],
    indirect=["umask"],
)
@pytest.mark.usefixtures("umask")
def test_all_files_of_a_store_are_made_with_their_modes_whatever_the_umask(tmp_path, shared, file, folder):
    store, copy, back = tmp_path / "above" / "store", tmp_path / "copies" / "copy", tmp_path / "back"
    with opened(store, dense="chroma", **({"shared_group": True} if shared else {})) as memory:
        memory.remember_many([SemanticDraft(scope="c1", fact=f"Fact number {number}") for number in range(1_050)])
        memory.retrieve("Fact number 7", scope="c1")
        while_open = modes(store)
        memory.backup(copy)
        memory.export(tmp_path / "all.jsonl")
    assert {
        DIRECTORY,
        f"{DIRECTORY}/{TURN}",
        STORE_FILE,
        f"{STORE_FILE}-wal",
        f"{STORE_FILE}-shm",
        CHROMA_DIRECTORY,
    } <= set(while_open)
    assert any(name.endswith("data_level0.bin") for name in while_open)  # Chroma's native code has written, too
    assert {n: oct(m) for n, (is_dir, m) in while_open.items() if m != (folder if is_dir else file)} == {}
    for made in (store.parent, copy.parent):
        assert unlike(made, file=file, folder=folder) == {}
    assert stat.S_IMODE((tmp_path / "all.jsonl").stat().st_mode) == file
    given = {"shared_group": True} if shared else {}
    AgentMemory.import_(tmp_path / "all.jsonl", into=back, embedder=HashEmbedder(), **given).close()
    assert unlike(back, file=file, folder=folder) == {}


@pytest.mark.usefixtures("umask")
def test_pages_and_exports_of_tools_are_for_their_owner_alone(tmp_path):
    with new_file(tmp_path / "page.html") as file:
        file.write(b"<p>")
    home = tmp_path / "home"
    write_file(home / "below" / "all.json", "{}", within=home)
    assert modes(home) == {
        ".": (True, 0o700),
        "below": (True, 0o700),
        "below/all.json": (False, 0o600),
    }
    assert stat.S_IMODE((tmp_path / "page.html").stat().st_mode) == 0o600


def test_what_is_there_already_keeps_its_modes_and_verify_notes_what_is_wider(tmp_path):
    store = tmp_path / "above" / "store"
    store.parent.mkdir(mode=0o755)
    with opened(store) as memory:
        memory.remember_fact(scope="c1", fact="User lives in Lyon")
        assert memory.verify().notes == ()
    store.chmod(0o755)
    (store / STORE_FILE).chmod(0o644)
    (store / DIRECTORY / TURN).chmod(0o640)
    with opened(store) as memory:
        report = memory.verify()
        assert report.ok
        (note,) = report.notes
        assert f"{STORE_FILE} (0644)" in note
        assert f"{DIRECTORY}/{TURN} (0640)" in note
        assert "chmod -R go=" in note
        assert GATE not in note
    kept = {"store": 0o755, f"store/{STORE_FILE}": 0o644, f"store/{DIRECTORY}/{TURN}": 0o640, ".": 0o755}
    found = modes(store.parent)
    assert {name: found[name][1] for name in kept} == kept


def test_an_empty_directory_that_was_there_keeps_its_mode_when_it_becomes_a_store(tmp_path):
    with opened(tmp_path / "store") as memory:
        memory.remember_fact(scope="c1", fact="User lives in Lyon")
        (tmp_path / "copy").mkdir()
        (tmp_path / "copy").chmod(0o2750)
        memory.backup(tmp_path / "copy")
    assert unlike(tmp_path / "copy", file=0o600, folder=0o2750) == {}


def test_a_store_without_files_cannot_be_shared_with_a_group(tmp_path):
    with pytest.raises(TypeError):
        AgentMemory.in_memory(embedder=HashEmbedder(), shared_group=True)
    with opened(tmp_path / "store", shared_group=True), pytest.raises(ConfigurationError, match="other settings"):
        opened(tmp_path / "store")


@pytest.mark.parametrize("name", [GATE, TURN, f"{TURN}-next"])
@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing"])
def test_a_link_in_the_place_of_a_store_s_file_is_refused_and_its_target_untouched(tmp_path, name, there):
    store, target = tmp_path / "store", tmp_path / "precious"
    opened(store).close()
    link = store / DIRECTORY / name
    link.unlink()
    link.symlink_to(target)
    if there:
        target.write_text("precious")
    with pytest.raises(ConfigurationError, match=f"{name} is a link"):
        opened(store)
    assert target.exists() is there
    assert not there or target.read_text() == "precious"
    link.unlink()
    opened(store).close()


def test_a_pipe_in_the_place_of_a_lock_holds_nobody_up(tmp_path):
    store = tmp_path / "store"
    opened(store).close()
    (store / DIRECTORY / GATE).unlink()
    os.mkfifo(store / DIRECTORY / GATE)
    code = (
        "import sys\nfrom memory_retrievers import AgentMemory, ConfigurationError\n"
        "from memory_retrievers.testing import HashEmbedder\n"
        "try: AgentMemory.open(sys.argv[1], embedder=HashEmbedder())\n"
        "except ConfigurationError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, store], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert "no plain file" in done.stdout


def test_a_link_in_the_place_of_an_export_or_a_copy_is_refused_and_its_target_untouched(tmp_path):
    target = tmp_path / "precious"
    (tmp_path / "all.jsonl").symlink_to(target)
    (tmp_path / "copy").symlink_to(target)
    with opened(tmp_path / "store") as memory:
        for _ in range(2):  # to nothing, then to an empty directory
            with pytest.raises(ConfigurationError, match="exists already"):
                memory.export(tmp_path / "all.jsonl")
            with pytest.raises(ConfigurationError, match="symbolic link"):
                memory.backup(tmp_path / "copy")
            assert not target.exists() or not any(target.iterdir())
            target.mkdir(exist_ok=True)
    assert (tmp_path / "all.jsonl").is_symlink()


@pytest.mark.parametrize("making", [new_file, functools.partial(new_directory, becoming="a store")])
def test_a_full_disk_is_told_as_that_and_nothing_is_left(tmp_path, making):
    with pytest.raises(DiskFullError, match="no space is left for "), making(tmp_path / "target"):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(ConfigurationError, match="target cannot be"), making(tmp_path / "target"):
        raise OSError(errno.EIO, "Input/output error")
    assert list(tmp_path.iterdir()) == []


def test_an_export_goes_into_the_directory_it_began_in_though_another_takes_its_name(tmp_path):
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    with new_file(home / "all.jsonl") as file:
        file.write(b"{}")
        home.rename(tmp_path / "moved")
        home.symlink_to(elsewhere)
    assert list(elsewhere.iterdir()) == []
    assert [path.name for path in (tmp_path / "moved").iterdir()] == ["all.jsonl"]


@pytest.mark.parametrize("last", [False, True], ids=["a directory", "the file"])
def test_a_sync_file_is_not_reached_through_a_link_that_came_after_the_check(tmp_path, last):
    home, outside = tmp_path / "home", tmp_path / "outside"
    (home / "below").mkdir(parents=True)
    outside.mkdir()
    (outside / "all.json").write_text("precious")
    path = confined(home, "below/all.json")
    if last:
        (home / "below" / "all.json").symlink_to(outside / "all.json")
    else:
        (home / "below").rmdir()
        (home / "below").symlink_to(outside)
    with pytest.raises(ValidationError, match="cannot be read"):
        read_file(path, within=home, most=100)
    with contextlib.ExitStack() as expected:
        if not last:  # the file's own name is taken over, and what the link led to is not written
            expected.enter_context(pytest.raises(ValidationError, match="cannot be written"))
        write_file(path, "{}", within=home)
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("all.json", "precious")]


LOOK = """
import os, sys
from memory_retrievers import AgentMemory, MemoryRetrieversError
from memory_retrievers.testing import HashEmbedder
if len(sys.argv) > 2:
    os.setuid(int(sys.argv[2]))
try:
    with AgentMemory.open(sys.argv[1], embedder=HashEmbedder(), read_only=True) as memory:
        print(memory.retrieve("Lyon", scope="c1").semantic[0].memory.fact, memory.verify().ok)
except MemoryRetrieversError as error:
    print(type(error).__name__, error)
"""

WATCH = """
import sys
from memory_retrievers import AgentMemory, MemoryRetrieversError
from memory_retrievers.testing import HashEmbedder
memory = AgentMemory.open(sys.argv[1], embedder=HashEmbedder(), read_only=True)
print(memory.stats().facts, flush=True)
sys.stdin.readline()
try:
    print(memory.stats().facts)
except MemoryRetrieversError as error:
    print(type(error).__name__, error)
"""

KILLED = """
import os, sys
from memory_retrievers import AgentMemory
from memory_retrievers.testing import HashEmbedder
memory = AgentMemory.open(sys.argv[1], embedder=HashEmbedder())
memory.remember_fact(scope="c1", fact="User lives in Lyon")
os._exit(0)
"""


def looked_into(store, *, mount):
    """What a process sees of a store on a medium that cannot be written: a mount of its own, or another user's."""
    command = [sys.executable, "-c", LOOK, str(store)]
    if mount:
        remount = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "${@:2}"'
        command = [UNSHARE, "--mount", "bash", "-c", remount, "bash", str(store), *command]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout.strip()


UNSHARE = shutil.which("unshare")


def can_mount():
    return (
        bool(UNSHARE) and subprocess.run([UNSHARE, "--mount", "true"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not can_mount(), reason="no mounts for this user")
def test_a_store_on_a_read_only_file_system_can_be_looked_into(tmp_path):
    store = tmp_path / "store"
    with opened(store) as memory:
        memory.remember_fact(scope="c1", fact="User lives in Lyon")
    assert looked_into(store, mount=True) == "User lives in Lyon True"
    assert not (store / f"{STORE_FILE}-shm").exists()


@pytest.mark.skipif(not can_mount(), reason="no mounts for this user")
def test_a_log_on_a_read_only_file_system_is_told(tmp_path):
    store = tmp_path / "store"
    subprocess.run([sys.executable, "-c", KILLED, str(store)], check=True, timeout=100)
    (store / f"{STORE_FILE}-shm").unlink()
    told = looked_into(store, mount=True)
    assert told.startswith("BackendError")
    assert "-wal) that cannot be read where nothing can be written" in told


@pytest.mark.skipif(not can_mount(), reason="no mounts for this user")
def test_a_store_that_is_written_elsewhere_while_it_is_read_on_a_read_only_mount_is_told(tmp_path):
    store, mounted = tmp_path / "store", tmp_path / "mounted"
    mounted.mkdir()
    with opened(store) as memory:
        memory.remember_fact(scope="c1", fact="User lives in Lyon")
    mount = 'mount --bind "$1" "$2" && mount -o remount,bind,ro "$2" && exec "${@:3}"'
    command = [UNSHARE, "--mount", "bash", "-c", mount, "bash", store, mounted, sys.executable, "-c", WATCH, mounted]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout.readline() == "1\n"
        with opened(store) as memory:
            memory.remember_fact(scope="c1", fact="User likes Lyon")
        told, _ = watcher.communicate("\n", timeout=PATIENCE)
    assert told.startswith("BackendError")
    assert "open it again" in told


TRUNCATED = """
import os, sys
from memory_retrievers import AgentMemory, BackendError
from memory_retrievers.models import SemanticDraft
from memory_retrievers.testing import HashEmbedder
memory = AgentMemory.open(sys.argv[1], embedder=HashEmbedder(), read_only="read_only" in sys.argv)
cut = lambda done, of: os.truncate(os.path.join(sys.argv[1], "memory.db"), 8192)
try:
    memory.export(sys.argv[1] + ".jsonl", progress=cut)
    print("all is there")
except BackendError as error:
    print("BackendError")
try:
    memory.close()
except BackendError as error:
    pass
"""


@pytest.mark.parametrize("how", ["writing", "read_only"])
def test_a_database_that_is_truncated_by_somebody_else_is_an_error_and_not_the_end_of_the_process(tmp_path, how):
    store = tmp_path / "store"
    with opened(store) as memory:
        drafts = [SemanticDraft(scope="c1", id=f"f{number}", fact=f"Fact number {number}") for number in range(1_500)]
        memory.remember_many(drafts)
    done = subprocess.run(
        [sys.executable, "-c", TRUNCATED, str(store), how], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout) == (0, "BackendError\n")
    assert not store.with_name("store.jsonl").exists()


@pytest.mark.embedded("it takes away the files of a store")
@pytest.mark.skipif(os.name != "posix", reason="where files can be taken away while they are open")
@pytest.mark.parametrize("how", ["deleted", "moved", "replaced by a copy"])
@pytest.mark.parametrize("dense", ["exact", "chroma"])
def test_nothing_is_acknowledged_that_is_written_into_a_file_which_is_gone(tmp_path, clock, how, dense):
    store = tmp_path / "store"
    with AgentMemory.open(store, embedder=HashEmbedder(), clock=clock, dense=dense) as memory:
        memory.remember_fact(scope="c", fact="User likes tea", id="f1")
        memory.backup(tmp_path / "copy")
        store.rename(tmp_path / "elsewhere")
        if how == "deleted":
            shutil.rmtree(tmp_path / "elsewhere")
        elif how == "replaced by a copy":
            (tmp_path / "copy").rename(store)
        for write in (
            lambda: memory.remember_fact(scope="c", fact="User likes coffee"),
            lambda: memory.add_messages("c", [Message(role="user", content="And cake?")]),
            lambda: memory.forget("f1", scope="c"),
            memory.purge,
            memory.rebuild,
            lambda: memory.reembed(HashEmbedder(), embedder_id="another"),
        ):
            with pytest.raises(BackendError, match="was moved, deleted or replaced while it was open here"):
                write()
        assert how == "replaced by a copy" or not store.exists()
        assert any("was moved, deleted or replaced" in problem for problem in memory.verify().problems)
    if how == "replaced by a copy":
        with AgentMemory.open(store, embedder=HashEmbedder(), clock=clock, dense="exact") as memory:
            assert memory.remember_fact(scope="c", fact="User likes coffee")
            assert memory.stats("c").facts == 2
            assert memory.verify().ok
