"""Languages of texts: English, German, French and Spanish, known by their commonest words; and how they name relatives.

Words of Chinese, Japanese and Korean are recognised by their script, in :mod:`memory_retrievers.text.analysis`. What is
stored of a text are its English stems, accents kept: a question finds words of other languages by their forms.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import Stemmer

from memory_retrievers.text.analysis import known_terms, without_accents
from memory_retrievers.text.dates import tells_time

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

_ENOUGH: Final = 2  # so many common words of a language tell it, if English has fewer of its own

COMMON_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    word: tuple(name for name, words in LOCAL_STOP_WORDS.items() if word in words)
    for word in frozenset().union(*LOCAL_STOP_WORDS.values())
}
"""The languages other than English that a word is common in."""
_OF_CHANGES: Final = """
quit stop stops stopped gave sold died dead longer anymore again now new former formerly leaving broke broken cancelled
canceled off switched switches moved changed started began lost became becomes instead replaced retired ended finished
resolved fixed repaired returned back got bought paid failed postponed rescheduled fired hired promoted
recovered healed divorced separated
mehr aufgehort verkauft gestorben tot wieder neu neue neuen neuer neues jetzt fruher umgezogen verlassen gekundigt
abgesagt gekauft verschoben verlegt geschieden getrennt geheilt
plus arrete vendu vendue mort morte nouveau nouvelle maintenant demenage quitte annule achete change reporte reportee
deplace deplacee divorce separe separee gueri guerie
ya dejo vendio murio nuevo nueva ahora mudo cancelo cancelado compro cambio aplazo aplazado divorcio separo
"""
CHANGE_WORDS: Final = frozenset(_OF_CHANGES.split())
"""Words, without accents, of texts that tell that something is no longer as it was."""
_CJK_CHANGE: Final = re.compile(
    "不再|已经|已經|现在|現在|死|卖了|賣了|买了|買了|戒|新|辞|离婚|離婚|分手|改到|改成|推迟|取消|もう|やめ|亡くな|今は|売っ|買っ"
    "|引っ越|転職|別れ|変更|延期|キャンセル|治っ"
)
_MOST_WORDS_OF_CHANGE: Final = 12
"""A longer sentence tells more than a change: "... and turbot was sold at a tenth of its price"."""

_KINDS: Final = {
    "home": r"(?:lives (?:in|at|on|near)|based (?:in|near)"
    r"|mov(?:e|es|ed|ing)(?: from \w+)? to(?= (?:the |a |an )?(?-i:[^\W\d_a-z])|[^,;.]* (?:in|near) (?-i:[^\W\d_a-z])"
    r"|(?: [^\s,;.]+){1,2} (?:house|home|flat|place|apartment|city|town|country\w*|coast|village|suburbs)\b)"
    r"|(?:lebt|wohnt)(?: jetzt)? in|zieht(?: von \w+)? nach|(?:von \w+ )?nach(?= \w+ (?:um)?gezogen)|vive(?: ahora)? en"
    r"|(?:habite(?: maintenant)?|déménagé?(?: de \w+)?) [aà]|(?:muda|mudó|mudado)(?: de \w+)? a)\b"
    r"|住在|搬[到去]|(?=[^、。]{1,12}(?:に住|[にへ]引っ越))",
    "work": r"(?:(?:(?:works|employed) (?:at|for|by)|(?:starts|started|new job) at)(?! (?:night|home|weekends|\d))"
    r"|arbeitet(?: jetzt)? bei"
    r"|travaille(?: maintenant)? (?:chez|pour|[aà](?! (?:la maison|domicile|distance|(?:mi-)?temps)))"
    r"|trabaja(?: ahora)? (?:en(?! casa)|para))\b|在(?!家)(?=[^，。]{1,12}(?:工作|上班))|入职|跳槽到"
    r"|(?!(?:自宅|在宅|家)で)(?=[^、。]{1,12}(?:で働|に勤め|に転職))",
    "job": r"(?:(?:started |got an? |has an? )?"
    r"(?:(?:works?|working|(?<=has )worked|employed|job) as|training to be(?:come)?)(?= an? )"
    r"|(?:arbeitet|travaille|trabaja)(?: jetzt| maintenant| ahora)? (?:als|comme|como))\b",
    "city": r"(?:works|studies) in\b(?! the (?:morning|afternoon|evening))",
    "school": r"studies at\b(?! (?:night|home|weekends))",
    "housemate": r"lives with\b",
    "car": r"drives(?= an? )",
    "partner": r"(?:dating|engaged to|married to)\b",
}
ONE_AT_A_TIME: Final = re.compile(
    r"(?P<who>(?:l['’])?(?:\w+ ){1,3}?|用[户戶]|ユーザーは)"
    r"(?:(?:has|is|will|a|now|just|ist|hat|jetzt|se|ha|ahora|désormais) |现在|已经){0,3}"
    rf"(?:{'|'.join(f'(?P<{kind}>{words})' for kind, words in _KINDS.items())})",
    re.IGNORECASE,
)
"""What somebody has or does of one kind, told in however many words."""


def language_of(words: Iterable[str], *, english: frozenset[str]) -> str | None:
    """The language of words in lower case other than English, whose stop words are given; None where it is uncertain.

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
    is_clear = most >= _ENOUGH and most > own and all(most > other for _, other in others)
    return name if is_clear else None


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
    """What the forms of a term have in common, as the stem of a language; of None, in which only accents differ.

    >>> word_form("häuser", "german"), word_form("haus", "german"), word_form("café", None)
    ('haus', 'haus', 'cafe')
    """
    # A stemmer must not be shared by threads; to make one takes less than to keep one for each.
    if language is None:
        return term if term.isascii() else Stemmer.Stemmer("english", 0).stemWord(without_accents(term))
    return without_accents(Stemmer.Stemmer(language, 0).stemWord(term))


def forget_words() -> None:
    """Remember none of the words that were analysed: each is kept by itself, and yet may be a name or an address."""
    known_terms.cache_clear()
    word_form.cache_clear()


def tells_change(text: str) -> bool:
    """True if a short text tells that something is no longer as it was.

    >>> tells_change("User quit smoking"), tells_change("Der Nutzer raucht Pfeife")
    (True, False)
    """
    words = (text if text.isascii() else without_accents(text)).lower().replace(".", "").split()
    if len(words) > _MOST_WORDS_OF_CHANGE:
        return False
    return not CHANGE_WORDS.isdisjoint(words) or (not text.isascii() and _CJK_CHANGE.search(text) is not None)


def relatives_in(text: str) -> tuple[str, ...]:
    """Words for people and animals of whoever speaks, in lower case: "wife" of "my wife"; each once, in order."""
    found = (_ASCII_RELATIVE if text.isascii() else _RELATIVE).finditer(text)
    return tuple(dict.fromkeys(each[each.lastindex or 0].lower() for each in found))


def words_for(relative: str) -> list[str]:
    """All words for the same relative: "mama" is another one for "mutter"."""
    return [word for _, words in _languages_of(relative) for word in words]


def name_of(relative: str, texts: Iterable[str]) -> str | None:
    """What texts of a user call somebody of theirs, if it is one name alone: anything else is not certain.

    >>> name_of("wife", ["My wife Anna sings.", "User's wife is called Anna", "My wife is German"])
    'Anna'
    >>> name_of("frau", ["Meine Frau Anna singt.", "Die Frau des Nutzers heißt Anna", "Ich hole meiner Frau Kaffee."])
    'Anna'
    """
    forms = [form for language, words in _languages_of(relative) for form in language.forms(words)]
    found = (match for text in texts for form in forms for match in form.finditer(text) if not match["unless"])
    words = {match["name"] for match in found}
    names = {each for each in words if each[0] >= _CJK or (each[0].isupper() and not each.isupper())}
    names = {each for each in names if not tells_time(each)}
    return names.pop() if len(names) == 1 else None


class _Language(NamedTuple):
    """How a language names relatives; in patterns WHO is a word for one, MINE one of whoever speaks, NAME a name."""

    relatives: str  # words for people and animals, those for the same ones on one line
    mine: str  # one of whoever speaks
    names: tuple[str, ...]  # what gives a name
    unless: str = "(?!)"  # behind this it may be the name of somebody else

    def of_mine(self) -> str:
        """What names a relative of whoever speaks, the word for it in a group."""
        return self.mine.replace("WHO", f"({_any_of(self.relatives.split())})")

    def forms(self, words: Iterable[str]) -> list[re.Pattern[str]]:
        """What gives a name to whom these words are for."""
        who = f"(?:{_any_of(words)})"
        named = [name.replace("MINE", self.mine).replace("WHO", who).replace("NAME", _NAME) for name in self.names]
        return [re.compile(f"(?P<unless>{self.unless})?{name}", re.IGNORECASE) for name in named]


def _any_of(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


def _languages_of(relative: str) -> Iterator[tuple[_Language, list[str]]]:
    lines = ((language, line.split()) for language in _LANGUAGES for line in language.relatives.split("\n"))
    return ((language, words) for language, words in lines if relative in words)


_CJK: Final = "\u3005"
_NAME: Final = rf"(?P<name>[^\W\d_{_CJK}-\U0003ffff]\w+)\b"
_HAN_NAME: Final = (
    r"(?P<name>[A-Z][a-z]+|(?!外[卖賣]|出租|计程|滴滴|快递|代驾|警察|医生|救|起床|回|吃|大家|自己)"
    r"(?![一-鿿]{0,3}[的了來来去過过著着吗嗎呢吧我你他她它们們什啥谁誰])[一-鿿]{2,4})(?!\w)"
)
"""What is called may also be a taxi, or he who is called."""
_KANJI_NAME: Final = r"(?P<name>[A-Z][a-z]+|(?!秘密|内緒|不明)[ァ-ヺー一-鿿]{2,8})(?=$|\W|で|だ|とい|と言|と申)"
_KATAKANA_NAME: Final = (
    r"(?P<name>(?!(?:[ァ-ヺー]{0,7}(?:ー|スト|マン|アン|チャン|シャン|ファン|ニア|ティア|バイト|ランス|オタク)|ママ|パパ|プロ|ガン"
    r"|コロナ|インフル|ハーフ|モデル|コック|シェフ|ナース|パート|ベテラン)(?![ァ-ヺー]))[ァ-ヺー]{2,8})"
)
"""But for words for what somebody is."""
_HUMBLE: Final = "[妻夫母父兄弟姉妹姪甥娘]|家内|息子|祖[母父]|[叔伯][母父]"  # words for one's own relatives alone

_LANGUAGES: Final = (
    _Language(
        "wife\nhusband\npartner\ngirlfriend\nboyfriend\nfiancé\nfiancée\nmother\nmom\nmum\nfather\ndad\nson\ndaughter\n"
        "brother\nsister\ngrandmother\ngrandma\ngrandfather\ngrandpa\naunt\nuncle\nniece\nnephew\ncousin\nboss\n"
        "roommate\nflatmate\ndog\ncat\nhorse",
        mine=r"\bmy WHO\b",
        names=(r"\b(?:my|user's) WHO(?:'s name is| is called| is named| named)? NAME",),
        unless=r"\b(?:tells?|told|telling|asks?|asked|gives?|gave|sends?|sent|shows?|showed|buy|bought|hopes?"
        r"|wish(?:es)?) ",
    ),
    _Language(
        "frau ehefrau gattin\nmann ehemann gatte\npartner\npartnerin\nfreundin\nfreund\nverlobte\nverlobter verlobten\n"
        "mutter mutti mama mami\nvater vati papa papi\nsohn\ntochter\nbruder\nschwester\ngroßmutter oma\n"
        "großvater opa\ntante\nonkel\nnichte\nneffe neffen\ncousin\ncousine\nchef\nchefin\nmitbewohner\nmitbewohnerin\n"
        "hund\nhündin\nkatze\nkater\npferd",
        mine=r"\bmein\w{0,2} WHO(?:e?s)?\b",
        names=(  # nouns have capitals: what stands before the verb with "meine Frau" is of her
            r"(?:^|[.!?:\n]\s{0,2}(?=(?-i:M)))meine? WHO NAME(?!,)",
            r"(?:MINE|\bWHO de[sr] (?:be)?nutzer(?:s|in)) (?:heißt|heisst|hieß) NAME(?![^.!?]{0,60}\bwillkommen)",
            r"MINE NAME (?:heißt|heisst|hieß)\b",
            r"\bname (?:MINE|de[sr] WHO(?:e?s)? de[sr] (?:be)?nutzer(?:s|in)) (?:ist|lautet) NAME",
        ),
    ),
    _Language(
        "femme épouse\nmari époux\npartenaire conjoint conjointe\ncompagne\ncompagnon\ncopine\ncopain\nfiancée\n"
        "fiancé\nmère maman\npère papa\nfils\nfille\nfrère\nsœur soeur\ngrand-mère mamie mémé\ngrand-père papi papy\n"
        "tante tata\noncle tonton\nnièce\nneveu\ncousin\ncousine\nchef patron\ncheffe patronne\ncolocataire coloc\n"
        "chien\nchienne\nchat\nchatte\ncheval\njument",
        mine=r"\bm(?:on|a) WHO\b",
        names=(
            r"MINE NAME",
            r"(?:MINE|\bWHO de l['’]utilisat(?:eur|rice)) (?:(?:qui )?s['’]appelle|se nomme|(?:pré)?nommée?) NAME",
            r"\b(?:pré)?nom d(?:e |u )(?:l['’]|la )?(?:MINE|WHO de l['’]utilisat(?:eur|rice)) est NAME",
        ),
        unless=r"\b(?:à|pour|selon) ",
    ),
    _Language(
        "mujer esposa\nmarido esposo\npareja\nnovia\nnovio\nprometida\nprometido\nmadre mamá\npadre papá\nhijo\nhija\n"
        "hermano\nhermana\nabuela abuelita\nabuelo abuelito\ntía\ntío\nsobrina\nsobrino\nprima\nprimo\njefa\njefe\n"
        "perro perrito\nperra perrita\ngato\ngata\ncaballo\nyegua",
        mine=r"\bmi WHO\b",
        names=(
            r"MINE NAME",
            r"(?:MINE|\bWHO de(?:l| la) usuari[oa]) (?:(?:que )?se llama|llamad[oa]) NAME",
            r"\bnombre de(?:l| la)? ?(?:MINE|WHO de(?:l| la) usuari[oa]) es NAME",
        ),
        unless=r"\b(?:a|para|según) ",
    ),
    _Language(
        "妻子 太太 老婆 媳妇 媳婦\n丈夫 老公\n女朋友 女友\n男朋友 男友\n未婚妻\n未婚夫\n妈妈 母亲 妈 媽媽 母親 媽\n"
        "爸爸 父亲 爸 父親\n儿子 兒子\n女儿 女兒\n哥哥 哥\n弟弟 弟\n姐姐 姐\n妹妹 妹\n奶奶 祖母\n外婆 姥姥\n"
        "爷爷 爺爺 祖父\n外公 姥爷\n阿姨\n姑姑\n叔叔\n舅舅\n侄女\n侄子\n老板 老闆\n室友\n狗 小狗\n猫 貓 猫咪\n马 馬",
        mine=r"我(?:家的?|的|(?!马上|馬上))WHO",
        names=(rf"(?:MINE|用[户戶]的?WHO)(?:(?:的?名字)?(?:叫做?|叫作|名叫)|的?名字是) ?{_HAN_NAME}",),
        unless="[让讓请請叫要给給对對跟]",
    ),
    _Language(
        "妻 家内 奥さん 嫁\n夫 主人 旦那\n彼女\n彼氏\n婚約者\n母 お母さん ママ\n父 お父さん パパ\n息子\n娘\n"
        "兄 お兄さん\n弟\n姉 お姉さん\n妹\n祖母 おばあちゃん おばあさん\n祖父 おじいちゃん おじいさん\n"
        "叔母 伯母 おばさん\n叔父 伯父 おじさん\n姪\n甥\nいとこ\n上司\nルームメイト\n犬\n猫\n馬",
        mine=rf"(?:(?:私|わたし|僕|ぼく|俺|うち)の|(?<![一-鿿のおご])(?={_HUMBLE}))WHO(?![一-鿿]|さん)",
        names=(
            rf"(?:MINE|ユーザーの?WHO)の名前は{_KANJI_NAME}",
            rf"(?:MINE|ユーザーの?WHO)は{_KATAKANA_NAME}(?:です|だ|である)?(?:$|(?=[。!！、\s])|という名前|と申します)",
            rf"MINEの{_KATAKANA_NAME}(?:さん|ちゃん|くん|君|と二人|と結婚)",
        ),
    ),
)
"""The more a language leaves open, the more of what may be a name is left out."""
_RELATIVE: Final = re.compile("|".join(language.of_mine() for language in _LANGUAGES), re.IGNORECASE)
_ASCII_RELATIVE: Final = re.compile("|".join(language.of_mine() for language in _LANGUAGES[:4]), re.IGNORECASE)
"""The same for a question of ASCII, several times as fast."""
