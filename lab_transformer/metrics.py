"""How good a translation is, as far as counting can tell: BLEU and chrF."""

import math
from collections import Counter
from collections.abc import Sequence


def check_corpus(
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
) -> None:
    """Raise an error unless every translation has its reference, cut into words."""
    if len(hypotheses) != len(references):
        raise ValueError(
            f"{len(hypotheses)} translations and {len(references)} references: each needs its own"
        )
    if not hypotheses:
        raise ValueError("there is no translation to judge")
    for sentence in (*hypotheses, *references):
        if isinstance(sentence, str):
            raise TypeError(
                f"a sentence is a list of words, not a text: cut {sentence[:40]!r} into words"
            )


#: id = "9.7"
#: title = "BLEU"
#: points = 6
#: difficulty = 4
#: minutes = 40
#: needs = []
#: hints = [
#:     "How often may a word count that the translation has three times and the reference once?",
#:     "Four counts of n-grams that match and four of all: for the whole corpus, before any division.",
#:     "Counter & Counter clips; exp of the mean of the logarithms is the geometric mean.",
#: ]
def bleu(
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    max_n: int = 4,
) -> float:
    """Compare translations with their references: BLEU, from 0 to 100.

    Sentences are lists of words; hypotheses[i] has the one reference
    references[i]. For every n from 1 to max_n, the precision is the number of
    n-grams in the hypotheses that match, divided by the number of all n-grams
    in them. An n-gram of a hypothesis matches as often as its own reference has
    it, and no more (clipping). Both numbers are added up over the whole corpus
    before they are divided.

    BLEU is 100 times the geometric mean of the precisions, times the brevity
    penalty exp(1 - r / c) where c, the words of all hypotheses, are fewer than
    r, the words of all references. Nothing is smoothed: where a precision is 0,
    or there is no n-gram of some order at all, BLEU is 0. This is what
    sacrebleu gives for the same words, without smoothing.
    """
    check_corpus(hypotheses, references)
    if max_n < 1:
        raise ValueError(f"max_n is at least 1, not {max_n}")
    ### BEGIN SOLUTION
    logs = 0.0
    for n in range(1, max_n + 1):
        matches = total = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            found, wanted = (
                Counter(tuple(s[i : i + n]) for i in range(len(s) - n + 1))
                for s in (hypothesis, reference)
            )
            matches += (found & wanted).total()
            total += found.total()
        if matches == 0:
            return 0.0
        logs += math.log(matches / total)
    c, r = sum(map(len, hypotheses)), sum(map(len, references))
    penalty = math.exp(1 - r / c) if c < r else 1.0
    return 100 * penalty * math.exp(logs / max_n)
    ### END SOLUTION


def chrf(
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    max_n: int = 6,
    beta: float = 2.0,
) -> float:
    """Compare translations with their references by characters: chrF, from 0 to 100.

    Precision and recall of character n-grams (spaces do not count), over the whole corpus; both are
    averaged over all n, then combined. With beta 2 recall counts more. It sees that casa and case are
    nearly the same word, which BLEU does not.
    """
    check_corpus(hypotheses, references)
    if max_n < 1:
        raise ValueError(f"max_n is at least 1, not {max_n}")
    texts = [("".join(h), "".join(r)) for h, r in zip(hypotheses, references, strict=True)]
    precisions, recalls = [], []
    for length in range(1, max_n + 1):
        matches = total = wanted = 0
        for hypothesis, reference in texts:
            grams, gold = _characters(hypothesis, length), _characters(reference, length)
            matches += (grams & gold).total()
            total += grams.total() if gold else 0  # as sacrebleu does
            wanted += gold.total()
        if total and wanted:
            precisions.append(matches / total)
            recalls.append(matches / wanted)
    if not sum(precisions):
        return 0.0
    precision, recall = sum(precisions) / len(precisions), sum(recalls) / len(recalls)
    return 100 * (1 + beta**2) * precision * recall / (beta**2 * precision + recall)


def _characters(text: str, n: int) -> Counter[str]:
    return Counter(text[i : i + n] for i in range(len(text) - n + 1))
