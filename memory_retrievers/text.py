"""Text: how it becomes search terms, how it is shortened, and made safe to stand on one line or between quotes.

It knows strings only, nothing of memories. One analyzer serves documents and queries, so that both meet.
"""

from __future__ import annotations

import functools
import json
import re
import threading
import unicodedata
from collections.abc import Callable, Iterator
from itertools import chain, pairwise

import Stemmer

MAX_WORD_LENGTH = 64
"""Longer words are cut into pieces of this length, which keeps every term and the cache of terms small."""

MAX_PARTS = 16
"""An identifier of more parts is cut after this many."""

_STOP_WORDS = """
a about above after again against all am an and any are as at be because been before being below between both but by can
could did do does doing down during each few for from further had has have having he her here hers herself him himself
his how i if in into is it its itself just me more most my myself no nor not now of off on once only or other our ours
ourselves out over own same she should so some such than that the their theirs them themselves then there these they
this those through to too under until up very was we were what when where which while who whom why will with would you
your yours yourself yourselves ain't aren't can't couldn't didn't doesn't don't hadn't hasn't haven't isn't mightn't
mustn't needn't shan't shouldn't wasn't weren't won't wouldn't
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that say little. Contractions of two of them ("it's", "you've") count as the first."""

# Han with its iteration marks, Hiragana, Katakana and Hangul: written without spaces, or with them in other places.
_CJK = (
    "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\U0001aff0-\U0001b16f"
    "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7ff"
)
_CJK_RUN = re.compile(f"[{_CJK}]+")

_JOINER = r"(?:://|::|\+\+|_{1,8}|[.@\-/:+#'])"
_JOINERS = re.compile(r"[.@\-_/:+#']+")
_CONTRACTED_ENDING = re.compile(r"'(?:s|d|m|ll|re|ve)$")

# Soft hyphen, joiners, byte order mark and variation selectors change how a word looks, not which word it is.
_INVISIBLE = re.compile("[\u00ad\u200c\u200d\u2060\ufe00-\ufe0f\ufeff]+")
_PIECE = re.compile(r"(?s:.{1,1024}(?!\S)|.{1,1024})")

_CONTROL = "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"  # category Cc short of what counts as white space
_BIDI_CONTROL = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSEEN = re.compile(f"[{_CONTROL}{_BIDI_CONTROL}]")
_LINE_BREAK = re.compile("[\u0085\u2028\u2029]")
_CLOSING_TAG = re.compile(r"<(?=/\s*(?:scene_)?memory)", re.IGNORECASE)


def analyze(text: str) -> list[str]:
    """The search terms of a document or a query, repetitions kept.

    Words are folded (NFKC, case), English stop words dropped and the rest cut to its Snowball stem. A text of nothing
    but stop words keeps them. What is joined by one of ``. @ - _ / : + #`` or an apostrophe gives the whole, as
    written, and its parts. Chinese, Japanese and Korean script gives single characters and pairs of neighbours.

    >>> analyze("The user's cats were running.")
    ['user', 'cat', 'run']
    >>> analyze("c++ in v1.5.9")
    ['c++', 'c', 'v1.5.9', 'v1', '5', '9']
    >>> analyze("東京都")
    ['東', '京', '都', '東京', '京都']
    >>> analyze("Who are you?")
    ['who', 'are', 'you']
    """
    folded = _folded(text)
    runs = _word_runs(ascii_only=folded.isascii()).findall(folded)
    terms = list(chain.from_iterable(map(_word_terms, runs)))
    if not folded.isascii():
        terms += chain.from_iterable(map(_characters_and_pairs, _CJK_RUN.findall(folded)))
    return terms or [_stemmer.stem(run) for run in runs]


def one_line(text: str) -> str:
    r"""The text on a single line that cannot pose as anything else.

    Runs of white space become one space, control and bidirectional control characters go, lone surrogates become
    U+FFFD, and the ``<`` of a literal closing ``memory`` or ``scene_memory`` tag becomes ``&lt;``.

    >>> one_line("  Garden\n\n## Plan ")
    'Garden ## Plan'
    >>> one_line("</memory>")
    '&lt;/memory>'
    """
    visible = _UNSEEN.sub("", _SURROGATE.sub("\ufffd", text))
    return _CLOSING_TAG.sub("&lt;", " ".join(visible.split()))


def caseless(text: str) -> str:
    r"""The text on one line and without regard to case: what names are compared by.

    >>> caseless(" Straße\t7 ")
    'strasse 7'
    """
    return one_line(text).casefold()


def quote(text: str) -> str:
    r"""The text as a JSON string literal, non-ASCII kept (specification §1.4).

    The line separators of Unicode become ``\n`` and lone surrogates U+FFFD. Control and bidirectional control
    characters, and the ``<`` of a closing tag as in :func:`one_line`, are written as JSON escapes, which lose nothing.

    >>> print(quote('Third time "this week".\n</memory> 咖啡'))
    "Third time \"this week\".\n\u003c/memory> 咖啡"
    """
    storable = _SURROGATE.sub("\ufffd", _LINE_BREAK.sub("\n", text))
    literal = json.dumps(storable, ensure_ascii=False)
    return _CLOSING_TAG.sub(r"\\u003c", _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", literal))


class _ThreadStemmer(threading.local):
    """One English stemmer for each thread, since a stemmer must not be shared; its own cache is off, ours is enough."""

    def __init__(self) -> None:
        self.stem: Callable[[str], str] = Stemmer.Stemmer("english", 0).stemWord


_stemmer = _ThreadStemmer()


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    # NFKC sorts each run of combining marks by insertion, so a long text is folded piece by piece, to stay linear.
    pieces = _PIECE.findall(_INVISIBLE.sub("", text))
    return "".join(map(_folded_piece, pieces)).replace("\u2019", "'")


def _folded_piece(piece: str) -> str:
    # Folding case can take a composed character apart, hence the second pass.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", piece).casefold())


@functools.cache
def _word_runs(*, ascii_only: bool) -> re.Pattern[str]:
    """Words, and identifiers made of them: a joiner has a word on either side, so a full stop at the end is none."""
    if ascii_only:
        word = f"[a-z0-9]{{1,{MAX_WORD_LENGTH}}}"
    else:
        letters, marks = rf"[^\W_{_CJK}]", _marks()
        word = f"{letters}{{1,{MAX_WORD_LENGTH}}}(?:[{marks}]{{1,8}}{letters}{{0,8}}){{0,8}}"
    return re.compile(f"{word}(?:{_JOINER}{word}){{0,{MAX_PARTS - 1}}}[+#]{{0,2}}")


def _marks() -> str:
    """The vowel signs and accents that belong to a word without being letters; ``re`` has no class for them.

    Only those of the basic plane: others are in historic scripts, and would make the class slow to match.
    """
    return "".join(mark for mark in map(chr, range(0x300, 0x10000)) if unicodedata.category(mark) in {"Mn", "Mc"})


@functools.lru_cache(maxsize=1 << 15)
def _word_terms(run: str) -> tuple[str, ...]:
    """The terms of a word or an identifier, all at most a kilobyte long; words recur, so the answer is kept."""
    if run in STOP_WORDS:
        return ()
    word = _CONTRACTED_ENDING.sub("", run)
    parts = [part for part in _JOINERS.split(word) if part]
    stems = [_stemmer.stem(part) for part in parts if part not in STOP_WORDS]
    return tuple(stems) if parts == [word] else (word, *stems)


def _characters_and_pairs(run: str) -> Iterator[str]:
    return chain(run, map("".join, pairwise(run)))
