"""Whether a day is told in the past: "I ran a marathon on Friday", and not "We booked a table for Friday".

English, German, French and Spanish by their verbs, Chinese and Japanese by what stands behind the day; of texts as
:func:`memory_retrievers.text.periods.plain` writes them, in which " ; " is what has been read already.
"""

from __future__ import annotations

import re
from typing import Final

DID: Final = r"did\b(?! (?:i|we) (?:want|plan|need|have|mean)\b)"  # but for "What did we plan?"
_ARRANGED: Final = (
    r"(?:(?:re)?scheduled|(?:re)?booked|arranged|planned|reserved|moved|pushed|shifted|postponed|extended|delayed"
    r"|invited|asked|told|reminded|supposed|meant|set|due|going|hoping|wondering|thinking)\b"
)
"""What is arranged for another day by what was done: "The flight was moved to Friday"."""
_OF_PLANS: Final = (
    r"(?! (?:(?:an?|the|my|our|us|me|two|some) )*(?:\w+ )?(?:appointment|reservation|booking|slot|table|date|tickets?"
    r"|(?:day|shift) off)\b)"
)
_PLAN_VERB: Final = (
    r"\w*(?:booked|scheduled|arranged|ordered|planned|reserved|poned|(?<!re)signed|registered|asked|confirmed"
    r"|accepted|offered|promised|decided|wanted|hoped|mentioned|noticed|learned|reminded|needed|used|applied"
    r"|invited|organi[sz]ed|fancied|suggested|proposed|requested|picked|received|reali[sz]ed|assumed|explained|replied"
    r"|emailed|texted|approved|added|extended|shortened|announced|warned|predicted|insisted)\b"
)
_NO_VERB: Final = rf"{_PLAN_VERB}|(?:expected|required|excited|secured|delayed|united|\w*fred|jared|\w*hamm?ed|ahmed)\b"
_NO_SUBJECT: Final = (
    r"(?:am|is|are|was|were|be|being|been|have|has|had|having|g[eo]ts?|getting|needs?|wants?|will|(?:w|c|sh)ould|can"
    r"|must|may|might|to|not?|if|when|with|for|go(?:ing|nna)|let'?s?|keep|please|\w+n'?t|im|ill"
    r"|(?:i|we|you|he|she|it|they|that|there|what|who)'\w+|(?:he|she|it|there|what|that)s|there)"
)
"""What stands in no subject: behind it a form in "-ed" may be of a plan: "I'm getting my hair coloured on Friday"."""
_OBJECT: Final = r"(?:the|my|our|your|his|her|their|its|me|us|him|them|it)"
_HAPPENED: Final = (
    rf"(?:died|(?!{_NO_VERB}|(?:re)?(?:closed|fixed|checked|released|serviced|cleaned|collected|delivered|placed|removed"
    r"|installed|moved|submitted|filed|finished|changed|blocked|switched|turned off|disconnected|fitted|emptied|sorted"
    r"|painted|pulled|roasted|repaired|volunteered|preferred|guaranteed|cancell?ed|limited|hundred)\b)"
    rf"\w{{2,}}[^\We]ed{_OF_PLANS}|(?!{_NO_VERB})(?:\w{{2,}}[^\We]ed|bit|cut|hurt) {_OBJECT}{_OF_PLANS}"
    r"|took(?! (?:\w+ )?(?:appointment|day|shift))"
    r"|began|blew|broke|built|burst|caught|fell|felt|grew|lost|rang|sold|spoke|stole|stood|taught|threw|quit|woke|won)\b"
)
"""A past verb, behind a noun: none that stands there as often for what is to be done: "Shop closed on Friday"."""
_PARTICIPLE: Final = (
    r"(?:(?:ab|an|auf|aus|bei|ein|fern|heim|her|hin|los|mit|nach|teil|um|vor|weg|weiter|zu|zuruck)?"
    r"ge(?!plant|bucht|sagt|hort|dacht|meint|merkt|laden|meldet|teilt|schaft|richt|hen\b|ben\b|gen\b|stern\b)"
    r"(?!\w*(?:essen|unterricht|fest|kirchen|lingen)\b)\w+(?:t|en)|unternommen|besucht|verloren"
    r"|gegessen|verpasst|bestanden|verbracht|erledigt|repariert)(?=\W*$)"
)
_BY_DAY: Final = (
    r"(?!(?:heu|moch|konn|soll|muss|durf|woll|war|star|tes|ra|\w*(?:ei|mie|bie|tre|hal|heira)|bit|letz|ers|drit|nachs|bes"
    r"|al|bun)te\b)\w{3,}te|lief|lag|lagen|fiel|stand|half|gab|ass|liess"
)
"""German verbs of the past beside a day: no wishes, present of verbs in "-ten", nor numbers."""
_PAST: Final = """
had went saw met ate came slept overslept swam sank ran flew drove rode drank sang broke spent wrote wore threw fought
forgot burnt hid didn't couldn't wasn't weren't hadn't
hatte hatten waren besuchte besuchten kam kamen ging gingen fuhr fuhren blieb blieben traf trafen flog flogen schlief
begann begannen starb starben rief riefen fand sprach sah sahen nahm verlor gewann schrieb
etais etait etions etaient avais avait avions avaient
fui fuimos fue fueron hice hicimos hizo vi vimos vio estuve estuvimos estuvo tuve tuvimos tuvo comi comimos llovio vino
"""
"""What tells of the past by itself, in four languages."""
_PAST_VERB: Final = re.compile(
    r"\b(?:was(?! hat\b| vor\b| (?:(?!war|gab|ging|kam|lief)\w+ )?(?:ich|wir|am|es|ist|steht|gibt|kommt|lauft|liegt)\b)"
    rf"(?! (?:\w+ )?{_ARRANGED})|were(?! (?:\w+ )?{_ARRANGED})|{DID}|{'|'.join(_PAST.split())}"
    rf"|(?:gave|bought|made){_OF_PLANS}"
    rf"|(?<!ve )(?<!ve i )(?<!ve we )(?<!'s )(?<!has )got(?! (?:\w+ ){{0,2}}{_ARRANGED}){_OF_PLANS}"
    rf"|(?:i|we|you|he|she|it|they) (?:\w+ly )?(?!{_PLAN_VERB})\w+[^\We]ed"
    rf"|\A(?!{_NO_VERB})\w+[^\We]ed (?=(?:{_OBJECT}|an?|in|at|with) \w)"
    rf"|(?:\A|\b(?:i|we|you|he|she|it|they) (?:\w+ly )?)(?:took{_OF_PLANS}|lost|won|left|fell|felt|sold|woke|taught"
    rf"|paid(?! (?:for|leave|holiday|time|day|parking|off)\b){_OF_PLANS})"
    rf"|(?:\A|(?<=\Aon ; )|(?<=\A; ))(?:(?!{_NO_SUBJECT} )[\w']+ ){{0,3}}(?!(?:{_NO_SUBJECT}|{_OBJECT}|an?|newly|too|i"
    rf"|we|you|he|she|it|they) )[\w']+ (?:\w+ly |on ; )?{_HAPPENED}"
    r"|(?:told|asked|called) (?:me|us|him|her|them)(?= on ;)"
    rf"|(?<!\A)(?:{_BY_DAY})(?= (?:(?:ich|er|sie|es|wir|mich|uns|ihn|ihr) )?am ;)|(?<=am ; )(?:{_BY_DAY})"
    r"|(?<!the )(?<!star )war(?! (?:museum|and|film))"
    rf"|(?:habe?|haben|hat) (?:[^.?\s]+\s+){{0,16}}{_PARTICIPLE}|(?:bin|sind)(?: [^.?\s]+){{0,9}} {_PARTICIPLE}"
    r"|was ist (?:[^.?\s]+\s+){0,16}(?:passiert|geschehen|gewesen)(?=\W*$)"
    r"|(?:j'ai|avons|\ba|ont) (?:fait|vu|mange|pris(?! (?:un )?rendez)|eu|plu|bu|lu|perdu|recu|achete|dormi|couru|joue"
    r"|visite|rencontre|travaille|fini|passe|ete(?! (?:invit|decid|convoqu|report|deplac|annul)))"
    r"|(?:suis|est|sommes|sont) (?:all|rest|rentr|tomb|arriv|pass(?!e?e?s? aux? )|sorti|parti|venu|mort)e?e?s?)\b"
    r"(?! para)"
)
_PREPOSITION: Final = re.compile(r"\A(?:on|by|until|before|am|el|le) ")
_SENTENCE: Final = r"(?<!\d)(?<!\b[dms][rst])(?<!\bmrs)(?<!\.[a-z])(?:[.!?:]|(?<! );) |\n"  # " ; " is what was taken
_PIECES: Final = (
    re.compile(
        rf"{_SENTENCE}|, | (?:and|but|(?<!\b(?:to|at|in|of|by) )that|und|aber|weil|et|mais|pero|que|porque) "
        r"| y (?!(?:retourner|revenir|repasser|aller)\b)| so (?=(?:i|we|he|she|it|they|you|the|my|our|there|no)\b)"
    ),
    re.compile(_SENTENCE),
)
"""What stands between clauses, and between sentences."""

_AND: Final = "and ", "und ", "et ", "y "
_FOR_A_DAY: Final = re.compile(
    r"\b(?:by|about|of|\w+ed (?:until|till)|for|to|took|auf|fur|pour|para|al?) (?:the |next |el |den )?\Z"
    r"|\b(?:due|starting) (?:on |by )?\Z|\bcouldn't [^.;]*until \Z"
    r"|\b(?:(?:for|about|pour|para|fur) (?:the|my|our|his|her|l[ae]|el|los|las|das|den|die|mi|mon|ma)|about) [\w']+"
    r" (?:on|de|du|del|am) \Z|\b(?:pour|para) l'\w+ de \Z"
    r"|\b(?:gave|offered) (?:me|us|him|her|them) \Z|\b(?:me|us|him|her|them) (?:in|down) (?:on )?\Z"
)
"""What stands before a day that something is moved to, or that is taken off."""

_YET: Final = re.compile(
    r"\b(?:can(?:'?t|not)?|will|won'?t|is|isn'?t|are|aren'?t|must|should|due|scheduled|comes|needs|wants|to say"
    r"|(?:who|and) (?:start|come|play|begin|arrive|leave|land)s|(?:s?he|it)'?s|i'?m|\w+'(?:ll|re))\b"
)
"""Between a past verb and a day it tells of what is to come: "He called to say he can't come on Friday"."""
_ASIDE: Final = re.compile(r", [^,;]+, (?=\w* ?\Z)")
_BECAUSE: Final = re.compile(r" (?:because|cause|cuz|if) ")

_NEAR: Final = 120  # characters of a clause or sentence before and behind a day

_OWN_VERB: Final = re.compile(
    r"\b(?:i|we|he|she|it|they|there'?s|is|are|will|must|should|remind|ich|wir|er|kommt|kommen|ist|sind|hat|wird|gibt"
    r"|(?:s?he|it|that)s|im|(?:(?<=^)|(?<=and ))(?:start|begin|come|go|fly|leave|return|meet)s?|\w+s (?:us|me|him|them)"
    r"|(?<=; )\w{4,}o|(?:lo|nos|se) \w+|je|j'ai|on(?= \w)|il|elle|nous"
    r"|\A(?:(?:have|need|want)s? to|has to|(?:muss|soll|woll|konn|durf|fahr|geh|komm|flieg|treff)en|muss)"
    r"|va|vient|tengo|tenemos|voy|va|vamos|viene|llega|hay)\b"
)
"""A part of a sentence with one of these words is a clause, and no part of a list: "I met Tom and Ben on Friday"."""
_BESIDE_DAYS: Final = re.compile(
    r"\b(?:on|at|in|by|the|this|then|after|before|over|around|and|und|et|y|am|um|im|das|le|el|ce|a|work|lunch"
    r"|morning|afternoon|evening|night|early|late)\b|[\W\d_]"
)
_CJK_PAST: Final = re.compile(
    "(?![^、，。！？,.!?;]*(?:[要會就快别別订訂預预約约]|会(?![っいえわ])|予約|約束|(?:なり|変わり|決まり|決め|入り|ことにし)ました"
    "|と(?:言|聞)|[下到][了班课]|有空了|チケット|招待))"
    "[^、，。！？,.!?;]*(?:了(?=[^、，。！？,.!?;吧])|ました|でした|(?<![なま])った(?!ら))"
)
"""What stands behind a day of the week that is told in the past, and is nothing arranged."""

_SPANISH_DAY: Final = re.compile(r"(?i)\b(?:lunes|martes|mi[eé]rcoles|jueves|viernes|s[aá]bado|domingo)\b")
_PRETERITE: Final = re.compile(
    r"(?i)\b(?!(?:(?:caf|jos|beb|porqu|comit|chal|ren|chlo)é|\w+[aeid]ré|(?:aqu|all|inscrib)í"
    r"|(?:reserv|qued|confirm|apunt|cambi|invit|ped|pid|convoc)[éíó])\b)\w{3,}[éíó]\b"
)
_WISH: Final = re.compile(r"(?i)\b(?:hätte|wäre|würde|bräuchte)n?\b")
_NOUN: Final = re.compile(r"(?<=\w )([A-ZÄÖÜ]\w+t)e\b")


def by_spelling(text: str) -> str:
    """A text with "fue" for Spanish preterites, as "llegó", "kann" for German wishes, and no nouns in "-te"."""
    text = _NOUN.sub(r"\1", _WISH.sub("kann", text))
    return _PRETERITE.sub("fue", text) if _SPANISH_DAY.search(text) else text


def is_past(match: re.Match[str]) -> bool:
    """True if a day is told in the past: by its clause, or by its sentence and then by any if the clause is no more."""
    text, first, last = match.string, max(match.start() - _NEAR, 0), match.end() + _NEAR
    opens = match.end() - len(_PREPOSITION.sub("", match[0]))
    if _FOR_A_DAY.search(text, first, opens) and "week" not in match[0]:
        return False
    for ends in _PIECES:
        before = [end.end() for end in ends.finditer(text, first, match.start())]
        start, behind = before[-1] if before else first, ends.search(text, match.end(), last)
        rest = text[start : match.start()], _BECAUSE.split(text[match.end() : behind.start() if behind else last])[0]
        piece = ";".join(rest)
        if past := _PAST_VERB.search(piece):
            return not _YET.search(_ASIDE.sub(", ", rest[0][past.end() :]))
        if _OWN_VERB.search(piece) or (_BESIDE_DAYS.sub("", piece) and not text[:start].endswith(_AND)):
            break
    return False


def is_past_by_what_follows(match: re.Match[str]) -> bool:
    """True if a Chinese or Japanese day is told in the past, by the rest of its clause."""
    return _CJK_PAST.match(match.string, match.end()) is not None
