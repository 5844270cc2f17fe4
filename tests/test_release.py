"""What is released is whole: the archives, what they say of themselves, and what the frameworks' hubs read."""

import ast
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import memory_retrievers
from memory_retrievers import llama_index

ROOT = Path(memory_retrievers.__file__).parents[1]
LARGEST_WHEEL = 30_000_000
KEPT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "site")

pytestmark = pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="releases are made from a checkout")


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """The wheel and the source archive of the files as they are, made beside the checkout."""
    copy = tmp_path_factory.mktemp("checkout") / "memory-retrievers"
    shutil.copytree(ROOT, copy, ignore=KEPT_OUT)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist"]
    subprocess.run(build, cwd=copy, check=True, capture_output=True)
    [wheel] = (copy / "dist").glob("*.whl")
    [source] = (copy / "dist").glob("*.tar.gz")
    return wheel, source


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_wheel_is_below_30_megabytes(archives):
    assert archives[0].stat().st_size < LARGEST_WHEEL


def test_twine_finds_nothing_wrong_with_either_archive(archives):
    check = [sys.executable, "-m", "twine", "check", "--strict", *archives]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_holds_the_model_the_types_and_the_licences_and_nothing_beside_the_package(archives):
    with zipfile.ZipFile(archives[0]) as wheel:
        names = wheel.namelist()
    assert "memory_retrievers/py.typed" in names
    assert any(
        name.startswith("memory_retrievers/backends/embeddings/model/") and name.endswith(".onnx") for name in names
    )
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"memory_retrievers"}
    assert {Path(name).name for name in names if "/licenses/" in name} == {"LICENSE", "NOTICE"}


def test_nothing_in_the_wheel_needs_what_only_tests_are_run_with(archives):
    with zipfile.ZipFile(archives[0]) as wheel:
        modules = {name: ast.parse(wheel.read(name)) for name in wheel.namelist() if name.endswith(".py")}
    assert "memory_retrievers/testing/__init__.py" in modules
    assert {
        name for name, tree in modules.items() if imported_by(tree) & {"pytest", "hypothesis", "contracts"}
    } == set()


def imported_by(tree):
    """The packages that a module imports anywhere in it."""
    absolute = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level]
    plain = [each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names]
    return {name.partition(".")[0] for name in absolute + plain}


def test_the_source_archive_holds_what_the_tests_and_the_pages_need(archives, project):
    with tarfile.open(archives[1]) as source:
        names = {name.partition("/")[2].partition("/")[0] for name in source.getnames()}
    assert names >= set(project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])


def metadata_in(wheel):
    """What the wheel says of itself; its payload is what stands on the package's page."""
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(archive.read(metadata).decode())


def link_targets(text):
    """What the links and images of a page point to."""
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    inline = [child for token in tokens for child in token.children or []]
    return [child.attrGet("href") or child.attrGet("src") for child in inline if child.type in {"link_open", "image"}]


def test_the_wheel_says_the_version_and_every_extra(archives, project):
    told = metadata_in(archives[0])
    assert told["Version"] == memory_retrievers.__version__
    assert set(told.get_all("Provides-Extra")) == set(project["project"]["optional-dependencies"])
    assert told.get_payload().startswith("# memory-retrievers\n")


def test_no_link_of_the_packages_page_needs_a_file_beside_it(archives):
    told = metadata_in(archives[0])
    addresses = [address.partition(", ")[2] for address in told.get_all("Project-URL")]
    targets = link_targets(told.get_payload())
    assert targets
    assert [target for target in [*addresses, *targets] if not target.startswith("https://")] == []


def test_the_files_that_the_packages_page_names_are_in_the_source_archive(archives):
    with tarfile.open(archives[1]) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    linked = [
        target for target in link_targets((ROOT / "README.md").read_text(encoding="utf-8")) if "://" not in target
    ]
    page = metadata_in(archives[0]).get_payload()
    assert [target for target in linked if f" (`{target}`)" not in page] == []
    assert set(linked) <= names


@pytest.fixture(params=["environment", "Source"])
def page_at_an_address(request, tmp_path, monkeypatch):
    """What the metadata of a wheel says where the project has an address, which it has not yet."""
    project = tmp_path / "project"
    project.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, project)
    for name in ("memory_retrievers/__init__.py", "scripts/package_page.py"):
        (project / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, project / name)
    if request.param == "environment":
        monkeypatch.setenv("MEMORY_RETRIEVERS_SOURCE", "https://forge.example/team/project/")
    else:
        told = (project / "pyproject.toml").read_text(encoding="utf-8")
        source = '[project.urls]\nSource = "https://forge.example/team/project"'
        (project / "pyproject.toml").write_text(told.replace("[project.urls]", source), encoding="utf-8")
    monkeypatch.delenv("PIP_BUILD_TRACKER", raising=False)  # under it hatchling leaves the question to a build
    ask = "import sys, hatchling.build; hatchling.build.prepare_metadata_for_build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", ask, tmp_path], cwd=project, check=True, capture_output=True)
    [metadata] = tmp_path.glob("*.dist-info/METADATA")
    return Parser().parsestr(metadata.read_text(encoding="utf-8")).get_payload()


def test_where_the_project_has_an_address_the_packages_page_links_to_its_files_there(page_at_an_address):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    there = f"https://forge.example/team/project/{{}}/v{memory_retrievers.__version__}/{{}}"
    pictures = {target for target in link_targets(readme) if target.endswith((".svg", ".png"))}
    assert pictures
    assert link_targets(page_at_an_address) == [
        target if "://" in target else there.format("raw" if target in pictures else "blob", target)
        for target in link_targets(readme)
    ]


def test_every_requirement_of_users_has_a_lower_and_an_upper_bound(project):
    extras = project["project"]["optional-dependencies"]
    of_users = ("langchain", "agents", "classic", "llama-index", "server", "mcp")
    listed = [*project["project"]["dependencies"], *(each for extra in of_users for each in extras[extra])]
    third_parties = [each for each in listed if not each.startswith("memory-retrievers[")]
    assert len(third_parties) > 15
    assert [each for each in third_parties if ">=" not in each or ",<" not in each] == []


def test_llamahub_is_told_each_class_of_the_adapter(project):
    told = project["tool"]["llamahub"]
    assert told["import_path"] == llama_index.__name__
    assert sorted(told["class_authors"]) == llama_index.__all__
    assert told["contains_example"] == bool([*(ROOT / "examples").glob("llama_index_*.py")])


def test_the_version_has_three_numbers_and_the_changelog_a_place_for_what_is_next():
    assert len([int(part) for part in memory_retrievers.__version__.split(".")]) == 3
    assert "\n## [Unreleased]\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_readme_is_short_and_links_only_to_what_is_there():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 350
    files = [target for target in link_targets(text) if "://" not in target]
    assert len(files) > 10
    assert [target for target in files if not (ROOT / target).exists()] == []
