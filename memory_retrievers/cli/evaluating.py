"""The commands that measure how well memories are found: eval locomo, eval own, eval synthetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from memory_retrievers.cli.app import mistakes_in_one_line
from memory_retrievers.cli.embedders import embedder_at
from memory_retrievers.cli.options import DEFAULT_STORE, Embedder, EmbedderId, Store
from memory_retrievers.cli.printing import print_json, print_table
from memory_retrievers.cli.progress import progress_bar
from memory_retrievers.cli.stores import PROFILES, profile_named, to_compare
from memory_retrievers.errors import ValidationError
from memory_retrievers.parts import chosen_embedder
from memory_retrievers.settings import RetrievalSettings

if TYPE_CHECKING:
    from memory_retrievers.evaluation.conversations import Conversation
    from memory_retrievers.evaluation.scoring import Score
    from memory_retrievers.evaluation.tokens import TokenCounter
    from memory_retrievers.evaluation.vectors import RememberedVectors

app = typer.Typer(no_args_is_help=True, help="Measure how well memories are found. Nothing is recorded.")

Profiles: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--profile", help=f"A profile to measure: {' or '.join(PROFILES)}; may be repeated. All if left out."),
]
Ablation: TypeAlias = Annotated[
    bool, typer.Option("--ablation", help="Also measure the default with one part after the other changed or off.")
]
Vectors: TypeAlias = Annotated[
    Path | None,
    typer.Option("--vectors", metavar="FILE.npz", help="Keep vectors here, so that a further run embeds nothing anew."),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print every figure as JSON.")]


@app.command("locomo")
@mistakes_in_one_line()
def locomo(
    *,
    path: Annotated[
        Path, typer.Argument(envvar="LOCOMO_PATH", help="LoCoMo's file, for example locomo10.json.", show_default=False)
    ],
    profile: Profiles = None,
    ablation: Ablation = False,
    conversation: Annotated[
        list[int] | None, typer.Option("--conversation", help="Only the conversation of this number, from 1.")
    ] = None,
    vectors: Vectors = None,
    as_json: AsJson = False,
    embedder: Embedder = None,
    embedder_id: EmbedderId = None,
) -> None:
    """Measure on the conversations of LoCoMo: one session is one episode."""
    from memory_retrievers.evaluation import locomo as reading
    from memory_retrievers.evaluation import report
    from memory_retrievers.evaluation.tokens import token_counter

    tokens = token_counter()
    compared = _settings(profile, ablation=ablation)
    conversations = _chosen(reading.load(path), conversation or [])
    remembered = _remembered(embedder, embedder_id=embedder_id, file=vectors)
    measured = _measured(conversations, compared, remembered, tokens)
    if as_json:
        print_json({"tokens": tokens.name, "profiles": report.as_json(measured)})
        return
    print_table(report.headings(measured), report.rows(measured))
    typer.echo(f"\n{report.counted(tokens)}")


@app.command("own")
@mistakes_in_one_line()
def own(
    *,
    path: Annotated[
        Path,
        typer.Argument(help='Lines such as {"scope": "…", "query": "…", "memory_ids": ["…"]}.', show_default=False),
    ],
    store: Store = DEFAULT_STORE,
    seed: Annotated[int, typer.Option(help="Splits the questions into those to choose by and those to test on.")] = 1,
    vectors: Vectors = None,
    as_json: AsJson = False,
    embedder: Embedder = None,
    embedder_id: EmbedderId = None,
) -> None:
    """Measure on your own questions to a store, and suggest a setting."""
    from memory_retrievers.evaluation import ablation, pairs, report
    from memory_retrievers.evaluation.own import measure_own, suggest

    asked = pairs.load(path)
    store.require_store()
    remembered = _remembered(embedder, embedder_id=embedder_id, file=vectors)
    compared = _settings((), ablation=False) | ablation.grid()
    with progress_bar("comparing") as progress:
        measured = measure_own(
            asked,
            compared,
            open_store=lambda settings: to_compare(store, embedder=remembered, retrieval=settings),
            embedder=remembered,
            seed=seed,
            progress=progress,
        )
    remembered.save()
    suggestion = suggest(measured, compared)
    if as_json:
        print_json({"profiles": report.as_json(measured), "suggestion": report.suggestion_as_json(suggestion)})
        return
    print_table(report.headings(measured), report.rows(measured))
    typer.echo()
    for line in report.suggestion_lines(suggestion):
        typer.echo(line)


@app.command("synthetic")
@mistakes_in_one_line()
def synthetic(
    *,
    seed: Annotated[int, typer.Option(help="Which set is made; the same for the same number.")] = 1,
    profile: Profiles = None,
    vectors: Vectors = None,
    as_json: AsJson = False,
    embedder: Embedder = None,
    embedder_id: EmbedderId = None,
) -> None:
    """Measure on a small set made for this package: conversations, then what forgetting and review bring."""
    from memory_retrievers.evaluation import report
    from memory_retrievers.evaluation import synthetic as making
    from memory_retrievers.evaluation.forgetting import measure_forgetting
    from memory_retrievers.evaluation.lives import lives
    from memory_retrievers.evaluation.tokens import token_counter

    tokens = token_counter()
    remembered = _remembered(embedder, embedder_id=embedder_id, file=vectors)
    conversations = making.conversations(seed=seed)
    chats = _measured(conversations, _settings(profile, ablation=False), remembered, tokens)
    told = measure_forgetting(lives(seed=seed), embedder=remembered, watched=progress_bar)
    remembered.save()
    if as_json:
        parts = {"conversations": report.as_json(chats), "forgetting": report.as_json(told)}
        print_json({"tokens": tokens.name} | parts)
        return
    print_table(report.headings(chats), report.rows(chats))
    typer.echo(f"\n{report.counted(tokens)}\n")
    measures = ("any@1", "any@5", "MRR")
    print_table(report.headings(told, measures=measures), report.rows(told, measures=measures))


def _measured(
    conversations: Sequence[Conversation],
    compared: Mapping[str, RetrievalSettings],
    embedder: RememberedVectors,
    tokens: TokenCounter,
) -> dict[str, list[Score]]:
    from memory_retrievers.evaluation.filling import FilledStores
    from memory_retrievers.evaluation.measuring import measure

    measured = {}
    with FilledStores(conversations, embedder=embedder) as stores:
        for name, settings in compared.items():
            with progress_bar(name) as progress:
                measured[name] = measure(stores, settings, tokens=tokens, progress=progress)
            embedder.save()
    return measured


def _settings(profile: Sequence[str] | None, *, ablation: bool) -> dict[str, RetrievalSettings]:
    from memory_retrievers.evaluation.ablation import ablations

    return {name: profile_named(name) for name in profile or PROFILES} | (ablations() if ablation else {})


def _chosen(conversations: Sequence[Conversation], numbers: Sequence[int]) -> list[Conversation]:
    for number in numbers:
        if not 1 <= number <= len(conversations):
            raise ValidationError(f"there is no conversation {number}: the file has {len(conversations)}")
    chosen = [conversations[number - 1] for number in numbers] or list(conversations)
    if not any(conversation.questions for conversation in chosen):
        raise ValidationError("no question of the file has evidence that is in it")
    return chosen


def _remembered(embedder: str | None, *, embedder_id: str | None, file: Path | None) -> RememberedVectors:
    from memory_retrievers.evaluation.vectors import RememberedVectors

    return RememberedVectors(chosen_embedder(embedder_at(embedder), embedder_id=embedder_id), file=file)
