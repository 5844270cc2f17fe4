"""Files of ``memory_sync``: confined to one directory, and of a bounded size."""

import base64
import gzip
import json

import pytest

from memory_retrievers.errors import ValidationError
from memory_retrievers.tools import sync as tool
from memory_retrievers.tools.tool import ToolContext

from .conftest import everything, sync


@pytest.mark.parametrize(
    "path",
    ["../out.json", "/etc/passwd", "a/../../out.json", "..", ".", "a\0b", "out/escape.json", "link.json", "x" * 5000],
)
@pytest.mark.parametrize("operation", ["export", "import"])
def test_no_path_leads_out_of_the_directory(alice, tmp_path, operation, path):
    home, outside = tmp_path / "home", tmp_path / "outside"
    home.mkdir()
    outside.mkdir()
    (outside / "escape.json").write_text('{"memories": [{"content": "x"}]}')
    (tmp_path / "out.json").write_text('{"memories": [{"content": "x"}]}')
    (home / "out").symlink_to(outside)
    (home / "link.json").symlink_to(tmp_path / "out.json")
    context = ToolContext(memory=alice.memory, root="user/alice", sync_directory=home)
    before = {file: file.read_text() for file in tmp_path.rglob("*.json")}
    with pytest.raises(ValidationError, match="file_path"):
        sync(context, operation, file_path=path)
    assert everything(context)[0] == []
    assert {file: file.read_text() for file in tmp_path.rglob("*.json")} == before


def test_without_a_directory_no_file_is_touched(alice):
    context = ToolContext(memory=alice.memory, root="user/alice")
    for operation in ("export", "import"):
        with pytest.raises(ValidationError, match="file_path cannot be used here"):
            sync(context, operation, file_path="x.json")


def test_a_file_that_is_not_there_or_is_a_directory_is_told(alice, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValidationError, match="cannot be read"):
        sync(alice, "import", file_path="none.json")
    for operation in ("export", "import"):
        with pytest.raises(ValidationError, match="not a file"):
            sync(alice, operation, file_path="folder")


def test_no_message_tells_where_the_directory_is(alice, tmp_path):
    for path in ("none.json", "../x", "a\0b"):
        with pytest.raises(ValidationError) as raised:
            sync(alice, "import", file_path=path)
        assert str(tmp_path) not in str(raised.value)


def test_a_packed_file_says_what_it_is(alice, keep, tmp_path):
    keep(alice, "green tea", id="m1")
    sync(alice, "export", file_path="all.txt", compression=True)
    first, packed = (tmp_path / "all.txt").read_text().strip().split("\n")
    assert first.startswith("# Compressed ")
    document = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert document["memories"][0]["content"] == "green tea"
    assert not list(tmp_path.glob(".*"))


def test_a_file_has_a_name_as_long_as_a_file_system_takes(alice, keep, tmp_path):
    keep(alice, "green tea", id="m1")
    name = f"{'咖' * 83}.json"
    sync(alice, "export", file_path=name)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_packed_data_in_an_answer_has_no_comment(alice, keep):
    keep(alice, "green tea")
    assert base64.b64decode(sync(alice, "export", compression=True)["data"], validate=True)[:2] == b"\x1f\x8b"


def test_what_unpacks_to_too_much_is_refused(alice):
    bomb = base64.b64encode(gzip.compress(b"{" + b" " * (tool.MAX_BYTES + 1))).decode()
    assert len(bomb) < 200_000
    with pytest.raises(ValidationError, match="the unpacked data is larger than 8 MB"):
        sync(alice, "import", data=bomb)


def test_what_is_too_large_is_refused_before_it_is_read(alice, tmp_path):
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(alice.manager.settings.import_max_bytes + 1)
    with pytest.raises(ValidationError, match="the file is larger than 8 MB"):
        sync(alice, "import", file_path="large.json")


def test_an_export_that_is_too_large_is_not_written(alice, keep, tmp_path, monkeypatch):
    keep(alice, "x" * 2_000)
    monkeypatch.setattr(tool, "MAX_BYTES", 1_000)
    with pytest.raises(ValidationError, match="larger than 100 MB"):
        sync(alice, "export", file_path="all.json")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_told(alice, tmp_path):
    (tmp_path / "all.json").write_text("kept")
    with pytest.raises(ValidationError, match="cannot be written"):
        sync(alice, "export", file_path="all.json/below.json")
    assert (tmp_path / "all.json").read_text() == "kept"


def test_an_answer_that_would_be_too_large_is_refused(alice, keep, monkeypatch):
    keep(alice, "x" * 500)
    monkeypatch.setattr(tool, "MAX_BYTES", 600)
    with pytest.raises(ValidationError, match="the export is larger than 100 MB"):
        sync(alice, "export")


def test_data_that_is_too_large_is_refused_as_it_comes(alice):
    for data in ("{" + "x" * 8 * 2**20, "{" + "ü" * 4 * 2**20):
        with pytest.raises(ValidationError, match="the data is larger than 8 MB"):
            sync(alice, "import", data=data)
