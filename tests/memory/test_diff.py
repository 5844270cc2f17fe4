"""What a scope knew on one day and not, or otherwise, on another."""

from datetime import timedelta

import pytest

from memory_retrievers import ValidationError


def texts(found):
    return (
        [getattr(memory, "fact", None) or memory.summary for memory in found.added],
        [(before.fact, after.fact) for before, after in found.changed],
        [fact.fact for fact in found.ended],
    )


@pytest.fixture
def lived(memory, clock):
    """A scope of ten days: on the third, the fifth and the seventh something changes."""
    start = clock.now()
    home = memory.remember_fact(scope="c1", fact="User lives in Porto")
    job = memory.remember_fact(scope="c1", fact="User works at a bakery")
    memory.remember_fact(scope="c1", fact="User likes coffee")
    memory.remember_fact(scope="c2", fact="Somebody else lives in Rome")
    clock.advance(days=3)
    memory.update(home.id, scope="c1", fact="User lives in Braga")
    memory.remember_episode(scope="c1", summary="The user told of the move to Braga")
    memory.remember_fact(scope="c1/work", fact="The team has nine people")
    clock.advance(days=2)
    memory.remember_fact(scope="c1", fact="User works at a school", replaces=job.id)
    gone = memory.remember_fact(scope="c1", fact="User plans a party")
    clock.advance(days=2)
    memory.invalidate(gone.id, scope="c1")
    memory.remember_fact(scope="c1", fact="User wants a dog")
    clock.advance(days=1)
    return [start + timedelta(days=day) for day in (1, 4, 6, 8)]


def test_each_part_tells_what_differs_between_two_days(lived, memory):
    first, fourth, sixth, last = lived
    assert texts(memory.diff("c1", since=first, until=fourth)) == (
        ["The user told of the move to Braga"],
        [("User lives in Porto", "User lives in Braga")],
        [],
    )
    assert texts(memory.diff("c1", since=fourth, until=sixth)) == (
        ["User plans a party"],
        [("User works at a bakery", "User works at a school")],
        [],
    )
    assert texts(memory.diff("c1", since=sixth)) == (["User wants a dog"], [], ["User plans a party"])
    # what came and went in between is in no part
    assert texts(memory.diff("c1", since=first, until=last)) == (
        ["The user told of the move to Braga", "User wants a dog"],
        [("User lives in Porto", "User lives in Braga"), ("User works at a bakery", "User works at a school")],
        [],
    )
    assert texts(memory.diff("c1", since=last)) == ([], [], [])


def test_it_tells_what_searches_of_both_days_find(lived, memory):
    def known(moment):
        return {hit.memory.fact for hit in memory.retrieve("User", scope="c1", as_of=moment).semantic}

    for since in lived:
        for until in (moment for moment in lived if moment >= since):
            found = memory.diff("c1", since=since, until=until)
            come = {fact.fact for fact in found.added if hasattr(fact, "fact")} | {now.fact for _, now in found.changed}
            gone = {fact.fact for fact in found.ended} | {then.fact for then, _ in found.changed}
            assert known(until) - known(since) == come
            assert known(since) - known(until) == gone


def test_other_scopes_are_not_told_of_unless_they_are_below_and_asked_for(lived, memory):
    assert [each.scope for each in memory.diff("c1", since=lived[0]).added] == ["c1", "c1"]
    below = memory.diff("c1", since=lived[0], include_child_scopes=True)
    assert [each.scope for each in below.added] == ["c1", "c1/work", "c1"]


def test_what_was_forgotten_or_expired_is_in_no_part(lived, memory, clock):
    dog = memory.diff("c1", since=lived[2]).added[0]
    memory.forget(dog.id, scope="c1")
    memory.remember_fact(scope="c1", fact="A parcel comes", expires_at=clock.now() + timedelta(hours=1))
    clock.advance(days=1)
    assert texts(memory.diff("c1", since=lived[2])) == ([], [], ["User plans a party"])


def test_what_was_moved_is_told_where_it_is_now_with_all_its_versions(lived, memory):
    first, fourth, *_ = lived
    home = memory.diff("c1", since=first, until=fourth).changed[0].after
    memory.manager.move([home], target_scope="c3")
    assert texts(memory.diff("c1", since=first, until=fourth)) == (["The user told of the move to Braga"], [], [])
    moved = ([], [("User lives in Porto", "User lives in Braga")], [])
    assert texts(memory.diff("c3", since=first, until=fourth)) == moved
    memory.manager.move([memory.get(home.id, scope="c3")], target_scope="c1")
    assert texts(memory.diff("c3", since=first)) == ([], [], [])
    memory.forget(home.id, scope="c1")
    assert texts(memory.diff("c1", since=first, until=fourth)) == (["The user told of the move to Braga"], [], [])


def test_it_is_bounded_and_says_so(lived, memory):
    found = memory.diff("c1", since=lived[0], limit=1)
    assert (len(found.added) + len(found.changed) + len(found.ended), found.is_complete) == (1, False)
    assert memory.diff("c1", since=lived[0]).is_complete


def test_bad_moments_and_limits_are_refused(memory):
    with pytest.raises(ValidationError, match="until is before since"):
        memory.diff("c1", since="2026-03-02", until="2026-03-01")
    with pytest.raises(ValidationError, match="limit must be an integer from 1 to 1000"):
        memory.diff("c1", since="2025-03-02", limit=0)
    with pytest.raises(ValidationError, match="since"):
        memory.diff("c1", since="yesterday")


def test_the_same_id_in_several_scopes_comes_in_the_order_of_the_scopes(memory, clock):
    before = clock.now() - timedelta(days=1)
    for scope in ("c1/b", "c1/a", "c1"):
        memory.remember_fact(scope=scope, id="f", fact=f"User has {scope}")
    added = memory.diff("c1", since=before, include_child_scopes=True).added
    assert [fact.scope for fact in added] == ["c1", "c1/a", "c1/b"]
    clock.advance(days=1)
    for scope in ("c1/b", "c1/a", "c1"):
        memory.invalidate("f", scope=scope)
    ended = memory.diff("c1", since=before + timedelta(days=1), include_child_scopes=True).ended
    assert [fact.scope for fact in ended] == ["c1", "c1/a", "c1/b"]
