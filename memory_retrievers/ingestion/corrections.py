"""What a conversation settled last, and which sentences must not be shown without those that take them back.

Rules cannot tell what was meant. They know that a short answer says nothing without what it answers, that a sentence
that says "no", "rather" or "she can't" may take back what was said just before it, or what it shares a word with, and
that a plain negation ("we are not going to the dentist on Friday") takes back only what is about the same. And what
needs no such word: another day, hour, number or name where there was one ("We meet Monday." "Let's do Tuesday then."),
in whatever words if it is said to be better ("The appointment is at 9." "10:15 suits Ingrid."). A choice in few words
("the tram is faster") and a scrap ("Pavel!") may take back what is just before them, whatever that is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Final

from memory_retrievers.ingestion import cues
from memory_retrievers.models.messages import is_of_user
from memory_retrievers.text.analysis import SMALL_PHRASES, SMALL_TALK, STOP_WORDS, analyze
from memory_retrievers.text.periods import NUMBERS

ELLIPTICAL: Final = 2  # a message of at most so many terms that say something answers the one before it
BARE_LENGTH: Final = 40  # characters of a sentence that may be a scrap of one
CHOOSING: Final = 3  # a preference of at most so many terms does not say what it is about

LINKED: Final = 3  # messages before it that say something which a correction may take back, whatever their words
REACH: Final = 20  # so many messages before it a correction may take back by a word that both have
MOST_NEEDED: Final = 150  # sentences that one may need: more have no room in a summary, however short they are
CONTEXT: Final = 3  # at most so many messages before the last are shown with it, where each answers the one before
SHARED: Final = 0.5  # this share of the terms of the shorter one have two sentences that are about the same

_CHAT = """
hey hi hello bye thanks thank okay ok yeah yes yep wow oh well really also just like know think want need feel feeling
sure great good nice cool awesome amazing glad happy sounds sound look looking looks see get getting got gets go going
goes went make making made makes take taking took let lets thing things something anything everything nothing lot lots
bit much many
way still even ever never always today tomorrow yesterday week last next one two first time new keep try trying tried
please maybe actually anyway say said says saying tell told talk talking come coming came been gonna wanna would could
since back around every another help helps helped love loved hope hear heard absolutely definitely totally haha lol btw
course kind sort pretty quite thought wondering guess forget remember day days year years ago soon later good-bye us
"""
WORDS_OF_CHAT: Final = STOP_WORDS | frozenset(_CHAT.split())  # words that name nothing

_CONTRACTED: Final = r"(?:ai|are|ca|could|did|do|does|had|has|have|is|might|must|need|should|was|were|wo|would)n['’]?t"
_NEGATION: Final = re.compile(rf"\b(?:no|not|none|never|neither|nor|cannot|without|{_CONTRACTED})\b", re.IGNORECASE)
_NEGATES_NOTHING: Final = re.compile(
    r"\bno (?:problem|worr(?:y|ies)|doubt|wonder|kidding|way|matter|need to (?:worry|thank))\b"
    r"|\b(?:can(?:no|['’])?t|couldn['’]?t) (?:wait|believe|imagine|help but|thank|agree more|be (?:happier|better))\b"
    r"|\bnot (?:only|just|bad|too bad|to mention)\b|\bwhy (?:not|don['’]?t)\b|\bdon['’]?t (?:worry|forget|hesitate)\b"
    rf"|\bnever (?:forget|gets? old|fails?)\b|\b{_CONTRACTED} (?:it|that|they|you|we)\b",
    re.IGNORECASE,
)
_TAKES_BACK: Final = re.compile(
    r"^\W*(?:(?:oh|but|and|so|well|sorry|hm+)\b\W*)*(?:no|nope|nah|not|wait)\b"
    rf"|\b(?:he|she|they|it|that|this)\b(?:['’]\w+)?(?:\s+\w+){{0,2}}?\s+(?:{_CONTRACTED}|not|cannot|never)\b"
    r"|\b(?:nicht|kein\w*|pas|não)\b|不|没|沒|别|ない|ません|なく|아니|안 |못",
    re.IGNORECASE,
)
_FAILS: Final = re.compile(
    r"\b(?:(?:is|are|was|were|['’](?:s|m|re)|got|it) (?:already |all |still |now )?(?:ill|sick|away|busy|full|closed"
    r"|taken|broken|booked|gone|impossible|unavailable)|ha(?:s|ve) left|sold out"
    r"|too (?:late|early|far|small|big|long|short|expensive)"
    r"|ist (?:krank|voll)|ausverkauft|complet|malade|lleno|enferm[ao])\b",
    re.IGNORECASE,
)
_ANSWER: Final = re.compile(
    r"\b(?:yes|yeah|yep|yup|no|nope|sure|okay|ok|right|correct|exactly|agreed|deal|done|fine|perfect|settled|will do"
    r"|ja|nein|doch|oui|non|si|sí|sim|não)\b|是|好|对|對|不|はい|いいえ|うん|네|아니",
    re.IGNORECASE,
)
_OPENING: Final = ("name", "")
_AMONG: Final = {"day": ["time"], "month": ["time"], "hour": ["time", "number"], "number": ["number"], "name": ["name"]}
_RECORDED = "(?:noted|done|understood|got it|logged|saved|added|updated|recorded|notiert|gemerkt|vermerkt|gespeichert)"
_REACTION: Final = re.compile(
    r"\b(?:thank\w*|congrat\w*|glad|luck|(?<!could )(?<!can )you|your|i['’]m|sorry|always|agreed)\b"
    r"|\w\W+\w+\W+\w+!|\babout\b.*\?|^\W*(?:what an?|how) \w+(?: \w+)?[.!]*$"
    rf"|^\W*(?:(?:ok|okay|great|sure)\W+)?(?:{_RECORDED}|erledigt|mache? ich|noté|anotado"
    r"|gute[ns]? (?:idee|nachricht|wahl|gelingen))(?:(?:, danke)?\W*$|, i(?:['’]ll| will)\b)"
    r"|^\W*(?:\w+\W+)?i(?:['’]ll| will) (?:remember|note|save|keep) (?:that|it|this)\b"
    r"|^(?!how about|what about).*\b(?:who|what|where|when|why|how|which)\b.*\?",
    re.IGNORECASE,
)
_ASSENT: Final = "|".join(SMALL_TALK | SMALL_PHRASES)
_ACKNOWLEDGES: Final = re.compile(rf"^(?:\w+ \w+|[^,;:]* [^,;:]*(?=\?)|{_ASSENT})\W*$", re.IGNORECASE)
"""What an assistant answers that names nothing, in two words or by asking for more: "Great choice!"."""
_NICE = "(?:rough|tough|sad|lovely|great|good|nice|wonderful|fantastic|awesome|amazing|exciting)"
_ASSENTS: Final = re.compile(rf"(?i)\W*(?:(?P<recorded>{_RECORDED})|ok(?:ay)?|alright|sure|verstanden)[.,;:!–—]+\s+")
_OR: Final = re.compile(r"\b(?:or|oder|ou)\b|还是|還是|それとも", re.IGNORECASE)
_FILLING: Final = frozenset(("it", "is", "the", "of", "then", "now", "so", "you", "your", "for", "no", "kein", "keine"))
_SAYS_HOW_IT_IS: Final = re.compile(
    rf"(?i)\W*(?:that['’]s (?:so |really |very )?{_NICE}|an? (?:{_NICE} )?(?:relief|choice|idea|pity|shame|joy))\W*"
)
_ASKING: Final = re.compile(r"(?:who|whose|what(?! if| about)|where|when|how(?! about)|which)\b.*\?", re.IGNORECASE)
_DAY: Final = re.compile(
    r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)days?|today|tonight|tomorrow|weekend|\d{1,2}(?:st|nd|rd|th)"
    r"|(?:next|this) (?:week|month|year|spring|summer|autumn|fall|winter)"
    r"|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag|heute|morgen"
    r"|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|demain|lunes|martes|miércoles|jueves|viernes|sábado|domingo)\b"
    r"|(?:星期|周|礼拜)[一二三四五六日天]|[月火水木金土日]曜|明天|后天",
    re.IGNORECASE,
)
_MONTH: Final = re.compile(
    r"\b(?:january|february|march|april|june|july|august|september|october|november|december)\b|(?<=\bin )May\b",
    re.IGNORECASE,
)
_UNIT = (
    r"(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen"
    r"|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|dozen)"
)
_COUNT = rf"(\d{{1,9}}(?:[.,]\d{{1,9}}){{,4}}|\b{_UNIT}(?:(?: and |[ -]){_UNIT}){{,5}}\b)"
_CLOCK = r"(?:\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
_HOUR: Final = re.compile(
    r"\b\d{1,2}(?:[:.h]\d{2}\b(?: ?[ap]m\b)?| ?(?:[ap]m|uhr|h)\b)|\d{1,2}[点點時]"
    rf"|\b(?:half|quarter|five|ten|twenty|\d{{1,2}})(?: (?:past|to|before|after))? (?:{_CLOCK}|noon|midnight)\b"
    rf"|\b{_CLOCK} ?(?:o['’]clock|thirty|fifteen|sharp)\b|(?<=\bat ){_CLOCK}\b"
    r"|\b(?:noon|midday|midnight|lunchtime|morning|afternoon|evening)\b",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(_COUNT + r"(?:\W{0,2}([^\W\d_]+))?", re.IGNORECASE)
_LITTLE: Final = (
    r"\W*(?:(?:would|might|could|will|is|be|it|at|on|in|by|to|for|around|about|even|much|also|then|probably|maybe|um|am"
    r"|perhaps|really|do|does|go|come|meet|have|take|we|i|us|me|him|her|them|no|oh|ok|hm+|sorry|well|the|à|le"
    r"|it['’]s|they|say|want)\b\W*){0,4}"
)
_PREFERRING: Final = re.compile(
    r"(?:^\W*(?:say|try|take|pick|choose)|\b(?:let['’]?s (?:say|make|do|take|try|use|ask|stay)|make (?:it|that)"
    r"|(?:how|what) about|rather|prefers?|(?:go(?:ing)?|stick|stay) (?:with|to)|settled? on|agreed? on|back to"
    r"|instead|actually|(?:could|should|shall) we|it['’]s|now"
    r"|(?:moved|postponed|put off|delayed|changed)(?: (?:it|that))?(?: to| until| till)?"
    r"|(?:i|we)(?:['’](?:ve|ll))? (?:asked?|booked|took|chose)|sagen wir|lieber|disons|plutôt|mejor)\b)"
    rf"{_LITTLE}$",
    re.IGNORECASE,
)
_OPENING_CLAUSE: Final = re.compile(
    rf"(?:^|[,;:.!–—]|\b(?:but|and|so|because|that|thinks?|says?|said|guess)\b){_LITTLE}(?:for [^\W_]+\W+)?$",
    re.IGNORECASE,
)
_PREFERRED: Final = re.compile(
    rf"{_LITTLE}(?:suits?|better|best|instead|rather|(?:works?|fits?)(?: better| best| for| too| fine|\W*$)|it is|again"
    rf"|then|{cues.COMPARATIVE}|passt|besser|lieber|convient|mieux|mejor)\b",
    re.IGNORECASE,
)
_ALONE: Final = re.compile(r"\s*(?:$|[.,!?;])|\W*(?:then|instead|rather|for|now|please)\b", re.IGNORECASE)
_LITTLE_ALONE: Final = re.compile(_LITTLE, re.IGNORECASE)
_NEAR: Final = 60  # characters around a detail in which it is said to be better
_TIME = rf"(?:{_DAY.pattern}|{_MONTH.pattern}|{_HOUR.pattern})"
_BESIDE_TIMES: Final = re.compile(rf"\b(?:on|at|um|am) (?=(?:the )?(?:{_TIME}|\d))", re.IGNORECASE)
_DETAILS: Final = {
    "time": re.compile(rf"{_TIME}(?:(?: at| in the)? {_TIME}){{,2}}", re.IGNORECASE),
    "number": re.compile(_COUNT, re.IGNORECASE),
    "name": re.compile(r"\b[^\W\d_a-z][^\W_]+(?:['’-][^\W_]+)?"),
}
_WORD: Final = re.compile(r"[^\W_]+|[^\w\s]")
CLAUSE_END: Final = re.compile(r"(?<=[,;:!?])\s+")  # a dot within a sentence is of "Dr. Wiegand" or "3. Juli"
_RESTARTS: Final = re.compile(  # also "from above no wait it is from below"; but not "there is no wait at the counter"
    rf"(?i){CLAUSE_END.pattern}|(?<!\b(?:is|be|of))(?<!\b(?:had|was|for))(?<!\b(?:with|have))(?<!['’]s)(?<!\ba) "
    r"(?=(?:no,? (?:wait|sorry|i mean)|(?:wait|sorry),? no|nein,? (?:warte|moment|halt))\b"
    r"(?! (?:times?|lists?|at|for|there|here|in|on|until|to|period|room)\b)(?:[,.:;!…]*\s+[^\s,]++){3})"
)
_REMARK: Final = re.compile(r"\[[^\]]*\]")  # such as "[image]", which nobody has said


@dataclass(frozen=True)
class Sentence:
    """A sentence of a conversation."""

    speaker: str  # name of who said it
    text: str  # what was said, on one line
    message: int  # position of its message, from 0
    mark: str = ""  # the number before it where it is an item of a list

    @cached_property
    def terms(self) -> frozenset[str]:
        """The terms that say something: no stop words, and no words of chat."""
        words = re.findall(r"[^\W_]+(?:['’][^\W_]+)?", self.text.casefold().replace("’", "'"))
        kept = (word for word in words if word not in WORDS_OF_CHAT and word.removesuffix("'s") not in WORDS_OF_CHAT)
        return frozenset(analyze(" ".join(word for word in kept if not _NEGATION.fullmatch(word))))

    @cached_property
    def words(self) -> frozenset[str]:
        """Its words, small ones as they are and the others as terms, with numbers in digits."""
        counted = (str(NUMBERS.get(w, w)) for w in re.findall(r"[^\W_]+", _BESIDE_TIMES.sub(" ", self.text).casefold()))
        return frozenset(term for word in counted for term in analyze(word) or [word])

    @cached_property
    def takes_back(self) -> bool:
        """True if it may take back what was said just before it, whatever words that has."""
        said = _NEGATES_NOTHING.sub(" ", self.text)
        if _TAKES_BACK.search(said) or cues.CORRECTION.search(said) or cues.WITHDRAWAL.search(said):
            return True
        return (len(self.terms) <= CHOOSING and self.chooses) or (len(self.terms) <= ELLIPTICAL and self.denies)

    @cached_property
    def chooses(self) -> bool:
        """True if it proposes or prefers something, which may be another thing than before."""
        return bool(cues.CHOICE.search(self.text))

    @cached_property
    def denies(self) -> bool:
        """True if it says what is not so, or cannot be."""
        said = _NEGATES_NOTHING.sub(" ", self.text)
        return bool(_NEGATION.search(said) or _FAILS.search(said))

    @cached_property
    def corrects(self) -> bool:
        """True if it may take something back, if only what it names."""
        return self.takes_back or self.chooses or self.denies

    @cached_property
    def is_bare(self) -> bool:
        """True if it is a scrap that says little by itself, and is no question for more, no thanks and no praise."""
        if not (self.terms or self.details) or len(self.terms) > ELLIPTICAL or len(self.text) > BARE_LENGTH:
            return False
        if not (is_of_user(self.speaker) or self.details.keys() - {_OPENING}) and _ACKNOWLEDGES.search(self.text):
            return False
        reacts = (_REACTION, _NEGATES_NOTHING, cues.GREETING, cues.FAREWELL)
        return not any(each.search(self.text) for each in reacts)

    @cached_property
    def asks(self) -> bool:
        """True if it asks for something, and names nothing that an answer may take back."""
        return bool(_ASKING.match(self.text)) and not self.details

    @cached_property
    def standing(self) -> str:
        """What it says from the last of its clauses on that may take back those before it."""
        clauses = _RESTARTS.split(self.text) if self.corrects else []
        first = max((place for place, clause in enumerate(clauses) if Sentence("", clause, 0).takes_back), default=0)
        return " ".join(clauses[first:]) or self.text

    @cached_property
    def details(self) -> dict[tuple[str, str], frozenset[str]]:
        """Days, months, hours, numbers with what they count, and names with the word before them, by their role."""
        found: dict[tuple[str, str], set[str]] = {}
        for kind, pattern in (("day", _DAY), ("month", _MONTH), ("hour", _HOUR)):
            for match in pattern.finditer(self.text):
                found.setdefault((kind, ""), set()).add(match[0].casefold())
        for match in _NUMBER.finditer(_HOUR.sub(" ", self.text)):
            found.setdefault(("number", (match[2] or "").casefold().removesuffix("s")), set()).add(match[1].casefold())
        before = ""
        for word in _WORD.findall(_MONTH.sub(" ", _DAY.sub(" ", self.text))):
            if word[0].isupper() and len(word) > 1 and word.casefold() not in WORDS_OF_CHAT:
                found.setdefault(("name", next(iter(analyze(before)), before)), set()).add(word.casefold())
            before = word.casefold() if word[0].isalnum() else ""
        return {role: frozenset(values) for role, values in found.items()}

    @cached_property
    def _detail_terms(self) -> dict[tuple[str, str], frozenset[str]]:
        """The terms of its details, by their role: kept, since it is compared with every sentence around it."""
        return {
            role: frozenset(term for each in values for term in analyze(each)) for role, values in self.details.items()
        }

    @cached_property
    def _tells_more(self) -> bool:
        """True if it has terms that are none of its details."""
        return not self.terms <= frozenset[str]().union(*self._detail_terms.values())

    @cached_property
    def known(self) -> dict[str, frozenset[str]]:
        """Its times, its numbers with what may be one, and its names."""
        found: dict[str, set[str]] = {}
        for (kind, _), values in self.details.items():
            for each in _AMONG[kind]:
                found.setdefault(each, set()).update(values)
        return {kind: frozenset(values) for kind, values in found.items()}

    @cached_property
    def preferred(self) -> dict[str, frozenset[str]]:
        """Times, bare numbers and names that it says would be better, as in "10:15 suits Ingrid", by kind."""
        found: dict[str, set[str]] = {}
        text = self.text
        for kind, pattern in _DETAILS.items():
            for match in pattern.finditer(text):
                if kind == "name" and (match[0].casefold() in WORDS_OF_CHAT or not match[0][0].isupper()):
                    continue
                before, behind = text[max(0, match.start() - _NEAR) : match.start()], text[match.end() :][:_NEAR]
                alone = _ALONE.match(behind)
                asked = _PREFERRING.search(before) and (kind != "number" or alone)
                opens = kind != "name" and alone and len(before) < _NEAR and _LITTLE_ALONE.fullmatch(before)
                if asked or opens or (_OPENING_CLAUSE.search(before) and _PREFERRED.match(behind)):
                    found.setdefault(kind, set()).update(Sentence("", match[0], 0).known.get(kind, ()))
            text = pattern.sub(lambda match: "_" * len(match[0]), text)
        return {kind: frozenset(values) for kind, values in found.items()}

    def prefers_to(self, earlier: Sentence) -> bool:
        """True if it prefers another time, number or name to an earlier one; a bare number may be an hour."""
        known = earlier.known if self.preferred else {}
        return any(kind in known and not values <= known[kind] for kind, values in self.preferred.items())

    def says_anew(self, earlier: Sentence) -> bool:
        """True if it prefers another detail, or tells it in a role of an earlier sentence, and little else."""
        if self.prefers_to(earlier):
            return True
        if self._tells_more and self.terms.isdisjoint(earlier.terms):
            return False  # as nearly all do, so it is asked first
        roles = [
            role
            for role, values in self.details.items()
            if role in earlier.details and values.isdisjoint(earlier.details[role])
        ]
        if not roles:
            return False
        own = frozenset[str]().union(*(self._detail_terms[role] for role in roles))
        rest = self.terms - own
        if not rest:
            return any(role != _OPENING for role in roles)
        shared = len(rest & earlier.terms)
        if roles == [_OPENING]:  # the first word has a capital letter, whatever it is
            return shared >= SHARED * max(len(rest), len(earlier.terms) - 1) > 0
        return shared > 0 and shared >= SHARED * len(rest)

    def is_about(self, other: Sentence) -> bool:
        """True if it shares :data:`SHARED` of its terms with another sentence, or of the other's."""
        shared = len(self.terms & other.terms)
        return shared > 0 and shared >= SHARED * min(len(self.terms), len(other.terms))

    def may_undo(self, earlier: Sentence) -> bool:
        """True if it may take back an earlier sentence by its words."""
        if self.takes_back and not self.terms.isdisjoint(earlier.terms):
            return True
        return (self.corrects and self.is_about(earlier)) or self.says_anew(earlier)

    def only_repeats(self, heard: Sequence[Sentence]) -> bool:
        """True if an assistant says again what it was just told, or how that is, so that it takes nothing back."""
        if not heard or is_of_user(self.speaker) or self.text.endswith(("?", "？")):
            return False
        told = [each for each in heard if not (each.text.endswith(("?", "？")) or _OR.search(each.text))]
        assents = _ASSENTS.match(self.text)
        said = Sentence("", cues.WITHDRAWAL.sub(" ", self.text[assents.end() :] if assents else self.text), 0)
        if any(each.denies for each in told) != self.denies and not cues.WITHDRAWAL.search(self.text):
            return False
        if not (said.terms and said.words <= _FILLING.union(*(each.words for each in told))):
            return bool(_SAYS_HOW_IT_IS.fullmatch(self.text))
        quoted = said.text.strip(" .!").casefold()
        is_part = self.denies or any(quoted in each.text.casefold() for each in told)  # "Kein Penicillin."
        return is_part or len(said.terms) > 1 or bool(assents and assents["recorded"])

    def agrees_with(self, earlier: Sentence) -> bool:
        """True if it settles what an earlier sentence names already, as "Kafka it is" after "Yes, Kafka"."""
        if self.denies or not self.preferred or cues.WITHDRAWAL.search(self.text):
            return False
        settled = {kind: values for kind, values in self.known.items() if kind != "name"} | self.preferred
        return all(values and values <= earlier.known.get(kind, frozenset()) for kind, values in settled.items())

    @cached_property
    def settles(self) -> bool:
        """True if it tells something, or answers; a question, a farewell and a remark in brackets do not."""
        if self.text.rstrip("\"'”’) ").endswith(("?", "？")) or _REMARK.fullmatch(self.text):
            return False
        is_polite = cues.FAREWELL.search(self.text) or cues.GREETING.search(self.text)
        return bool((self.terms or self.details) and not is_polite) or bool(_ANSWER.search(self.text))


def settled_last(said: Sequence[Sentence]) -> list[int]:
    """Positions of the sentences that settle the end, ascending: the last that tells anything, with what it answers.

    None where that settles nothing of what was said before: it answers nothing, takes nothing back, and is of other
    things. Where nothing is settled at all, the last sentence that says anything.
    """
    last = next((place for place in reversed(range(len(said))) if said[place].settles), None)
    if last is None:
        last = next((place for place in reversed(range(len(said))) if said[place].terms), None)
    if last is None:
        return []
    chosen, messages, number = [last], _places(said), said[last].message
    for _ in range(CONTEXT):
        terms = frozenset[str]().union(*(said[place].terms for place in messages[number]))
        before = max((each for each in messages if each < number), default=None)
        # What takes something back by its own words stands before it, and not after it.
        if before is None or len(terms) > ELLIPTICAL or (terms and any(said[each].corrects for each in chosen)):
            break
        chosen = [place for place in messages[before] if said[place].terms or said[place].settles] + chosen
        number = before
    return chosen if _settles(said, chosen) else []


def _settles(said: Sequence[Sentence], end: Sequence[int]) -> bool:
    """True if the end answers something, takes something back or has just heard it, or says anew what was said."""
    last = said[end[-1]]
    if said[end[0]].message != last.message or len(last.terms) <= ELLIPTICAL:
        return True
    before = said[: end[0]]
    if any(said[place].takes_back or any(map(said[place].is_about, before)) for place in end):
        return True
    if any(said[place].says_anew(each) for place in end for each in before):
        return True
    return any(each.takes_back for each in before if last.message - each.message <= CONTEXT)


def needed_with(said: Sequence[Sentence]) -> list[frozenset[int]]:
    """For each sentence the later ones without which it must not be shown, those that they need in turn included."""
    messages = _places(said)
    order = sorted(messages)
    direct: list[set[int]] = [set() for _ in said]
    for position, number in enumerate(order):
        heard = [said[place] for place in messages[order[position - 1]] if position and is_of_user(said[place].speaker)]
        correcting = [
            place
            for place in messages[number]
            if ((one := said[place]).corrects or one.details or one.is_bare) and not one.only_repeats(heard)
        ]
        scrap = all(said[place].is_bare or not said[place].terms for place in messages[number])
        between = 0  # messages between that say something
        for back, earlier in enumerate(reversed(order[max(0, position - REACH) : position + 1])):
            between += back > 0 and any(said[place].terms for place in messages[earlier])
            for place in messages[earlier]:
                direct[place].update(
                    each
                    for each in correcting
                    if each > place
                    and (
                        (between <= LINKED and (said[each].takes_back or (scrap and said[each].is_bare)))
                        or said[each].may_undo(said[place])
                    )
                    and not said[each].agrees_with(said[place])
                )
    needed: list[frozenset[int]] = [frozenset()] * len(said)
    for place in reversed(range(len(said))):  # what is needed comes later, so it is known already
        every = direct[place]
        if len(every) < MOST_NEEDED:
            every = every.union(*(needed[each] for each in every))
        needed[place] = frozenset(sorted(every)[-MOST_NEEDED:])
    return needed


def _places(said: Sequence[Sentence]) -> dict[int, list[int]]:
    """Positions of the sentences by their message."""
    return {number: list(places) for number, places in groupby(range(len(said)), key=lambda place: said[place].message)}
