"""Languages of texts: English, German, French and Spanish, recognised by their commonest words.

Words of Chinese, Japanese and Korean are recognised by their script, in :mod:`memory_retrievers.text.analysis`. What is
stored of a text are its English stems, accents kept: a question finds words of other languages by their forms.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import Stemmer

_GERMAN: Final = """
ab aber alle allem allen aller alles als also am an andere anderen auch auf aus bei bin bis bist da damit dann das
dass dein deine deinem deinen deiner dem den denn der des dessen dich die dies diese diesem diesen dieser dieses dir
doch dort du durch ein eine einem einen einer eines er es etwas euch euer eure fur gegen habe haben hab hast hat hatte
hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins ist ja jede jedem jeden jeder jedes jene
kann kannst kein keine keinem keinen keiner konnen konnte mal man mein meine meinem meinen meiner mich mir mit muss
nach nicht nichts noch nun nur ob oder ohne sehr sein seine seinem seinen seiner seit sich sie sind so soll sondern
uber um und uns unser unsere unter viel vom von vor wahrend wann war waren warum was weil welche welchem welchen
welcher welches wenn wer werde werden wie wieder will wir wird wirst wo wohin wollen wurde wurden zu zum zur zwar
zwischen
"""
_FRENCH: Final = """
a ai aie alors apres as au aussi autre aux avait avec avez avons avoir c'est ce cela ces cet cette ceux chez comme
comment d dans de des donc du elle elles en encore entre es est et etaient etais etait ete etes etre eu eux fait faire
il ils j'ai je l la le les leur leurs lui ma mais me meme mes moi mon ne ni nos notre nous on ont ou par parce pas peu
peut plus pour pourquoi quand que quel quelle quelles quels qui qu'il qu'elle sa sans se sera ses si son sont sous
suis sur ta te tes toi ton tous tout toute toutes tres tu un une vers vos votre vous y
"""
_SPANISH: Final = """
a al algo alguien antes aqui asi aunque bien cada como con contra cual cuales cuando cuanto cuantos de del desde donde
dos durante e el ella ellas ellos en entre era eran eres es esa esas ese eso esos esta estaba estado estan estar estas
este esto estos estoy fue fueron ha habia han hasta hay he hemos hoy la las le les lo los mas me mi mia mis mucho muy
nada ni no nos nosotros nuestra nuestro o os otra otro para pero poco por porque que quien quienes se sea ser si sido
sin sobre somos son soy su sus suya suyo tambien tanto te tengo ti tiene tienen toda todo todos tu tus tuve un una
unas uno unos usted ustedes vosotros y ya yo
"""
LOCAL_STOP_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "german": frozenset(_GERMAN.split()),
    "french": frozenset(_FRENCH.split()),
    "spanish": frozenset(_SPANISH.split()),
}
"""Words that say little in languages other than English, without accents."""

_ASKING: Final = {
    **dict.fromkeys(("wo", "wer", "wann", "warum", "wohin", "welche", "welcher", "welches"), "german"),
    **dict.fromkeys(("où", "qui", "quand", "pourquoi", "quel", "quelle", "quels", "quelles"), "french"),
    **dict.fromkeys(("donde", "quien", "quienes", "cuando", "cual", "cuantos"), "spanish"),
}
"""Words that alone tell the language of a question."""

_ENOUGH: Final = 2
"""So many common words of a language tell it, if English has fewer of its own."""

COMMON_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    word: tuple(name for name, words in LOCAL_STOP_WORDS.items() if word in words)
    for word in frozenset().union(*LOCAL_STOP_WORDS.values())
}
"""The languages other than English that a word is common in."""
_ACCENT: Final = re.compile("(?<=[a-zA-Z])[\u0300-\u036f]+")


def language_of(words: Iterable[str], *, english: frozenset[str]) -> str | None:
    """The language of a text other than English; None where it is English, or is uncertain.

    Args:
        words: The words of the text, in lower case.
        english: Stop words of English.

    >>> language_of("wir haben am montag gekocht".split(), english=frozenset())
    'german'
    """
    hits: Counter[str] = Counter()
    own = 0
    for word in words:
        bare = word if word.isascii() else without_accents(word)
        if bare not in COMMON_WORDS:
            own += word in english
        elif word not in english:  # "was" and "in" tell nothing
            hits.update(COMMON_WORDS[bare])
            if (asking := _ASKING.get(word) or _ASKING.get(bare)) is not None:
                hits[asking] += 1
    if not hits:
        return None
    ((name, most), *others) = hits.most_common(2)
    is_told = most >= _ENOUGH and most > own and all(most > other for _, other in others)
    return name if is_told else None


def languages_of_terms(holding: Mapping[str, int], *, english: frozenset[str]) -> Counter[str]:
    """By language the passages with words common in it alone, from those of each word, without words of English."""
    hits: Counter[str] = Counter()
    for word, passages in holding.items():
        if word not in english and len(of := COMMON_WORDS.get(word, ())) == 1:
            hits[of[0]] += passages
    return hits


def language_of_most(hits: Mapping[str, int], *, passages: int) -> str | None:
    """The language of most of so many passages, by their common words; None for English or an unknown one."""
    language = max(LOCAL_STOP_WORDS, key=lambda name: hits.get(name, 0))
    return language if passages and hits.get(language, 0) >= passages else None


@functools.lru_cache(maxsize=1 << 15)
def word_form(term: str, language: str | None) -> str:
    """What the forms of a word have in common: the term without accents, and as the stem of a language.

    Args:
        term: As :func:`memory_retrievers.text.analyze` gives it.
        language: As :func:`language_of` tells it; None is any, where only accents differ.

    >>> word_form("häuser", "german"), word_form("haus", "german"), word_form("café", None)
    ('haus', 'haus', 'cafe')
    """
    # A stemmer must not be shared by threads; to make one takes less than to keep one for each.
    if language is None:
        return term if term.isascii() else Stemmer.Stemmer("english", 0).stemWord(without_accents(term))
    return without_accents(Stemmer.Stemmer(language, 0).stemWord(term))


def without_accents(text: str) -> str:
    """The text without the accents of Latin letters; voiced marks of Japanese stay.

    >>> without_accents("café, Größe")
    'cafe, Große'
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFD", text)))
