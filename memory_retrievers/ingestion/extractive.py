"""Extractive titles and summaries, for ingestion without a language model."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from memory_retrievers.ingestion import cues
from memory_retrievers.ingestion.corrections import CLAUSE_END, WORDS_OF_CHAT, Sentence, needed_with, settled_last
from memory_retrievers.models import SummaryBy
from memory_retrievers.models.messages import Message, is_of_user
from memory_retrievers.text.analysis import STOP_WORDS, UNMARKED, analyze, one_line
from memory_retrievers.text.languages import language_of
from memory_retrievers.text.periods import NUMBERS, PERIOD_WORDS, plain
from memory_retrievers.text.summaries import ITEM, sentences

SUMMARY_LENGTH: Final = 300  # characters of a summary: two or three sentences, which an embedder still sees whole
TITLE_LENGTH: Final = 60  # characters of a title: a headline on one line
EARLIER: Final = " Earlier: "  # between what was settled last and what was said before it

END_SHARE: Final = 0.3  # share of a summary for what was settled last, unless its last sentence alone is longer
FREQUENCY_IN_SUMMARIES: Final = 0.5
"""Power of the logarithm of how often a word is said: 0 keeps what is rare, 1 what is said over and over."""
LENGTH_EXPONENT: Final = 0.75
"""How much its length counts against a sentence of a summary: at 1 scraps win, at 0 the longest. Chosen by how many
questions find a conversation by its summary."""
PHRASE_WORDS: Final = 3  # longer runs of words are clauses, not names of things
READ_LENGTH: Final = 10_000  # characters of a message that are read: a pasted file must not keep everybody waiting
READ_SENTENCES: Final = 30  # sentences of a message that are read, from both ends: each may take back those before it
SPEAKER_LENGTH: Final = 40  # a longer name of a speaker is cut, to leave room for what was said
AFTER_DETERMINER: Final = 2.0  # weight of a phrase that names a thing: after "the" or "my", or with a capital letter

_BEFORE_NOUNS = "a an the my your his her our their this that these those some any new"
_DETERMINERS: Final = frozenset(_BEFORE_NOUNS.split())

_BEFORE_VERBS = """
i we you he she they it who to let's i'll we'll you'll he'll she'll they'll i'd we'd i've we've nobody somebody someone
everybody everyone anyone must may might shall can could will would should please not can't don't won't didn't couldn't
did do does im ive hes shes theyre thats theres dont cant didnt wont
"""
_SUBJECTS: Final = frozenset(_BEFORE_VERBS.split())  # words that a verb follows

_TO_BE = "am is are was were be been being i'm you're he's she's it's we're they're that's"
_BEING: Final = frozenset(_TO_BE.split())  # words that tell how something is, where no determiner follows

_VERBS = "am is are was were has have had do does did will would can could should must may"
_FINITE: Final = frozenset(_VERBS.split())  # words before which a plural is a noun, since they are the verb

_FUNCTION_WORDS = """
within without among upon onto toward towards although though whether alone alive somewhere anywhere everywhere nowhere
"""
_BETWEEN_PHRASES: Final = _SUBJECTS | frozenset(_FUNCTION_WORDS.split())
"""Further words that are no part of what names a thing."""

_CONJUNCTIONS = "and but or so because when while if that since as than then"
_CLAUSE_OPENS: Final = frozenset(_CONJUNCTIONS.split())
"""Words after which a clause begins anew, most often with its subject."""

_BEFORE_HOURS: Final = frozenset(("at", "um"))  # "Monday at 3 Ana comes" is of no "3 Ana"
_HOURS = "at on by to am pm st nd rd th h end now a le um uhr bis und jetzt maintenant"
_BESIDE_DATES: Final = frozenset(_HOURS.split())  # with days "samedi à 11h", which says little without its clause
_OPENING = re.compile(r"(?i)\A(?:(?:and|but|also|ok|okay|yes|yeah|yep|ja|und|aber)\b[ ,]{1,3}){1,3}(?=\S{1,40} )")
"""What leads to a clause and is no part of what it says; not all but its last word."""

_NOTS = "|".join(each for each in UNMARKED if each.endswith("nt"))  # "dont" and the like
_DENIED = re.compile(
    rf"\b(?:no|not|never|hardly|nothing|nobody|\w+n['’]t|{_NOTS}|cannot|nicht|nie|kein\w*|pas|jamais)\b", re.IGNORECASE
)
_TOKEN = re.compile(
    r"\b(?:Dr|Prof|Mr|Mrs|Ms|Mme|St|Fr|Hr)\.(?= [A-Z])|[^\W_]+(?:[-'’.@/+#_]+[^\W_]+)*[+#]{0,2}|[^\w\s]"
)
_CLAUSE = re.compile(r"[^，。！？、；：,.!?;:\s「」『』（）()]+")
_SPELLED = re.compile(r"\S*(?:\w_\w|\S@\w|\w\w\.[a-z]\w|/\w+\.\w|[a-z][A-Z])")  # "iPhone", "src/main.py": not "IPhone"
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff]")
_MAIL = r"[ \t]*(?:From|To|Cc|Sent|Date|Reply-To|Von|An|Gesendet|Datum|De|À|Para|Fecha)[ \t]*:[^\n]*\n"
_PASTED = re.compile(  # code, lines that are quoted, and of a mail all but its subject and its text
    rf"(?ims)^[ \t]*```(?!te?xt\b|md\b|markdown\b)\w[^`\n]*\n.*?(?:```|\Z)|^[ \t]*>[^\n]*$"
    rf"|^(?:{_MAIL}){{1,9}}[ \t]*(?:Subject|Betreff|Objet|Asunto)[ \t]*:(?P<subject>[^\n]*)\n(?:{_MAIL}){{,9}}"
    r"|^(?:Dear|Sehr geehrte\w*|Liebe[rs]?|Chère?)(?: [\w.'’-]{1,20}){1,4}[,!]$"
    r"|^(?:(?:kind|best) regards|(?:Mit )?(?:freundliche|viele|liebe)\w* Grü(?:ß|ss)en?|Cordialement)\W*"
    r"(?:[\w.'’-]{1,20} ?){0,3}$"
)
_EDGES = " \t.,;:!?。，！？、；：…-–—'\"“”‘’「」()（）*_#`"


def readable(messages: Sequence[Message]) -> list[Message]:
    """The messages, each without what is beyond ``READ_LENGTH``."""
    return [
        message.model_copy(update={"content": message.content.strip()[:READ_LENGTH]})
        if len(message.content) > READ_LENGTH
        else message
        for message in messages
    ]


def term_counts(texts: Iterable[str]) -> Counter[str]:
    """Count the occurrences of each term: the background that rarity is measured against."""
    return Counter(term for text in texts for term in analyze(text))


def fallback_title(messages: Sequence[Message], background: Mapping[str, int] | None = None) -> str:
    """A headline: a phrase in the words of who is not the assistant, on one line without punctuation at its end.

    It is the phrase most frequent here and rarest in ``background``, never a speaker's name, and of no sentence that a
    later one may take back. A word alone, an hour, and what is denied, comes with its clause. Without any it is the
    first words, a question that a few words answered, or empty. Without a background terms are those of the messages.

    >>> fallback_title([Message(role="user", content="I forgot the door code. What was the door code?")])
    'Door code'
    """
    said = _sentences(messages)
    needed = needed_with(said)
    own = [place for place, each in enumerate(said) if is_of_user(messages[each.message].role)]
    texts = [said[place].standing for place in own if not needed[place]]
    counts = term_counts(one_line(message.content) for message in readable(messages))
    rarity = _rarity(counts, counts if background is None else background)
    speakers = {word for message in messages for word in message.role.casefold().split()} | {"user", "assistant"}
    phrases = _phrases(texts, rarity, speakers)
    undone = frozenset[str]().union(*(sentence.terms for place, sentence in enumerate(said) if needed[place]))
    best = max(phrases, key=lambda phrase: (phrases[phrase], undone.isdisjoint(analyze(phrase))), default="")
    clause = _clause_with(best, texts)
    needs_clause = not _is_phrase(best) or _DENIED.search(clause) or _is_date(best, _BESIDE_DATES)
    words = (word.strip(_EDGES) for text in texts for word in text.casefold().split())
    is_foreign = language_of(words, english=STOP_WORDS) is not None  # of which the rules for phrases know nothing
    title = _headline(clause if clause and (needs_clause or is_foreign) else best)
    if not texts:  # what nobody takes back is what is still said in the end
        left = frozenset[str]().union(*(sentence.terms for place, sentence in enumerate(said) if not needed[place]))
        texts = [_run_within(said[place].text, left) for place in own]
    asked = [
        said[place] for place in own if said[place].asks and not any(said[each].corrects for each in needed[place])
    ]
    openings = (_OPENING.sub("", text.strip(_EDGES)) for text in (*texts, *(each.text for each in asked)))
    firsts = (_headline(_cut(text, TITLE_LENGTH)) for text in openings)
    return next(filter(_is_phrase, (title, *firsts)), "")


def fallback_summary(messages: Sequence[Message], background: Mapping[str, int] | None = None) -> str:
    """What was settled last, then the sentences that say most: one line of at most ``SUMMARY_LENGTH``, not blank.

    A sentence that a later one may take back is shown with that one or not at all; where the end settles nothing that
    was said before, all are shown in order. The arguments are those of :func:`fallback_title`.

    >>> fallback_summary([Message(role="user", content="Hello!"), Message(role="assistant", content="Hi there.")])
    'User: Hello! Assistant: Hi there.'
    >>> print(fallback_summary([
    ...     Message(role="user", content="Ask Marta to feed the cat."),
    ...     Message(role="user", content="She can't, I'll ask Pavel."),
    ... ]))
    User: She can't, I'll ask Pavel. Earlier: User: Ask Marta to feed the cat.
    """
    said = _sentences(messages)
    needed = needed_with(said)
    settled = settled_last(said)
    first = sorted({*settled}.union(*(needed[place] for place in settled)))
    while len(first) > 1 and len(_joined(said, first)) > SUMMARY_LENGTH * END_SHARE:
        first.pop(0)  # the very last stays in any case
    end = _joined(said, first)
    room = SUMMARY_LENGTH - len(end) - len(EARLIER)
    rest = _joined(said, _rest(said, first, needed, room=room, background=background))
    if not end or not rest:
        return _cut(end or rest, SUMMARY_LENGTH) or "Nothing that can be shown was said."
    return f"{end}{EARLIER}{rest}"


def retold(messages: Sequence[Message]) -> dict[str, object]:
    """Title and summary by rules, as fields of an episode."""
    return {"title": fallback_title(messages), "summary": fallback_summary(messages), "summary_by": SummaryBy.RULES}


def _sentences(messages: Sequence[Message]) -> list[Sentence]:
    return [
        Sentence(name[:1].upper() + name[1:], text, number, mark=line.removesuffix(text))
        for number, message in enumerate(readable(messages))
        for name in [_cut(one_line(message.role), SPEAKER_LENGTH)]
        for left in [_PASTED.sub("\\g<subject>\n", message.content).strip() or message.content]
        for line in _read([line for line in map(one_line, sentences(left)) if line])
        for text in [ITEM.sub("", line)]
    ]


def _read(lines: list[str]) -> list[str]:
    """Both ends of what was said, and of what is between what may take the beginning back, in place of that."""
    parts = (CLAUSE_END.split(line) if len(line) > SUMMARY_LENGTH else [line] for line in lines)
    lines = [part for each in parts for part in each if part]
    half = READ_SENTENCES // 2
    if len(lines) <= READ_SENTENCES:
        return lines
    between = ((line, Sentence("", ITEM.sub("", line), 0)) for line in lines[half:-half])
    kept = [line for line, each in between if each.takes_back or each.corrects or each.preferred][-half:]
    return [*lines[: half - len(kept)], *kept, *lines[-half:]]


def _rest(
    said: Sequence[Sentence],
    shown: Sequence[int],
    needed: Sequence[frozenset[int]],
    *,
    room: int,
    background: Mapping[str, int] | None,
) -> list[int]:
    """Choose further sentences, each with those that it needs, by how much they add that is rare around."""
    lines = [f"{sentence.speaker}: {sentence.text}" for sentence in said]
    terms = [frozenset(analyze(line)) for line in lines]
    own = term_counts(lines)
    weights = _rarity(own, own if background is None else background, frequency=FREQUENCY_IN_SUMMARIES)
    left = {place: {place, *needed[place]} - {*shown} for place in range(max(shown, default=len(said)))}
    covered = frozenset[str]().union(*(terms[place] for place in shown))
    chosen: set[int] = set()

    def gain(place: int) -> tuple[float, int]:
        group = left[place] - chosen
        new = frozenset[str]().union(*(terms[each] for each in group)) - covered
        length = sum(len(lines[each]) + 1 for each in group)
        return math.fsum(sorted(weights[term] for term in new)) / max(length, 1) ** LENGTH_EXPONENT, -place

    text = ""
    while left := {
        place: group
        for place, group in left.items()
        if len(text) + sum(len(said[each].text) + 1 for each in group - chosen) <= room + 1
    }:
        best = max(left, key=gain)
        if chosen and gain(best)[0] == 0:
            break
        group = left.pop(best)
        longer = _joined(said, sorted(chosen | group))
        if len(longer) <= room:
            text, chosen = longer, chosen | group
            covered |= frozenset[str]().union(*(terms[each] for each in group))
    if chosen or shown:
        return sorted(chosen)
    alone = [place for place, later in enumerate(needed) if not later]  # each of which is too long, and will be cut
    own = term_counts(lines[place] for place in alone)
    rarity = _rarity(own, own if background is None else background, frequency=0.0)
    sums = {place: math.fsum(rarity[term] for term in terms[place]) for place in alone}
    return sorted(alone, key=lambda place: -sums[place] / (len(lines[place]) + 1) ** LENGTH_EXPONENT)[:1]


def _joined(said: Sequence[Sentence], places: Sequence[int]) -> str:
    """The sentences of these positions, each speaker named once in a row."""
    turns = groupby((said[place] for place in places), key=lambda sentence: sentence.speaker)
    return " ".join(f"{who}: {' '.join(sentence.mark + sentence.text for sentence in turn)}" for who, turn in turns)


def _rarity(own: Mapping[str, int], background: Mapping[str, int], *, frequency: float = 1.0) -> dict[str, float]:
    """Weigh terms that are frequent here and rare around, by tf-idf; ``frequency`` says how much the first counts."""
    total = sum(background.values())
    return {
        term: math.log1p(number) ** frequency * math.log1p(total / max(background.get(term, 0), 1))
        for term, number in own.items()
    }


def _phrases(texts: Sequence[str], rarity: Mapping[str, float], speakers: set[str]) -> dict[str, float]:
    """Phrases that may name a thing, with their weights."""
    weights: dict[str, float] = {}
    for text in texts:
        if _UNSPACED.search(text):
            clauses = (clause for clause in _CLAUSE.findall(text) if _UNSPACED.search(clause))
            runs = [(clause, False) for clause in clauses if not cues.GREETING.search(clause)]
        else:
            runs = list(_runs_of_words(text, speakers))
        for phrase, names_thing in runs:
            terms = set(analyze(phrase))
            if not terms or len(phrase) > TITLE_LENGTH or _is_date(phrase, frozenset(NUMBERS)):
                continue
            weight = math.fsum(sorted(rarity.get(term, 0.0) for term in terms)) / math.sqrt(len(terms))
            weight *= AFTER_DETERMINER if names_thing else 1.0
            weights[phrase] = max(weight, weights.get(phrase, 0.0))
    return weights


def _runs_of_words(text: str, speakers: set[str]) -> Iterable[tuple[str, bool]]:
    """Runs of words that say something, without those in between, and whether each looks like the name of a thing."""
    run: list[str] = []
    before, opens, is_subject = "", True, True
    named = follows_verb = False
    for token in [*_TOKEN.findall(text), "."]:
        word = token.casefold().replace("’", "'")
        bare = word.removesuffix("'s")
        is_word = word[0].isalnum() and not (before in _BEFORE_HOURS and word.isdecimal())
        if is_word and not {bare, word} & (WORDS_OF_CHAT | _BETWEEN_PHRASES | speakers) and "'" not in bare:
            if not run:
                named = before in _DETERMINERS
                follows_verb = before in _SUBJECTS or before in _BEING
            named = named or (token[0].isupper() and not opens)
            run.append(token)
        else:
            if run:
                phrase = _noun_phrase(run, named, follows_verb=follows_verb, is_subject=is_subject, behind=word)
                yield from _windows(phrase, named)
                is_subject = False
            if not is_word or word in _CLAUSE_OPENS:
                is_subject = True
            elif word not in _DETERMINERS:
                is_subject = False
            run = []
        before, opens = word, not (is_word or word.isdecimal()) and word not in {",", "'", '"'}


def _noun_phrase(
    run: Sequence[str], named: bool, *, follows_verb: bool, is_subject: bool, behind: str
) -> Sequence[str]:
    """Leave out the verb before a noun, or the one behind it: rules that know only where a word stands, and its end."""
    first = 0
    if follows_verb:
        is_name = run[0][0].isupper()  # as in "it is Pavel"
        first = 0 if is_name else 1 + (run[0].endswith("ly") and len(run) > 1)
    elif not named and run[0].casefold().endswith(("ed", "ing")):
        first = 1
    kept = run[first:]
    if behind in _FINITE or not (is_subject or behind[0].isalnum()):
        return kept
    for place in range(1, len(kept)):
        before, word = kept[place - 1], kept[place]
        is_verb = word[0].islower() and word.endswith(("s", "ed")) and not word.endswith(("ss", "us", "is", "'s", "’s"))
        goes_on = place + 1 < len(kept) or behind[0].isalnum()
        if is_verb and ((is_subject and named) or (goes_on and (is_subject or before[0].isupper()))):
            return kept[:place]
    return kept


def _windows(run: Sequence[str], named: bool) -> Iterable[tuple[str, bool]]:
    """The end of a run is its noun in English, if no participle or adverb; so a long one is cut from the front."""
    end = len(run)
    while end > 1 and run[end - 1].endswith(("ed", "ly")):
        end -= 1
    start = max(0, end - PHRASE_WORDS)
    # "called Bertha" names nothing
    while 0 < start < end - 1 and run[start][0].islower() and run[start].endswith(("ed", "ing")):
        start += 1
    tail = run[start:end]
    if any(len(word) > 1 and not word.isdigit() for word in tail):
        yield " ".join(tail), named


def _is_date(phrase: str, beside: frozenset[str] = frozenset()) -> bool:
    """True if it names nothing but days, months and numbers: "12 March"; and what may be beside them."""
    return all(word in PERIOD_WORDS | beside for word in re.findall(r"[^\W\d_]+", plain(phrase)))


def _headline(phrase: str) -> str:
    stripped = phrase.strip(_EDGES)
    return stripped if _SPELLED.match(stripped) else stripped[:1].upper() + stripped[1:]


def _is_phrase(text: str) -> bool:
    """True if it has several words, or is of a language without spaces between them."""
    return " " in text or bool(_UNSPACED.search(text))


def _clause_with(word: str, texts: Sequence[str]) -> str:
    """The first clause of several words that a word or phrase stands in, as a headline has room for it."""
    clauses = [_OPENING.sub("", clause.strip(_EDGES)) for text in texts for clause in CLAUSE_END.split(text)]
    found = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)").search
    return next((_cut(each, TITLE_LENGTH) for each in clauses if word and _is_phrase(each) and found(each)), "")


def _run_within(text: str, terms: frozenset[str]) -> str:
    """The longest run of words that have no other terms."""
    runs = groupby(text.split(), key=lambda word: {*analyze(word)} <= terms)
    return max((" ".join(run) for within, run in runs if within), key=lambda run: len(analyze(run)), default="")


def _cut(text: str, length: int) -> str:
    """At most so long, with ``…`` for what is missing, between words if there is a space in the second half."""
    if len(text) <= length:
        return text
    kept = text[: length - 1]
    space = kept.rfind(" ", length // 2)
    return (kept if space < 0 else kept[:space]).rstrip() + "…"
