"""Duplicate detection: two memories are the same if near in meaning and equal in numbers, negations, names and order.

Embeddings represent the topic of a sentence, but hardly the numbers in it: "the door code is 4711" and "the door code
is 4712" have a cosine of 0.98, "tea over coffee" and "coffee over tea" have 0.99, and so have "moved to Paris" and
"moved from Paris": a word in the place of another may say the reverse. A false positive loses a memory for good, a
false negative costs a line; in doubt, both are kept.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from itertools import combinations
from typing import Final

from memory_retrievers.models.memories import ContentType
from memory_retrievers.settings import IngestionSettings
from memory_retrievers.text.analysis import analyze, without_accents
from memory_retrievers.text.languages import CHANGE_WORDS, COMMON_WORDS, ONE_AT_A_TIME, tells_change

COSINE_TOLERANCE: Final = 1e-6  # the cosine of equal vectors in 32 bits may fall short of 1 by about this much

_APOSTROPHES = re.compile("[\u2019\u2018\u201b\u02bc\u00b4\u0060]")
_CLOSING_QUOTES = "\"'”’»)]}"
_EDGES = ".,;:!?…\"'“”„‘’«»()[]{}<>*_~|、。，；：！？「」『』（）《》"

# Written without spaces, so each character stands alone: a number is found wherever it stands.
_CJK = re.compile("([\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]+)")
_CJK_NEGATION = re.compile(
    "不|没|沒|無|无|未|勿|非|ない|なかっ|なく|なし|ません|않|못|없|아니|(?<![\uac00-\ud7ff])안(?![\uac00-\ud7ff])"
)

_NEGATION_WORDS = """
no not never without cannot none nobody nothing nowhere neither nor
nicht nie niemals ohne ne pas jamais sans nunca jamás sin não nem sem non senza
"""
_NEGATIONS = frozenset(_NEGATION_WORDS.split())
_CONTRACTED_NOT = re.compile(
    r"(?:ai|are|ca|could|did|do|does|had|has|have|is|might|must|need|sha|should|was|were|wo|would)nt|[a-z]+n't"
)
_GERMAN_NO = re.compile("kein(?:e[mnrs]?)?")

_EXCHANGED: Final = 2  # words in a row that may replace others, as "before" and "after"; more are a paraphrase
_ARTICLES: Final = frozenset(["a", "an", "the"])

_STATE_WORDS: Final = """
am is are was were as prefers prefer bin ist sind war als est sont était comme es está son era como
"""
_STATES: Final = frozenset(_STATE_WORDS.split())
"""What somebody is, works as, or prefers, is one after the other: single, then married."""

_USER: Final = (
    "user nutzer nutzerin utilisateur utilisatrice l'utilisateur l'utilisatrice usuario usuaria 用户 用戶 ユーザー"
)
_NO_TOPIC_WORDS: Final = CHANGE_WORDS | (COMMON_WORDS.keys() - {"son", "mia"}) | {*_USER.split()}
_NO_TOPICS: Final = _NO_TOPIC_WORDS.union(analyze(" ".join(sorted(_NO_TOPIC_WORDS))))
"""Words of changes, for the user, and small words of other languages, but for those that are somebody in English."""
_HIRAGANA: Final = re.compile("[\u3041-\u309f]")  # particles and endings
_POSSESSIVE_WORDS: Final = """
my your his her its our their mein meine sein seine ihr ihre mon ma mes son sa ses mi mis su sus
"""
_POSSESSIVES: Final = frozenset(_POSSESSIVE_WORDS.split())

MOST_IN_TURN: Final = (
    3  # more texts that differ in a word or two are a list: "Carol feeds her bees", "… counts her bees"
)
SAME_TALK: Final = 0.6  # share of the shorter one's words in common from which one of two talks may tell the same


def is_duplicate(first: str, second: str, *, cosine: float, settings: IngestionSettings) -> bool:
    """Return True if two texts say the same, given the similarity of their vectors.

    Args:
        first: A text.
        second: Another; their order does not matter.
        cosine: Of their vectors.
        settings: From which cosine on, and whether details are compared too.

    >>> is_duplicate("User lives in Lyon", "The user lives in Lyon", cosine=0.99, settings=IngestionSettings())
    True
    >>> is_duplicate("The code is 4711", "The code is 4712", cosine=0.98, settings=IngestionSettings())
    False
    >>> is_duplicate("Tea over coffee", "Coffee over tea", cosine=0.99, settings=IngestionSettings())
    False
    >>> is_duplicate("Pill before lunch", "Pill after lunch", cosine=0.97, settings=IngestionSettings())
    False
    """
    if cosine < settings.same_cosine - COSINE_TOLERANCE:
        return False
    if not settings.compare_details:
        return True
    one, other = _Compared(first), _Compared(second)
    return one.details == other.details and not _says_otherwise(one, other)


COMPARED_CHARACTERS: Final = 1_000  # longer texts are no single facts, whose words could be compared
COMPARED_TEXTS: Final = 50  # texts of a block that are compared with each other: each takes as long as all before it
_FEW_WORDS: Final = 3  # texts of fewer words, or written without spaces, are compared with all

SAME_FRAME: Final = 0.75  # share of their other words in common from which two texts are about the same thing


def contradicted(text: str, others: Sequence[tuple[str, float]], *, settings: IngestionSettings) -> Iterator[int]:
    """Yield the places of texts that are near to one and differ in a number, a negation, a name, a word or in order.

    One of two such texts may have replaced the other. Near is what has nearly equal vectors, or nearly the same words
    but for those details, "lives in Porto" and "lives in Braga" have a cosine of 0.63, or says of the same in other
    words what may hold one after the other: "is married to Tom" and "is divorced from Tom". These come last.

    Args:
        text: The one text.
        others: The others, with the cosine of their vectors to its own; 0 where it is not known.
        settings: From which cosine on texts are near, and whether details are compared at all.

    >>> others = [("User lives in Braga", 0.0), ("User likes Porto wine", 0.0)]
    >>> list(contradicted("User lives in Porto", others, settings=IngestionSettings()))
    [0]
    """
    if not settings.compare_details or not others:
        return
    one, in_turn = _Compared(text), list[int]()
    for place, (words, cosine) in enumerate(others):
        is_near, other = cosine >= settings.same_cosine - COSINE_TOLERANCE, _Compared(words)
        if one.differs_from(other, is_near=is_near) or (is_near and _says_otherwise(one, other)):
            yield place
        elif len(in_turn) < MOST_IN_TURN and (  # of more of them none is told
            one.is_other_of_kind(other) or (not one.is_far(other) and _may_replace(one, other))
        ):
            in_turn.append(place)
    if len(in_turn) < MOST_IN_TURN:
        yield from in_turn


def contradictory(texts: Sequence[str], *, days: Sequence[Hashable] | None = None) -> list[list[int]]:
    """Group texts that may contradict each other by their words: the positions of each group, of two or more.

    Of longer texts than ``COMPARED_CHARACTERS``, and of what follows the first ``COMPARED_TEXTS``, nothing is compared.
    With the days when each was told, one that tells a change, "User quit smoking", goes with what it has changed; of
    one day they belong together.

    >>> contradictory(["User lives in Porto", "User likes tea", "User lives in Braga"])
    [[0, 2]]
    """
    known = [_Compared(text if len(text) <= COMPARED_CHARACTERS else "") for text in texts[:COMPARED_TEXTS]]
    group_of: dict[int, list[int]] = {}
    sure: set[int] = set()
    for place, one in enumerate(known):
        for earlier, other in enumerate(known[:place] if one.text else ()):
            is_other_of_kind = one.is_other_of_kind(other)
            if not other.text or (not is_other_of_kind and one.is_far(other)):
                continue  # to find out what tells texts apart takes longer
            is_same = one.details == other.details and one.frame == other.frame
            is_sure = _says_otherwise(one, other) if is_same else one.differs_from(other)
            if is_sure or is_other_of_kind or _may_replace(one, other):
                group = group_of.setdefault(earlier, [earlier])
                group.append(place)
                group_of[place] = group
                sure.update(group[:is_sure])
                break
    for places in _in_turn(known):
        if days is not None and days[places[0]] == days[places[1]]:
            continue
        first, second = (group_of.get(place, [place]) for place in places)
        if first is not second and len(first) + len(second) <= MOST_IN_TURN:
            group_of.update(dict.fromkeys((*first, *second), sorted((*first, *second))))
    groups = (group for first, group in sorted(group_of.items()) if group[0] == first)
    return [group for group in groups if len(group) <= MOST_IN_TURN or group[0] in sure]


def _in_turn(texts: Sequence[_Compared]) -> Iterator[tuple[int, int]]:
    """Yield the places of texts of which one tells a change of what the other tells, by a word that few texts have."""
    changes = {place for place, each in enumerate(texts) if tells_change(each.text)}
    if not changes:
        return
    terms = [
        {t for t in each.terms if without_accents(t) not in _NO_TOPICS and not _HIRAGANA.search(t)} for each in texts
    ]
    common = Counter(term for each in terms for term in each)
    few = {term for term, count in common.items() if 1 < count <= MOST_IN_TURN}
    for one, other in combinations(range(len(texts)), 2):
        if (one in changes or other in changes) and not few.isdisjoint(shared := terms[one] & terms[other]):
            words = texts[one].words, texts[other].words
            subject = words[0][: min(_alike(*words), 1 if texts[one].text.isascii() else 3)]
            if not few.isdisjoint(shared.difference(analyze("".join(subject)))):  # who it is about is no topic
                yield one, other


def said_again(talks: Sequence[str]) -> list[int]:
    """Positions of the talks of which a later one tells the same, as of a question that is asked again, and its answer.

    A later one has every number, name and negation, and of the other words :data:`SAME_TALK` of the shorter one's; the
    same words in another order may say the reverse.

    >>> said_again(["Where do I live? In Lyon.", "I moved to Nice.", "Tell me, where do I live? You live in Lyon."])
    [0]
    """
    terms = [frozenset(analyze(talk) if len(talk) <= COMPARED_CHARACTERS else ()) for talk in talks]

    def tells(later: int, earlier: int) -> bool:
        fewest = min(len(terms[later]), len(terms[earlier]))
        if not fewest or len(terms[later] & terms[earlier]) < SAME_TALK * fewest:
            return False
        if terms[later] == terms[earlier] and _says_otherwise(_Compared(talks[later]), _Compared(talks[earlier])):
            return False
        return discriminating_tokens(talks[earlier]).keys() <= discriminating_tokens(talks[later]).keys()

    places = range(len(talks))
    return [place for place in places if any(tells(later, place) for later in places[place + 1 :])]


class _Compared:
    """A text, taken apart once: its words, what tells it from similar ones, and its other terms."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def kind(self) -> tuple[str, str | None] | None:  # who has which of what somebody has one at a time
        found = ONE_AT_A_TIME.match(self.text)
        return found and (found["who"].casefold(), found.lastgroup)

    @cached_property
    def which(self) -> frozenset[str]:
        found = ONE_AT_A_TIME.match(self.text)
        return frozenset(_words_of(self.text[found.end() :])) if found else frozenset()

    @cached_property
    def words(self) -> list[str]:
        return _words_of(self.text)

    @cached_property
    def spaced(self) -> frozenset[str]:
        return frozenset(self.text.split())

    @cached_property
    def terms(self) -> frozenset[str]:
        return frozenset(analyze(self.text))

    @cached_property
    def details(self) -> dict[str, int]:
        return dict(discriminating_tokens(self.text))  # two dictionaries are compared faster than two counters

    @cached_property
    def frame(self) -> frozenset[str]:
        return self.terms.difference(analyze(" ".join(self.details))) if self.details else self.terms

    def is_other_of_kind(self, other: _Compared) -> bool:
        """True if both tell of one kind, and neither has all words of the other, which were the same place in full."""
        if self.kind is None or self.kind != other.kind:
            return False
        return not (self.which <= other.which or self.which >= other.which)

    def is_far(self, other: _Compared) -> bool:
        """True if they have so few words in common that they are certainly not about the same."""
        fewest = min(len(self.spaced), len(other.spaced))
        return fewest >= _FEW_WORDS and 2 * len(self.spaced & other.spaced) < fewest

    def differs_from(self, other: _Compared, *, is_near: bool = False) -> bool:
        """True if the details differ, and the texts are near, or have nearly the same other words."""
        if self.details == other.details:
            return False
        shared, all_words = len(self.frame & other.frame), len(self.frame | other.frame)
        return is_near or (shared > 0 and shared >= SAME_FRAME * all_words)


def normalised(text: str, content_type: ContentType = ContentType.TEXT) -> str:
    """Return what equal facts have in common: the text without differences in spaces, first letter and full stop.

    Anything but plain text counts as it is, for there spaces may matter.

    >>> normalised("  the user lives  in Lyon. ")
    'The user lives in Lyon'
    """
    if content_type is not ContentType.TEXT:
        return text
    words = " ".join(unicodedata.normalize("NFC", _APOSTROPHES.sub("'", text)).split())
    bare = words.rstrip(".!。 ") or words
    return bare[:1].upper() + bare[1:]


def text_hash(text: str, content_type: ContentType = ContentType.TEXT) -> int:
    """Return a number of 64 bits, with a sign, that texts have in common if they are equal when normalised."""
    said = normalised(text, content_type).encode()
    return int.from_bytes(hashlib.blake2b(said, digest_size=8).digest(), signed=True)


def discriminating_tokens(text: str) -> Counter[str]:
    """Return the tokens that distinguish similar texts: with a digit, negations, and capitalised within a sentence.

    Spellings of one negation count as one.

    >>> sorted(discriminating_tokens("Anna doesn't meet Bob at 3 pm.").elements())
    ['3', 'bob', 'not']
    """
    plain = text.replace("`", "'") if text.isascii() else unicodedata.normalize("NFKC", _APOSTROPHES.sub("'", text))
    is_ascii = plain.isascii()
    found = Counter(() if is_ascii else _CJK_NEGATION.findall(plain))
    opens_sentence = True
    for token in plain.split() if is_ascii else _tokens(plain):
        word = token.strip(_EDGES)
        if not word:
            continue
        folded = word.casefold()
        if not (is_ascii and word.isalpha()) and any(map(str.isnumeric, word)):
            found[folded] += 1
        elif negation := _negation(folded):
            found[negation] += 1
        elif not opens_sentence and any(map(str.isupper, word)):
            found[folded] += 1
        opens_sentence = token != word and _ends_sentence(token, word)
    return found


def _says_otherwise(first: _Compared, second: _Compared) -> bool:
    """True if one text has a word or two where the other has others, or has the same ones in another order."""
    words = first.words, second.words
    once = [{word for word, count in Counter(each).items() if count == 1} for each in words]
    shared = once[0] & once[1]
    ordered = [[word for word in each if word in shared] for each in words]
    if ordered[0] != ordered[1]:
        return True
    _, one, other, _ = _exchanged(*words)
    if not one or any(map(_negation, (*one, *other))):
        return False  # negations are compared as details, however they are spelled
    stems, other_stems = analyze(" ".join(one)), analyze(" ".join(other))
    return stems != other_stems or (not stems and one != other)


def _may_replace(first: _Compared, second: _Compared) -> bool:
    """True if two texts say of the same thing what may hold one after the other: "is married to", "is divorced from".

    A word or two stand in the place of others between the same words, or behind "is". What belongs to somebody is
    another thing, "her mother" and "her father", and so is what has another name, such as two files.
    """
    words = first.words
    before, one, other, behind = _exchanged(words, second.words)
    if not (before and one and (behind or words[before - 1] in _STATES)):
        return False
    owner = words[before - 1]
    if owner in _POSSESSIVES or owner.endswith("'s") or not all(map(str.isalpha, (*one, *other))):
        return False
    return analyze(" ".join(one)) != analyze(" ".join(other)) and first.details == second.details


def _exchanged(one: list[str], other: list[str]) -> tuple[int, list[str], list[str], int]:
    """The one or two words that stand in the place of others, if they do, between how many that both texts have."""
    before = _alike(one, other)
    rest = one[before:], other[before:]
    behind = _alike(rest[0][::-1], rest[1][::-1])
    first, second = (each[: len(each) - behind] for each in rest)
    if not (0 < len(first) <= _EXCHANGED and 0 < len(second) <= _EXCHANGED):
        return before, [], [], behind
    return before, first, second, behind


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    alike = 0
    for word, another in zip(one, other, strict=False):
        if word != another:
            break
        alike += 1
    return alike


def _words_of(text: str) -> list[str]:
    """The words of a text without articles, in small letters and without what stands at their edges."""
    if text.isascii():
        tokens = iter(text.replace("`", "'").lower().split())
    else:
        tokens = _tokens(unicodedata.normalize("NFKC", _APOSTROPHES.sub("'", text)).casefold())
    return [word for token in tokens if (word := token.strip(_EDGES)) and word not in _ARTICLES]


def _tokens(text: str) -> Iterator[str]:
    """Split at spaces; Chinese, Japanese and Korean character by character."""
    for chunk in text.split():
        for piece in _CJK.split(chunk):
            yield from piece if _CJK.match(piece) else [piece]


def _negation(word: str) -> str | None:
    if word == "cannot" or (word.endswith(("nt", "n't")) and _CONTRACTED_NOT.fullmatch(word)):
        return "not"
    return word if word in _NEGATIONS or (word.startswith("kein") and _GERMAN_NO.fullmatch(word)) else None


def _ends_sentence(token: str, word: str) -> bool:
    bare = token.rstrip(_CLOSING_QUOTES)
    if bare.endswith((".", "!", "?", "…", "。")):
        return not (bare.endswith(".") and len(word) <= 3 and word[:1].isupper())  # noqa: PLR2004 - "Dr." and the like
    return False
