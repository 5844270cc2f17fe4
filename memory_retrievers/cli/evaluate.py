"""Commands that measure retrieval quality."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from memory_retrievers.cli.app import DEFAULT_STORE, LeastRelevance, Store, command
from memory_retrievers.cli.options import PROFILE_NAMES, PROFILES, EmbedderOptions, profile_named
from memory_retrievers.cli.output import print_json, print_table, print_text, progress_bar
from memory_retrievers.cli.stores import note_relevance, opened
from memory_retrievers.errors import ValidationError
from memory_retrievers.settings import RetrievalSettings
from memory_retrievers.storage.options import chosen_embedder

if TYPE_CHECKING:
    from memory_retrievers.evaluation.conversations import Conversation, RememberedVectors
    from memory_retrievers.evaluation.measure import Score
    from memory_retrievers.evaluation.silence import Silence


app = typer.Typer(no_args_is_help=True, help="Measure retrieval quality. Nothing is recorded.")

_LOCOMO: Final = "LoCoMo's file, for example locomo10.json, or the directory of REALTALK's files Chat_*.json."


def _profiles(otherwise: str) -> Any:  # noqa: ANN401 - of Typer
    return typer.Option("--profile", help=f"A profile to measure: {PROFILE_NAMES}; may be repeated. {otherwise}")


Profiles: TypeAlias = Annotated[list[str] | None, _profiles("The default is all.")]
Ablation: TypeAlias = Annotated[
    bool, typer.Option("--ablation", help="Also measure the default with each part changed or off, one at a time.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print every figure as JSON.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(EmbedderOptions):
    """Options of a measurement: embedder, a file of vectors, and output format."""

    vectors: Annotated[
        Path | None,
        typer.Option(
            "--vectors", metavar="FILE.npz", help="Cache of vectors, so that a further run embeds nothing again."
        ),
    ] = None
    as_json: AsJson = False

    def remembered(self) -> RememberedVectors:
        """Load the embedder with the cached vectors."""
        from memory_retrievers.evaluation.conversations import RememberedVectors

        return RememberedVectors(chosen_embedder(self.load(), embedder_id=self.embedder_id), file=self.vectors)


DEFAULTS: Final = RunOptions()


@app.command("locomo")
@command
def _locomo(
    *,
    path: Annotated[Path, typer.Argument(envvar="LOCOMO_PATH", help=_LOCOMO, show_default=False)],
    profile: Profiles = None,
    ablation: Ablation = False,
    conversation: Annotated[
        list[int] | None,
        typer.Option("--conversation", help="Only the conversation with this number, from 1; may be repeated."),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Also ask while all messages are still queued.")] = False,
    paired: Annotated[
        bool,
        typer.Option("--paired", help="Also show the paired difference from the first profile, with 95 % intervals."),
    ] = False,
    run: RunOptions = DEFAULTS,
) -> None:
    """Measure on LoCoMo's conversations: each session is an episode."""
    from memory_retrievers.evaluation import report
    from memory_retrievers.evaluation.datasets import load_locomo
    from memory_retrievers.evaluation.measure import measure, token_counter

    tokens = token_counter()
    compared = _settings(profile, ablation=ablation)
    conversations = _chosen(load_locomo(path), conversation or [])
    remembered = run.remembered()
    counting = partial(measure, tokens=tokens)
    measured = _measured(conversations, compared, remembered, counting)
    if live:
        queued = {name: each for name, each in compared.items() if each.searches_open}
        found = _measured(conversations, queued, remembered, counting, live=True)
        measured |= {f"{name}, live": scores for name, scores in found.items()}
    if run.as_json:
        print_json({"tokens": tokens.name, "profiles": report.as_json(measured)})
        return
    print_table(report.headings(measured), report.rows(measured))
    print_text(f"\n{report.counted(tokens)}")
    if paired:
        print_table(["profile", "category", "measure", "points", "95 %"], report.paired_rows(measured))


@app.command("own")
@command
def _own(
    *,
    path: Annotated[
        Path,
        typer.Argument(help='Lines such as {"scope": "…", "query": "…", "memory_ids": ["…"]}.', show_default=False),
    ],
    store: Store = DEFAULT_STORE,
    profile: Annotated[list[str] | None, _profiles("The default is all, and other weights.")] = None,
    min_relevance: LeastRelevance = "0",
    seed: Annotated[int, typer.Option(help="Seed of the split into questions for tuning and for testing.")] = 1,
    run: RunOptions = DEFAULTS,
) -> None:
    """Measure on your own questions to a store, and suggest settings."""
    from memory_retrievers.evaluation import custom, report
    from memory_retrievers.evaluation.custom import DEFAULT, measure_own, measure_silence, suggest

    compared = _settings(profile, ablation=False) | ({} if profile else report.grid())
    asked = custom.load(path)
    store.require_store()
    remembered = run.remembered()
    with progress_bar("comparing") as progress:
        measured = measure_own(
            asked,
            compared,
            open_store=lambda settings: opened(store, read_only=True, embedder=remembered, retrieval=settings),
            embedder=remembered,
            seed=seed,
            progress=progress,
            min_relevance=min_relevance,
        )
    settings = next(iter(compared.values()))
    with opened(store, read_only=True, embedder=remembered, retrieval=settings) as memory:
        figures = measure_silence(asked, memory)
    remembered.save()
    has_choice = DEFAULT in compared and len(compared) > 1
    suggestion = suggest(measured, compared) if has_choice else None
    if run.as_json:
        suggested = None if suggestion is None else report.suggestion_as_json(suggestion)
        silent = {name: None if value != value else value for name, value in asdict(figures).items()}  # noqa: PLR0124
        print_json({"profiles": report.as_json(measured), "suggestion": suggested, "silence": silent})
        return
    print_table(report.headings(measured), report.rows(measured))
    print_text("")
    _print_silence(figures)
    if suggestion is not None:
        print_text("")
        for line in report.suggestion_lines(suggestion):
            print_text(line)


@app.command("synthetic")
@command
def _synthetic(
    *,
    seed: Annotated[int, typer.Option(help="Seed of the data set.")] = 1,
    profile: Profiles = None,
    run: RunOptions = DEFAULTS,
) -> None:
    """Measure on a small synthetic data set: conversations, then the effect of forgetting and reviews."""
    from memory_retrievers.evaluation import report
    from memory_retrievers.evaluation.measure import measure, token_counter
    from memory_retrievers.evaluation.synthetic import forgetting_dataset, measure_forgetting, synthetic

    tokens = token_counter()
    remembered = run.remembered()
    conversations = synthetic(seed=seed)
    counting = partial(measure, tokens=tokens)
    chats = _measured(conversations, _settings(profile, ablation=False), remembered, counting)
    lives = measure_forgetting(*forgetting_dataset(seed=seed), embedder=remembered, watched=progress_bar)
    remembered.save()
    if run.as_json:
        parts = {"conversations": report.as_json(chats), "forgetting": report.as_json(lives)}
        print_json({"tokens": tokens.name} | parts)
        return
    print_table(report.headings(chats), report.rows(chats))
    print_text(f"\n{report.counted(tokens)}\n")
    measures = ("any@1", "any@5", "MRR")
    print_table(report.headings(lives, measures=measures), report.rows(lives, measures=measures))


@app.command("silence")
@command
def _silence(
    *,
    path: Annotated[Path, typer.Argument(envvar="LOCOMO_PATH", help=_LOCOMO, show_default=False)],
    profile: Annotated[str, typer.Option(help=f"The profile to measure: {PROFILE_NAMES}.")] = "default",
    run: RunOptions = DEFAULTS,
) -> None:
    """Measure whether relevance separates own questions from those of another conversation, with names exchanged."""
    from memory_retrievers.evaluation.conversations import FilledStores
    from memory_retrievers.evaluation.datasets import load_locomo
    from memory_retrievers.evaluation.silence import ask, measured

    conversations = _chosen(load_locomo(path), [])
    if len(conversations) < 2:  # noqa: PLR2004
        raise ValidationError("silence is measured between conversations: the file has only one")
    remembered = run.remembered()
    with FilledStores(conversations, embedder=remembered) as stores, progress_bar("silence") as progress:
        figures = measured(ask(stores, profile_named(profile), progress=progress))
    remembered.save()
    if run.as_json:
        print_json(asdict(figures))
        return
    _print_silence(figures)


@app.command("beam")
@command
def _beam(
    *,
    path: Annotated[
        Path, typer.Argument(help="Directory of BEAM's chats, for example chats/100K.", show_default=False)
    ],
    profile: Annotated[list[str] | None, _profiles("Without it, the default profile.")] = None,
    run: RunOptions = DEFAULTS,
) -> None:
    """Measure on BEAM's update questions whether both statements are found, and the newer one first."""
    from memory_retrievers.evaluation import report
    from memory_retrievers.evaluation.datasets import load_beam, measure_updates

    compared = _settings(profile or ["default"], ablation=False)
    measured = _measured(load_beam(path), compared, run.remembered(), measure_updates)
    if run.as_json:
        print_json({"profiles": report.as_json(measured)})
        return
    print_table(report.headings(measured), report.rows(measured))


@app.command("calibrate")
@command
def _calibrate(
    *,
    path: Annotated[
        Path | None,
        typer.Argument(help="Questions as for `eval own`. Without a file they are generated from the stored memories."),
    ] = None,
    store: Store = DEFAULT_STORE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Fit and print, but store nothing.")] = False,
    as_json: AsJson = False,
    embedder: EmbedderOptions = DEFAULTS,
) -> None:
    """Fit relevance and its threshold for the embedder of a store, and save them there."""
    from memory_retrievers.evaluation import calibration, custom
    from memory_retrievers.retrieval.relevance import noted

    pairs = None if path is None else custom.load(path)
    store.require_store()
    chosen = chosen_embedder(embedder.load(), embedder_id=embedder.embedder_id)
    with opened(store, read_only=True, embedder=chosen) as memory:
        if pairs is None:
            asked = calibration.asked_by_memories(memory)
        else:
            custom.check(pairs, memory)
            asked = calibration.asked_by_pairs(pairs, memory)
        with progress_bar("calibration") as progress:
            every = calibration.examples(asked, memory, progress=progress)
    found = calibration.calibrated(every, are_made=pairs is None)
    if not dry_run:
        note_relevance(store, noted(found))
    figures = {kind: calibration.figures_left_out(every, kind) for kind in found}
    if as_json:
        by_kind = {
            kind: {
                "weights": each.weights._asdict(),
                "floor": each.floor,
                "held_out": None if (held := figures[kind]) is None else asdict(held),
            }
            for kind, each in found.items()
        }
        print_json({"stored": not dry_run, "kinds": by_kind})
        return
    for kind, each in found.items():
        held = figures[kind]
        if held is None:
            print_text(f"{kind}: too few questions; the bundled weights, and no floor\n")
            continue
        print_text(f"{kind}: floor {each.floor:.3f}; on questions left out of the fit:")
        _print_silence(held)
        print_text("")
    print_text("nothing is stored" if dry_run else "stored; searches use it from now on")


def _print_silence(figures: Silence) -> None:
    foreign = [
        ["AUC of the best hit", f"{figures.auc:.3f}"],
        ["silenced where 2 % of the answers are lost", f"{figures.silenced:.1%}"],
    ]
    rows = [
        ["questions", f"{figures.questions:,}"],
        ["questions of another conversation", f"{figures.foreign:,}"],
        *(foreign if figures.foreign else []),
        ["the floor that loses 2 % of the answers", f"{figures.floor:.3f}"],
        ["calibration error", f"{figures.calibration_error:.3f}"],
    ]
    print_table(["measure", "figure"], rows)


def _measured(
    conversations: Sequence[Conversation],
    compared: Mapping[str, RetrievalSettings],
    embedder: RememberedVectors,
    measure: Callable[..., list[Score]],
    *,
    live: bool = False,
) -> dict[str, list[Score]]:
    from memory_retrievers.evaluation.conversations import FilledStores

    measured = {}
    with FilledStores(conversations, embedder=embedder, live=live) as stores:
        for name, settings in compared.items():
            with progress_bar(name) as progress:
                measured[name] = measure(stores, settings, progress=progress)
            embedder.save()
    return measured


def _settings(profile: Sequence[str] | None, *, ablation: bool) -> dict[str, RetrievalSettings]:
    from memory_retrievers.evaluation.report import ablations

    return {name: profile_named(name) for name in profile or PROFILES} | (ablations() if ablation else {})


def _chosen(conversations: Sequence[Conversation], numbers: Sequence[int]) -> list[Conversation]:
    for number in numbers:
        if not 1 <= number <= len(conversations):
            raise ValidationError(f"there is no conversation {number}: the file has {len(conversations)}")
    chosen = [conversations[number - 1] for number in numbers] or list(conversations)
    if not any(conversation.questions for conversation in chosen):
        raise ValidationError("the file has no question whose evidence is in it")
    return chosen
