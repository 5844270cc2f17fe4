import json

import pytest

from memory_retrievers import RetrievalSettings
from memory_retrievers.evaluation import report
from memory_retrievers.evaluation.custom import Suggestion
from memory_retrievers.evaluation.measure import Interval, Score, figures


def _scores(*values, turns=True):
    return [
        Score(category=category, values={"any@1": value} | ({"R@10": 0.25} if turns else {}), seconds=0.002)
        for category, value in zip("ab" * len(values), values, strict=False)
    ]


@pytest.fixture
def measured():
    return {"one": _scores(1.0, 0.0, 1.0, 1.0), "two": _scores(0.0, 0.0, turns=False)}


def test_rows_stand_under_their_headings(measured):
    headings = report.headings(measured)
    assert headings == ["profile", "category", "questions", "any@1", "any@1 95 %", "R@10", "ms", "ms p95"]
    told = report.rows(measured)
    assert all(len(row) == len(headings) for row in told)
    assert told[0] == ["one", "all", "4", "75.0", "30.1–95.4", "25.0", "2.0", "2.0"]
    assert [row[:2] for row in told] == [
        ["one", "all"],
        ["two", "all"],
        ["one", "a"],
        ["two", "a"],
        ["one", "b"],
        ["two", "b"],
    ]


def test_what_a_profile_does_not_have_is_a_dash(measured):
    assert report.rows(measured)[1][5] == "–"


def test_only_the_measures_asked_for_are_shown(measured):
    assert report.headings(measured, measures=["R@10"]) == ["profile", "category", "questions", "R@10", "ms", "ms p95"]
    assert report.rows(measured, measures=["R@10"])[0] == ["one", "all", "4", "25.0", "2.0", "2.0"]


def test_the_json_holds_every_figure(measured):
    told = json.loads(json.dumps(report.as_json(measured)))
    assert told["one"]["all"]["means"] == {"any@1": 0.75, "R@10": 0.25}
    assert told["one"]["b"]["questions"] == 2
    assert told["two"]["all"]["means"] == {"any@1": 0.0}
    assert told["one"]["all"]["ms"]["median"] == pytest.approx(2.0)


@pytest.fixture
def held_out():
    return figures([Score(category="held-out", values={"any@5": 1.0, "nDCG@10": 0.8}, seconds=0.1)] * 20)


@pytest.mark.parametrize(
    ("gain", "verdict"), [((-0.01, 0.02), "within noise, keep the default"), ((0.01, 0.02), "better than the default")]
)
def test_a_suggestion_says_whether_it_is_more_than_noise(held_out, gain, verdict):
    settings = RetrievalSettings(decay_weight=0.0)
    suggestion = Suggestion(name="no decay", settings=settings, held_out=held_out, gain=Interval(*gain))
    first, second, third = report.suggestion_lines(suggestion)
    assert first == "suggested: no decay: RetrievalSettings(decay_weight=0.0)"
    assert second == "on the 20 held-out questions: any@5 100.0 % (95 %: 83.9 to 100.0)"
    assert third.endswith(verdict)
    assert report.suggestion_as_json(suggestion)["within_noise"] is (gain[0] <= 0)
    assert report.suggestion_as_json(suggestion)["settings"] == settings.model_dump(mode="json")


def test_the_default_is_suggested_without_a_comparison_to_itself(held_out):
    suggestion = Suggestion(name="default", settings=RetrievalSettings(), held_out=held_out, gain=Interval(0, 0))
    assert len(list(report.suggestion_lines(suggestion))) == 2
