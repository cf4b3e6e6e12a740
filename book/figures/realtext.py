"""What the recipe of week 9 makes of real text: the messages of a program, in two languages.

`python realtext.py FOLDER` reads all gettext catalogues (`.mo`, `.po`) below a folder, such as that of
Debian's package `libreoffice-l10n-it`, unpacked. Nothing else needs it: the numbers are kept in
`drawn/realtext.json`.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from common import DRAWN
from week9 import Corpus, Numbers, chrf, corpus, train

from lab_transformer.corpus import Pair, Vocabulary, to_text
from lab_transformer.metrics import bleu
from lab_transformer.pairs import load_pairs

SHORTEST, LONGEST, N_TEST, STEPS = 2, 12, 500, 1_200


def read(folder: Path) -> tuple[list[Pair], int]:
    """Read every catalogue, and each English message once; tell how many were left out."""
    loaded = load_pairs(folder, SHORTEST, LONGEST)
    pairs: dict[tuple[str, ...], Pair] = {}
    for pair in loaded.pairs:
        pairs.setdefault(pair.source, pair)
    return list(pairs.values()), len(loaded.left_out)


def frequent(sentences: list[tuple[str, ...]]) -> Vocabulary:
    """Collect the words that occur twice: the others share the number of the unknown word."""
    counts = Counter(word for sentence in sentences for word in sentence)
    return Vocabulary([[word for word, count in counts.items() if count > 1]])


def dictionary(pairs: list[Pair]) -> dict[str, str]:
    """Find for each English word the Italian one that shares most messages with it (Dice)."""
    english, italian, both = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    for pair in pairs:
        source, target = set(pair.source), set(pair.target)
        english.update(source)
        italian.update(target)
        both.update((one, other) for one in source for other in target)
    best: dict[str, tuple[float, str]] = {}
    for (one, other), count in both.items():
        score = 2 * count / (english[one] + italian[other])
        best[one] = max(best.get(one, (0.0, "")), (score, other))
    return {one: other for one, (_, other) in best.items()}


def score(name: str, found: Sequence[Sequence[str]], test: list[Pair]) -> Numbers:
    """Compare translations with those of the catalogue."""
    gold = [pair.target for pair in test]
    same = [tuple(words) == wanted for words, wanted in zip(found, gold, strict=True)]
    return {
        f"{name}_bleu": bleu(found, gold),
        f"{name}_chrf": chrf(found, gold),
        f"{name}_exact": statistics.fmean(same),
    }


def main(folder: Path) -> None:
    """Train on most messages, and translate the others in three ways."""
    pairs, left_out = read(folder)
    random.Random(0).shuffle(pairs)
    test, kept = pairs[:N_TEST], pairs[N_TEST:]
    source = frequent([pair.source for pair in kept])
    target = frequent([pair.target for pair in kept])
    learned = Corpus("italian", kept, test, [], source, target)
    run = train(learned, shared=False, steps=STEPS)
    found = run.translate(test)
    words = dictionary(kept)
    by_word = [[words.get(word, word) for word in pair.source] for pair in test]
    grammar = train(corpus("italian"), steps=600)
    numbers: Numbers = {
        "pairs": len(pairs),
        "left_out": left_out,
        "test": len(test),
        "source_words": len(source),
        "target_words": len(target),
        "steps": STEPS,
        "minutes": run.seconds / 60,
        "right": run.exact(test),
        **score("trained", found, test),
        **score("word", by_word, test),
        **score("grammar", grammar.translate(test), test),
    }
    shown = [(pair, said) for pair, said in zip(test, found, strict=True) if len(pair.source) > 3]
    for i, (pair, said) in enumerate(shown[:6]):
        numbers |= {
            f"source_{i}": to_text(pair.source),
            f"gold_{i}": to_text(pair.target),
            f"said_{i}": to_text(said),
        }
    text = json.dumps(numbers, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    (DRAWN / "realtext.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
