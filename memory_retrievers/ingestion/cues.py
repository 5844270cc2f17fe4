"""Cues: phrases by which speakers mark a new topic, a greeting, a farewell, a correction or great news.

Only phrases that mean the same nearly everywhere are here: a cue is evidence, never a decision by itself. They are in
the languages the package is tested with, English most of all; other languages are served by time and by embeddings.
"""

from __future__ import annotations

import re
from typing import Final

_LEAD: Final = r"^\W*(?:(?:oh|ok|okay|so|well|and|but|um|haha|right|yes|yeah|no|hey)\b\W*){0,2}"
"""Words that may precede a cue at the beginning of a message."""


def _any_of(*alternatives: str, opening: bool = False) -> re.Pattern[str]:
    joined = "|".join(alternatives)
    return re.compile(f"{_LEAD}(?:{joined})" if opening else joined, re.IGNORECASE)


CHANGE_OF_TOPIC: Final = _any_of(  # a message that opens with it says so itself: something else follows
    r"(?:on|in) (?:another|a different|an unrelated|a side|a totally different) (?:note|topic|subject|matter)",
    r"(?:let'?s |to )?(?:change|changing|switch|switching) (?:the )?(?:subject|topics?|gears)",
    r"(?:totally |completely )?(?:unrelated|off[- ]topic)\b",
    r"(?:new|different|another|next) (?:topic|subject|question|thing)\b",
    r"moving on\b|(?:something|one thing) (?:completely |totally )?(?:else|different)\b",
    r"(?:换个|换一个|另一个|说个别的)(?:话题|事|问题)?|(?:話題|話)(?:を|は)?(?:変え|変わ)",
    r"(?:ein )?anderes thema|themenwechsel|changeons de sujet|cambiando de tema|mudando de assunto|cambiamo argomento",
    opening=True,
)
ASIDE: Final = _any_of(  # phrases that often, but not always, open another topic
    r"by the way\b|btw\b|anyways?\b|speaking of which\b|before i forget\b|that reminds me\b|one more thing\b",
    r"(?:quick|another|unrelated) question\b|in other news\b|meanwhile\b",
    r"对了|對了|顺便|順便|话说|話說|另外|ところで|そういえば|ちなみに|그런데|그건 그렇고",
    r"übrigens\b|apropos\b|au fait\b|à propos\b|por cierto\b|a propósito\b|aliás\b|a proposito\b|кстати\b",
    opening=True,
)
GREETING: Final = _any_of(  # a message that opens by greeting
    r"(?:hey|hi|hiya|hello|howdy|greetings|good (?:morning|afternoon|evening)|long time no|welcome back)\b",
    r"(?:what'?s up|how(?:'s| is) it going|how are you|how have you been)\b",
    r"你好|您好|嗨|早上好|下午好|晚上好|好久不见|こんにちは|おはよう|こんばんは|久しぶり|안녕",
    r"(?:hallo|guten (?:morgen|tag|abend)|bonjour|bonsoir|salut|hola|buenos días|olá|ciao|привет|здравствуй)\b",
    opening=True,
)
REUNION: Final = _any_of(  # phrases said after a time apart
    r"long time no|been a while|(?:great|good|nice|lovely) to (?:hear from|see|chat with|talk to) you",
    r"since (?:we|our) last|since we (?:talked|spoke|chatted|met)|last time we (?:talked|spoke|chatted|met)",
    r"haven'?t (?:talked|spoken|chatted|seen)|how (?:are|have) (?:you|things)|how'?s (?:it|life)|how'?ve you",
    r"what'?s (?:up|new)|what have you been|been up to|guess what|好久不见|最近(?:怎么样|好吗)|久しぶり|元気",
)
FAREWELL: Final = _any_of(  # phrases that end a conversation
    r"\b(?:bye|goodbye|good ?night|see (?:you|ya)|take care|keep in touch|stay in touch|gotta go|got to go|cheerio)\b",
    r"\b(?:talk|speak|chat|catch) (?:to |with )?(?:you |ya |up )?(?:soon|later)\b|\bcatch you\b|\blater!",
    r"\b(?:great|nice|good|lovely) (?:chatting|talking|catching up)\b|\bhave a (?:fun|great|good|nice|lovely)\b",
    r"\bthat(?:'s| is| will be) all(?: for (?:now|today))?\b|\bthat'?s it for (?:now|today)\b",
    r"再见|再見|拜拜|晚安|回头聊|さようなら|またね|じゃあね|おやすみ|안녕히|잘 자",
    r"\b(?:tschüss|auf wiedersehen|bis (?:bald|morgen|dann)|au revoir|à bientôt|adiós|hasta luego|tchau)\b",
)
CORRECTION: Final = _any_of(  # something that was believed is not so
    r"\bactually\b|\bno,? (?:wait|i meant?|that'?s|it'?s)\b|\bi meant\b|\bcorrection\b|\bscratch that\b|\bmy mistake\b",
    r"\bchanged my mind\b|\bno longer\b|\bnot anymore\b|\bthat'?s (?:wrong|not right|not true)\b|\bi was wrong\b",
    r"\b(?:turns|turned) out\b|\binstead of\b|不对|不是.{0,8}而是|其实|我改主意|違(?:う|い)|実は|en realidad",
)
COMPARATIVE: Final = r"(?:more|less|(?!never|after|under|super|clever|eager)\w{3,20}er)\b"
"""A pattern of a comparative; of words that end like one those left out are most common."""

# a word begins it: of a long line of dashes each would be tried with each behind it
_SUBJECT = r"(?:(?:the|my|i think|the other) ['’-]*)?\w[\w’'-]*(?: one)?"
_COPULA = "(?:would be|is|are|seems|looks|lasts|lives|costs)"

WITHDRAWAL: Final = _any_of(  # what was said just before is taken back, put off, or comes back
    r"\b(?:rather|instead|unless|neither|never ?mind|on second thoughts?|after all|as (?:before|planned))\b",
    r"^\W*(?:\w+\W+){0,2}(?:forget|scrap|skip|drop|ignore|undo|leave|keep) (?:it|that|about|what)\b(?! up| going)",
    r"^\W*(?:\w+\W+){0,3}(?:back to|(?:stick|stay) (?:to|with|at)|hold off|wait)\b",
    r"\b(?:call|take|took|put|push(?:ed)?|bring|brought) (?:it|that) (?:off|back|forward)\b|\bmoved(?: \w+)? to\b",
    r"\b(?:change[ds]?|switch(?:ed)?|cancel\w*|replaced?|swap(?:ped)?|postponed?|delayed|rescheduled?)\b",
    r"\b(?:called|put) off\b|\b(?:the other|another|a (?:new|different)|the (?:old|former|latter)) one\b",
    r"\bin place of\b|\b(?:hours?|days?|weeks?|minutes) (?:later|earlier|sooner)\b",
    r"\b(?:nein|sondern|stattdessen|lieber|vergiss (?:es|das)|lass (?:es|uns)|verschoben|abgesagt)\b",
    r"\b(?:non(?!-)|plutôt|finalement|laisse tomber|sino|mejor|olvídalo|al final|invece|piuttosto|em vez|melhor)\b",
    r"改|取消|而是|还是|還是|算了|换成|やっぱり|やめ|代わりに|대신|말고|취소",
)
CHOICE: Final = _any_of(  # the speaker proposes or prefers something, which may be another thing than before
    r"\b(?:let(?:['’]s| us)(?! (?:keep (?:\w+ing|up|each)|continue|all|do (?:it|this)|go for it|get|talk|see|catch)))",
    r"\b(?:shall (?:we|i)|(?:should|could) we|we should|(?:how|what) about(?! you| the| your))\b",
    r"\b(?:i['’]d (?:say|take|prefer|choose)|prefers?|opt for|(?:i['’]ll|we['’]ll) (?:take|go with)|settled? on)\b",
    r"^\W*make (?:it|that)\b|\b(?:suits?|fits|works?|be|is|passt) (?:\w+ )?(?:better|best|besser)\b|\bconvient mieux\b",
    r"^\W*\w+(?: \w+)? it is\b|^\W*(?:it['’]s|they) .*\bnow\W*$|^\W*i like \w+ (?:more|better)\b",
    rf"^\W*{_SUBJECT} {_COPULA} (?:much |far |even |a bit )?{COMPARATIVE}",
)
EMPHASIS: Final = _any_of(  # the speaker finds it remarkable
    r"[!！]{2,}|\?!|\b(?:omg|oh my god|wow|unbelievable|incredible|shocked|shocking|can'?t believe|out of nowhere)\b",
    r"\bnever\b|\bfor the first time\b|\bsuddenly\b|\bfinally\b|\burgent(?:ly)?\b|\bworst\b|\bemergency\b",
    r"天哪|天啊|没想到|竟然|突然|まさか|びっくり|信じられない|대박|unglaublich|incroyable|increíble",
)
LIFE_EVENT: Final = _any_of(  # phrases about events that happen a few times in a life
    r"\b(?:died|passed away|funeral|pregnant|gave birth|is born|was born|miscarriage)\b",
    r"\b(?:got|getting|am|are|just) (?:married|engaged|divorced|fired|promoted|hired|robbed|evicted|arrested)\b",
    r"\b(?:broke|broken|breaking) up with\b|\bproposed to\b|\bsaid yes\b|\blaid off\b|\bi (?:just )?quit\b",
    r"\b(?:quit|lost|got) (?:my|the) (?:dream )?job\b|\bcancer\b|\bdiagnosed\b|\bheart attack\b",
    r"\bcar (?:accident|crash)\b|\bi (?:just )?resigned\b",
    r"\b(?:house|home) burn|\bstolen\b|\bbankrupt|\baccepted (?:to|into|at)\b|\badopted\b",
    r"去世|过世|怀孕|结婚|離婚|离婚|辞职|被解雇|癌症|亡くな|妊娠|結婚|退職|解雇|gestorben|geheiratet|\best mort|murió",
)
