import json
import os
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_retrievers.errors import ConfigurationError, ValidationError
from memory_retrievers.evaluation import conversations, custom, datasets
from memory_retrievers.evaluation.datasets import load_locomo

PUBLISHED = [
    {
        "sample_id": "talk-7",
        "conversation": {
            "speaker_a": "Ruth",
            "speaker_b": "Sami",
            "session_10_date_time": "12:05 am on 3 April, 2024",
            "session_10": [{"speaker": "Sami", "dia_id": "D10:1", "text": "We sail tomorrow."}],
            "session_2_date_time": "1:56 pm on 8 March, 2024",
            "session_2": [
                {
                    "speaker": "Ruth",
                    "dia_id": "D2:1",
                    "text": "Look!",
                    "blip_caption": "a photo of a hive",
                    "query": "x",
                },
                {"speaker": "Sami", "dia_id": "D2:2", "text": "", "img_url": ["there"], "blip_caption": "a boat"},
            ],
            "session_11_date_time": "1:56 pm on 8 May, 2024",
            "session_11": [],
            "session_12_date_time": "1:56 pm on 9 May, 2024",
        },
        "qa": [
            {"question": "What is in the garden?", "answer": 2, "evidence": ["D2:1"], "category": 4},
            {"question": "Both?", "answer": "", "evidence": ["D2:1; D10:1", "D77:1"], "category": 1},
            {"question": "Nothing?", "adversarial_answer": "", "evidence": ["D"], "category": 5},
            {"question": "Neither?", "evidence": [], "category": 3},
            {"question": "When do they sail?", "evidence": ["D:10:01"], "category": 2},
        ],
        "event_summary": {},
    }
]
MARCH = {"session": 2, "date_time": "1:56 pm on 8 March, 2024"}
APRIL = {"session": 10, "date_time": "12:05 am on 3 April, 2024"}
LISTED = {
    "name": "some",
    "conversations": [
        {
            "sample_id": "talk-7",
            "speakers": ["Ruth", "Sami"],
            "turns": [
                {"dia_id": "D2:1", "speaker": "Ruth", "text": "Look!", "caption": "a photo of a hive"} | MARCH,
                {"dia_id": "D2:2", "speaker": "Sami", "text": "", "caption": "a boat"} | MARCH,
                {"dia_id": "D10:1", "speaker": "Sami", "text": "We sail tomorrow.", "caption": ""} | APRIL,
            ],
            "qa": [
                {"question": "What is in the garden?", "evidence_raw": ["D2:1"], "gold": ["D2:1"], "category": 4},
                {"question": "Both?", "evidence_raw": [], "gold": ["D2:1", "D10:1"], "category": 1},
                {"question": "Neither?", "evidence_raw": [], "gold": [], "category": 3},
                {"question": "When do they sail?", "evidence_raw": [], "gold": ["D10:1"], "category": 2},
            ],
        }
    ],
}


def test_the_published_form_is_read_in_the_order_of_the_sessions(write_json):
    (conversation,) = load_locomo(write_json(PUBLISHED))
    assert conversation.scope == "locomo/talk-7"
    assert [(session.id, session.at) for session in conversation.sessions] == [
        ("session-2", datetime(2024, 3, 8, 13, 56, tzinfo=UTC)),
        ("session-10", datetime(2024, 4, 3, 0, 5, tzinfo=UTC)),
    ]


def test_a_photo_is_told_by_its_caption(write_json):
    (conversation,) = load_locomo(write_json(PUBLISHED))
    assert [(turn.speaker, turn.text) for turn in conversation.sessions[0].turns] == [
        ("Ruth", "Look! [photo: a photo of a hive]"),
        ("Sami", "[photo: a boat]"),
    ]


def test_evidence_in_any_spelling_counts_and_a_question_without_any_is_left_out(write_json):
    (conversation,) = load_locomo(write_json(PUBLISHED))
    assert [(each.text, each.category, set(each.gold)) for each in conversation.questions] == [
        ("What is in the garden?", "single-hop", {"D2:1"}),
        ("Both?", "multi-hop", {"D2:1", "D10:1"}),
        ("When do they sail?", "temporal", {"D10:1"}),
    ]


def test_both_forms_of_the_same_conversation_are_the_same(write_json):
    assert load_locomo(write_json(LISTED)) == load_locomo(write_json(PUBLISHED))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"turns": []}, "list of samples"),
        ([{"qa": []}], "conversation 1: conversation"),
        ([{"conversation": {"speaker_a": "Ruth"}, "qa": []}], "has no session"),
        ([{"conversation": {"session_1": [{"text": "no speaker"}]}, "qa": []}], "speaker"),
        (
            [{"conversation": {"session_1": [{"speaker": "R", "dia_id": "D1:1", "text": "a"}]}, "qa": []}],
            "'' is not a time",
        ),
    ],
)
def test_what_is_no_such_file_is_refused_with_the_reason(write_json, content, said):
    with pytest.raises(ValidationError, match=said):
        load_locomo(write_json(content))


def test_a_file_that_is_missing_or_no_json_is_told(tmp_path):
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_locomo(tmp_path / "nowhere.json")
    (tmp_path / "text.json").write_text("hello")
    with pytest.raises(ValidationError, match="cannot be read as JSON"):
        load_locomo(tmp_path / "text.json")


@given(st.lists(st.tuples(st.integers(1, 99), st.integers(1, 99)), max_size=5), st.sampled_from(["; ", " ", ","]))
def test_however_turns_are_joined_all_of_them_are_named(turns, joint):
    told = joint.join(f"D{session}:{turn:02}" for session, turn in turns)
    assert datasets._ids([told]) == [f"D{session}:{turn}" for session, turn in turns]


@pytest.mark.skipif("LOCOMO_PATH" not in os.environ, reason="LOCOMO_PATH does not name the data")
def test_the_real_file_is_whole():
    conversations = load_locomo(Path(os.environ["LOCOMO_PATH"]))
    categories = Counter(question.category for each in conversations for question in each.questions)
    assert set(categories) == {"multi-hop", "temporal", "open-domain", "single-hop", "adversarial"}
    for conversation in conversations:
        assert len(conversation.turns) == sum(len(session.turns) for session in conversation.sessions)
        assert all(question.gold <= set(conversation.turns) for question in conversation.questions)
        assert [each.at for each in conversation.sessions] == sorted(each.at for each in conversation.sessions)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"[" * 200_000 + b"]" * 200_000, "nested too deeply"),
        (b'{"conversations": ' + b'{"a":' * 200_000, "nested too deeply"),
        (b"[" + b"9" * 5_000 + b"]", "cannot be read as JSON"),
        (b"\xff\xfe", "not UTF-8 text"),
        (b'"text"', "not a LoCoMo file"),
        (b'[{"conversation": [], "qa": []}]', "conversation 1"),
        (b'[{"conversation": {"session_1": [5]}, "qa": []}]', "conversation 1"),
        (
            b'[{"conversation": {"session_1": [{}], "session_1_date_time": {}}, "qa": [{"question": []}]}]',
            "conversation 1",
        ),
        (b'[{"conversation": {"session_' + b"1" * 5_000 + b'": [1]}, "qa": []}]', "has no session"),
    ],
    ids=range(9),
)
def test_a_file_of_any_other_shape_is_refused_by_name(tmp_path, content, complaint):
    (tmp_path / "file.json").write_bytes(content)
    with pytest.raises(ValidationError, match=complaint):
        load_locomo(tmp_path / "file.json")


def test_a_time_without_a_day_behind_it_is_refused_by_name(tmp_path):
    late = json.loads(json.dumps(PUBLISHED).replace("3 April, 2024", "31 December, 9999"))
    (tmp_path / "file.json").write_text(json.dumps(late))
    with pytest.raises(ValidationError, match="is not a time such as"):
        load_locomo(tmp_path / "file.json")


def test_no_byte_is_read_beyond_so_many(tmp_path, monkeypatch):
    monkeypatch.setattr(conversations, "MAX_BYTES", 100)
    (tmp_path / "file.json").write_text(json.dumps(PUBLISHED))
    for read in (load_locomo, custom.load):
        with pytest.raises(ValidationError, match="has more than 100 bytes"):
            read(tmp_path / "file.json")


@pytest.mark.parametrize(
    "line",
    ["[" * 100_000, '{"scope":' * 100_000, "9" * 5_000, '{"scope": 1, "query": [], "memory_ids": {}}', '"\\ud800"'],
)
def test_a_line_of_pairs_of_any_other_shape_is_refused_with_its_number(tmp_path, line):
    (tmp_path / "pairs.jsonl").write_text(f"\n{line}\n")
    with pytest.raises(ValidationError, match="line 2: "):
        custom.load(tmp_path / "pairs.jsonl")


CHAT = {
    "name": {"speaker_1": "Ruth", "speaker_2": "Sami"},
    "session_1": [
        {"speaker": "Ruth", "dia_id": "D1:1", "clean_text": "I have bees", "date_time": "29.12.2023, 22:20:37"},
        {"speaker": "Sami", "dia_id": "D1:2", "clean_text": "Look", "blip_caption": "a boat", "date_time": "later"},
    ],
    "session_2": [{"speaker": "Ruth", "dia_id": "D2:1", "clean_text": "Nice", "date_time": "02.01.2024, 08:00:00"}],
    "qa": [{"question": "Who has bees?", "answer": "Ruth", "evidence": ["D1:1"], "category": 1}],
}


def test_a_directory_of_chats_is_read_in_the_order_of_names(tmp_path):
    for name in ("Chat_2_b", "Chat_1_a"):
        (tmp_path / f"{name}.json").write_text(json.dumps(CHAT), encoding="utf-8")
    (tmp_path / "other.json").write_text("no JSON", encoding="utf-8")
    first, second = load_locomo(tmp_path)
    assert (first.scope, second.scope) == ("locomo/Chat_1_a", "locomo/Chat_2_b")
    assert [session.at for session in first.sessions] == [
        datetime(2023, 12, 29, 22, 20, 37, tzinfo=UTC),
        datetime(2024, 1, 2, 8, tzinfo=UTC),
    ]
    assert [turn.text for turn in first.turns.values()] == ["I have bees", "Look [photo: a boat]", "Nice"]
    assert [(question.text, question.gold) for question in first.questions] == [("Who has bees?", frozenset({"D1:1"}))]
    assert load_locomo(tmp_path / "Chat_1_a.json") == [first]


def test_a_directory_without_chats_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match=r"holds no file Chat_\*.json"):
        load_locomo(tmp_path)
