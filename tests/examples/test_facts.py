"""The examples of facts that change and of facts that are told twice show what they promise."""


def test_what_changed_keeps_its_past(told):
    assert told("changed_my_mind.py") == {
        "now and then": ["5 March: User lives in Porto", "15 March: User lives in Braga"],
        "history": ["01 March until 11 March: User lives in Porto", "11 March until now: User lives in Braga"],
        "replaced": [
            "01 March until 11 March: User lives in Porto",
            "11 March until 21 March: User lives in Braga",
            "21 March until now: User moved to Faro",
        ],
    }


def test_what_is_told_twice_is_known_once_and_what_differs_is_named(told):
    assert told("said_twice.py") == {
        "said twice": ["known: True, tags: home, door", "known to the tool: True, facts: 1"],
        "nearly the same": [
            "near: User's door code is 4711",
            "If one of near no longer holds, store this again with replaces=its id.",
        ],
        "replaced": ["User's door code is 4711: held", "User's door code is 4712: holds"],
    }
