"""Sentences with one mistake made on purpose, each beside the right one: what a model may judge.

There are three kinds of mistakes, and each takes something else to notice: `agreement` (the verb has
the number that its subject has not), `order` (two neighbours have changed places) and `gender` (an
Italian article, possessive or adjective does not go with its noun). English words have no gender.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass

from lab_transformer.corpus import Clause, CorpusError, _draw_clause, _english, _italian

Words = tuple[str, ...]

MISTAKES = {"english": ("agreement", "order"), "italian": ("agreement", "order", "gender")}

# These may be men or women, and are masculine here only because the lexicon says so.
_EITHER = {"ospite", "mercante"}


@dataclass(frozen=True)
class Contrast:
    """A right sentence, the same sentence with one mistake, and what kind of mistake it is."""

    right: Words
    wrong: Words
    mistake: str


def draw_contrasts(language: str, count: int, seed: int = 0) -> list[Contrast]:
    """Draw pairs of a right and a wrong sentence, "english" or "italian"; the kinds take turns.

    No right sentence comes twice, and the same seed gives the same pairs: of a larger count, too, these
    are the first ones.
    """
    if language not in MISTAKES:
        raise CorpusError(f"no mistakes in {language!r}: choose {' or '.join(MISTAKES)}")
    rng = random.Random(seed)
    drawn: dict[Words, Contrast] = {}
    while len(drawn) < count:
        mistake = MISTAKES[language][len(drawn) % len(MISTAKES[language])]
        clause = _draw_clause(rng)
        right, verb = _say(language, clause)
        others = _damaged(language, clause, right, verb, mistake)
        if others and right not in drawn:
            drawn[right] = Contrast(right, rng.choice(others), mistake)
    return list(drawn.values())


def judged(contrasts: Sequence[Contrast], seed: int = 0) -> list[tuple[Words, int]]:
    """Label both sentences of every pair, 1 for right and 0 for wrong, and shuffle all of them."""
    labelled = [
        (words, label) for pair in contrasts for words, label in ((pair.right, 1), (pair.wrong, 0))
    ]
    random.Random(seed).shuffle(labelled)
    return labelled


def _say(language: str, clause: Clause) -> tuple[Words, int]:
    """Give a clause's words, and the place of the one that agrees with the subject."""
    english = _english(clause)
    if language == "english":
        return tuple(english.words), english.places["does" if clause.is_negative else "verb"]
    italian = _italian(clause, english.places)
    (verb,) = (target for source, target in italian.sure if source == english.places["verb"])
    return tuple(italian.words), verb


def _damaged(language: str, clause: Clause, right: Words, verb: int, mistake: str) -> list[Words]:
    """List the ways to make this mistake in a clause."""
    if mistake == "order":
        # The subject's first word begins it; what an Italian verb has behind it may be an adverb.
        places = [2 if clause.time else 0]
        if verb + 1 < len(right) and not (language == "italian" and clause.adverb):
            places.append(verb)
        return [(*right[:at], right[at + 1], right[at], *right[at + 2 :]) for at in places]
    if mistake == "agreement":
        number = dataclasses.replace(clause.subject, is_plural=not clause.subject.is_plural)
        said, place = _say(language, dataclasses.replace(clause, subject=number))
        return [_with(right, verb, said[place])]
    return [
        _with(right, at, word)
        for role in ("subject", "object", "place")
        for at, word in enumerate(_other_gender(clause, role))
        if word != right[at] and "'" not in word + right[at]
    ]


def _other_gender(clause: Clause, role: str) -> Words:
    """Say a clause in Italian as if the noun of this role had the other gender."""
    phrase = getattr(clause, role)
    if phrase is None or phrase.noun.italian[0] in _EITHER:
        return ()
    noun = dataclasses.replace(
        phrase.noun, italian_gender="f" if phrase.noun.italian_gender == "m" else "m"
    )
    said, _ = _say(
        "italian", dataclasses.replace(clause, **{role: dataclasses.replace(phrase, noun=noun)})
    )
    return said


def _with(words: Words, place: int, word: str) -> Words:
    return (*words[:place], word, *words[place + 1 :])
