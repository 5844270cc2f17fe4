"""Text analysis: turns text into search terms, and makes it safe to quote or to show on one line.

It knows strings only, nothing of memories. The same analyzer is used for documents and queries.
"""

from __future__ import annotations

import functools
import json
import math
import re
import threading
import unicodedata
from collections.abc import Callable
from itertools import chain, pairwise

import Stemmer

MAX_WORD_LENGTH = 64  # longer words are cut into pieces, which keeps every term and the cache of terms small
MAX_PARTS = 16  # an identifier of more parts is cut after this many
_RECURS = 64  # a longer word or identifier is not likely to come again, and so not worth its memory

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

_OF_TWO = "i've you've we've they've you're they're he's she's there's that's what's who's where's when's how's"
UNMARKED = {each.replace("'", ""): each for each in (*STOP_WORDS, *_OF_TWO.split()) if "'" in each}
"""Contractions by how they are typed without the apostrophe, but for what are other words, such as "well" and "im"."""

_SMALL_TALK = """
afternoon alright awesome back bonjour bye care ciao christmas cool danke evening fine glad go going good goodbye got
gracias grazie great greetings guten haha hallo happy hej hello help hey hi hmm hola joke later let lol lot luck maybe
merci merry moin morgen morning much new nice night ok okay perfect please salut see soon sorry sounds start sure
take talk tell thank thanks today tomorrow tonight tschüss wait welcome well wow yeah year yep yes
abend achso aha alles bald bis bitte bitteschön dank dankeschön genau gern gerne gut gute guter hm ja klar leider nacht
nee nein nochmal passt perfekt prima richtig schade schön servus spaß stimmt super tschau tschüs
verstanden vielen weiter wunderbar
adiós bien buen buena buenas bueno buenos chao claro descansa día días encantada encantado entendido estupendo exacto
excelente genial gusto hasta igualmente luego muchas muchísimas noches perfecto saludos sí tardes vale
accord ah beaucoup bientôt bon bonne bonsoir ça coucou d'accord exactement génial journée non nuit
oui ouais parfait plaît plus revoir rien s'il soirée stp svp très va voilà volontiers
obrigada obrigado olá prego
"""
SMALL_TALK = frozenset(_SMALL_TALK.split())
"""Words of greetings, thanks, assent and farewell; a query of these and of stop words asks for nothing."""

_SMALL_PHRASES = """
guten_tag schönen_tag schönes_wochenende schönen_feierabend in_ordnung das_war's por_favor hasta_mañana de_nada
claro_que_sí eso_es à_demain tout_à_fait bis_später bis_nachher bis_gleich mach's_gut schlaf_gut dir_auch passt_schon
kein_problem gern_geschehen vielen_lieben_dank wie_geht's wie_geht_es_dir no_problem no_worries nos_vemos sleep_well
好 好的 好吧 好啊 好了 嗯 嗯嗯 是 是的 对 对的 對 不 不是 不用 不用了 没有 谢谢 谢谢你 谢谢您 謝謝 多谢 感谢
非常感谢 太好了 太棒了 很好 不错 明白 明白了 知道了 懂了 了解 收到 可以 可以的 行 没问题 沒問題 没事 没关系
不客气 再见 再見 拜拜 晚安 早 早安 早上好 上午好 中午好 下午好 晚上好 你好 您好 大家好 哈哈 哈哈哈 继续 请继续
辛苦了 完美 はい いいえ うん ええ ありがとう ありがとうございます どうも おはよう おはようございます こんにちは
こんばんは おやすみ おやすみなさい さようなら またね わかりました 了解です 了解しました お願いします
よろしくお願いします なるほど そうです そうですね 大丈夫 大丈夫です 네 아니요 감사합니다 고마워 고마워요 안녕
안녕하세요 좋아요 알겠습니다
"""
SMALL_PHRASES = frozenset(phrase.replace("_", " ") for phrase in _SMALL_PHRASES.split())
"""The same as phrases between marks: in Chinese, Japanese and Korean, and of words that may ask for something."""

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

# What nobody sees: soft hyphen, fillers, zero-width characters, tags, selectors of variants, unassigned and ignored.
_NEVER_SEEN = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_VARIANT = "\ufe00-\ufe0f"
_MONGOLIAN_VARIANT = "\u180b-\u180d\u180f"  # nobody sees one either, but behind a letter of that script
_MONGOLIAN_VARIED = f"[\u1800\u1820-\u18aa][{_MONGOLIAN_VARIANT}]"
_PICTURE = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
# Arabic to Syriac, N'Ko, Mandaic, Brahmic scripts of India and South-East Asia, Mongolian, Arabic presentation forms.
_JOINED_SCRIPT = (
    "\u0600-\u061b\u061d-\u074f\u0750-\u077f\u07c0-\u07ff\u0840-\u0dff\u0f00-\u109f\u1780-\u17b3\u17b6-\u17ff\u1800-\u180a"
    "\u1810-\u18af\u1a20-\u1aaf\u1b00-\u1bff\ua800-\ua8ff\ua980-\ua9df\ufb50-\ufdff\ufe70-\ufefc\U00011000-\U00011fff"
)
_FLAGS = "|".join(  # England, Scotland and Wales are written with tags
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f"
    for region in ("gbeng", "gbsct", "gbwls")
)
_WITHOUT_VARIANTS = f"\\s\x21-\x22\x24-\x29\x2b-\x2f\x3a-\x7e{_NEVER_SEEN}{_VARIANT}"  # ASCII but digits, # and *
_HIDDEN = re.compile(
    f"(?P<kept>{_FLAGS}|(?:[{_PICTURE}][{_VARIANT}]?\u200d(?=[{_PICTURE}]))+"
    f"|(?:(?:[{_JOINED_SCRIPT}]|{_MONGOLIAN_VARIED})[\u200c\u200d\u180e](?=[{_JOINED_SCRIPT}]))+)"
    f"|(?:[{_NEVER_SEEN}{_MONGOLIAN_VARIANT}](?<!{_MONGOLIAN_VARIED})"
    f"|(?:^|(?<=[{_WITHOUT_VARIANTS}]))[{_VARIANT}])[{_NEVER_SEEN}{_VARIANT}{_MONGOLIAN_VARIANT}]*"
)
"""What is hidden in a text; ``kept`` are joiners between emoji and within scripts that need them, and three flags."""

_NOT_SHOWN = re.compile(f"{_HIDDEN.pattern}|[\x0b-\x0d\x1c-\x1f\x85\u2028\u2029\ud800-\udfff{_CONTROL}{_BIDI_CONTROL}]")
"""What a terminal obeys, or does not show: beside line feed and tab, which people mean."""

# White space and control characters, and what stands for them in a JSON literal.
_GAP = rf"(?:[\s{_CONTROL}{_BIDI_CONTROL}{_VARIANT}]|\\[bfnrt]|\\u[0-9a-f]{{4}})*"
_CLOSING_TAG = re.compile(rf"[<\uff1c\ufe64](?=(?P<gap>{_GAP}[/\uff0f\u2044\u2215]{_GAP})\w)")
_BRACKET = re.compile(rf"[\[\uff3b](?=(?P<gap>{_GAP})\w)")
_PARENTHESIS = re.compile(rf"[(\uff08\ufe59](?=(?P<gap>{_GAP})\w)")
_NEITHER = re.compile(f"[{_CONTROL}{_BIDI_CONTROL}{_NEVER_SEEN}{_VARIANT}]")
_FRAMES = ("memory", "scene_memory")
_HEADER = ("rank:",)
_OLD_CLOSING_TAG = re.compile(r"<(?=/\s*(?:scene_)?memory)", re.IGNORECASE)

_ACCENT = re.compile("(?<=[a-zA-Z])[\u0300-\u036f]+")


def analyze(text: str) -> list[str]:
    """Split a document or a query into search terms; repeated terms are kept.

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
    if len(folded) <= _RECURS or max(map(len, runs), default=0) <= _RECURS:  # nearly always
        terms = list(chain.from_iterable(map(known_terms, runs)))
    else:
        terms = [term for run in runs for term in (known_terms if len(run) <= _RECURS else _word_terms)(run)]
    if not folded.isascii():
        terms += [term for run in _CJK_RUN.findall(folded) for term in (*run, *map("".join, pairwise(run)))]
    return terms or [_stemmer.stem(run) for run in runs]


def one_line(text: str) -> str:
    r"""Reduce the text to a single line that cannot be mistaken for anything else.

    Runs of white space become one space; control and bidirectional control characters go, and so does what
    :func:`without_hidden` leaves out; lone surrogates become U+FFFD. The ``<`` of a closing ``memory`` or
    ``scene_memory`` tag becomes ``&lt;``, and the bracket of ``[rank:``, with which a block shows the rank of an
    episode, ``&#91;``: in every case, width and spacing.

    >>> one_line("  Garden\n\n## Plan ")
    'Garden ## Plan'
    >>> one_line("</memory>"), one_line("Plan [rank: 1, score: 9.99]")
    ('&lt;/memory>', 'Plan &#91;rank: 1, score: 9.99]')
    """
    if text.isascii() and text.isprintable() and "<" not in text and "[" not in text:  # nearly always
        return " ".join(text.split())
    visible = _UNSEEN.sub("", _SURROGATE.sub("\ufffd", text))
    line = without_closing_tags(" ".join(without_hidden(visible).split()), *_FRAMES)
    return _without(_BRACKET, line, _HEADER, "&#91;")


def indexed_line(text: str) -> str:
    r"""Reduce the text to a single line as stored in passages; stable, since stored passages are compared with it.

    >>> indexed_line("  Garden\n\n## Plan ")
    'Garden ## Plan'
    """
    if text.isascii() and text.isprintable() and "<" not in text:  # nearly always
        return " ".join(text.split())
    visible = _UNSEEN.sub("", _SURROGATE.sub("\ufffd", text))
    return _OLD_CLOSING_TAG.sub("&lt;", " ".join(visible.split()))


def without_hidden(text: str) -> str:
    r"""Remove zero-width characters, tags, fillers, soft hyphens and variation selectors beyond the 16th.

    A joiner stays between two emoji, and between two letters of a script that is written with it (Arabic, those of
    India and South-East Asia, Mongolian); a selector of variants stays behind what has variants, which no ASCII letter
    does; and the flags of England, Scotland and Wales stay whole.

    >>> without_hidden("pass\u200bword\U000e0041")
    'password'
    """
    return text if text.isascii() else _HIDDEN.sub(lambda found: found["kept"] or "", text)


def without_closing_tags(text: str, *names: str) -> str:
    """Replace the ``<`` of closing tags of these names by ``&lt;``, in every case, width and spacing.

    >>> without_closing_tags("ends < /NOTES>", "notes")
    'ends &lt; /NOTES>'
    """
    return _without(_CLOSING_TAG, text, names, "&lt;")


def without_remark(text: str, *words: str) -> str:
    """Replace a parenthesis before one of these words by ``&#40;``, in every writing.

    >>> without_remark("Lives in Lyon (Sources: 9 conversations)", "sources:")
    'Lives in Lyon &#40;Sources: 9 conversations)'
    """
    return _without(_PARENTHESIS, text, words, "&#40;")


def without_accents(text: str) -> str:
    """The text without the accents of Latin letters; voiced marks of Japanese stay.

    >>> without_accents("café, Größe")
    'cafe, Große'
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFD", text)))


def caseless(text: str) -> str:
    r"""Normalise a name for comparison: on one line, without case, and its accents as they are usually written.

    >>> caseless(" Straße\t7 ")
    'strasse 7'
    """
    return unicodedata.normalize("NFC", one_line(text).casefold())


def quote(text: str) -> str:
    r"""Quote the text as a JSON string literal, non-ASCII kept (specification §1.4).

    The line separators of Unicode become ``\n``, lone surrogates U+FFFD, and what is
    :func:`hidden <without_hidden>` goes. Control and bidirectional control characters, and what :func:`one_line`
    replaces by an entity, are written as JSON escapes, which lose nothing.

    >>> print(quote('Third time "this week".\n</memory> 咖啡'))
    "Third time \"this week\".\n\u003c/memory> 咖啡"
    """
    storable = _SURROGATE.sub("\ufffd", _LINE_BREAK.sub("\n", text))
    literal = _UNSEEN.sub(_escaped, json.dumps(without_hidden(storable), ensure_ascii=False))
    return _without(_BRACKET, _without(_CLOSING_TAG, literal, _FRAMES, "\\u003c"), _HEADER, "\\u005b")


def json_for_terminals(value: object, *, indent: int | None = 2) -> str:
    r"""Format the value as JSON, on one line without ``indent``; what a terminal would obey or not show is escaped.

    >>> print(json_for_terminals({"name": "a\x9b31m\u202e"}))
    {
      "name": "a\u009b31m\u202e"
    }
    """
    literal = json.dumps(value, ensure_ascii=False, indent=indent)
    if literal.isascii() and "\x7f" not in literal:
        return literal
    return _NOT_SHOWN.sub(lambda found: found["kept"] or _escaped(found), literal)


def for_terminals(text: str) -> str:
    r"""Escape each character that a terminal would obey or not show.

    Line feeds and tabs stay.

    >>> print(for_terminals("a\x9b31m\u202eb\U000e0041"))
    a\x9b31m\u202eb\U000e0041
    """
    if text.isascii() and text.isprintable():
        return text
    return _NOT_SHOWN.sub(lambda found: found["kept"] or found[0].encode("unicode_escape").decode(), text)


class _ThreadStemmer(threading.local):
    """One English stemmer for each thread, since a stemmer must not be shared; its own cache is off, ours is enough."""

    def __init__(self) -> None:
        self.stem: Callable[[str], str] = Stemmer.Stemmer("english", 0).stemWord


_stemmer = _ThreadStemmer()


def _without(opening: re.Pattern[str], text: str, words: tuple[str, ...], instead: str) -> str:
    if opening.search(text) is None:  # nearly always
        return text
    folded = tuple(_spaceless(word) for word in words)
    length = 2 * max(map(len, words)) + 16  # with room for spaces

    def replaced(found: re.Match[str]) -> str:
        behind = found.end("gap")
        return instead if _spaceless(text[behind : behind + length]).startswith(folded) else found[0]

    return opening.sub(replaced, text)


def _spaceless(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", _NEITHER.sub("", text)).casefold().split())


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"\\u{unit:04x}" for unit in memoryview(found[0].encode("utf-16-le", "surrogatepass")).cast("H"))


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    # NFKC sorts each run of combining marks by insertion, so a long text is folded piece by piece, to stay linear.
    pieces = _PIECE.findall(_INVISIBLE.sub("", text))
    # Folding case can take a composed character apart, hence the second pass.
    folded = (unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", piece).casefold()) for piece in pieces)
    return "".join(folded).replace("\u2019", "'")


@functools.cache
def _word_runs(*, ascii_only: bool) -> re.Pattern[str]:
    """Words, and identifiers of them: a joiner has a word on either side, so a full stop at the end is none."""
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


def _word_terms(run: str) -> tuple[str, ...]:
    """The terms of a word or an identifier, all at most a kilobyte long."""
    if run in STOP_WORDS:
        return ()
    if run.isalnum():  # nearly always
        return (_stemmer.stem(run),)
    word = _CONTRACTED_ENDING.sub("", run)
    parts = [part for part in _JOINERS.split(word) if part]
    stems = [_stemmer.stem(part) for part in parts if part not in STOP_WORDS]
    return tuple(stems) if parts == [word] else (word, *stems)


known_terms = functools.lru_cache(maxsize=1 << 15)(_word_terms)
"""The same for words, which recur: of 32,768 the terms are kept, a kilobyte each at most."""


def has_word(text: str, word: str) -> bool:
    """True if a text has a word or name as a whole, of the same case: "good" does not have "go"; nothing has none."""
    # look-arounds, since \b finds no border behind the last plus of c++
    return word in text and bool(word) and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def estimate_tokens(text: str, characters: float = 4) -> int:
    """Estimate the tokens of a text, rounded up: one for so many characters, four in English.

    >>> estimate_tokens("Alice lives in Lyon"), estimate_tokens("")
    (5, 0)
    """
    return math.ceil(len(text) / characters)


def estimate_scene_tokens(text: str) -> int:
    """Estimate the tokens of a text as its characters divided by 3.5, rounded up (the scene format's estimate).

    >>> estimate_scene_tokens("Hello world"), estimate_scene_tokens("")
    (4, 0)
    """
    return estimate_tokens(text, 3.5)
