"""A story of twenty events, each told twice: at length, as older prompts asked for it, and tersely, as ours does."""

from __future__ import annotations

from typing import Final, NamedTuple

from memory_retrievers.models.scenes import SceneEvent

CHAT_LENGTH: Final = 1_400
PRESENT: Final = ("Ilse", "Tamsin", "Warden Holt")
POINT_OF_VIEW: Final = "Ilse"


class Told(NamedTuple):
    """An event, and the summary of 12 to 32 words that the older layout shows in place of its own."""

    event: SceneEvent
    verbose: str


def _told(verbose: str, terse: str, messages: tuple[int, ...], stars: int, **feelings: str) -> Told:
    names = tuple(feelings) or ("Ilse",)
    event = SceneEvent(
        summary=terse, importance=stars, message_ids=messages, characters_involved=names, emotional_impact=feelings
    )
    return Told(event=event, verbose=verbose)


def _with(told: Told, *, secret: bool = False, witnesses: tuple[str, ...] = ()) -> Told:
    return told._replace(event=told.event.model_copy(update={"is_secret": secret, "witnesses": witnesses}))


STORY: Final = (
    _told(
        "Ilse arrives at the flooded harbour of Marrow late in the evening and rents the last free room from the "
        "innkeeper Tamsin, establishing her as a stranger in town.",
        "Ilse arrived in Marrow and rented the last room from Tamsin.",
        (12, 13), 2, Ilse="weary", Tamsin="curious",
    ),
    _told(
        "While unpacking in the small room, Ilse discovers a sealed letter hidden beneath the floorboards, showing "
        "that someone had stayed there before her and left in a hurry.",
        "Ilse found a sealed letter under the floorboards of her room.",
        (15, 16), 3, Ilse="curious",
    ),
    _with(
        _told(
            "Ilse carefully opens the sealed letter and learns that her missing brother Corin was secretly working for "
            "the harbour guild, a revelation that shakes everything she believed about him.",
            "Ilse read that her missing brother Corin had worked for the guild.",
            (17, 18), 5, Ilse="shaken",
        ),
        secret=True,
    ),
    _told(
        "Tamsin warns Ilse over breakfast that nobody in Marrow speaks openly about the harbour guild, demonstrating "
        "how deeply the whole town fears its masters.",
        "Tamsin warned Ilse not to speak of the harbour guild.",
        (64, 65), 3, Tamsin="afraid", Ilse="wary",
    ),
    _with(
        _told(
            "During the lantern festival on the quay the whole town watches as Warden Holt publicly arrests an old "
            "fisherman for smuggling, showing everybody how much power he holds.",
            "Warden Holt arrested an old fisherman at the lantern festival.",
            (210, 212), 3, **{"Warden Holt": "proud", "Ilse": "angry"},
        ),
        witnesses=("Ilse", "Tamsin", "Warden Holt"),
    ),
    _told(
        "Ilse slips into the jail at night and speaks with the old fisherman, who tells her that he once carried a "
        "message for Corin to the lighthouse.",
        "Ilse learned in jail that the fisherman had carried Corin's message.",
        (222, 223), 4, Ilse="hopeful", Fisherman="grateful",
    ),
    _told(
        "Warden Holt catches Ilse as she leaves the jail, but after a long and tense silence he lets her go with "
        "nothing more than a warning, hinting at a hidden sympathy.",
        "Warden Holt caught Ilse leaving the jail and let her go.",
        (226, 227), 3, **{"Warden Holt": "conflicted", "Ilse": "suspicious"},
    ),
    _told(
        "Ilse spends a long week repairing the roof of the inn together with Tamsin, and over the shared work the two "
        "women slowly begin to trust each other.",
        "Ilse and Tamsin repaired the roof of the inn and became friends.",
        (480, 490), 2, Ilse="content", Tamsin="fond",
    ),
    _told(
        "At the old lighthouse Ilse finds a locked iron chest bearing the initials of her brother, confirming that "
        "Corin had really been there before he disappeared.",
        "Ilse found an iron chest with Corin's initials at the lighthouse.",
        (921, 923), 4, Ilse="excited",
    ),
    _told(
        "Tamsin reluctantly admits to Ilse that she herself had hidden the key to the chest, because Corin had begged "
        "her to keep it away from the guild.",
        "Tamsin admitted that she had hidden the chest's key for Corin.",
        (925, 926), 4, Tamsin="ashamed", Ilse="betrayed",
    ),
    _told(
        "Ilse angrily accuses Tamsin of having lied to her from the very first day and leaves the inn in the middle of "
        "a violent storm, showing how hurt she is.",
        "Ilse accused Tamsin of lying and left the inn during a storm.",
        (928, 930), 3, Ilse="furious", Tamsin="heartbroken",
    ),
    _told(
        "Half frozen after a night on the breakwater, Ilse is found by Warden Holt, who wraps her in his own coat and "
        "brings her to his house.",
        "Warden Holt found Ilse freezing on the breakwater and took her in.",
        (1040, 1043), 3, **{"Warden Holt": "worried", "Ilse": "confused"},
    ),
    _with(
        _told(
            "Beside the fire Warden Holt confesses to Ilse that he was the one who helped Corin to flee from the guild "
            "by ship, risking his own position and life.",
            "Warden Holt confessed that he had helped Corin flee by ship.",
            (1046, 1048), 5, **{"Warden Holt": "relieved", "Ilse": "stunned"},
        ),
        secret=True,
    ),
    _told(
        "Ilse returns to the inn at dawn and forgives Tamsin after hearing how much she had risked for Corin, and the "
        "two of them embrace in tears.",
        "Ilse forgave Tamsin at the inn, and they embraced.",
        (1120, 1124), 3, Ilse="tender", Tamsin="relieved",
    ),
    _told(
        "With the key from Tamsin, Ilse finally opens the iron chest and discovers the guild's secret ledger, which "
        "lists every bribe that was ever paid to the council.",
        "Ilse opened the chest and found the guild's ledger of bribes.",
        (1310, 1312), 5, Ilse="triumphant", Tamsin="afraid",
    ),
    _told(
        "A masked man from the guild breaks into the inn at night and attacks Tamsin with a knife, demonstrating how "
        "far the guild will go to recover its ledger.",
        "A masked guild man attacked Tamsin with a knife at the inn.",
        (1316, 1318), 4, Tamsin="terrified", Ilse="alarmed",
    ),
    _told(
        "Ilse throws herself between the masked attacker and Tamsin and drives him off with a burning lamp, although "
        "the knife cuts deep into her arm.",
        "Ilse drove the attacker off with a lamp and was cut.",
        (1319, 1321), 4, Ilse="determined", Tamsin="grateful",
    ),
    _told(
        "Warden Holt arrives too late to catch the attacker, but he recognises the dropped knife as one that belongs "
        "to the captain of his own guard.",
        "Warden Holt recognised the dropped knife as his own captain's.",
        (1330, 1332), 4, **{"Warden Holt": "dismayed"},
    ),
    _told(
        "Tamsin gently binds the wound on Ilse's arm while the three of them argue about whether the ledger should be "
        "brought before the council or taken out of the town.",
        "Tamsin bound Ilse's wound while they argued about the ledger.",
        (1371, 1374), 2, Tamsin="tender", Ilse="exhausted",
    ),
    _told(
        "Ilse, Tamsin and Warden Holt swear an oath together to read the ledger aloud in the market square at noon, "
        "establishing them as open enemies of the guild.",
        "Ilse, Tamsin and Holt swore to read the ledger aloud at noon.",
        (1390, 1396), 5, **{"Ilse": "resolute", "Tamsin": "brave", "Warden Holt": "resolute"},
    ),
)  # fmt: skip
