import json

import pytest

from memory_retrievers import AgentMemory
from memory_retrievers.evaluation.synthetic import synthetic
from memory_retrievers.testing import HashEmbedder

HASHED = ("--embedder", "memory_retrievers.testing:HashEmbedder")


@pytest.fixture
def locomo_file(tmp_path):
    """A synthetic conversation in the form of the published file."""
    (conversation,) = synthetic(number=1)
    told = {}
    ids = {}
    for number, session in enumerate(conversation.sessions, start=1):
        told[f"session_{number}_date_time"] = session.at.strftime("%I:%M %p on %d %B, %Y")
        told[f"session_{number}"] = [
            {"speaker": turn.speaker, "dia_id": f"D{number}:{place}", "text": turn.text}
            for place, turn in enumerate(session.turns, start=1)
        ]
        ids |= {turn.id: f"D{number}:{place}" for place, turn in enumerate(session.turns, start=1)}
    asked = [
        {"question": question.text, "evidence": [ids[turn] for turn in question.gold], "category": 4}
        for question in conversation.questions[:6]
    ]
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps([{"sample_id": "one", "conversation": told, "qa": asked}]), encoding="utf-8")
    return file


@pytest.fixture
def own_store(tmp_path):
    """A store of a synthetic conversation, and a file of questions to it."""
    (conversation,) = synthetic(number=1)
    with AgentMemory.open(tmp_path / "store", embedder=HashEmbedder()) as memory:
        memory.remember_many(conversation.drafts())
    lines = [
        json.dumps(
            {
                "scope": conversation.scope,
                "query": question.text,
                "memory_ids": sorted({conversation.session_of[turn] for turn in question.gold}),
            }
        )
        for question in conversation.questions[::3]
    ]
    (tmp_path / "own.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path / "store", tmp_path / "own.jsonl"


@pytest.fixture
def profiles(table):
    """The rows of a printed table that are about all questions, by profile."""

    def profiles(printed):
        return {row["profile"]: row for row in table(printed.split("\n\n")[0]) if row["category"] == "all"}

    return profiles


def test_locomo_prints_a_row_for_each_profile_and_category(run, locomo_file, profiles):
    printed = run("eval", "locomo", locomo_file, *HASHED, "--profile", "default", "--profile", "reference")
    rows = profiles(printed)
    assert list(rows) == ["default", "reference"]
    assert rows["default"]["questions"] == "6"
    assert 0 <= float(rows["default"]["any@5"]) <= 100
    assert "\nreference\tsingle-hop\t6\t" in printed


@pytest.mark.slow
def test_the_ablation_is_added_to_the_profiles(run, locomo_file, profiles):
    rows = profiles(run("eval", "locomo", locomo_file, *HASHED, "--profile", "default", "--ablation"))
    assert {"default", "decay 0", "decay 1"} <= set(rows)


def test_what_is_found_before_any_flush_stands_beside_it(run, locomo_file, profiles):
    printed = run("eval", "locomo", locomo_file, *HASHED, "--profile", "default", "--profile", "reference", "--live")
    rows = profiles(printed)
    assert list(rows) == ["default", "reference", "default, live"]  # the reference does not search what is queued
    assert float(rows["default, live"]["any@5"]) > 0
    assert float(rows["default, live"]["R@20"]) > 0


def test_every_figure_is_in_the_json(run, locomo_file):
    told = json.loads(run("eval", "locomo", locomo_file, *HASHED, "--profile", "reference", "--json"))
    found = told["profiles"]["reference"]["all"]
    assert found["questions"] == 6
    assert found["intervals"]["any@5"][0] <= found["means"]["any@5"] <= found["intervals"]["any@5"][1]


def test_the_path_may_stand_in_the_environment(run, locomo_file, monkeypatch):
    monkeypatch.setenv("LOCOMO_PATH", str(locomo_file))
    assert run("eval", "locomo", *HASHED, "--profile", "reference").startswith("profile\tcategory\t")


def test_vectors_are_kept_from_one_run_to_the_next(run, refused, locomo_file, tmp_path):
    file = tmp_path / "vectors.npz"
    arguments = ("eval", "locomo", locomo_file, "--profile", "reference", "--vectors", file)
    run(*arguments, *HASHED)
    kept = file.stat().st_size
    run(*arguments, *HASHED)
    assert file.stat().st_size == kept
    assert "not of another" in refused(*arguments, *HASHED, "--embedder-id", "another")


def test_a_conversation_that_is_not_there_and_an_unknown_profile_are_refused(refused, locomo_file):
    assert "there is no conversation 2: the file has 1" in refused(
        "eval", "locomo", locomo_file, *HASHED, "--conversation", "2"
    )
    assert "unknown profile 'best'" in refused("eval", "locomo", locomo_file, *HASHED, "--profile", "best")


def test_own_questions_end_in_a_suggestion(run, own_store, profiles):
    store, file = own_store
    printed = run("eval", "own", file, "--store", store, *HASHED)
    assert {"default", "reference"} <= set(profiles(printed))
    assert "\n\nsuggested: " in printed
    assert "held-out questions: any@5 " in printed


def test_own_questions_are_asked_of_the_profiles_that_are_named_alone(run, own_store, profiles):
    store, file = own_store
    asked = ("eval", "own", file, "--store", store, *HASHED)
    both = run(*asked, "--profile", "reference", "--profile", "default")
    assert list(profiles(both)) == ["reference", "default"]
    assert "\n\nsuggested: " in both
    alone = run(*asked, "--profile", "light")
    assert list(profiles(alone)) == ["light"]
    assert "suggested" not in alone  # there is nothing to choose from
    told = json.loads(run(*asked, "--profile", "light", "--json"))
    assert (list(told["profiles"]), told["suggestion"]) == (["light"], None)


def test_own_questions_tell_calibration_and_what_a_floor_loses(run, own_store, profiles):
    store, file = own_store
    asked = ("eval", "own", file, "--store", store, *HASHED, "--profile", "light")
    told = json.loads(run(*asked, "--json"))
    assert told["silence"]["questions"] == told["profiles"]["light"]["all"]["questions"]
    assert (told["silence"]["foreign"], told["silence"]["auc"]) == (0, None)  # all questions are of one scope
    assert 0 <= told["silence"]["calibration_error"] <= 1
    assert "\ncalibration error\t" in run(*asked)
    lost = json.loads(run(*asked, "--json", "--min-relevance", "1"))
    assert (
        lost["profiles"]["light"]["all"]["means"]["any@10"] == 0 < told["profiles"]["light"]["all"]["means"]["any@10"]
    )


def test_own_questions_refuse_a_profile_that_is_not_there(refused, own_store):
    store, file = own_store
    line = refused("eval", "own", file, "--store", store, *HASHED, "--profile", "best")
    assert "unknown profile 'best'; one of: default, light, reference" in line


@pytest.mark.slow
def test_own_questions_give_the_whole_setting_as_json(run, own_store):
    store, file = own_store
    told = json.loads(run("eval", "own", file, "--store", store, *HASHED, "--json"))
    assert told["suggestion"]["name"] in told["profiles"]
    assert "decay_weight" in told["suggestion"]["settings"]
    halves = told["profiles"]["default"]
    assert halves["tune"]["questions"] + halves["held-out"]["questions"] == halves["all"]["questions"]


def test_own_questions_name_the_line_that_is_wrong(refused, own_store, tmp_path):
    store, file = own_store
    good, *_ = file.read_text().splitlines()
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text(f"{good}\n{{}}\n")
    assert "line 2: scope" in refused("eval", "own", wrong, "--store", store, *HASHED)
    assert "there is no memory store at" in refused("eval", "own", file, "--store", tmp_path / "nowhere", *HASHED)


@pytest.mark.slow
def test_own_questions_can_be_asked_beside_a_process_that_writes(run, own_store):
    store, file = own_store
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        run("eval", "own", file, "--store", store, *HASHED)
        assert memory.pending_reviews("synthetic/1-0") == []


@pytest.mark.slow
def test_the_synthetic_set_shows_conversations_and_forgetting(run, table):
    told, _, forgetting = run("eval", "synthetic", *HASHED, "--profile", "reference").split("\n\n")
    assert {row["category"] for row in table(told)} == {"all", "single", "context", "temporal", "multi"}
    assert {row["category"] for row in table(forgetting)} == {"all", "changed", "used", "kept", "ageless"}
    assert len({row["profile"] for row in table(forgetting)}) == 6


def test_silence_is_measured_between_conversations(run, refused, locomo_file):
    assert "between conversations" in refused("eval", "silence", locomo_file, *HASHED)
    (one,) = json.loads(locomo_file.read_text(encoding="utf-8"))
    locomo_file.write_text(json.dumps([one, {**one, "sample_id": "two"}]), encoding="utf-8")
    figures = json.loads(run("eval", "silence", locomo_file, *HASHED, "--json"))
    assert figures["questions"] == figures["foreign"] == 12
    assert figures["auc"] == 0.5  # the other conversation is the same one
    assert "AUC of the best hit" in run("eval", "silence", locomo_file, *HASHED)


def test_update_questions_of_beam(run, refused, tmp_path):
    chat = tmp_path / "1"
    chat.mkdir()
    said = [("My bakery opens at eight.", 0), ("My bakery opens at six now.", 1)]
    batches = [{"turns": [[{"role": "user", "id": number, "content": text}]]} for text, number in said]
    (chat / "chat.json").write_text(json.dumps(batches), encoding="utf-8")
    sources = {"original_info": [0], "updated_info": [1]}
    asked = {"knowledge_update": [{"question": "When does my bakery open?", "source_chat_ids": sources}]}
    (chat / "probing_questions.json").write_text(json.dumps(asked), encoding="utf-8")
    told = json.loads(run("eval", "beam", tmp_path, *HASHED, "--json"))
    assert told["profiles"]["default"]["all"]["questions"] == 1
    assert told["profiles"]["default"]["all"]["means"]["both@5"] == 1
    assert "newer first" in run("eval", "beam", tmp_path, *HASHED, "--profile", "default")
    (chat / "probing_questions.json").unlink()
    assert "holds no update question" in refused("eval", "beam", tmp_path, *HASHED)


@pytest.fixture
def calibrated_store(tmp_path):
    """A store with enough facts to fit relevance by, and questions to it."""
    things = [
        f"{first}{last}"
        for first in ("gar", "mol", "tis", "bel", "ran", "kov")
        for last in ("den", "tor", "mek", "fus", "lip", "nar")
    ]
    store = tmp_path / "store"
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        facts = [
            memory.remember_fact(scope="a", fact=f"The {thing} stands on shelf {n}").id
            for n, thing in enumerate(things)
        ]
    lines = [
        {"scope": "a", "query": f"Where is the {thing}?", "memory_ids": [id]}
        for thing, id in zip(things, facts, strict=True)
    ]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return store, tmp_path / "own.jsonl"


def _is_silent(store):
    with AgentMemory.open(store, embedder=HashEmbedder(), read_only=True) as memory:
        assert memory.retrieve("Where is the garden?", scope="a", min_relevance="auto", record=False).semantic
        return not memory.retrieve("Which towns has Ilse seen?", scope="a", min_relevance="auto", record=False).semantic


@pytest.mark.parametrize("has_file", [True, False])
def test_an_embedder_without_a_table_is_calibrated_and_searches_use_it(run, calibrated_store, has_file):
    store, file = calibrated_store
    asked = ("eval", "calibrate", *([file] if has_file else []), "--store", store, *HASHED)
    assert "nothing is stored" in run(*asked, "--dry-run")
    assert not _is_silent(store)
    told = json.loads(run(*asked, "--json"))
    assert told["stored"]
    assert told["kinds"]["semantic"]["held_out"]["auc"] > 0.9
    assert told["kinds"]["semantic"]["floor"] > 0 == told["kinds"]["episodic"]["floor"]
    assert _is_silent(store)
    assert "semantic: floor" in run(*asked)


def test_a_calibration_goes_with_its_embedder(run, calibrated_store):
    store, file = calibrated_store
    run("eval", "calibrate", file, "--store", store, *HASHED)
    with AgentMemory.open(store, embedder=HashEmbedder()) as memory:
        memory.reembed(HashEmbedder(64))
        assert memory.retrieve("Which towns has Ilse seen?", scope="a", min_relevance="auto", record=False).semantic
        memory.reembed(HashEmbedder())
        assert not memory.retrieve("Which towns has Ilse seen?", scope="a", min_relevance="auto", record=False).semantic


def test_too_few_questions_calibrate_nothing(refused, own_store, tmp_path):
    store, file = own_store
    few = tmp_path / "few.jsonl"
    few.write_text(file.read_text().splitlines()[0], encoding="utf-8")
    line = refused("eval", "calibrate", few, "--store", store, *HASHED)
    assert "nothing was fitted: this needs 30 questions" in line
