"""The corpus: grammatical on both sides, aligned, distinct, and readable from a file."""

import functools

import pytest

from lab_transformer import corpus
from lab_transformer.corpus import CorpusError, Pair, Vocabulary

LANGUAGES = ["italian", "hindi"]
BEFORE = {adjective.english for adjective in corpus.ADJECTIVES if adjective.before_noun}


@functools.cache
def drawn(language: str, count: int = 4_000) -> list[Pair]:
    return corpus.draw_pairs(language, count)


def linked(pair: Pair, english: set[str]) -> list[tuple[str, int]]:
    """Find the words of a set in the source, with the places of their sure translations."""
    return [(pair.source[s], t) for s, t in sorted(pair.sure) if pair.source[s] in english]


# Italian


@pytest.mark.parametrize(
    ("following", "gender", "definite", "indefinite", "plural"),
    [
        ("ragazzo", "m", "il", "un", "i"),
        ("amico", "m", "l'", "un", "gli"),
        ("studente", "m", "lo", "uno", "gli"),
        ("zaino", "m", "lo", "uno", "gli"),
        ("sarto", "m", "il", "un", "i"),
        ("casa", "f", "la", "una", "le"),
        ("scatola", "f", "la", "una", "le"),
        ("arancia", "f", "l'", "un'", "le"),
    ],
)
def test_an_italian_article_listens_to_the_next_word(following, gender, definite, indefinite, plural):
    assert corpus.italian_article(True, gender, False, following) == definite
    assert corpus.italian_article(False, gender, False, following) == indefinite
    assert corpus.italian_article(True, gender, True, following) == plural


@pytest.mark.parametrize(
    ("masculine", "forms"),
    [
        ("rosso", "rosso rossa rossi rosse"),
        ("verde", "verde verde verdi verdi"),
        ("bianco", "bianco bianca bianchi bianche"),
        ("lungo", "lungo lunga lunghi lunghe"),
        ("vecchio", "vecchio vecchia vecchi vecchie"),
        ("blu", "blu blu blu blu"),
    ],
)
def test_an_italian_adjective_agrees_in_gender_and_number(masculine, forms):
    cases = [(gender, plural) for plural in (False, True) for gender in "mf"]
    assert [corpus.italian_adjective(masculine, *case) for case in cases] == forms.split()


def test_most_italian_adjectives_follow_their_noun_and_a_few_precede_it():
    nouns = {word for noun in corpus.NOUNS for word in noun.english}
    adjectives = {adjective.english for adjective in corpus.ADJECTIVES}
    for pair in drawn("italian"):
        places = dict(pair.sure)
        for i, (word, following) in enumerate(zip(pair.source, pair.source[1:], strict=False)):
            if word in adjectives and following in nouns:
                assert places[i] - places[i + 1] == (-1 if word in BEFORE else 1), pair


def test_an_italian_noun_and_its_adjective_share_gender_and_number():
    nouns = {word: (noun, plural) for noun in corpus.NOUNS for plural, word in enumerate(noun.english)}
    adjectives = {adjective.english: adjective for adjective in corpus.ADJECTIVES}
    for pair in drawn("italian"):
        places = dict(pair.sure)
        for i, (word, following) in enumerate(zip(pair.source, pair.source[1:], strict=False)):
            if word in adjectives and following in nouns:
                noun, plural = nouns[following]
                wanted = corpus.italian_adjective(
                    adjectives[word].italian, noun.italian_gender, bool(plural)
                )
                assert pair.target[places[i]] == wanted, pair


def test_italian_contracts_a_preposition_with_the_article():
    words = {word for pair in drawn("italian") for word in pair.target}
    assert {"nel", "nello", "nella", "nell'", "nei", "negli", "nelle", "sul", "sulla", "in"} <= words
    for pair in drawn("italian"):
        for first, second in zip(pair.target, pair.target[1:], strict=False):
            assert not (first in ("in", "su") and second in ("il", "lo", "la", "l'", "i", "gli", "le"))


def test_italian_elides_this_before_a_vowel():
    followers = {"quest'": set(), "questo": set(), "questa": set()}
    for pair in drawn("italian"):
        for first, second in zip(pair.target, pair.target[1:], strict=False):
            if first in followers:
                followers[first].add(second[0] in "aeiou")
    assert followers == {"quest'": {True}, "questo": {False}, "questa": {False}}


def test_nobody_says_what_means_something_else():
    """My boy is a sweetheart in Italian, a small child is not young in Hindi, nothing is brought in."""
    people = {"boy", "girl", "man", "woman", "boys", "girls", "men", "women"}
    little = {"boy", "girl", "child", "boys", "girls", "children"}
    motions = {"bring", "brings", "take", "takes", "send", "sends"}
    for pair in drawn("italian"):
        for first, second in zip(pair.source, pair.source[1:], strict=False):
            assert not (first == "my" and second in people)
            assert not (first == "young" and second in little)
        assert not (motions & set(pair.source) and "in" in pair.source)


# Hindi


@pytest.mark.parametrize(
    ("singular", "gender", "forms"),
    [
        ("लड़का", "m", "लड़का लड़के लड़के लड़कों"),
        ("घर", "m", "घर घर घर घरों"),
        ("आदमी", "m", "आदमी आदमी आदमी आदमियों"),
        ("भालू", "m", "भालू भालू भालू भालुओं"),
        ("लड़की", "f", "लड़की लड़कियाँ लड़की लड़कियों"),
        ("किताब", "f", "किताब किताबें किताब किताबों"),
        ("महिला", "f", "महिला महिलाएँ महिला महिलाओं"),
        ("रसोई", "f", "रसोई रसोइयाँ रसोई रसोइयों"),
    ],
)
def test_a_hindi_noun_has_number_and_case(singular, gender, forms):
    cases = [(plural, oblique) for oblique in (False, True) for plural in (False, True)]
    assert [corpus.hindi_noun(singular, gender, *case) for case in cases] == forms.split()


@pytest.mark.parametrize(
    ("masculine", "forms"),
    [("बड़ा", "बड़ा बड़े बड़े बड़ी बड़ी"), ("नया", "नया नए नए नई नई"), ("लाल", "लाल लाल लाल लाल लाल")],
)
def test_a_hindi_adjective_agrees_in_gender_number_and_case(masculine, forms):
    cases = [("m", 0, 0), ("m", 1, 0), ("m", 0, 1), ("f", 0, 0), ("f", 1, 1)]
    assert [corpus.hindi_adjective(masculine, *case) for case in cases] == forms.split()


def test_the_hindi_verb_comes_last():
    verbs = {word for verb in corpus.VERBS for word in verb.english}
    for pair in drawn("hindi"):
        last = pair.target[-1] in ("है", "हैं")
        assert last != ("नहीं" in pair.target)
        assert [place for _, place in linked(pair, verbs)] == [len(pair.target) - 1 - last]


def test_the_hindi_verb_agrees_with_its_subject():
    subjects = {
        word: (noun.hindi_gender, bool(plural))
        for noun in corpus.NOUNS
        for plural, word in enumerate(noun.english)
    }
    said = {
        ("m", False): ("ता है", "नहीं ता"),
        ("m", True): ("ते हैं", "नहीं ते"),
        ("f", False): ("ती है", "नहीं ती"),
        ("f", True): ("ती हैं", "नहीं तीं"),
    }
    seen = set()
    for pair in drawn("hindi"):
        subject = subjects[next(word for word in pair.source if word in subjects)]
        denied = "not" in pair.source
        first, second = said[subject][denied].split()
        assert pair.target[-2].endswith(first)
        assert pair.target[-1].endswith(second)
        seen.add((subject, denied))
    assert len(seen) == 8


def test_hindi_says_in_and_on_after_the_noun_in_the_oblique_case():
    nouns = {
        word: corpus.hindi_noun(noun.hindi, noun.hindi_gender, bool(plural), True)
        for noun in corpus.NOUNS
        for plural, word in enumerate(noun.english)
    }
    for pair in drawn("hindi"):
        for _, place in linked(pair, {"in", "on"}):
            (place_noun,) = [pair.source[s] for s, t in pair.sure if t == place - 1]
            assert pair.target[place] in ("में", "पर")
            assert pair.target[place - 1] == nouns[place_noun]


def test_hindi_marks_living_objects_and_no_others():
    alive = {word for noun in corpus.NOUNS if noun.is_alive for word in noun.english}
    nouns = {word for noun in corpus.NOUNS for word in noun.english}
    objects = {word for verb in corpus.VERBS if verb.objects for word in verb.english}
    for pair in drawn("hindi"):
        verb = [i for i, word in enumerate(pair.source) if word in objects]
        after = [word for word in pair.source[verb[0] :] if word in nouns] if verb else []
        assert ("को" in pair.target) == (bool(after) and after[0] in alive), pair


# Alignments and the whole


@pytest.mark.parametrize("language", LANGUAGES)
def test_alignments_point_at_words_that_are_there(language):
    for pair in drawn(language):
        for source, target in pair.sure | pair.possible:
            assert 0 <= source < len(pair.source)
            assert 0 <= target < len(pair.target)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_of_a_translation_is_linked_and_surely_to_one_word_at_most(language):
    for pair in drawn(language):
        sure = [target for _, target in pair.sure]
        assert len(sure) == len(set(sure))
        assert {target for _, target in pair.sure | pair.possible} == set(range(len(pair.target)))


@pytest.mark.parametrize("language", LANGUAGES)
def test_english_says_an_before_a_vowel(language):
    for pair in drawn(language):
        for word, following in zip(pair.source, pair.source[1:], strict=False):
            assert word not in ("a", "an") or (word == "an") == (following[0] in "aeiou")


def test_fifty_thousand_pairs_are_distinct_and_the_vocabulary_is_a_few_hundred_words():
    pairs = corpus.draw_pairs("italian", 50_000)
    assert len({pair.source for pair in pairs}) == len(pairs) == 50_000
    assert all(200 < len(vocabulary) < 600 for vocabulary in corpus.vocabularies(pairs))


def test_the_same_seed_gives_the_same_pairs_and_another_seed_others():
    first = corpus.draw_pairs("hindi", 50, seed=3)
    assert first == corpus.draw_pairs("hindi", 50, seed=3)
    assert first != corpus.draw_pairs("hindi", 50, seed=4)


def test_both_languages_translate_the_same_english():
    italian, hindi = drawn("italian"), drawn("hindi")
    assert [pair.source for pair in italian] == [pair.source for pair in hindi]


def test_no_sentence_is_trained_on_and_tested_on():
    pairs = drawn("italian", 200)
    train, test = corpus.split_pairs([*pairs, *pairs], test=50)
    assert len(test) == 100
    assert len(train) == 300
    assert not {pair.source for pair in train} & {pair.source for pair in test}


@pytest.mark.parametrize("test", [0, 10, 11])
def test_a_split_keeps_something_on_both_sides(test):
    with pytest.raises(CorpusError, match="of 10 different sentences"):
        corpus.split_pairs(drawn("italian", 10), test)


def test_an_unknown_language_is_named():
    with pytest.raises(CorpusError, match="'klingon': choose italian or hindi"):
        corpus.draw_pairs("klingon", 1)


# Words and text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("L'amico vede un’arancia.", ["l'", "amico", "vede", "un'", "arancia", "."]),
        ("लड़का घर देखता है।", ["लड़का", "घर", "देखता", "है", "।"]),
        ("  «Well-known», no?  ", ["«", "well-known", "»", ",", "no", "?"]),
        ("", []),
    ],
)
def test_a_text_is_cut_into_words(text, words):
    assert corpus.tokenize(text) == tuple(words)


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_written_as_text_are_the_same_words_when_read(language):
    for pair in drawn(language)[:500]:
        assert corpus.tokenize(corpus.to_text(pair.target)) == pair.target


@pytest.mark.parametrize(
    ("devanagari", "latin"),
    [
        ("लड़का सेब खाता है", "laṛkā seb khātā hai"),
        ("राजकुमारी", "rājkumārī"),
        ("गिलहरी", "gilahrī"),
        ("छात्र", "chhātra"),
        ("शब्द", "shabd"),
        ("मंदिर में", "mandir mẽ"),
    ],
)
def test_devanagari_is_written_in_latin_letters(devanagari, latin):
    assert corpus.romanise(devanagari) == latin


# A file of one's own


def test_a_file_of_pairs_is_read_once_per_pair(tmp_path):
    path = tmp_path / "mine.tsv"
    path.write_text("\ufeffGood day.\tGuten Tag.\n\nGood day.\tGuten Tag.\nYes\tJa\n", encoding="utf-8")
    assert corpus.read_pairs(path) == [
        Pair(("good", "day", "."), ("guten", "tag", ".")),
        Pair(("yes",), ("ja",)),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"yes\tja\nno nein\n", r"mine\.tsv, line 2: needs a sentence, a tab, .* 0 tabs in 'no nein'"),
        (b"a\tb\tc\n", r"line 1: .* 2 tabs"),
        (b"yes\t  \n", r"line 1: .* 1 tabs"),
        (b"\n\n", "holds no sentence pair"),
        (b"perch\xe9\twhy\n", "is not text in UTF-8"),
    ],
)
def test_a_file_that_cannot_be_used_says_why_and_where(content, message, tmp_path):
    (tmp_path / "mine.tsv").write_bytes(content)
    with pytest.raises(CorpusError, match=message):
        corpus.read_pairs(tmp_path / "mine.tsv")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CorpusError, match=r"none\.tsv cannot be read: No such file"):
        corpus.read_pairs(tmp_path / "none.tsv")


# Numbers for words


def test_a_vocabulary_gives_back_the_words_up_to_the_end():
    vocabulary = Vocabulary([["red", "house"], ["house"]])
    house, red, unknown = vocabulary.encode(["house", "red", "zebra"])
    assert (vocabulary.words[house], vocabulary.words[red], len(vocabulary)) == ("house", "red", 6)
    ids = [vocabulary.bos_id, red, unknown, house, vocabulary.eos_id, red, vocabulary.pad_id]
    assert vocabulary.decode(ids) == ("red", "<unknown>", "house")


def test_a_batch_is_padded_and_every_target_ends():
    pairs = [Pair(("a",), ("x", "y")), Pair(("a", "b"), ("x",))]
    source, target = corpus.to_batch(pairs, *corpus.vocabularies(pairs))
    assert source.tolist() == [[4, 0], [4, 5]]
    assert target.tolist() == [[4, 5, 2], [4, 2, 0]]


def test_batches_visit_every_pair_once_in_the_order_of_their_seed():
    pairs = drawn("italian", 10)
    words = corpus.vocabularies(pairs)

    def visited(seed):
        rows = [row for s, _ in corpus.batches(pairs, *words, size=4, seed=seed) for row in s.tolist()]
        return [words[0].decode(row) for row in rows]

    assert sorted(visited(1)) == sorted(pair.source for pair in pairs)
    assert visited(1) == visited(1) != visited(2)
