"""Commands that maintain a store."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final, get_args

import typer
from pydantic_core import to_jsonable_python

from memory_retrievers.cli import output
from memory_retrievers.cli.app import DEFAULT_STORE, PLACE, AsJson, Store, Yes, listed
from memory_retrievers.cli.options import BUNDLED, EmbedderOptions, json_object
from memory_retrievers.cli.stores import Place, moved_from, moved_into, opened, to_change, to_look_into
from memory_retrievers.errors import BackendError, ValidationError
from memory_retrievers.memory import AgentMemory
from memory_retrievers.models import Category
from memory_retrievers.models.contents import VerificationReport
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.storage.maintenance import Index
from memory_retrievers.storage.options import StoreOptions
from memory_retrievers.text.analysis import json_for_terminals
from memory_retrievers.text.passages import Searched

PROBLEMS: Final = 1  # the exit code


@contextmanager
def _removed_on_signals() -> Iterator[None]:
    """Let SIGTERM, or a closed terminal, act as Ctrl-C where neither is handled, so that a partial copy is removed."""
    is_main = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if is_main and hasattr(signal, name)]
    unheard = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for each in unheard:
        signal.signal(each, lambda number, _frame: sys.exit(128 + number))
    try:
        yield
    finally:
        for each in unheard:
            signal.signal(each, signal.SIG_DFL)


@listed
def _backup(
    target: Annotated[str, typer.Argument(help="A new directory.")],
    store: Store = DEFAULT_STORE,
) -> None:
    """Copy the store; it may be in use."""
    directory = Place.named(target).required_directory(otherwise="migrate moves a store into one")
    with _removed_on_signals(), to_change(store, read_only=True) as memory, output.progress_bar("copying"):
        memory.backup(directory)


@listed
def _export(
    target: Annotated[Path, typer.Argument(help="A file that does not exist yet, or - for standard output.")],
    store: Store = DEFAULT_STORE,
    scope: Annotated[str | None, typer.Option("--scope", help="Only this scope and the scopes below.")] = None,
    *,
    incomplete: Annotated[
        bool, typer.Option("--incomplete", help="Also export an incomplete target of migrate.")
    ] = False,
) -> None:
    """Write all memories with their vectors to one file of JSON lines, and print their number."""
    with _removed_on_signals(), tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "export") if str(target) == "-" else target
        with to_change(store, read_only=True) as memory, output.progress_bar("exporting") as progress:
            written = memory.export(file, scope=scope, incomplete=incomplete, progress=progress)
        if file is target:
            output.print_text(written)
            return
        with file.open("rb") as lines:
            if sys.stdout.isatty():  # which would obey what was stored
                for record in map(json.loads, lines):
                    if record.get("type") != "checksum":  # that of the lines as they are in a file
                        typer.echo(json_for_terminals(record, indent=None))
            else:
                shutil.copyfileobj(lines, sys.stdout.buffer)


@listed
def _import(
    source: Annotated[Path, typer.Argument(help="A file written by export.")],
    into: Annotated[
        Place,
        typer.Option(
            "--into", parser=Place.named, metavar="DIRECTORY", help="The new store's directory: missing, or empty."
        ),
    ],
    embedder: EmbedderOptions = BUNDLED,
) -> None:
    """Create a store from a file written by export, and print its statistics; nothing is embedded again."""
    directory = into.required_directory(otherwise="import into a new directory, then migrate that")
    found, known_by = embedder.load(), embedder.embedder_id
    with _removed_on_signals(), output.progress_bar("importing") as progress:
        memory = AgentMemory.import_(source, into=directory, embedder=found, embedder_id=known_by, progress=progress)
    with memory:
        statistics = memory.stats()
    output.print_statistics(statistics)


@listed
def _migrate(
    *,
    source: Annotated[
        Place,
        typer.Option("--from", parser=Place.named, metavar=PLACE, help="The store; nothing may write to it meanwhile."),
    ],
    target: Annotated[
        Place,
        typer.Option("--to", parser=Place.named, metavar=PLACE, help="The new place: missing, or an empty store."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts and problems as JSON.")] = False,
) -> None:
    """Move a store between a directory and a PostgreSQL database, then compare both and print the result.

    The source is not changed. If it is damaged, nothing is moved and the error names the damage. Nothing is embedded
    again. After an interruption the same command continues. Differences and damage are printed one a line, and the exit
    code is then 1.
    """
    from memory_retrievers.storage import migrate as moving  # here, so that the other commands start without it

    with moved_from(source) as ledger, moved_into(target, source=source) as store:
        with output.progress_bar("moving") as progress:
            moving.move(ledger, store, progress=progress)
        with output.progress_bar("comparing") as progress:
            report = moving.check(ledger, store, progress=progress)
    if as_json:
        output.print_json(asdict(report))
    else:
        output.print_report(report)
    if not report.ok:
        raise typer.Exit(PROBLEMS)


@listed
def _verify(store: Store = DEFAULT_STORE) -> None:
    """Check the store: print counts and every problem; the exit code is 1 if there are any."""
    try:
        with to_look_into(store) as memory, output.progress_bar("verifying"):
            report = memory.verify()
    except BackendError as error:  # so damaged that it cannot even be opened
        if not error.tells_of_store:
            raise
        report = VerificationReport(problems=(str(error),))
    output.print_report(report)
    if not report.ok:
        raise typer.Exit(PROBLEMS)


@listed
def _doctor(store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Show who uses the store, its state, and what to do about problems; the exit code is 1 if there are any.

    It changes nothing, and works while the store is in use and on stores of any version.
    """
    # imported here, so that the other commands start without it
    from memory_retrievers.storage.diagnosis import diagnose_database, diagnose_directory

    with store.without_its_secret():
        at = store.address
        seen = diagnose_directory(at) if isinstance(at, Path) else diagnose_database(at)
    if as_json:
        output.print_json({"store": str(store), **to_jsonable_python(seen), "ok": not seen.findings})
    else:
        output.print_diagnosis(str(store), seen)
    if seen.findings:
        raise typer.Exit(PROBLEMS)


@listed
def _rebuild(
    what: Annotated[str, typer.Argument(metavar=f"[{'|'.join(get_args(Index))}]", help="Which indexes.")] = "all",
    store: Store = DEFAULT_STORE,
) -> None:
    """Rebuild the indexes from the memories, which are not changed."""
    index: Index | None = next((known for known in get_args(Index) if known == what), None)
    if index is None:
        raise ValidationError(f"unknown index {what!r}; one of: {', '.join(get_args(Index))}")
    with to_change(store) as memory, output.progress_bar("rebuilding"):
        memory.rebuild(index)


@listed
def _purge(store: Store = DEFAULT_STORE) -> None:
    """Remove expired memories, and erase every byte of forgotten ones."""
    with to_change(store) as memory, output.progress_bar("purging"):
        memory.purge()


@listed
def _reembed(store: Store = DEFAULT_STORE, embedder: EmbedderOptions = BUNDLED, yes: Yes = False) -> None:
    """Replace all vectors by those of another embedder; the former embedder is not needed."""
    store.require_store()
    noted = store.noted_embedder()
    if noted is not None and not yes:
        raise ValidationError(f"this replaces the vectors of {noted!r}, which are then deleted: give --yes to do it")
    found = embedder.load()
    with opened(store, embedder=found, embedder_id=noted) as memory, output.progress_bar("embedding") as progress:
        memory.reembed(found, embedder_id=embedder.embedder_id, progress=progress)


@listed
def _reindex(
    passages: Annotated[
        str, typer.Argument(metavar=f"[{'|'.join(get_args(Searched))}]", help="What is searched of an episode.")
    ] = "turns",
    store: Store = DEFAULT_STORE,
    embedder: EmbedderOptions = BUNDLED,
) -> None:
    """Index the messages of all episodes too, or only their summaries; print the number of changed episodes."""
    searched: Searched | None = next((known for known in get_args(Searched) if known == passages), None)
    if searched is None:
        raise ValidationError(f"unknown passages {passages!r}; one of: {', '.join(get_args(Searched))}")
    store.require_store()
    options = embedder.options() | StoreOptions(retrieval=RetrievalSettings(passages=searched))
    with opened(store, **options) as memory, output.progress_bar("indexing") as progress:
        changed = memory.reindex(progress=progress)
    output.print_text(changed)


@listed
def _import_chroma(
    *,
    collection: Annotated[str, typer.Option("--collection", help="The name of the collection.")],
    path: Annotated[Path | None, typer.Option("--path", help="Chroma's directory; nothing else may use it.")] = None,
    url: Annotated[str | None, typer.Option("--url", help="Chroma's server, such as http://localhost:8000.")] = None,
    scope: Annotated[str | None, typer.Option("--scope", help="Scope of the imported facts.")] = None,
    scope_key: Annotated[str | None, typer.Option("--scope-key", help="Metadata key of a document's scope.")] = None,
    text_key: Annotated[
        str | None, typer.Option("--text-key", help="Metadata key of the text, if it is not the document.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="JSON", help='Chroma filter of the documents, such as {"team": "a"}.'),
    ] = None,
    category: Annotated[str, typer.Option(help="Category of the facts.")] = Category.NOTE.value,
    store: Store = DEFAULT_STORE,
    embedder: EmbedderOptions = BUNDLED,
) -> None:
    """Import the documents of a Chroma collection as facts, with their vectors; the collection is not changed.

    The embedder must be the one that filled the collection. A further run continues where the last one stopped, and
    imports new and changed documents.
    """
    if (path is None) == (url is None):
        raise ValidationError("give either --path or --url, where the collection is")
    if (scope is None) == (scope_key is None):
        raise ValidationError("give either --scope or --scope-key, which say whose memories these are")
    # imported here, so that the other commands start without it
    from memory_retrievers.backends.chroma.clients import opened_collection

    found, selected = embedder.load(), None if where is None else json_object("--where", where)
    with (
        store.without_its_secret(),
        opened_collection(collection, path=path, url=url) as source,
        output.progress_bar("adopting") as progress,
    ):
        memory = AgentMemory.from_chroma(
            source,
            path=store.address,
            embedder=found,
            embedder_id=embedder.embedder_id,
            scope=scope,
            scope_key=scope_key,
            text_key=text_key,
            category=category,
            where=selected,
            progress=progress,
        )
        with memory:
            report = memory.adoption
    if report is not None:
        output.print_adoption(report)
