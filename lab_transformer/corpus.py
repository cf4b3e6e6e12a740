"""Sentence pairs to train a translator on: made by a grammar, or read from a file of your own.

The grammar writes an English sentence and its translation into Italian or Hindi side by side, so it
knows which word became which: every pair comes with its gold alignment. Both sides are grammatical.
Italian puts most adjectives after the noun and contracts "in the" into one word; Hindi has no article,
puts the verb last, and says "in" and marks living objects after the noun.
"""

from __future__ import annotations

import functools
import random
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from lab_transformer import _lexicon

Link = tuple[int, int]


class CorpusError(ValueError):
    """A file of sentence pairs that cannot be used; the message says why and where."""


@dataclass(frozen=True)
class Pair:
    """A sentence, its translation, and links (source word, target word), counted from 0.

    A sure link is one that anybody would draw, a possible one is not wrong. A pair that was read from
    a file has no links.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: frozenset[Link] = frozenset()
    possible: frozenset[Link] = frozenset()


# The lexicon


@dataclass(frozen=True)
class Noun:
    """A noun in three languages; each language has its own idea of gender."""

    english: tuple[str, str]
    italian: tuple[str, str]
    italian_gender: str
    hindi: str
    hindi_gender: str
    kinds: tuple[str, ...]

    @property
    def is_alive(self) -> bool:
        """Tell whether Hindi marks this noun when it is an object."""
        return "person" in self.kinds or "animal" in self.kinds


@dataclass(frozen=True)
class Adjective:
    """An adjective in its masculine singular, and where Italian puts it."""

    english: str
    italian: str
    before_noun: bool
    hindi: str
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Verb:
    """A verb in the present, for one and for many; where it has no object it may have a place."""

    english: tuple[str, str]
    italian: tuple[str, str]
    hindi: str
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    prepositions: tuple[str, ...]
    happens_somewhere: bool


def _nouns() -> list[Noun]:
    return [
        Noun((one, many), (uno, molti), gender, hindi, hindi_gender, tuple(kinds.split()))
        for one, many, uno, molti, gender, hindi, hindi_gender, kinds in _lexicon.rows(_lexicon.NOUNS)
    ]


def _adjectives() -> list[Adjective]:
    return [
        Adjective(english, italian, place == "before", hindi, tuple(kinds.split()))
        for english, italian, place, hindi, kinds in _lexicon.rows(_lexicon.ADJECTIVES)
    ]


def _verbs() -> list[Verb]:
    verbs = []
    for many, one, uno, molti, hindi, subjects, last in _lexicon.rows(_lexicon.VERBS):
        words = tuple(last.split())
        prepositions = tuple(word for word in words if word in PREPOSITIONS)
        objects = () if prepositions else tuple(word for word in words if word != "nowhere")
        kinds, somewhere = tuple(subjects.split()), "nowhere" not in words
        verbs.append(Verb((one, many), (uno, molti), hindi, kinds, objects, prepositions, somewhere))
    return verbs


# English; the kind of noun that follows; Italian; what Italian begins a contraction with; Hindi.
PREPOSITIONS = {"in": ("place", "in", "ne", "में"), "on": ("surface", "su", "su", "पर")}
NUMBERS = {english: (italian, hindi) for english, italian, hindi in _lexicon.rows(_lexicon.NUMBERS)}
TIMES = {english: (italian, hindi) for english, italian, hindi in _lexicon.rows(_lexicon.TIMES)}
ADVERBS = {english: (italian, hindi) for english, italian, hindi in _lexicon.rows(_lexicon.ADVERBS)}
NOUNS, ADJECTIVES, VERBS = _nouns(), _adjectives(), _verbs()

# How often each determiner is drawn, for one and for many.
_ONE = {"the": 6, "a": 4, "this": 2, "my": 2, "our": 1}
_MANY = {"the": 6, "these": 2, "my": 2, "our": 1, "some": 1, "many": 1} | dict.fromkeys(NUMBERS, 0.3)


# In Italian, my man and my boy are those whom I love.
_NOT_MINE = {"boy", "girl", "man", "woman"}


# What is said, before any language says it


@dataclass(frozen=True)
class Phrase:
    """A noun with a determiner and perhaps an adjective."""

    determiner: str
    adjective: Adjective | None
    noun: Noun
    is_plural: bool


@dataclass(frozen=True)
class Clause:
    """Who does what to whom, where, and how often."""

    subject: Phrase
    verb: Verb
    object: Phrase | None
    preposition: str
    place: Phrase | None
    adverb: str
    is_negative: bool
    time: str


@functools.cache
def _nouns_of(kinds: tuple[str, ...]) -> list[Noun]:
    return [noun for noun in NOUNS if set(kinds) & set(noun.kinds)]


@functools.cache
def _adjectives_of(kinds: tuple[str, ...]) -> list[Adjective]:
    return [adjective for adjective in ADJECTIVES if set(kinds) & set(adjective.kinds)]


def _draw_phrase(rng: random.Random, kinds: tuple[str, ...], adjectives: float) -> Phrase:
    noun = rng.choice(_nouns_of(kinds))
    is_plural = rng.random() < 0.4
    weights = _MANY if is_plural else _ONE
    determiner = rng.choices(list(weights), list(weights.values()))[0]
    if determiner == "my" and noun.english[0] in _NOT_MINE:
        determiner = "the"
    adjective = rng.choice(_adjectives_of(noun.kinds)) if rng.random() < adjectives else None
    return Phrase(determiner, adjective, noun, is_plural)


def _draw_clause(rng: random.Random) -> Clause:
    verb = rng.choice(VERBS)
    subject = _draw_phrase(rng, verb.subjects, 0.4)
    target = _draw_phrase(rng, verb.objects, 0.5) if verb.objects else None
    preposition, place = "", None
    if verb.prepositions or (verb.happens_somewhere and rng.random() < 0.15):
        preposition = rng.choice(verb.prepositions or ("in",))
        place = _draw_phrase(rng, (PREPOSITIONS[preposition][0],), 0.0 if target else 0.3)
    extra = rng.random()
    return Clause(
        subject, verb, target, preposition, place,
        adverb=rng.choice(list(ADVERBS)) if extra < 0.1 else "",
        is_negative=0.1 <= extra < 0.2,
        time=rng.choice(list(TIMES)) if 0.2 <= extra < 0.3 else "",
    )  # fmt: skip


# English, which also numbers the words that translations link to


@dataclass
class _English:
    """An English sentence in the making, and where each part of it stands."""

    words: list[str] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)

    def add(self, part: str, word: str) -> None:
        self.places[part] = len(self.words)
        self.words.append(word)

    def add_phrase(self, role: str, phrase: Phrase) -> None:
        start = len(self.words)
        self.add(f"{role} determiner", phrase.determiner)
        if phrase.adjective:
            self.add(f"{role} adjective", phrase.adjective.english)
        self.add(f"{role} noun", phrase.noun.english[phrase.is_plural])
        if phrase.determiner == "a" and self.words[start + 1][0] in "aeiou":
            self.words[start] = "an"


def _english(clause: Clause) -> _English:
    english = _English()
    if clause.time:
        english.add("every", "every")
        english.add("time", clause.time)
    english.add_phrase("subject", clause.subject)
    is_plural = clause.subject.is_plural
    if clause.adverb:
        english.add("adverb", clause.adverb)
    if clause.is_negative:
        english.add("does", "do" if is_plural else "does")
        english.add("not", "not")
    # After "does" the verb has no ending, like that of many.
    english.add("verb", clause.verb.english[is_plural or clause.is_negative])
    if clause.object:
        english.add_phrase("object", clause.object)
    if clause.place:
        english.add("preposition", clause.preposition)
        english.add_phrase("place", clause.place)
    return english


@dataclass
class _Translation:
    """A translation in the making, linked word by word to the English parts it comes from."""

    places: dict[str, int]
    words: list[str] = field(default_factory=list)
    sure: set[Link] = field(default_factory=set)
    possible: set[Link] = field(default_factory=set)

    def add(self, word: str, sure: str | None, *possible: str) -> None:
        target = len(self.words)
        self.words.append(word)
        if sure is not None:
            self.sure.add((self.places[sure], target))
        self.possible |= {(self.places[part], target) for part in possible if part in self.places}


# Italian


def italian_article(noun_is_definite: bool, gender: str, is_plural: bool, following: str) -> str:
    """Choose il, lo, la, l', i, gli, le or un, uno, una, un' by the sound of the word that follows."""
    vowel = following[0] in "aeiou"
    hard = following[0] == "z" or (following[0] == "s" and following[1] not in "aeiou")
    if not noun_is_definite:
        if gender == "f":
            return "un'" if vowel else "una"
        return "uno" if hard else "un"
    if is_plural:
        return "le" if gender == "f" else "gli" if vowel or hard else "i"
    if vowel:
        return "l'"
    return "la" if gender == "f" else "lo" if hard else "il"


def italian_adjective(masculine: str, gender: str, is_plural: bool) -> str:
    """Let an adjective agree: rosso, rossa, rossi, rosse; verde, verdi; blu."""
    if masculine in ("blu", "rosa"):
        return masculine
    stem = masculine[:-1]
    if masculine.endswith("e"):
        return stem + "i" if is_plural else masculine
    if not is_plural:
        return stem + ("a" if gender == "f" else "o")
    if stem[-1] in "cg":
        stem += "h"  # the sound stays hard: bianchi, lunghe
    if gender == "f":
        return stem + "e"
    return stem if stem.endswith("i") else stem + "i"  # vecchi


_POSSESSIVE = {"my": ("mio", "mia", "miei", "mie"), "our": ("nostro", "nostra", "nostri", "nostre")}
_AGREEING = {"this": "questo", "these": "questo", "some": "alcuno", "many": "molto"}
_CONTRACTED = {"il": "l", "lo": "llo", "la": "lla", "l'": "ll'", "i": "i", "gli": "gli", "le": "lle"}


def _italian_phrase(out: _Translation, role: str, phrase: Phrase, preposition: str = "") -> None:
    gender, is_plural = phrase.noun.italian_gender, phrase.is_plural
    determiner, noun = f"{role} determiner", f"{role} noun"
    body = [(phrase.noun.italian[is_plural], noun)]
    if phrase.adjective:
        adjective = italian_adjective(phrase.adjective.italian, gender, is_plural)
        body.insert(0 if phrase.adjective.before_noun else 1, (adjective, f"{role} adjective"))
    article, word = "", ""
    if phrase.determiner in _POSSESSIVE:
        word = _POSSESSIVE[phrase.determiner][2 * is_plural + (gender == "f")]
        article = italian_article(True, gender, is_plural, word)
    elif phrase.determiner in ("the", "a"):
        article = italian_article(phrase.determiner == "the", gender, is_plural, body[0][0])
    elif phrase.determiner in _AGREEING:
        word = italian_adjective(_AGREEING[phrase.determiner], gender, is_plural)
        if not is_plural and body[0][0][0] in "aeiou":
            word = word[:-1] + "'"  # quest'uomo
    else:
        word = NUMBERS[phrase.determiner][0]
    if preposition:
        _, plain, stem, _ = PREPOSITIONS[preposition]
        if article in _CONTRACTED:
            out.add(stem + _CONTRACTED[article], "preposition", determiner)
            article = ""
        else:
            out.add(plain, "preposition")
    if article and word:
        out.add(article, None, determiner, noun)  # il mio: the possessive is the word for "my"
    elif article:
        out.add(article, determiner, noun)
    if word:
        out.add(word, determiner)
    for word, part in body:
        out.add(word, part)


def _italian(clause: Clause, places: dict[str, int]) -> _Translation:
    out = _Translation(places)
    if clause.time:
        out.add("ogni", "every")
        out.add(TIMES[clause.time][0], "time")
    _italian_phrase(out, "subject", clause.subject)
    if clause.is_negative:
        out.add("non", "not", "does")
    out.add(clause.verb.italian[clause.subject.is_plural], "verb", "does")
    if clause.adverb:
        out.add(ADVERBS[clause.adverb][0], "adverb")
    if clause.object:
        _italian_phrase(out, "object", clause.object)
    if clause.place:
        _italian_phrase(out, "place", clause.place, clause.preposition)
    return out


# Hindi


def hindi_noun(singular: str, gender: str, is_plural: bool, is_oblique: bool) -> str:
    """Give a noun its number and case; the oblique case stands before a postposition."""
    stem, last = singular[:-1], singular[-1]
    if gender == "m" and last == "ा":
        if is_plural and is_oblique:
            return stem + "ों"
        return stem + "े" if is_plural or is_oblique else singular
    if not is_plural or (gender == "m" and not is_oblique):
        return singular
    if last in "ीई":
        return stem + {"ी": "ि", "ई": "इ"}[last] + ("यों" if is_oblique else "याँ")
    if last == "ू":
        return stem + "ुओं"
    if last == "ा":
        return singular + ("ओं" if is_oblique else "एँ")
    return singular + ("ों" if is_oblique else "ें")


def hindi_adjective(masculine: str, gender: str, is_plural: bool, is_oblique: bool) -> str:
    """Let an adjective agree: बड़ा, बड़े, बड़ी; those that do not end in ā never change."""
    stem, last = masculine[:-1], masculine[-1]
    if last != "ा":
        return masculine
    after_vowel = stem.endswith("य")  # नया, नए, नई
    if gender == "f":
        return stem[:-1] + "ई" if after_vowel else stem + "ी"
    if is_plural or is_oblique:
        return stem[:-1] + "ए" if after_vowel else stem + "े"
    return masculine


_THIS = {(False, False): "यह", (True, False): "ये", (False, True): "इस", (True, True): "इन"}
_HINDI_DETERMINERS = {"a": "एक", "my": "मेरा", "our": "हमारा", "some": "कुछ", "many": "कई"}


def _hindi_phrase(out: _Translation, role: str, phrase: Phrase, is_oblique: bool = False) -> None:
    form = phrase.noun.hindi_gender, phrase.is_plural, is_oblique
    determiner = f"{role} determiner"
    if phrase.determiner in ("this", "these"):
        out.add(_THIS[phrase.is_plural, is_oblique], determiner)
    elif phrase.determiner in NUMBERS:
        out.add(NUMBERS[phrase.determiner][1], determiner)
    elif phrase.determiner != "the":
        out.add(hindi_adjective(_HINDI_DETERMINERS[phrase.determiner], *form), determiner)
    if phrase.adjective:
        out.add(hindi_adjective(phrase.adjective.hindi, *form), f"{role} adjective")
    # Hindi has no word for "the": its noun says as much.
    implied = [determiner] if phrase.determiner == "the" else []
    out.add(hindi_noun(phrase.noun.hindi, *form), f"{role} noun", *implied)


def _hindi(clause: Clause, places: dict[str, int]) -> _Translation:
    out = _Translation(places)
    if clause.time:
        out.add("हर", "every")
        out.add(TIMES[clause.time][1], "time")
    _hindi_phrase(out, "subject", clause.subject)
    if clause.adverb:
        out.add(ADVERBS[clause.adverb][1], "adverb")
    if clause.place:
        _hindi_phrase(out, "place", clause.place, is_oblique=True)
        out.add(PREPOSITIONS[clause.preposition][3], "preposition")
    if clause.object:
        marked = clause.object.noun.is_alive
        _hindi_phrase(out, "object", clause.object, is_oblique=marked)
        if marked:
            out.add("को", None, "object determiner", "object noun", "verb")
    if clause.is_negative:
        out.add("नहीं", "not", "does")
    is_plural, gender = clause.subject.is_plural, clause.subject.noun.hindi_gender
    ending = "ती" if gender == "f" else "ते" if is_plural else "ता"
    if clause.is_negative:
        # After नहीं the auxiliary is left out, and its nasal for many women moves to the verb.
        out.add(clause.verb.hindi + ending + "ं" * (ending == "ती" and is_plural), "verb", "does")
    else:
        out.add(clause.verb.hindi + ending, "verb", "does")
        out.add("हैं" if is_plural else "है", None, "verb", "does")
    return out


_GRAMMARS = {"italian": _italian, "hindi": _hindi}


def draw_pairs(language: str, count: int, seed: int = 0) -> list[Pair]:
    """Draw pairs of English and "italian" or "hindi", no English sentence twice.

    The same seed gives the same English sentences, whatever the language.
    """
    if language not in _GRAMMARS:
        raise CorpusError(f"there is no grammar for {language!r}: choose {' or '.join(_GRAMMARS)}")
    rng = random.Random(seed)
    pairs: dict[tuple[str, ...], Pair] = {}
    while len(pairs) < count:
        clause = _draw_clause(rng)
        english = _english(clause)
        source = tuple(english.words)
        if source not in pairs:
            out = _GRAMMARS[language](clause, english.places)
            links = frozenset(out.sure), frozenset(out.possible)
            pairs[source] = Pair(source, tuple(out.words), *links)
    return list(pairs.values())


# Words and text


def tokenize(text: str) -> tuple[str, ...]:
    """Cut a text into lower-case words; "l'amico" is two of them, and punctuation stands alone."""
    words: list[str] = []
    for chunk in unicodedata.normalize("NFC", text.lower()).replace("’", "'").split():
        word = ""
        for character in chunk:
            is_mark = unicodedata.category(character)[0] in "PS" and character not in "'-"
            if is_mark:
                words += [word, character]
            word = "" if is_mark else word + character
            if character == "'":
                words.append(word)
                word = ""
        words.append(word)
    return tuple(filter(None, words))


def to_text(words: Iterable[str]) -> str:
    """Write words as one would: l'amico, not l' amico."""
    return " ".join(words).replace("' ", "'")


def _letters(table: str) -> dict[str, str]:
    return dict(cell.split() for row in _lexicon.rows(table) for cell in row)


_CONSONANTS, _VOWELS = _letters(_lexicon.CONSONANTS), _letters(_lexicon.VOWELS)
_SIGNS = _letters(_lexicon.SIGNS)
# A dot below makes another consonant of some.
_DOTTED = {"k": "q", "j": "z", "ph": "f", "ḍ": "ṛ", "ḍh": "ṛh"}
_SCHWA = "ə"


def romanise(text: str) -> str:
    """Write Devanagari in Latin letters, for readers who do not read it: लड़का is laṛkā."""
    return " ".join(map(_romanise_word, unicodedata.normalize("NFC", text).split()))


def _romanise_word(word: str) -> str:
    syllables: list[list[str]] = []  # each has a consonant, a vowel, and what makes it nasal
    for character in word:
        if character in _CONSONANTS:
            syllables.append([_CONSONANTS[character], _SCHWA, ""])
        elif character in _VOWELS:
            syllables.append(["", _VOWELS[character], ""])
        elif character in _SIGNS:
            syllables[-1][1] = _SIGNS[character]
        elif character == "़":
            syllables[-1][0] = _DOTTED.get(syllables[-1][0], syllables[-1][0])
        elif character == "्":
            syllables[-1][1] = ""
        elif character in "ंँ":
            syllables[-1][2] = character
        else:
            syllables.append([character, "", ""])
    _drop_silent_vowels(syllables)
    following = [*(syllable[0][:1] for syllable in syllables[1:]), ""]
    nasals = [_nasal(s[2], consonant) for s, consonant in zip(syllables, following, strict=True)]
    spoken = [s[0] + s[1] + nasal for s, nasal in zip(syllables, nasals, strict=True)]
    return unicodedata.normalize("NFC", "".join(spoken).replace(_SCHWA, "a"))


def _drop_silent_vowels(syllables: list[list[str]]) -> None:
    """Drop the unwritten vowel a where it is not spoken: at the end, and between two other vowels."""
    for i in range(len(syllables) - 1, 0, -1):
        if syllables[i][1] != _SCHWA or syllables[i][2]:
            continue
        after_vowel = bool(syllables[i - 1][1])
        if i == len(syllables) - 1:
            silent = after_vowel or syllables[i][0] not in ("y", "r", "v")
        else:
            silent = after_vowel and bool(syllables[i + 1][1]) and bool(syllables[i + 1][0])
        if silent:
            syllables[i][1] = ""


def _nasal(sign: str, consonant: str) -> str:
    if sign == "ं" and consonant:
        return "m" if consonant in "pbm" else "n"
    return "\N{COMBINING TILDE}" if sign else ""


def read_pairs(path: str | Path) -> list[Pair]:
    """Read sentence pairs of your own: a line each, source and target with a tab between them.

    Empty lines are skipped, and so is a pair that has been there before.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise CorpusError(f"{path} is not text in UTF-8: save it with that encoding") from None
    pairs: dict[Pair, None] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        sides = [tokenize(side) for side in line.split("\t")]
        if len(sides) != 2 or not all(sides):
            raise CorpusError(
                f"{path}, line {number}: needs a sentence, a tab, and its translation, but has "
                f"{line.count(chr(9))} tabs in {line[:60]!r}"
            )
        pairs[Pair(sides[0], sides[1])] = None
    if not pairs:
        raise CorpusError(f"{path} holds no sentence pair: write one a line, with a tab between")
    return list(pairs)


def split_pairs(pairs: Sequence[Pair], test: int, seed: int = 0) -> tuple[list[Pair], list[Pair]]:
    """Hold out pairs for testing: returns the rest, and `test` pairs whose sources the rest lacks."""
    sources = sorted({pair.source for pair in pairs})
    if not 0 < test < len(sources):
        raise CorpusError(
            f"cannot hold out {test} of {len(sources)} different sentences: keep some on each side"
        )
    held_out = set(random.Random(seed).sample(sources, test))
    return (
        [pair for pair in pairs if pair.source not in held_out],
        [pair for pair in pairs if pair.source in held_out],
    )


# Numbers for words


class Vocabulary:
    """The words of one side of a corpus, numbered; the first four numbers are no words."""

    pad_id, bos_id, eos_id, unknown_id = range(4)

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        words = sorted({word for sentence in sentences for word in sentence})
        self.words = ["<pad>", "<start>", "<end>", "<unknown>", *words]
        self._ids = {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, words: Iterable[str]) -> list[int]:
        """Number the words; those never seen share the number of the unknown word."""
        return [self._ids.get(word, self.unknown_id) for word in words]

    def decode(self, ids: Iterable[int]) -> tuple[str, ...]:
        """Give the words up to the end token, without start and padding."""
        words = []
        for number in ids:
            if number == self.eos_id:
                break
            if number not in (self.bos_id, self.pad_id):
                words.append(self.words[number])
        return tuple(words)


def vocabularies(pairs: Sequence[Pair]) -> tuple[Vocabulary, Vocabulary]:
    """Collect the words of both sides."""
    return Vocabulary(pair.source for pair in pairs), Vocabulary(pair.target for pair in pairs)


def pad(sequences: Sequence[Sequence[int]], pad_id: int) -> Int[Tensor, "batch seq"]:
    """Put sequences of different lengths into one tensor, filled up at the end."""
    longest = max(map(len, sequences))
    return torch.tensor([[*ids, *[pad_id] * (longest - len(ids))] for ids in sequences])


def to_batch(
    pairs: Sequence[Pair], source: Vocabulary, target: Vocabulary
) -> tuple[Int[Tensor, "batch key"], Int[Tensor, "batch query"]]:
    """Number and pad both sides; every target ends with the end token."""
    return (
        pad([source.encode(pair.source) for pair in pairs], source.pad_id),
        pad([[*target.encode(pair.target), target.eos_id] for pair in pairs], target.pad_id),
    )


def batches(
    pairs: Sequence[Pair], source: Vocabulary, target: Vocabulary, size: int, seed: int = 0
) -> Iterator[tuple[Int[Tensor, "batch key"], Int[Tensor, "batch query"]]]:
    """Go through all pairs once, in an order that the seed decides, `size` pairs at a time."""
    order = random.Random(seed).sample(range(len(pairs)), len(pairs))
    for start in range(0, len(pairs), size):
        yield to_batch([pairs[i] for i in order[start : start + size]], source, target)
