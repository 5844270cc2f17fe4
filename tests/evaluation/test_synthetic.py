import pytest

from memory_retrievers.evaluation.synthetic import AGELESS, CHANGED, KEPT, USED, forgetting_dataset, synthetic


def test_the_same_seed_makes_the_same_conversations():
    assert synthetic(seed=3) == synthetic(seed=3)
    assert synthetic(seed=3) != synthetic(seed=4)


def test_the_same_seed_makes_the_same_lives():
    assert forgetting_dataset(seed=3) == forgetting_dataset(seed=3)
    assert forgetting_dataset(seed=3) != forgetting_dataset(seed=4)


@pytest.mark.parametrize("seed", range(5))
def test_questions_point_to_turns_that_are_there_and_time_runs_forward(seed):
    told = [*synthetic(seed=seed, number=4), *forgetting_dataset(seed=seed)[0]]
    assert len({conversation.scope for conversation in told}) == len(told)
    for conversation in told:
        assert len(conversation.turns) == sum(len(session.turns) for session in conversation.sessions)
        assert all(question.gold and question.gold <= set(conversation.turns) for question in conversation.questions)
        assert all("{" not in question.text for question in conversation.questions)
        assert all("{" not in turn.text for turn in conversation.turns.values())
        moments = [session.at for session in conversation.sessions]
        assert moments == sorted(moments)


@pytest.mark.parametrize("seed", range(3))
def test_every_sort_of_question_is_asked(seed):
    asked = {question.category for each in synthetic(seed=seed) for question in each.questions}
    assert asked == {"single", "context", "temporal", "multi"}
    asked = {question.category for each in forgetting_dataset(seed=seed)[0] for question in each.questions}
    assert asked == {CHANGED, USED, KEPT, AGELESS}


def test_an_answer_in_context_does_not_name_what_it_is_about():
    for conversation in synthetic():
        for question in conversation.questions:
            if question.category != "context":
                continue
            (turn,) = question.gold
            place = list(conversation.turns).index(turn)
            about = list(conversation.turns.values())[place - 2].text
            shared = {word for word in about.split() if word in question.text.split() and word[0].isupper()}
            assert all(name not in conversation.turns[turn].text for name in shared if len(name) > 1)


def test_only_what_is_still_used_is_reviewed_and_nothing_after_the_end():
    lives, uses = forgetting_dataset()
    scopes = {conversation.scope: conversation for conversation in lives}
    for use in uses:
        conversation = scopes[use.scope]
        (session,) = [session for session in conversation.sessions if session.id == use.session]
        assert session.at < use.at < conversation.sessions[-1].at
        right = [question.category for question in conversation.questions if session.turns[0].id in question.gold]
        assert right in ([USED], [KEPT])
    assert [use.at for use in uses] == sorted(use.at for use in uses)
