"""Extractive summaries: selects the most informative sentences of a text, without any model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain, pairwise

from memory_retrievers.errors import ValidationError

_MONTH_NEXT = r"(?=\s(?i:januar|februar|märz|april|mai|ju[nl]i|august|(?:septem|okto|novem|dezem)ber)\b)"
_DATE = r"\b[0-3]?\d\. (?:1[0-2]|[1-9])\.|(?m:^)[-* \t]*[0-3]?\d\.(?:1[0-2]|[1-9])\."  # "24. 12. Oma", "- 3.2. Chor"
_NO_END = (  # "Dr. Wiegand", "am 28. Januar", "der 21. fällt aus"
    rf"(?:{_DATE}|\b(?:Dr|Mrs?|Ms|Mme|Sra?|Fr|Hrn?|Nr|vs|bzw|Prof)\."
    r"|\bSt\.(?!\s(?:I|It|We|You|He|She|They|The|My|Our|That|This|There|An?|In|On|At|Is|And|But|So)\b)"
    rf"|\b\d\d?\.{_MONTH_NEXT}|\b(?:[Aa][mb]|[Dd]e[rnms]|[Vv]om|[Zz]um|[Bb]is) \d\d?\.(?=\s[a-zäöü]))"
    r"[\"'”’)\]]{0,2}[^\S\r\n\u2028\u2029]"
)
ITEM = re.compile(rf"(?m:^)[ \t#>]*\d{{1,3}}\.(?!{_MONTH_NEXT}| (?:1[0-2]|[1-9])\.(?!\d))[ \t]")  # not "2. Mai"
_SENTENCE_END = re.compile(
    rf"""(?P<item>{ITEM.pattern})|(?P<goes_on>{_NO_END})|[。！？][。！？」』”）]*"""
    r"""|(?<=[.!?…])["'”’)\]]{0,2}(?:\s|$)|[\n\r\u2028\u2029]"""
)
_SPECIFIED_END = re.compile(r"(?<=[。！？.!?])(?<!\d\.(?=\d))\s*")  # of §3.7; the second part keeps numbers whole
_SPECIFIED_WORDS = """
the a an is are was were be been being have has had do does did will would could should may might must shall の は
が を に で と も や から
"""  # of §3.7
_SPECIFIED_STOP_WORDS = frozenset(_SPECIFIED_WORDS.split())


def sentences(text: str) -> list[str]:
    r"""Split a text into sentences, in order, with punctuation and without surrounding white space.

    A line break ends a sentence; a full stop does only before a space, so numbers, addresses and file names stay whole.

    >>> sentences("Version 1.5 is out! See example.com.\n完成了。再见")
    ['Version 1.5 is out!', 'See example.com.', '完成了。', '再见']
    """
    found = [*_SENTENCE_END.finditer(text)]
    is_list = sum(bool(match["item"]) for match in found) > 1
    ends = [0, *(each.end() for each in found if not (each["goes_on"] or (is_list and each["item"]))), len(text)]
    parts = (text[start:end].strip() for start, end in pairwise(ends))
    return [part for part in parts if part]


def summarize(text: str, max_length: int) -> str:
    """Select the sentences of a text's commonest words (specification §3.7), joined by spaces; a short text stays.

    A text that is not blank is never shortened to nothing: where no sentence fits, one is cut.

    Raises:
        ValidationError: ``max_length`` is less than 1.

    >>> summarize("Cats purr. It is late. Most cats sleep.", 35)
    'Cats purr. Most cats sleep.'
    """
    if max_length < 1:
        raise ValidationError(f"max_length must be at least 1, not {max_length}: give room for the summary")
    if len(text) <= max_length:
        return text
    parts = [part for part in map(str.strip, _SPECIFIED_END.split(text)) if part]
    return " ".join(parts[index] for index in _commonest(parts, max_length)) or text.strip()[:max_length].rstrip()


def _commonest(parts: Sequence[str], max_length: int) -> list[int]:
    """Select as in specification §3.7: by mean weight, until the first that does not fit."""
    words = [re.findall(r"\w+", part.lower()) for part in parts]
    counts = Counter(word for word in chain(*words) if len(word) > 1 and word not in _SPECIFIED_STOP_WORDS)
    highest = max(counts.values(), default=1)
    scores = [sum(counts[word] / highest for word in each) / (len(each) or 1) for each in words]
    chosen: list[int] = []
    room = max_length
    for index in sorted(range(len(parts)), key=lambda index: -scores[index]):
        room -= len(parts[index]) + 2
        if room < 0:
            break
        chosen.append(index)
    return sorted(chosen)
