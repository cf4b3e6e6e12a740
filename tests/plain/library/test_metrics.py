"""BLEU and chrF, against sacrebleu on the same words."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics import BLEU, CHRF

from lab_transformer.metrics import bleu, chrf

words = st.sampled_from(["the", "a", "cat", "dogs", "città", "लड़का", "l'", "si"])
sentences = st.lists(words, max_size=12)


@st.composite
def corpora(draw):
    """Draw references, and translations that share much with them or little."""
    references = draw(st.lists(st.lists(words, min_size=1, max_size=12), min_size=1, max_size=6))
    hypotheses = []
    for reference in references:
        start, end = (draw(st.integers(0, len(reference))) for _ in range(2))
        copied = reference[min(start, end) : max(start, end)]
        hypotheses.append(draw(st.sampled_from([copied, reference])) + draw(sentences)[:4])
    return hypotheses, references


def text(corpus):
    return [" ".join(sentence) for sentence in corpus]


@settings(deadline=None, max_examples=150)
@given(corpora(), st.integers(1, 6))
def test_bleu_equals_sacrebleu(corpus, max_n):
    hypotheses, references = corpus
    oracle = BLEU(smooth_method="none", tokenize="none", force=True, max_ngram_order=max_n)
    expected = oracle.corpus_score(text(hypotheses), [text(references)]).score
    assert bleu(hypotheses, references, max_n) == pytest.approx(expected, abs=1e-9)


@settings(deadline=None, max_examples=150)
@given(corpora(), st.integers(1, 6))
def test_chrf_equals_sacrebleu(corpus, max_n):
    hypotheses, references = corpus
    expected = CHRF(char_order=max_n).corpus_score(text(hypotheses), [text(references)]).score
    assert chrf(hypotheses, references, max_n) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("metric", [bleu, chrf])
def test_both_go_from_0_to_100(metric):
    sentence = ["the", "old", "dog", "sleeps", "here"]
    assert metric([sentence], [sentence]) == pytest.approx(100.0)
    assert metric([["zz"]], [sentence]) == 0.0
    assert metric([[]], [sentence]) == 0.0


@pytest.mark.parametrize("metric", [bleu, chrf])
def test_sentences_come_in_pairs_and_cut_into_words(metric):
    with pytest.raises(ValueError, match=r"2 translations and 1 references"):
        metric([["a"], ["b"]], [["a"]])
    with pytest.raises(ValueError, match="no translation"):
        metric([], [])
    with pytest.raises(TypeError, match="list of words"):
        metric(["the cat"], [["the", "cat"]])
    with pytest.raises(ValueError, match="max_n is at least 1"):
        metric([["a"]], [["a"]], 0)
