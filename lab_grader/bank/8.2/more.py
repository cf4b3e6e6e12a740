"""Exercise 8.2. Mistakes that are computed or share a frame: a line says what differs."""

from __future__ import annotations

import math

from lab_grader.bank.engine import Wrong

wrong = Wrong()


# Formulas that are not the one.
for _name, _message, _formula in (
    (
        "not-normalised",
        "The score comes back as it was. It is divided by the length factor, raised to the penalty.",
        lambda score, length, penalty: score,
    ),
    (
        "logarithm-subtracted",
        "You subtract a logarithm of the length factor, as if the score were the logarithm of "
        "what is to be divided. Here the sum of log-probabilities itself is divided.",
        lambda score, length, penalty: score - penalty * math.log((5 + length) / 6),
    ),
    (
        "score-exponentiated",
        "You turn the score into a probability first. The sum of log-probabilities itself is "
        "divided, and it stays negative.",
        lambda score, length, penalty: math.exp(score) / ((5 + length) / 6) ** penalty,
    ),
    (
        "one-instead-of-five",
        "You add 1 to the length. The formula adds 5, so that the factor is 1 for a single token.",
        lambda score, length, penalty: score / ((1 + length) / 6) ** penalty,
    ),
    (
        "five-instead-of-six",
        "You divide by 5, the number that you add. The formula divides by 6, so that the factor "
        "is 1 for a single token.",
        lambda score, length, penalty: score / ((5 + length) / 5) ** penalty,
    ),
    (
        "nothing-added",
        "You divide the length by 6 without adding 5 to it. With both the factor is 1 for a "
        "single token.",
        lambda score, length, penalty: score / (max(length, 1) / 6) ** penalty,
    ),
    (
        "punished-per-token",
        "You subtract the penalty once for every token, which makes long sentences worse still. "
        "The score is divided by a power of the length factor.",
        lambda score, length, penalty: score - penalty * length,
    ),
    (
        "divided-by-penalty-times-length",
        "You divide by the penalty times the length. The penalty is the exponent of the length factor.",
        lambda score, length, penalty: score / (penalty * length or 1.0),
    ),
    (
        "mean-per-token",
        "You divide by the length and leave the penalty out. The length factor is (5 + length) / "
        "6, and the penalty is its exponent.",
        lambda score, length, penalty: score / max(length, 1),
    ),
    (
        "half-the-penalty",
        "You take a root of the length factor besides. Its exponent is the penalty, nothing else.",
        lambda score, length, penalty: score / math.sqrt((5 + length) / 6) ** penalty,
    ),
    (
        "factor-added",
        "You add the length factor to the score. The score is divided by it.",
        lambda score, length, penalty: score + ((5 + length) / 6) ** penalty,
    ),
    (
        "divided-by-the-score",
        "You divide the length factor by the score. It is the score that is divided.",
        lambda score, length, penalty: ((5 + length) / 6) ** penalty / score,
    ),
    (
        "decimals-cut-off",
        "You cut the decimals off the result. Ranking needs all of them.",
        lambda score, length, penalty: int(score / ((5 + length) / 6) ** penalty),
    ),
    (
        "penalty-added-to-the-factor",
        "You add the penalty to the length factor. It is the factor's exponent.",
        lambda score, length, penalty: score / ((5 + length) / 6 + penalty),
    ),
    (
        "penalty-added-to-the-length",
        "You add the penalty to the length or to the 5. It is the exponent of the whole fraction.",
        lambda score, length, penalty: score / ((5 + length + penalty) / 6),
    ),
    (
        "exponential-of-the-factor",
        "You raise e to the factor times the penalty. The factor itself is the base, and the "
        "penalty is its exponent.",
        lambda score, length, penalty: score / math.exp(penalty * (5 + length) / 6),
    ),
    (
        "exponent-one-minus-the-penalty",
        "Your exponent is 1 - penalty. The penalty itself is the exponent: at 0 nothing changes.",
        lambda score, length, penalty: score / ((5 + length) / 6) ** (1 - penalty),
    ),
    (
        "length-over-five-plus-length",
        "You normalise with the length over 5 + length. The factor is (5 + length) / 6: it grows "
        "without limit and is 1 for a single token.",
        lambda score, length, penalty: score / (max(length, 1) / (5 + length)) ** penalty,
    ),
    (
        "score-raised-too",
        "You raise the score to the penalty, too. Only the length factor is raised.",
        lambda score, length, penalty: -(abs(score) ** penalty) / ((5 + length) / 6) ** penalty,
    ),
):
    wrong(_name, _message)(_formula)
