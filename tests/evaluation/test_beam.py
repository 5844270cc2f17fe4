import json

import pytest

from memory_retrievers import RetrievalSettings
from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.evaluation import datasets
from memory_retrievers.evaluation.conversations import FilledStores

SAID = (
    (None, "My bakery opens at eight in the morning. ->-> 1,1", "Good to know."),
    ("March-15-2024", "The tram to the museum was late again.", "How annoying."),
    ("April-02-2024", "From today my bakery opens at six in the morning.", "That is early."),
)
ASKED = "When does my bakery open in the morning?"
UPDATE = datasets.Update(text=ASKED, category=datasets.CATEGORY, gold=frozenset({"0", "4"}), updated=frozenset({"4"}))


def chat(folder, *, probes, said=SAID):
    batches = [
        {
            "batch_number": number,
            "time_anchor": None,
            "turns": [
                [
                    {"role": "user", "id": 2 * number, "time_anchor": when, "content": user, "index": "1,1"},
                    {"role": "assistant", "id": 2 * number + 1, "content": assistant},
                ]
            ],
        }
        for number, (when, user, assistant) in enumerate(said)
    ]
    (folder / "probing_questions").mkdir(parents=True)
    (folder / "chat.json").write_text(json.dumps(batches), encoding="utf-8")
    asked = {"abstention": [{"question": "Why?"}], "knowledge_update": probes}
    (folder / "probing_questions" / "probing_questions.json").write_text(json.dumps(asked), encoding="utf-8")


def probe(original, updated):
    return {
        "question": ASKED,
        "answer": "At six",
        "source_chat_ids": {"original_info": original, "updated_info": updated},
    }


@pytest.fixture
def folder(tmp_path):
    chat(tmp_path / "10", probes=[probe([0], [4])])
    chat(tmp_path / "9", probes=[probe([0], [4]), probe([0], [0]), probe([0], [77])])
    chat(tmp_path / "11", probes=[])
    return tmp_path


def test_update_questions_are_read_with_their_statements(folder):
    first, second = datasets.load_beam(folder)
    assert [each.scope for each in (first, second)] == ["beam/9", "beam/10"]
    assert first.questions == (UPDATE,)
    sessions = first.sessions
    assert [session.at.date().isoformat() for session in sessions] == ["2024-01-02", "2024-03-15", "2024-04-02"]
    assert first.turns["0"].text == "My bakery opens at eight in the morning."
    assert [turn.speaker for turn in sessions[0].turns] == ["user", "assistant"]


def test_both_statements_are_found_among_the_first_five(folder, embedder, ignored):
    chats = datasets.load_beam(folder)
    with FilledStores(chats, embedder=embedder) as stores:
        scores = datasets.measure_updates(stores, RetrievalSettings(), progress=ignored)
        assert [score.values["both@5"] for score in scores] == [1.0, 1.0]
        with pytest.raises(ValidationError, match="measured by messages"):
            datasets.measure_updates(stores, RetrievalSettings.reference(), progress=ignored)


@pytest.mark.parametrize(
    ("best", "both", "first", "newer"),
    [(["4", "0"], 1, 1, 1), (["0", "4"], 1, 0, 1), (["4", "2"], 0, 0, 1), (["0"], 0, 0, 0), ([], 0, 0, 0)],
)
def test_the_newer_statement_counts_as_first_only_where_both_are_there(best, both, first, newer):
    assert datasets._values(UPDATE, best) == {"both@5": both, "newer first": first, "newer@5": newer}


def test_a_directory_without_update_questions_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="holds no update question"):
        datasets.load_beam(tmp_path)


@pytest.mark.parametrize("content", ["[", "{}", '[{"turns": [[{"role": "user"}]]}]', "[" * 20_000])
def test_a_chat_in_another_form_is_refused_by_name(folder, content):
    (folder / "9" / "chat.json").write_text(content, encoding="utf-8")
    with pytest.raises(ValidationError, match=r"chat\.json"):
        datasets.load_beam(folder)


def test_a_question_in_another_form_is_refused_by_name(tmp_path):
    chat(tmp_path / "1", probes=[{"question": ASKED, "source_chat_ids": {"updated_info": "x"}}])
    with pytest.raises(ValidationError, match=r"probing_questions\.json"):
        datasets.load_beam(tmp_path)
