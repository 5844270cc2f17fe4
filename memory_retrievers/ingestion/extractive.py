"""Extractive titles and summaries, for ingestion without a language model."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from memory_retrievers.ingestion import cues
from memory_retrievers.models.messages import Message
from memory_retrievers.text import STOP_WORDS, analyze, one_line
from memory_retrievers.text.summaries import rarest, sentences

SUMMARY_LENGTH: Final = 300
"""Characters of a summary: two or three sentences, which an embedder still sees whole."""

TITLE_LENGTH: Final = 60
"""Characters of a title: a headline on one line."""

TITLE_PHRASES: Final = 2
"""One phrase often names half of what a talk was about; three are a list."""

PHRASE_WORDS: Final = 3
"""Longer runs of words are clauses, not names of things."""

READ_LENGTH: Final = 10_000
"""Characters of a message that are read: a pasted file must not keep everybody waiting."""

SPEAKER_LENGTH: Final = 40
"""A longer name of a speaker is cut, to leave room for what was said."""

AFTER_DETERMINER: Final = 2.0
"""A phrase after "the", "my" and the like, or with a capital letter, names a thing: it weighs twice."""

_CHAT = """
hey hi hello bye thanks thank okay ok yeah yes yep wow oh well really also just like know think want need feel feeling
sure great good nice cool awesome amazing glad happy sounds sound look looking looks see get getting got gets go going
goes went make making made makes take taking took let lets thing things something anything everything nothing lot lots
bit much many
way still even ever never always today tomorrow yesterday week last next one two first time new keep try trying tried
please maybe actually anyway say said says saying tell told talk talking come coming came been gonna wanna would could
since back around every another help helps helped love loved hope hear heard absolutely definitely totally haha lol btw
course kind sort pretty quite thought wondering guess forget remember day days year years ago soon later good-bye
"""
_WORDS_OF_CHAT = STOP_WORDS | frozenset(_CHAT.split())
_DETERMINERS = frozenset(
    [
        "a",
        "an",
        "the",
        "my",
        "your",
        "his",
        "her",
        "our",
        "their",
        "this",
        "that",
        "these",
        "those",
        "some",
        "any",
        "new",
    ]
)

_TOKEN = re.compile(r"[^\W_]+(?:[-'’.@/+#_]+[^\W_]+)*[+#]{0,2}|[^\w\s]")
_CLAUSE = re.compile(r"[^，。！？、；：,.!?;:\s「」『』（）()]+")
_UNSPACED = re.compile("[\u3041-\u30ff\u3400-\u9fff]")
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
    """A headline of a few words from the messages: one line, no punctuation at its end, never blank.

    It is made of the phrases that are most frequent here and rarest in ``background``, and never of a speaker's name.

    Args:
        messages: What was said; at least one.
        background: How often each term occurs around; None counts within the messages.

    >>> fallback_title([Message(role="user", content="I forgot the door code. What was the door code?")])
    'Door code, forgot'
    """
    texts = [one_line(message.content) for message in readable(messages)]
    own = term_counts(texts)
    rarity = _rarity(own, own if background is None else background)
    speakers = {word for message in messages for word in message.role.casefold().split()} | {"user", "assistant"}
    phrases = _phrases(texts, rarity, speakers)
    chosen: list[str] = []
    for phrase in sorted(phrases, key=lambda phrase: (-phrases[phrase], phrase)):
        terms = set(analyze(phrase))
        if any(terms & set(analyze(other)) for other in chosen) or len(", ".join([*chosen, phrase])) > TITLE_LENGTH:
            continue
        chosen.append(phrase)
        if len(chosen) == TITLE_PHRASES:
            break
    return _headline(", ".join(chosen)) or _first_words(texts)


def fallback_summary(messages: Sequence[Message], background: Mapping[str, int] | None = None) -> str:
    """The sentences that say most, each with its speaker: one line of at most ``SUMMARY_LENGTH`` characters, not blank.

    Args:
        messages: What was said; at least one.
        background: How often each term occurs around; None counts within the messages.

    >>> fallback_summary([Message(role="user", content="Hello!"), Message(role="assistant", content="Hi there.")])
    'User: Hello! Assistant: Hi there.'
    """
    said = [
        (_speaker(message.role), line)
        for message in readable(messages)
        for line in map(one_line, sentences(message.content))
        if line
    ]
    chosen = [
        said[index] for index in rarest([f"{who}: {what}" for who, what in said], SUMMARY_LENGTH, background=background)
    ]
    turns = (f"{who}: {' '.join(what for _, what in turn)}" for who, turn in groupby(chosen, key=lambda each: each[0]))
    return _cut(" ".join(turns), SUMMARY_LENGTH) or "Nothing that can be shown was said."


def _rarity(own: Mapping[str, int], background: Mapping[str, int]) -> dict[str, float]:
    """Frequent here and rare around: tf-idf."""
    total = sum(background.values())
    return {
        term: math.log1p(number) * math.log1p(total / max(background.get(term, 0), 1)) for term, number in own.items()
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
            if not terms or len(phrase) > TITLE_LENGTH:
                continue
            weight = math.fsum(sorted(rarity.get(term, 0.0) for term in terms)) / math.sqrt(len(terms))
            weight *= AFTER_DETERMINER if names_thing else 1.0
            weights[phrase] = max(weight, weights.get(phrase, 0.0))
    return weights


def _runs_of_words(text: str, speakers: set[str]) -> Iterable[tuple[str, bool]]:
    """Runs of words that say something, without those in between, and whether each looks like the name of a thing."""
    run: list[str] = []
    before, opens = "", True
    named = False
    for token in [*_TOKEN.findall(text), "."]:
        word = token.casefold().replace("’", "'")
        bare = word.removesuffix("'s")
        if word[0].isalnum() and bare not in _WORDS_OF_CHAT and bare not in speakers and "'" not in bare:
            if not run:
                named = before in _DETERMINERS
            named = named or (token[0].isupper() and not opens)
            run.append(token)
        elif run:
            yield from _windows(run, named)
            run = []
        before, opens = word, not word[0].isalnum() and word not in {",", "'", '"'}


def _windows(run: Sequence[str], named: bool) -> Iterable[tuple[str, bool]]:
    """The end of a run is its noun in English, if no participle or adverb; so a long one is cut from the front."""
    end = len(run)
    while end > 1 and run[end - 1].endswith(("ed", "ly")):
        end -= 1
    tail = run[max(0, end - PHRASE_WORDS) : end]
    if any(len(word) > 1 and not word.isdigit() for word in tail):
        yield " ".join(tail), named


def _headline(phrase: str) -> str:
    stripped = phrase.strip(_EDGES)
    return stripped[:1].upper() + stripped[1:]


def _first_words(texts: Sequence[str]) -> str:
    """Headline of the first words said, for messages without any distinctive term."""
    firsts = (_headline(_cut(text.strip(_EDGES), TITLE_LENGTH)) for text in texts)
    return next((first for first in firsts if first), "Conversation")


def _speaker(role: str) -> str:
    name = _cut(one_line(role), SPEAKER_LENGTH)
    return name[:1].upper() + name[1:]


def _cut(text: str, length: int) -> str:
    """At most so long, with ``…`` for what is missing, between words if there is a space in the second half."""
    if len(text) <= length:
        return text
    kept = text[: length - 1]
    space = kept.rfind(" ", length // 2)
    return (kept if space < 0 else kept[:space]).rstrip() + "…"
