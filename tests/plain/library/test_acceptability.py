"""Sentences with mistakes: wrong in one place, each beside its right one, balanced and repeatable."""

from collections import Counter

import pytest

from lab_transformer.acceptability import MISTAKES, draw_contrasts, judged
from lab_transformer.corpus import ADJECTIVES, NOUNS, VERBS, CorpusError, draw_pairs

LANGUAGES = list(MISTAKES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_wrong_sentences_are_none_that_the_grammar_writes(language):
    pairs = draw_pairs("italian", 30_000, seed=1)
    written = {pair.source if language == "english" else pair.target for pair in pairs}
    contrasts = draw_contrasts(language, 3_000)
    written |= {contrast.right for contrast in contrasts}
    assert [contrast for contrast in contrasts if contrast.wrong in written] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_right_sentences_are_made_of_the_words_of_the_corpus_and_come_once(language):
    contrasts = draw_contrasts(language, 600, seed=3)
    pairs = draw_pairs("italian", 4_000)
    words = {word for pair in pairs for word in (pair.source if language == "english" else pair.target)}
    assert {word for contrast in contrasts for word in contrast.right} <= words
    assert len({contrast.right for contrast in contrasts}) == 600


@pytest.mark.parametrize("language", LANGUAGES)
def test_kinds_take_turns_and_a_smaller_draw_is_the_beginning(language):
    contrasts = draw_contrasts(language, 600)
    assert set(Counter(contrast.mistake for contrast in contrasts).values()) == {
        600 // len(MISTAKES[language])
    }
    assert draw_contrasts(language, 60) == contrasts[:60]
    assert draw_contrasts(language, 60, seed=1) != contrasts[:60]


@pytest.mark.parametrize("language", LANGUAGES)
def test_one_word_is_wrong_or_two_neighbours_have_changed_places(language):
    forms = {form for verb in VERBS for form in (*verb.english, *verb.italian)} | {"do", "does"}
    fixed = {noun for entry in NOUNS for noun in (*entry.english, *entry.italian)}
    changed = set()
    for contrast in draw_contrasts(language, 900):
        places = [
            at
            for at, (right, wrong) in enumerate(zip(contrast.right, contrast.wrong, strict=True))
            if right != wrong
        ]
        words = [(contrast.right[at], contrast.wrong[at]) for at in places]
        if contrast.mistake == "order":
            assert places[1] - places[0] == 1
            assert words[0] == words[1][::-1]
            continue
        assert len(words) == 1
        assert (set(words[0]) <= forms) == (contrast.mistake == "agreement")
        if contrast.mistake == "gender":
            assert not set(words[0]) & fixed
            changed.add(words[0])
    if language == "italian":
        adjectives = {adjective.italian for adjective in ADJECTIVES}
        assert {("la", "il"), ("il", "la"), ("mio", "mia")} < changed
        assert any(right in adjectives for right, _ in changed)


@pytest.mark.parametrize("language", LANGUAGES)
def test_labels_are_balanced_and_shuffled(language):
    contrasts = draw_contrasts(language, 200)
    labelled = judged(contrasts)
    assert sorted(label for _, label in labelled) == [0] * 200 + [1] * 200
    assert {words for words, label in labelled if label} == {contrast.right for contrast in contrasts}
    assert judged(contrasts) == labelled
    assert judged(contrasts, seed=1) != labelled
    first = sum(label for _, label in labelled[:200])
    assert 60 < first < 140


def test_mistakes_need_a_language_that_is_known():
    with pytest.raises(CorpusError, match="no mistakes in 'hindi': choose english or italian"):
        draw_contrasts("hindi", 3)
