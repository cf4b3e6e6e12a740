"""Week 10: build your own GPT, from the bytes of a text to a model that writes."""

import math
from itertools import pairwise

import torch

from lab_check.running.testing import (
    agree,
    exercise,
    fail,
    gradients,
    gradients_agree,
    guard,
    keeps_dtype,
    leaves_inputs_alone,
    require,
    same_items,
)

# Tokens: what stands in for a text ------------------------------------------------------------------


def draw_words(draw, count, longest=6, alphabet="abcde", shortest=2):
    """Draw words that differ, of few letters, so that pairs of letters occur again and again."""
    lengths = draw.integers(shortest, longest + 1, word=count).tolist()
    letters = draw.integers(0, len(alphabet), word=count, letter=longest).tolist()
    words = [
        "".join(alphabet[i] for i in row[:length]) for row, length in zip(letters, lengths, strict=True)
    ]
    return list(dict.fromkeys(words))


def draw_text(draw, count, words=14, **kind):
    """Draw a text of so many words, the first ones more often, in any order."""
    known = draw_words(draw, words, **kind)
    places = draw.normal(word=count).abs().mul(len(known) / 2.5).long().tolist()
    return " ".join(known[min(place, len(known) - 1)] for place in places)


def as_tokens(text):
    return tuple(text.encode())


def shown(pair, merges):
    """Show a pair as numbers, and as the bytes that it stands for."""
    pieces = [bytes([byte]) for byte in range(256)]
    for left, right in merges:
        pieces.append(pieces[left] + pieces[right])
    parts = [pieces[token].decode(errors="replace") if token < len(pieces) else "?" for token in pair]
    return f"{pair} ({parts[0]!r} and {parts[1]!r})"


# 10.1 -----------------------------------------------------------------------------------------------


def in_order(counts):
    """Let the order of a dictionary's entries not matter, but what kind of number a count is."""
    if not isinstance(counts, dict):
        return counts
    if any(not isinstance(pair, tuple) for pair in counts):
        return sorted({type(one).__name__ for entry in counts.items() for one in entry})
    return [sorted(counts.items(), key=repr), sorted({type(n).__name__ for n in counts.values()})]


def check_counts(submission, words, wanted, what=""):
    """Require the counts of all pairs, and say of the first that is wrong what it should be."""
    found = submission.tokenizer.count_pairs.seen_as(in_order, 0.0)(words)
    what = what or f"the words {words}"
    if not isinstance(found, dict):
        fail(f"the counts should be a dictionary, from a pair to its count; it is {found!r:.60}")
    for pair in found:
        plain = isinstance(pair, tuple) and len(pair) == 2 and all(type(one) is int for one in pair)
        require(plain, f"a pair should be a tuple of two tokens, here one is {pair!r:.60}")
    for pair in sorted(wanted.keys() | found.keys()):
        right, count = wanted.get(pair), found.get(pair)
        if right is None:
            fail(f"in {what} the pair {pair} does not occur, and should not be in the result")
        require(pair in found, f"in {what} the pair {pair} should count {right}, it is missing")
        plain = type(count) is int
        require(plain, f"a count should be a plain integer, that of {pair} is {count!r:.60}")
        require(count == right, f"in {what} the pair {pair} should count {right}, it is {count}")


def draw_sets_of_words(draw):
    """Draw words as tokens, without two equal neighbours, each with a frequency above one."""
    rows = draw.integers(300, 309, word=7, token=6).tolist()
    lengths = draw.integers(3, 7, word=7).tolist()
    frequencies = draw.integers(2, 40, word=7).tolist()
    words = {}
    for row, length, frequency in zip(rows, lengths, frequencies, strict=True):
        word = [row[0]]
        for step in row[1:length]:
            word.append(300 + (word[-1] - 300 + 1 + (step - 300) % 8) % 9)
        words[tuple(word)] = frequency
    return words


@exercise("10.1")
def test_a_pair_counts_as_often_as_its_words_occur(submission, expected, draw):
    words = draw_sets_of_words(draw)
    wanted = expected.tokenizer.count_pairs(words)
    check_counts(submission, words, wanted, "the words drawn")


@exercise("10.1")
def test_a_pair_in_one_word_alone_counts_with_its_frequency(submission, draw):
    frequency = draw.number(3, 90)
    check_counts(submission, {(5, 8): frequency}, {(5, 8): frequency})


@exercise("10.1")
def test_counts_from_several_words_add_up(submission):
    words = {(4, 9): 10, (2, 4, 9): 5, (4, 9, 7): 3}
    check_counts(submission, words, {(4, 9): 18, (2, 4): 5, (9, 7): 3})


@exercise("10.1")
def test_a_pair_that_comes_twice_in_a_word_counts_twice(submission):
    check_counts(submission, {(3, 6, 2, 3, 6): 4}, {(3, 6): 8, (6, 2): 4, (2, 3): 4})


@exercise("10.1")
def test_the_end_of_a_word_and_the_start_of_the_next_are_no_pair(submission):
    check_counts(submission, {(1, 2): 2, (3, 4): 2, (1, 5): 2}, {(1, 2): 2, (3, 4): 2, (1, 5): 2})


@exercise("10.1")
def test_the_order_within_a_pair_matters(submission):
    check_counts(submission, {(8, 3, 8): 5, (3, 8): 1}, {(8, 3): 5, (3, 8): 6})


@exercise("10.1")
def test_only_neighbours_make_a_pair(submission):
    check_counts(submission, {(11, 12, 13, 14): 1}, {(11, 12): 1, (12, 13): 1, (13, 14): 1})


@exercise("10.1")
def test_occurrences_of_a_pair_do_not_overlap(submission):
    for length, wanted in ((2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3)):
        check_counts(submission, {(7,) * length: 10}, {(7, 7): 10 * wanted})


@exercise("10.1")
def test_equal_tokens_apart_from_each_other_count_each(submission):
    wanted = {(7, 7): 6, (7, 3): 3, (3, 7): 3}
    check_counts(submission, {(7, 7, 3, 7, 7): 3}, wanted)
    wanted = {(7, 7): 4, (7, 3): 2, (3, 7): 2}
    check_counts(submission, {(7, 7, 7, 3, 7, 7): 2}, wanted)


@exercise("10.1")
def test_equal_tokens_are_counted_anew_in_each_word(submission):
    check_counts(submission, {(5, 7, 7): 2, (7, 7): 3, (7, 7, 5): 4}, {(5, 7): 2, (7, 7): 9, (7, 5): 4})


@exercise("10.1")
def test_other_pairs_around_equal_tokens_all_count(submission):
    check_counts(submission, {(7, 7, 7, 9): 2}, {(7, 7): 2, (7, 9): 2})
    check_counts(submission, {(9, 7, 7, 7): 2}, {(7, 7): 2, (9, 7): 2})


@exercise("10.1")
def test_two_pairs_that_take_turns_both_count(submission):
    check_counts(submission, {(2, 5, 2, 5, 2): 1}, {(2, 5): 2, (5, 2): 2})
    check_counts(submission, {(2, 5, 2, 5): 3}, {(2, 5): 6, (5, 2): 3})


@exercise("10.1")
def test_tokens_are_told_apart_as_whole_numbers(submission):
    wanted = {(11, 2): 3, (2, 1): 3, (1, 2): 3, (2, 22): 3}
    check_counts(submission, {(11, 2, 1, 2, 22): 3}, wanted)


@exercise("10.1")
def test_words_of_one_token_change_nothing(submission):
    check_counts(submission, {(3,): 8, (3, 6): 2, (6,): 5, (6, 4): 1}, {(3, 6): 2, (6, 4): 1})


@guard("10.1")
def test_a_word_of_one_token_has_no_pair(submission):
    check_counts(submission, {(65,): 12}, {})


@guard("10.1")
def test_without_words_there_are_no_pairs(submission):
    check_counts(submission, {}, {})


# 10.2 -----------------------------------------------------------------------------------------------


def check_merged(submission, tokens, pair, new_id, wanted):
    found = submission.tokenizer.merge(tokens, pair, new_id)
    plain = all(type(token) is int for token in found)
    require(plain, "the tokens should be plain integers, some of them are something else")
    same_items(found, wanted, f"{tokens} with the pair {pair} as {new_id}")


@exercise("10.2")
def test_every_occurrence_becomes_the_new_token(submission, expected, draw):
    tokens = draw.integers(0, 3, token=40).tolist()
    for pair in ((0, 1), (2, 0)):
        check_merged(submission, tokens, pair, 256, expected.tokenizer.merge(tokens, pair, 256))


@exercise("10.2")
def test_tokens_above_255_merge_like_bytes(submission, expected, draw):
    tokens = draw.integers(998, 1001, token=30).tolist()
    right = expected.tokenizer.merge(tokens, (1000, 998), 1001)
    check_merged(submission, tokens, (1000, 998), 1001, right)


@exercise("10.2")
def test_the_last_token_is_not_lost(submission):
    check_merged(submission, [4, 6, 9], (4, 6), 300, [300, 9])


@exercise("10.2")
def test_a_pair_at_the_end_is_merged(submission):
    check_merged(submission, [9, 4, 6], (4, 6), 300, [9, 300])


@exercise("10.2")
def test_pairs_side_by_side_are_both_merged(submission):
    check_merged(submission, [4, 6, 4, 6, 2, 4, 6], (4, 6), 300, [300, 300, 2, 300])


@exercise("10.2")
def test_a_pair_after_half_a_pair_is_found(submission):
    check_merged(submission, [4, 4, 6, 6], (4, 6), 300, [4, 300, 6])


@exercise("10.2")
def test_where_occurrences_overlap_the_left_one_is_merged(submission):
    check_merged(submission, [7, 7, 7], (7, 7), 300, [300, 7])
    check_merged(submission, [1, 7, 7, 7, 7, 7, 2], (7, 7), 300, [1, 300, 300, 7, 2])


@exercise("10.2")
def test_what_was_just_made_is_not_merged_again(submission):
    check_merged(submission, [7, 7, 7, 7], (7, 7), 7, [7, 7])
    check_merged(submission, [1, 2, 2, 2], (1, 2), 1, [1, 2, 2])


@exercise("10.2")
def test_a_new_token_makes_no_pair_with_the_one_on_its_left(submission):
    check_merged(submission, [5, 1, 1, 2], (1, 2), 2, [5, 1, 2])


@exercise("10.2")
def test_the_exchanged_pair_and_its_parts_stay(submission):
    check_merged(submission, [6, 4, 4, 9, 6, 4, 6], (4, 6), 300, [6, 4, 4, 9, 6, 300])


@exercise("10.2")
def test_tokens_are_compared_as_whole_numbers(submission):
    check_merged(submission, [11, 2, 1, 2, 1, 22], (1, 2), 300, [11, 2, 300, 1, 22])


@guard("10.2")
def test_without_the_pair_nothing_changes(submission, draw):
    tokens = draw.integers(30, 90, token=8).tolist()
    check_merged(submission, tokens, (20, 21), 300, tokens)


@guard("10.2")
def test_one_token_or_none_stays_as_it_is(submission):
    check_merged(submission, [4], (4, 4), 300, [4])
    check_merged(submission, [], (4, 4), 300, [])


# 10.3 -----------------------------------------------------------------------------------------------


def with_kinds(merges):
    """Let lists in the place of tuples be another result."""
    if not isinstance(merges, list):
        return merges
    return [merges, sorted({type(pair).__name__ for pair in merges})]


def check_merges(submission, text, vocab_size, wanted, what):
    found = submission.tokenizer.train_bpe.seen_as(with_kinds, 0.0)(text, vocab_size)
    for pair in found:
        plain = isinstance(pair, tuple) and len(pair) == 2 and all(type(one) is int for one in pair)
        require(plain, f"a merge should be a tuple of two tokens, here one is {pair!r:.60}")
    for place, (pair, right) in enumerate(zip(found, wanted, strict=False)):
        require(
            pair == right,
            f"{what}: merge {place} (0 is the first) should be {shown(right, wanted[:place])}, it is "
            f"{shown(pair, wanted[:place])}",
        )
    require(
        len(found) == len(wanted),
        f"{what}: there should be {len(wanted)} merges, there are {len(found)}",
    )


@exercise("10.3")
def test_the_most_frequent_pair_is_merged_again_and_again(submission, expected, draw):
    text = draw_text(draw, 300)
    wanted = expected.tokenizer.train_bpe(text, 290)
    check_merges(submission, text, 290, wanted, "in a text of 300 words")


@exercise("10.3")
def test_new_tokens_are_merged_in_their_turn(submission):
    # th, then the: the second merge takes what the first has made.
    check_merges(submission, "the\nthe\nthe\nthx", 258, [(116, 104), (256, 101)], "the three times")


@exercise("10.3")
def test_a_word_weighs_as_much_as_it_occurs(submission):
    text = "\n".join(["gh"] * 5 + ["abc", "abd", "abe", "abf"])
    check_merges(submission, text, 257, [(103, 104)], "gh five times, ab in four words")


@exercise("10.3")
def test_of_equally_frequent_pairs_the_smallest_is_taken(submission):
    text = "\n".join(["yz", "mn", "bc", "pq"] * 3)
    wanted = [(98, 99), (109, 110), (112, 113), (121, 122)]
    check_merges(submission, text, 260, wanted, "four pairs that are equally frequent")


@exercise("10.3")
def test_of_equal_left_tokens_the_smaller_right_one_is_taken(submission):
    text = "\n".join(["mz", "ma", "mk"] * 3)
    check_merges(submission, text, 259, [(109, 97), (109, 107), (109, 122)], "three pairs after m")


@exercise("10.3")
def test_the_left_token_decides_before_the_right_one(submission):
    text = "\n".join(["cb", "za", "by"] * 3)
    check_merges(submission, text, 259, [(98, 121), (99, 98), (122, 97)], "cb, za and by")


@exercise("10.3")
def test_ties_go_by_the_numbers_of_tokens_not_by_their_letters(submission):
    # After ab is token 256, zc and abd tie: 122 is smaller than 256.
    text = "\n".join(["abd"] * 3 + ["zc"] * 3 + ["abe"] * 2)
    check_merges(submission, text, 259, [(97, 98), (122, 99), (256, 100)], "abd, zc, abe")


@exercise("10.3")
def test_counts_follow_what_has_been_merged(submission):
    # xy is in ten words, but after bx has been merged only two of them are left.
    text = "\n".join(["abxy"] * 8 + ["bxq"] * 3 + ["xy"] * 2 + ["mn"] * 7)
    wanted = [(98, 120), (97, 256), (257, 121), (109, 110)]
    check_merges(submission, text, 260, wanted, "xy, most of them after b")


@exercise("10.3")
def test_pairs_do_not_reach_from_one_pre_token_into_the_next(submission):
    # b and the space, 7 and m, the comma and the end of the line stand in different pieces.
    text = "ab 7mn,\n" * 4
    check_merges(submission, text, 270, [(97, 98), (109, 110)], "one line four times")


@exercise("10.3")
def test_the_space_before_a_word_belongs_to_it(submission):
    text = "no if if if"
    check_merges(submission, text, 270, [(32, 105), (256, 102)], "no if if if")


@exercise("10.3")
def test_runs_of_white_space_are_learned_from_too(submission):
    text = "if\n    a\n    b\n    c"
    check_merges(submission, text, 270, [(10, 32), (32, 32), (256, 257)], "three lines set in by four")


@exercise("10.3")
def test_digits_and_other_signs_are_learned_from_too(submission):
    check_merges(submission, "170();170();170", 258, [(49, 55), (256, 48)], "170 three times")
    check_merges(submission, "x();y();", 270, [(40, 41), (256, 59)], "();, twice")


@exercise("10.3")
def test_capital_letters_are_letters_of_their_own(submission):
    check_merges(submission, "Ab\nAb\nab\nAB", 270, [(65, 98)], "Ab twice, ab and AB once")


@exercise("10.3")
def test_equal_tokens_in_a_row_are_counted_as_in_count_pairs(submission):
    # Two times three is six without overlap, less than seven.
    text = "\n".join(["mmm"] * 6 + ["xz"] * 7)
    check_merges(submission, text, 258, [(120, 122), (109, 109)], "mmm six times, xz seven times")


@exercise("10.3")
def test_a_run_of_one_letter_is_merged_to_the_end(submission):
    text = "\n".join(["a" * 9] * 3)
    wanted = [(97, 97), (256, 256), (257, 97), (257, 258)]
    check_merges(submission, text, 300, wanted, "nine times a, in three lines")


@exercise("10.3")
def test_letters_are_bytes_in_utf_8(submission):
    text = "\n".join(["né"] * 4 + ["é"] * 2)
    check_merges(
        submission, text, 260, [(195, 169), (110, 256)], "é in six words, n before four of them"
    )


@exercise("10.3")
def test_letters_of_other_scripts_are_bytes_too(submission):
    # Both letters begin with the bytes 224 and 164.
    text = "\u0928\u092e\n\u0928\u092e"
    wanted = [(224, 164), (168, 256), (256, 257), (258, 174)]
    check_merges(submission, text, 270, wanted, "a word of two Hindi letters, twice")


@exercise("10.3")
def test_a_byte_is_told_apart_from_one_that_ends_with_its_digits(submission):
    # The space is 32, and the second byte of Ą is 132.
    wanted = [(32, 97), (132, 97), (196, 257)]
    check_merges(submission, "o a a a\nĄa\nĄa", 270, wanted, "a after three spaces, and Ąa twice")


@exercise("10.3")
def test_learning_ends_when_no_pair_occurs_twice(submission):
    check_merges(submission, "abc\nabd\nxyz", 300, [(97, 98)], "where only ab occurs twice")


@exercise("10.3")
def test_a_pair_that_occurs_twice_is_still_merged(submission, expected, draw):
    text = draw_text(draw, 25, words=6)
    wanted = expected.tokenizer.train_bpe(text, 2000)
    check_merges(submission, text, 2000, wanted, "where nothing is left to merge in the end")


@exercise("10.3")
def test_the_size_of_the_vocabulary_counts_the_bytes(submission, expected, draw):
    text = draw_text(draw, 80)
    size = draw.number(259, 264)
    wanted = expected.tokenizer.train_bpe(text, size)
    what = f"{size} tokens, which are 256 bytes and {size - 256} merges"
    check_merges(submission, text, size, wanted, what)


@guard("10.3")
def test_with_256_tokens_there_is_nothing_to_merge(submission):
    check_merges(submission, "abab abab", 256, [], "with a vocabulary of 256")


@guard("10.3")
def test_a_text_without_pairs_has_no_merges(submission):
    check_merges(submission, "a", 300, [], "in a text of one letter")
    check_merges(submission, "a,b;c", 300, [], "in a text of single signs")


# 10.4 -----------------------------------------------------------------------------------------------


def check_encoded(submission, text, merges, wanted, special=None, what=""):
    """Require the tokens of a text; special tokens are passed only where there are some."""
    more = () if special is None else (special,)
    found = submission.tokenizer.encode(text, merges, *more)
    plain = all(type(token) is int for token in found)
    require(plain, "the tokens should be plain integers, some of them are something else")
    learned = f" with the merges {merges}" if merges and len(merges) < 6 else ""
    kept = f" and the special tokens {special}" if special else ""
    same_items(found, wanted, what or f"the text {text!r}{learned}{kept}")


@exercise("10.4")
def test_a_text_is_encoded_as_it_was_learned(submission, expected, draw):
    text = draw_text(draw, 200)
    merges = expected.tokenizer.train_bpe(text, 300)
    some = text[: text.index(" ", 120)]
    wanted = expected.tokenizer.encode(some, merges)
    check_encoded(submission, some, merges, wanted, what="a part of the text that was learned from")


@exercise("10.4")
def test_words_that_were_never_seen_are_encoded_too(submission, expected, draw):
    merges = expected.tokenizer.train_bpe(draw_text(draw, 200), 290)
    text = " ".join(draw_words(draw, 12, longest=9, shortest=7))
    wanted = expected.tokenizer.encode(text, merges)
    check_encoded(submission, text, merges, wanted, what="words that were not learned from")


@exercise("10.4")
def test_without_merges_the_tokens_are_the_bytes(submission):
    check_encoded(submission, "Hé, 7\n", [], [72, 195, 169, 44, 32, 55, 10])


@exercise("10.4")
def test_the_first_merge_makes_token_256(submission):
    check_encoded(submission, "ab", [(97, 98)], [256])
    check_encoded(submission, "cd", [(97, 98), (99, 100)], [257])


@exercise("10.4")
def test_merges_build_on_each_other(submission):
    check_encoded(submission, "abcd", [(97, 98), (256, 99), (257, 100)], [258])


@exercise("10.4")
def test_the_pair_learned_first_is_merged_first(submission):
    # From left to right ab would come first, and then nothing would be left for b.
    check_encoded(submission, "abc", [(98, 99), (97, 98)], [97, 256])
    check_encoded(submission, "xabc", [(98, 99), (120, 97), (97, 98)], [257, 256])


@exercise("10.4")
def test_the_pair_learned_first_is_merged_first_also_where_it_stands_further_right(submission):
    check_encoded(submission, "abc", [(98, 99), (97, 256), (97, 98)], [257])


@exercise("10.4")
def test_how_often_a_pair_occurs_in_the_text_does_not_decide(submission):
    check_encoded(submission, "abcbc", [(97, 98), (98, 99)], [256, 99, 257])


@exercise("10.4")
def test_the_longest_token_is_not_what_decides(submission):
    # abc is a token, but bc was learned first, and takes the b away.
    check_encoded(submission, "abc", [(98, 99), (97, 98), (257, 99)], [97, 256])


@exercise("10.4")
def test_the_pair_that_makes_the_longer_token_is_not_what_decides(submission):
    # After cd, b could go with it to bcd, but ab was learned before that.
    check_encoded(submission, "abcd", [(99, 100), (97, 98), (98, 256)], [257, 256])


@exercise("10.4")
def test_a_new_token_does_not_go_first_because_it_is_new(submission):
    # After ab, it could go with c to abc, but cd was learned before that.
    check_encoded(submission, "abcd", [(97, 98), (99, 100), (256, 99)], [256, 257])


@exercise("10.4")
def test_a_pair_is_merged_wherever_it_occurs(submission):
    check_encoded(submission, "abcabdab", [(97, 98)], [256, 99, 256, 100, 256])


@exercise("10.4")
def test_equal_letters_are_merged_from_the_left(submission):
    check_encoded(submission, "aaaaa", [(97, 97)], [256, 256, 97])
    check_encoded(submission, "aaaaaaa", [(97, 97), (256, 97)], [256, 256, 257])


@exercise("10.4")
def test_no_merge_reaches_from_one_pre_token_into_the_next(submission):
    merges = [(98, 32), (44, 97), (97, 55), (10, 98)]
    check_encoded(submission, "ab ,a7\nb", merges, [97, 98, 32, 44, 97, 55, 10, 98])


@exercise("10.4")
def test_the_space_before_a_word_is_merged_with_it(submission):
    merges = [(32, 97), (256, 98)]
    check_encoded(submission, "ab ab  ab", merges, [97, 98, 257, 32, 257])


@exercise("10.4")
def test_white_space_is_kept(submission):
    text = " \t a\n\n  b \r\n"
    check_encoded(submission, text, [(10, 10)], [32, 9, 32, 97, 256, 32, 32, 98, 32, 13, 10])


@exercise("10.4")
def test_a_repeated_word_has_the_same_tokens_again(submission):
    merges = [(97, 98), (32, 256)]
    check_encoded(submission, "ab ab ab ab", merges, [256, 257, 257, 257])


@exercise("10.4")
def test_letters_of_many_bytes_are_merged_byte_by_byte(submission):
    # é and è begin with the same byte.
    check_encoded(submission, "éèé", [(195, 169)], [256, 195, 168, 256])


@exercise("10.4")
def test_letters_of_any_script_are_bytes_in_utf_8(submission):
    check_encoded(submission, "\u0928\u092e", [(224, 164), (256, 168)], [257, 256, 174])


@exercise("10.4")
def test_a_special_token_is_one_token(submission):
    merges = [(97, 98)]
    check_encoded(submission, "ab<end>ab", merges, [256, 257, 256], ["<end>"])
    check_encoded(submission, "<end>b", merges, [257, 98], ["<end>"])
    check_encoded(submission, "b<end>", merges, [98, 257], ["<end>"])


@exercise("10.4")
def test_special_tokens_are_numbered_after_the_merges(submission):
    special = ["<start>", "<end>", "<pad>"]
    text = "<end>a<start>b<pad>"
    check_encoded(submission, text, [(97, 98), (98, 97)], [259, 97, 258, 98, 260], special)
    check_encoded(submission, text, [], [257, 97, 256, 98, 258], special)


@exercise("10.4")
def test_special_tokens_may_follow_each_other(submission):
    check_encoded(submission, "a<s><s><e><s>", [], [97, 256, 256, 257, 256], ["<s>", "<e>"])


@exercise("10.4")
def test_signs_in_special_tokens_are_just_signs(submission):
    special = ["<|end|>", "[MASK]", "a.c", "(?"]
    text = "<|end|>M[MASK]abca.c(?<|"
    wanted = [256, 77, 257, 97, 98, 99, 258, 259, 60, 124]
    check_encoded(submission, text, [], wanted, special)


@exercise("10.4")
def test_a_special_token_may_be_a_word_and_stand_inside_one(submission):
    text = "STOP STOPs unSTOP"
    check_encoded(submission, text, [], [256, 32, 256, 115, 32, 117, 110, 256], ["STOP"])


@exercise("10.4")
def test_the_longer_of_two_special_tokens_counts(submission):
    check_encoded(submission, "<s>2<s>3", [], [257, 256, 51], ["<s>", "<s>2"])


@exercise("10.4")
def test_the_longer_special_token_counts_where_it_is_listed_first(submission):
    check_encoded(submission, "<s>2<s>3", [], [256, 257, 51], ["<s>2", "<s>"])


@exercise("10.4")
def test_the_special_token_further_left_counts(submission):
    for special, left in ((["<a>", "a>bcd"], 256), (["a>bcd", "<a>"], 257)):
        check_encoded(submission, "<a>bcd", [], [left, 98, 99, 100], special)


@exercise("10.4")
def test_what_stands_between_special_tokens_is_encoded_by_itself(submission):
    # The special token ends a word, and takes no space with it.
    merges = [(97, 98), (32, 256)]
    check_encoded(
        submission, "a<s>b ab<s> ab <s>", merges, [97, 258, 98, 257, 258, 257, 32, 258], ["<s>"]
    )


@exercise("10.4")
def test_special_tokens_that_are_not_passed_are_text(submission):
    check_encoded(submission, "<|>a", [(60, 124)], [256, 62, 97])
    check_encoded(submission, "<|>a", [(60, 124)], [256, 62, 97], [])
    check_encoded(submission, "<s><t>", [], [60, 115, 62, 256], ["<t>"])


@guard("10.4")
def test_an_empty_text_has_no_tokens(submission):
    check_encoded(submission, "", [(97, 98)], [])
    check_encoded(submission, "", [(97, 98)], [], ["<s>"])


# 10.5 -----------------------------------------------------------------------------------------------


def check_decoded(submission, tokens, merges, wanted, special=None, what=""):
    more = () if special is None else (special,)
    found = submission.tokenizer.decode(tokens, merges, *more)
    if not isinstance(found, str):
        fail(f"tokens should come back as a text; it is {found!r:.60}")
    learned = f" with the merges {merges}" if merges and len(merges) < 6 else ""
    kept = f" and the special tokens {special}" if special else ""
    where = what or f"the tokens {tokens}{learned}{kept}"
    require(
        found == wanted, f"{where} should give the text {wanted!r:.90}, the result is {found!r:.90}"
    )


@exercise("10.5")
def test_what_was_encoded_comes_back(submission, expected, draw):
    text = draw_text(draw, 60)
    merges = expected.tokenizer.train_bpe(text, 300)
    tokens = expected.tokenizer.encode(text, merges)
    check_decoded(submission, tokens, merges, text, what="an encoded text")


@exercise("10.5")
def test_tokens_below_256_are_bytes(submission):
    check_decoded(submission, [72, 105, 33, 10, 0], [], "Hi!\n\x00")


@exercise("10.5")
def test_token_256_is_the_first_merge(submission):
    check_decoded(submission, [256, 33, 257], [(97, 98), (99, 100)], "ab!cd")


@exercise("10.5")
def test_merges_of_merges_are_taken_apart_to_the_bytes(submission):
    merges = [(97, 98), (99, 256), (257, 257), (258, 100)]
    check_decoded(submission, [259, 32, 258, 256], merges, "cabcabd cabcabab")


@exercise("10.5")
def test_one_letter_may_be_spread_over_several_tokens(submission):
    check_decoded(submission, [195, 169], [], "é")
    check_decoded(submission, [224, 164, 168, 224, 256], [(164, 174)], "\u0928\u092e")


@exercise("10.5")
def test_a_merge_may_end_inside_a_letter(submission):
    # 257 is é and the first byte of the euro sign.
    check_decoded(submission, [257, 130, 172], [(195, 169), (256, 226)], "é€")


@exercise("10.5")
def test_all_of_unicode_comes_back(submission, expected):
    text = "Ciao, नमस्ते, 你好, مرحبا 👩\u200d🚀 e\u0301 \ufeff\x85\u2028"
    merges = expected.tokenizer.train_bpe(text * 3, 280)
    tokens = expected.tokenizer.encode(text, merges)
    check_decoded(submission, tokens, merges, text, what="text in many scripts")


@exercise("10.5")
def test_white_space_comes_back_as_it_was(submission):
    text = "  a\r\n\n b\t \n "
    check_decoded(submission, list(text.encode()), [], text)


@exercise("10.5")
def test_a_mark_at_the_start_of_a_text_is_kept(submission):
    check_decoded(submission, [239, 187, 191, 97], [], "\ufeffa")


@exercise("10.5")
def test_bytes_that_are_no_text_become_the_replacement_sign(submission):
    check_decoded(submission, [97, 255, 98], [], "a\ufffdb")
    check_decoded(submission, [97, 195], [], "a\ufffd")
    check_decoded(submission, [256, 169, 169], [(195, 169)], "é\ufffd\ufffd")


@exercise("10.5")
def test_special_tokens_come_back_as_their_texts(submission):
    special = ["<s>", "<a>", "<fine è>"]
    check_decoded(submission, [257, 97, 256, 258, 259], [(97, 98)], "<s>aab<a><fine è>", special)


@exercise("10.5")
def test_without_merges_special_tokens_follow_the_bytes(submission):
    special = ["<s>", "<a>", "<fine è>"]
    check_decoded(submission, [258, 257, 97, 256], [], "<fine è><a>a<s>", special)


@guard("10.5")
def test_no_tokens_give_an_empty_text(submission):
    check_decoded(submission, [], [(97, 98)], "")
    check_decoded(submission, [], [], "", ["<s>"])


# 10.6 -----------------------------------------------------------------------------------------------

# A row more or less, a place more or less: no two of these are alike.
LENGTH, ROWS, CONTEXT = 31, 4, 6


def draw_tokens(draw, length):
    """Draw a text in which no token comes twice, and with it where each of them stands."""
    tokens = draw.normal(length=length).argsort() + 100
    return tokens, {token: place for place, token in enumerate(tokens.tolist())}


def places_of(rows, where):
    """Say where in the text each token of a batch stands; -1 where there is no such token."""
    return [[where.get(token, -1) for token in row] for row in rows.tolist()]


def cut(submission, generator, tokens, context, batch, seen):
    """Draw a batch, of which recognition sees only what does not depend on luck."""
    draw_batch = submission.language.next_token_batch.seen_as(lambda pair: list(seen(*pair)), 0.1)
    return draw_batch(tokens, batch, context, generator)


def steps_between(rows):
    """Say how far a token lies from the one before it in its row."""
    return sorted({b - a for row in rows for a, b in pairwise(row)})


def starts_of(rows, where):
    return [row[0] for row in places_of(rows, where)]


def share_of_starts(rows, where, count):
    starts = starts_of(rows, where)
    return [round(starts.count(start) / len(starts), 3) for start in range(count)]


@exercise("10.6")
def test_each_target_is_the_token_after_its_input(submission, draw):
    tokens, where = draw_tokens(draw, LENGTH)
    generator = draw.generator()

    def seen(inputs, targets):
        come = places_of(inputs, where), places_of(targets, where)
        ahead = {b - a for rows in zip(*come, strict=False) for a, b in zip(*rows, strict=False)}
        return list(inputs.shape), list(targets.shape), sorted(ahead)

    inputs, targets = cut(submission, generator, tokens, CONTEXT, ROWS, seen)
    for found, what in ((inputs, "the inputs"), (targets, "the targets")):
        shape = tuple(found.shape)
        require(
            shape == (ROWS, CONTEXT),
            f"{what} should have the axes (batch {ROWS}, context {CONTEXT}), their shape is {shape}",
        )
    for row, aims in zip(places_of(inputs, where), places_of(targets, where), strict=True):
        require(min(row) >= 0, "an input is no token of the text: are these places, not tokens?")
        for at, (place, aim) in enumerate(zip(row, aims, strict=True)):
            require(
                aim == place + 1,
                f"the input {at} of a row is token {place} of the text, so its target is token "
                f"{place + 1}, but it is "
                + (f"token {aim}" if aim >= 0 else "nothing of the text")
                + f" (the text's tokens are 0 to {LENGTH - 1})",
            )


@exercise("10.6")
def test_the_inputs_of_a_row_are_neighbours_in_the_text(submission, draw):
    tokens, where = draw_tokens(draw, LENGTH)
    generator = draw.generator()

    def seen(inputs, targets):
        return [steps_between(places_of(inputs, where))]

    inputs, _ = cut(submission, generator, tokens, CONTEXT, ROWS, seen)
    steps = steps_between(places_of(inputs, where))
    require(
        steps == [1],
        "in a row of inputs each token should come right after the one before it, as in the text; "
        f"yours lie {', '.join(map(str, steps))} apart",
    )


@exercise("10.6")
def test_a_text_with_room_for_one_piece_gives_that_piece(submission, expected, draw):
    tokens, generator = draw.integers(0, 50, length=CONTEXT + 1), draw.generator()
    wanted = expected.language.next_token_batch(tokens, ROWS, CONTEXT, generator)
    found = submission.language.next_token_batch(tokens, ROWS, CONTEXT, generator)
    for rows, right, what in zip(found, wanted, ("input", "target"), strict=True):
        agree(rows, right, f"of a text of {CONTEXT + 1} tokens the {what}", "batch place")


@exercise("10.6")
def test_a_context_of_one_token_makes_pairs_of_neighbours(submission, draw):
    tokens, where = draw_tokens(draw, 2)
    inputs, targets = submission.language.next_token_batch(tokens, 3, 1, draw.generator())
    found = places_of(inputs, where), places_of(targets, where)
    wanted = [[0]] * 3, [[1]] * 3
    same_items(found, wanted, "with two tokens and a context of one, where inputs and targets stand")


@exercise("10.6")
def test_rows_start_anywhere_from_the_first_token_to_the_last_that_can(submission, draw):
    (tokens, where), last = draw_tokens(draw, CONTEXT + 4), 3
    generator = draw.generator()

    def seen(inputs, targets):
        return [sorted(set(starts_of(inputs, where)))]

    inputs, _ = cut(submission, generator, tokens, CONTEXT, 300, seen)
    starts = set(starts_of(inputs, where))
    require(
        last in starts,
        f"of {len(tokens)} tokens, rows of {CONTEXT} and their targets can start at 0 to {last}, but "
        f"of 300 rows none starts at {last}: it still has a target for its last token",
    )
    never = sorted(set(range(last + 1)) - starts)
    require(not never, f"of 300 rows none starts at {never}, where rows start at 0 to {last}")
    require(starts == set(range(last + 1)), f"rows start at {sorted(starts)}, not just at 0 to {last}")


@exercise("10.6")
def test_every_start_is_as_likely_as_any_other(submission, draw):
    tokens, where = draw_tokens(draw, CONTEXT + 5)
    generator = draw.generator()

    def seen(inputs, targets):
        return share_of_starts(inputs, where, 5)

    inputs, _ = cut(submission, generator, tokens, CONTEXT, 6000, seen)
    shares = share_of_starts(inputs, where, 5)
    for start, share in enumerate(shares):
        require(
            abs(share - 0.2) < 0.035,
            f"of five starts each should come in a fifth of the rows; start {start} has {share:.1%}",
        )


@exercise("10.6")
def test_rows_are_drawn_independently_of_each_other(submission, draw):
    tokens, where = draw_tokens(draw, CONTEXT + 5)
    generators = [draw.generator() for _ in range(25)]
    drawn = []

    def told():
        different = {len(set(starts)) for starts in drawn}
        moves = {b - a for starts in drawn for a, b in pairwise(starts)}
        return different, {move % 5 for move in moves}, min(moves) < 0

    def seen(inputs, targets):
        # What one batch holds is luck; what none of many holds is a mistake.
        drawn.append(starts_of(inputs, where))
        different, moves, back = told()
        last = len(drawn) == len(generators)
        return [last and (different == {1}, different == {5}, len(moves), back)]

    for generator in generators:
        cut(submission, generator, tokens, CONTEXT, 5, seen)
    different, moves, back = told()
    require(
        different != {1},
        "in 25 batches all rows of a batch start at the same place: each row draws its own start",
    )
    require(
        len(moves) > 2,
        "from one row to the next the start always moves by the same: each row draws its own start",
    )
    require(
        min(different) < 5,
        "with five starts and five rows, no start came twice in any of 25 batches: rows are drawn "
        "independently, so two may start at the same place",
    )
    require(back, "in 25 batches no row starts before the row above it: rows are drawn in any order")


@exercise("10.6")
def test_the_generator_decides_which_rows_come(submission, draw):
    tokens, where = draw_tokens(draw, 1000)
    one, other = draw.generator(), draw.generator()
    drawn = []

    def seen(inputs, targets):
        drawn.append(starts_of(inputs, where))
        return [drawn[0] == drawn[-1]]

    for generator in (one, one, other):
        cut(submission, generator, tokens, CONTEXT, 20, seen)
    require(
        drawn[0] == drawn[1],
        "two generators in the same state should give the same batch, they gave different ones",
    )
    require(
        drawn[0] != drawn[2],
        "generators in different states gave the same 20 rows: does the generator draw them?",
    )


@guard("10.6")
def test_tokens_of_any_kind_of_integer_keep_it(submission, draw):
    tokens, generator = draw.integers(0, 50, length=CONTEXT + 1), draw.generator()
    for dtype in (torch.int64, torch.int32, torch.uint8):
        batch = submission.language.next_token_batch(tokens.to(dtype), ROWS, CONTEXT, generator)
        for found, what in zip(batch, ("inputs", "targets"), strict=True):
            keeps_dtype(found, dtype, f"of tokens of {dtype} the {what}")


@guard("10.6")
def test_the_text_is_left_alone(submission, draw):
    tokens, generator = draw.integers(0, 50, length=CONTEXT + 1), draw.generator()
    batch = submission.language.next_token_batch
    leaves_inputs_alone(batch, tokens, ROWS, CONTEXT, generator, names=("tokens",))


# 10.7 -----------------------------------------------------------------------------------------------

GPT_SIZES = {"vocab_size": 11, "n_layers": 2, "d_model": 12, "n_heads": 3, "max_length": 9}
SENTENCES, SEQ = 4, 5
TIED = ("output.weight", "token_embedding.weight")


def gpts(submission, expected, draw, dtype=torch.float32, **options):
    """Make the submitted GPT and the right one, with the same drawn parameters."""
    mine = submission.gpt.GPT(**GPT_SIZES | options)
    right = expected.gpt.GPT(**GPT_SIZES | options)
    if dtype == torch.float64:
        mine.double()
        right.double()
    state = draw.state(right)
    state[TIED[0]] = state[TIED[1]]
    for module in (right, mine):
        module.load_state_dict(state)
    return mine, right


def draw_sentences(draw, seq=SEQ):
    return draw.integers(0, GPT_SIZES["vocab_size"], batch=SENTENCES, seq=seq)


def compare_logits(modules, tokens, *args, when=""):
    mine, right = modules
    wanted = right(tokens, *args)
    agree(mine(tokens, *args), wanted, f"{when}the logit", "batch seq vocab")


@exercise("10.7")
def test_every_place_gets_the_logits_of_its_next_token(submission, expected, draw):
    compare_logits(gpts(submission, expected, draw), draw_sentences(draw))


@exercise("10.7")
def test_every_block_has_its_turn(submission, expected, draw):
    modules = gpts(submission, expected, draw, n_layers=3)
    compare_logits(modules, draw_sentences(draw), when="with three blocks ")


@exercise("10.7")
def test_without_blocks_tokens_and_positions_give_the_logits(submission, expected, draw):
    modules = gpts(submission, expected, draw, n_layers=0)
    compare_logits(modules, draw_sentences(draw), when="without any block ")


@exercise("10.7")
def test_positions_are_counted_from_the_offset(submission, expected, draw):
    modules = gpts(submission, expected, draw)
    compare_logits(modules, draw_sentences(draw), 3, when="from position 3 on ")


@exercise("10.7")
def test_a_single_token_has_the_position_of_the_offset(submission, expected, draw):
    modules = gpts(submission, expected, draw)
    tokens = draw_sentences(draw, seq=1)
    for offset in (0, 8):
        compare_logits(modules, tokens, offset, when=f"for one token at position {offset} ")


@exercise("10.7")
def test_the_whole_context_can_be_filled(submission, expected, draw):
    compare_logits(gpts(submission, expected, draw), draw_sentences(draw, seq=9))


@exercise("10.7")
def test_the_same_token_at_two_places_is_told_apart(submission, expected, draw):
    modules = gpts(submission, expected, draw)
    tokens = draw.integers(0, 11, batch=SENTENCES, seq=1).expand(SENTENCES, SEQ).clone()
    compare_logits(modules, tokens, when="for one token again and again ")


@exercise("10.7")
def test_logits_are_right_in_double_precision_too(submission, expected, draw):
    modules = gpts(submission, expected, draw, torch.float64)
    tokens = draw_sentences(draw)
    compare_logits(modules, tokens, when="in double precision ")
    keeps_dtype(modules[0](tokens), torch.float64, "the logits of a model in double precision")


@guard("10.7")
def test_later_tokens_change_no_logit_before_them(submission, expected, draw):
    mine, _ = gpts(submission, expected, draw)
    tokens = draw_sentences(draw)
    logits = mine(tokens)
    prefix = mine(tokens[:, :3])
    agree(prefix, logits[:, :3], "for the first three tokens alone, the logit", "batch seq vocab")


@exercise("10.7")
def test_output_layer_and_token_embedding_learn_one_matrix(submission, expected, draw):
    mine, right = gpts(submission, expected, draw, torch.float64)
    tokens = draw_sentences(draw)
    wanted = gradients(right, tokens)[f"parameter {TIED[1]}"]
    # How values are shared, before and after two different matrices are loaded, tells mistakes apart.
    new = submission.gpt.GPT(**GPT_SIZES)
    state = new.state_dict.seen_as(shares_values, 0.0)()
    new.load_state_dict(state | {TIED[0]: state[TIED[0]] + 1.0})
    new.state_dict.seen_as(shares_values, 0.0)()
    found = gradients(mine, tokens)[f"parameter {TIED[1]}"]
    require(
        found is not None and torch.allclose(found, wanted, rtol=1e-5, atol=1e-7),
        "the gradient for the token embedding is not that of one matrix with two uses: it should be "
        "trained by the look-up of tokens and by the output layer, both",
    )


def shares_values(state):
    return bool(torch.equal(state[TIED[0]], state[TIED[1]])) if TIED[0] in state else None


@exercise("10.7")
def test_gradients_reach_all_parameters_of_a_gpt(submission, expected, draw):
    mine, right = gpts(submission, expected, draw, torch.float64)
    gradients_agree(mine, right, draw_sentences(draw))


@exercise("10.7")
def test_gradients_reach_the_positions_that_were_used(submission, expected, draw):
    mine, right = gpts(submission, expected, draw, torch.float64)
    gradients_agree(mine, right, draw_sentences(draw), 2)


@guard("10.7")
def test_a_gpt_leaves_its_tokens_alone(submission, expected, draw):
    mine, _ = gpts(submission, expected, draw)
    leaves_inputs_alone(mine, draw_sentences(draw), names=("tokens",))


# 10.8 -----------------------------------------------------------------------------------------------


def draw_scores(draw, batches=5):
    """Draw the mean loss of each batch, its number of tokens, and the bytes of the whole text."""
    losses = (draw.normal(batch=batches).abs() + 0.5).tolist()
    tokens = draw.integers(3, 90, batch=batches).tolist()
    return losses, tokens, draw.number(300, 900)


def check_bits(submission, losses, tokens, n_bytes, wanted, what):
    bits = submission.language.bits_per_byte(losses, tokens, n_bytes)
    agree(bits, wanted, what, rel=1e-5)


@exercise("10.8")
def test_the_bits_of_a_small_text_by_hand(submission):
    # 30 tokens of 2 bits and 10 of 5 bits are 110 bits.
    losses = [2 * math.log(2), 5 * math.log(2)]
    what = "30 tokens of 2 bits each and 10 of 5 bits, for 55 bytes: the bits per byte"
    check_bits(submission, losses, [30, 10], 55, 2.0, what)


@exercise("10.8")
def test_one_batch_costs_its_tokens_times_its_mean_loss(submission):
    what = "20 tokens of 3 bits each, for 80 bytes: the bits per byte"
    check_bits(submission, [3 * math.log(2)], [20], 80, 0.75, what)


@exercise("10.8")
def test_guessing_among_all_bytes_costs_eight_bits(submission):
    what = "at a loss of log 256 for each byte of 7 and 12, the bits per byte"
    check_bits(submission, [math.log(256)] * 2, [7, 12], 19, 8.0, what)


@exercise("10.8")
def test_the_bits_per_byte_of_any_batches(submission, expected, draw):
    for batches in (5, 3, 2):
        scores = draw_scores(draw, batches)
        wanted = expected.language.bits_per_byte(*scores)
        check_bits(submission, *scores, wanted, f"of {batches} batches the bits per byte")


@exercise("10.8")
def test_a_large_batch_has_more_to_say_than_a_small_one(submission):
    # 1 token of 9 bits among 100 of 1 bit.
    losses = [9 * math.log(2), math.log(2)]
    what = "1 token of 9 bits and 99 of 1 bit, for 216 bytes: the bits per byte"
    check_bits(submission, losses, [1, 99], 216, 0.5, what)


@exercise("10.8")
def test_how_a_text_is_cut_into_tokens_does_not_matter(submission):
    # The same 120 bits for the same 60 bytes: as 60 tokens of 2 bits, or as 12 of 10.
    by_letters = [2 * math.log(2)] * 2
    by_pieces = [10 * math.log(2)] * 3
    what = "120 bits for 60 bytes, as {} tokens: the bits per byte"
    check_bits(submission, by_letters, [20, 40], 60, 2.0, what.format(60))
    check_bits(submission, by_pieces, [3, 4, 5], 60, 2.0, what.format(12))


@exercise("10.8")
def test_how_the_text_is_cut_into_batches_does_not_matter(submission, expected, draw):
    losses, tokens, n_bytes = draw_scores(draw, 3)
    wanted = expected.language.bits_per_byte(losses, tokens, n_bytes)
    # The second batch in two parts, which both cost what it cost in the mean.
    finer = [losses[0], losses[1], losses[1], losses[2]], [tokens[0], 2, tokens[1] - 2, tokens[2]]
    check_bits(submission, *finer, n_bytes, wanted, "after a batch was cut in two, the bits per byte")


@guard("10.8")
def test_what_is_certain_costs_nothing(submission):
    check_bits(submission, [0.0, 0.0], [5, 9], 14, 0.0, "with losses of 0, the bits per byte")


# 10.9 -----------------------------------------------------------------------------------------------


def check_perplexity(submission, losses, tokens, wanted, what):
    agree(submission.language.perplexity(losses, tokens), wanted, what, rel=1e-5)


@exercise("10.9")
def test_who_hesitates_between_k_tokens_has_the_perplexity_k(submission):
    losses = [math.log(20)] * 3
    what = "with a loss of log 20 in every batch, the perplexity"
    check_perplexity(submission, losses, [4, 9, 2], 20.0, what)


@exercise("10.9")
def test_one_batch_has_the_perplexity_of_its_mean_loss(submission):
    check_perplexity(submission, [1.5], [7], math.exp(1.5), "of one batch of loss 1.5, the perplexity")


@exercise("10.9")
def test_two_batches_of_one_size_by_hand(submission):
    # The mean of log 2 and log 8 is log 4.
    losses = [math.log(2), math.log(8)]
    what = "with losses of log 2 and log 8 for 6 tokens each, the perplexity"
    check_perplexity(submission, losses, [6, 6], 4.0, what)


@exercise("10.9")
def test_a_batch_counts_by_its_tokens(submission):
    # Three tokens of log 2 and one of log 32: together 8 times log 2, over four tokens.
    losses = [math.log(2), math.log(32)]
    what = "with a loss of log 2 for 3 tokens and of log 32 for 1, the perplexity"
    check_perplexity(submission, losses, [3, 1], 4.0, what)


@exercise("10.9")
def test_the_perplexity_of_any_batches(submission, expected, draw):
    for batches in (5, 3, 2):
        losses, tokens, _ = draw_scores(draw, batches)
        wanted = expected.language.perplexity(losses, tokens)
        check_perplexity(submission, losses, tokens, wanted, f"of {batches} batches the perplexity")


@exercise("10.9")
def test_cutting_a_batch_in_two_leaves_the_perplexity(submission, expected, draw):
    losses, tokens, _ = draw_scores(draw, 3)
    wanted = expected.language.perplexity(losses, tokens)
    finer = [losses[0], losses[1], losses[1], losses[2]], [tokens[0], 2, tokens[1] - 2, tokens[2]]
    check_perplexity(submission, *finer, wanted, "after a batch was cut in two, the perplexity")


@guard("10.9")
def test_who_is_certain_hesitates_between_one_token(submission):
    check_perplexity(submission, [0.0, 0.0], [5, 9], 1.0, "with losses of 0, the perplexity")


# 10.10 ----------------------------------------------------------------------------------------------

BIGRAM = "token next"


def compare_bigrams(submission, expected, tokens, vocab_size, smoothing, what):
    wanted = expected.language.bigram_model(tokens, vocab_size, smoothing)
    found = submission.language.bigram_model(tokens, vocab_size, smoothing)
    agree(found, wanted, what, BIGRAM, rel=1e-4, abs=1e-6)


@exercise("10.10")
def test_a_small_text_by_hand(submission, device):
    # After 0 comes 1, 2 and 1; after 1 comes 0, twice; after 2 comes 0.
    tokens = torch.tensor([0, 1, 0, 2, 0, 1, 0], device=device)
    table = submission.language.bigram_model(tokens, 3, 0.0)
    wanted = torch.tensor([[0.0, 2 / 3, 1 / 3], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], device=device)
    agree(table, wanted, "of the text 0 1 0 2 0 1 0 the probability", BIGRAM, rel=1e-4, abs=1e-6)


@exercise("10.10")
def test_smoothing_by_hand(submission, device):
    # With 0.5 more each, row 0 counts 1.5 and 0.5, of 2; row 1 counts 1.5 and 2.5, of 4.
    tokens = torch.tensor([1, 1, 1, 0, 0], device=device)
    table = submission.language.bigram_model(tokens, 2, 0.5)
    wanted = torch.tensor([[0.75, 0.25], [0.375, 0.625]], device=device)
    what = "of the text 1 1 1 0 0 with smoothing 0.5 the probability"
    agree(table, wanted, what, BIGRAM, rel=1e-4, abs=1e-6)


@exercise("10.10")
def test_the_shares_of_any_text(submission, expected, draw):
    tokens = draw.integers(0, 5, length=60)
    compare_bigrams(submission, expected, tokens, 5, 0.0, "without smoothing the probability")


@exercise("10.10")
def test_smoothing_gives_every_pair_of_the_vocabulary_its_part(submission, expected, draw):
    tokens = draw.integers(0, 6, length=40)
    for smoothing in (1.0, 0.1, 3):
        what = f"with smoothing {smoothing} the probability"
        compare_bigrams(submission, expected, tokens, 6, smoothing, what)


@exercise("10.10")
def test_tokens_that_never_occur_have_rows_and_columns_too(submission, expected, draw):
    tokens = draw.integers(2, 6, length=50)
    for smoothing in (0.25, 0.05):
        what = f"with tokens 2 to 5 in a vocabulary of 9, smoothing {smoothing}, the probability"
        compare_bigrams(submission, expected, tokens, 9, smoothing, what)


@exercise("10.10")
def test_where_nothing_follows_and_nothing_is_smoothed_all_are_equal(submission, expected, draw):
    tokens = draw.integers(0, 4, length=30)
    tokens[-1] = 5  # it comes at the end only, and 4 never
    what = "without smoothing, for a token that nothing follows, the probability"
    compare_bigrams(submission, expected, tokens, 6, 0.0, what)


@exercise("10.10")
def test_a_text_of_one_token_says_nothing(submission, expected, draw):
    tokens = draw.integers(0, 4, length=1)
    for smoothing in (0.0, 2.0):
        what = f"of a text without pairs, with smoothing {smoothing}, the probability"
        compare_bigrams(submission, expected, tokens, 4, smoothing, what)


@exercise("10.10")
def test_each_row_sums_to_one(submission, draw):
    tokens = draw.integers(0, 7, length=45)
    for smoothing in (0.0, 0.7):
        table = submission.language.bigram_model(tokens, 8, smoothing)
        what = f"with smoothing {smoothing}, the sum of a row"
        agree(table.sum(dim=-1), 1.0, what, "token", rel=1e-4)


@exercise("10.10")
def test_a_pair_counts_as_often_as_it_comes(submission, expected, draw):
    tokens = draw.integers(0, 2, length=70)
    compare_bigrams(submission, expected, tokens, 2, 0.0, "where pairs come often, the probability")


@guard("10.10")
def test_probabilities_are_single_or_double_precision(submission, draw):
    table = submission.language.bigram_model(draw.integers(0, 4, length=20), 4, 0.5)
    fine = table.dtype in (torch.float32, torch.float64)
    require(fine, f"the probabilities should be float32 or float64, they are {table.dtype}")


@guard("10.10")
def test_the_tokens_that_are_counted_are_left_alone(submission, draw):
    tokens = draw.integers(0, 4, length=20)
    leaves_inputs_alone(submission.language.bigram_model, tokens, 4, 0.5, names=("tokens",))


# 10.11 ----------------------------------------------------------------------------------------------

D_IN, D_OUT, RANK, ALPHA = 7, 5, 3, 6.0


def linear_layer(package, d_in=D_IN, d_out=D_OUT):
    """Make a plain linear layer on the side of a package: one that is part of another block."""
    return package.feedforward.FeedForward(d_in, d_out).get_submodule("w_1")


def draw_numbers(draw, d_in=D_IN, d_out=D_OUT, rank=RANK, dtype=torch.float32):
    """Draw the numbers of a layer that has learned something."""
    return {
        "base.weight": draw.normal(d_out=d_out, d_in=d_in, dtype=dtype),
        "base.bias": draw.normal(d_out=d_out, dtype=dtype),
        "down": draw.normal(d_in=d_in, rank=rank, dtype=dtype),
        "up": draw.normal(rank=rank, d_out=d_out, dtype=dtype),
    }


def lora_layers(submission, expected, draw, rank=RANK, alpha=ALPHA, dtype=torch.float32):
    """Make the submitted layer and the right one, with the same drawn numbers."""
    generator, state = draw.generator(), draw_numbers(draw, rank=rank, dtype=dtype)
    layers = []
    for package in (submission, expected):
        base = linear_layer(package)
        if dtype == torch.float64:
            base.double()
        layer = package.lora.LoRALinear(base, rank, alpha, generator)
        layer.load_state_dict(state)
        layers.append(layer)
    return layers


def draw_inputs(draw, dtype=torch.float32):
    return draw.normal(batch=2, seq=4, d_in=D_IN, dtype=dtype)


OUTPUT, WEIGHT = "batch seq d_out", "d_out d_in"


def agree_at_the_start(layer, base, x, axes, when="before any training"):
    """Require what the base gives; where that is not so, what was drawn is luck."""
    wanted = base(x)

    def told(output):
        fits = output.shape == wanted.shape
        return [list(output.shape), fits and bool(torch.allclose(output, wanted, atol=1e-5))]

    output = layer.forward.seen_as(told, 0.0)(x)
    agree(output, wanted, f"{when} the output", axes)


@exercise("10.11")
def test_at_the_start_the_layer_does_what_its_base_does(submission, draw):
    base = linear_layer(submission)
    numbers = draw_numbers(draw)
    base.load_state_dict({"weight": numbers["base.weight"], "bias": numbers["base.bias"]})
    x, generator = draw_inputs(draw), draw.generator()
    layer = submission.lora.LoRALinear(base, RANK, ALPHA, generator)
    agree_at_the_start(layer, base, x, OUTPUT)


@exercise("10.11")
def test_at_the_start_the_merged_weight_is_that_of_the_base(submission, draw):
    base = linear_layer(submission)
    numbers = draw_numbers(draw)
    base.load_state_dict({"weight": numbers["base.weight"], "bias": numbers["base.bias"]})
    layer = submission.lora.LoRALinear(base, RANK, ALPHA, draw.generator())
    wanted = numbers["base.weight"]

    def told(weight):
        fits = weight.shape == wanted.shape
        return [list(weight.shape), fits and bool(torch.allclose(weight, wanted, atol=1e-5))]

    weight = layer.merged_weight.seen_as(told, 0.0)()
    agree(weight, wanted, "before any training the merged weight", WEIGHT)


@exercise("10.11")
def test_what_was_learned_is_added_to_the_base(submission, expected, draw):
    mine, right = lora_layers(submission, expected, draw)
    x = draw_inputs(draw)
    wanted = right(x)
    output = mine(x)
    agree(output, wanted, "the output", OUTPUT)
    keeps_dtype(output, torch.float32, "the output of a layer in single precision")


@exercise("10.11")
def test_alpha_over_the_rank_scales_what_was_learned(submission, expected, draw):
    for rank, alpha in ((2, 8.0), (4, 1.0), (1, 3.0), (3, 3.0)):
        mine, right = lora_layers(submission, expected, draw, rank, alpha)
        x = draw_inputs(draw)
        wanted = right(x)
        agree(mine(x), wanted, f"with rank {rank} and alpha {alpha} the output", OUTPUT)


@exercise("10.11")
def test_a_single_word_and_many_axes_will_do(submission, expected, draw):
    mine, right = lora_layers(submission, expected, draw)
    word, many = draw.normal(d_in=D_IN), draw.normal(a=2, b=3, c=4, d_in=D_IN)
    wanted = [right(x) for x in (word, many)]
    agree(mine(word), wanted[0], "for a single word the output", "d_out")
    agree(mine(many), wanted[1], "for inputs with four axes the output", "a b c d_out")


@exercise("10.11")
def test_the_merged_weight_holds_what_was_learned(submission, expected, draw):
    for rank, alpha in ((RANK, ALPHA), (4, 1.0)):
        mine, right = lora_layers(submission, expected, draw, rank, alpha)
        wanted = right.merged_weight()
        what = f"with rank {rank} and alpha {alpha} the merged weight"
        agree(mine.merged_weight(), wanted, what, WEIGHT)


@exercise("10.11")
def test_asking_for_the_merged_weight_changes_nothing(submission, expected, draw):
    mine, right = lora_layers(submission, expected, draw)
    x = draw_inputs(draw)
    wanted, merged = right(x), right.merged_weight()
    mine.merged_weight()
    agree(mine(x), wanted, "after the merged weight was asked for, the output", OUTPUT)
    agree(mine.merged_weight(), merged, "asked for a second time, the merged weight", WEIGHT)


@exercise("10.11")
def test_the_layer_that_was_given_is_kept_and_not_copied(submission, draw):
    base = linear_layer(submission)
    numbers = draw_numbers(draw)
    x, generator = draw_inputs(draw), draw.generator()
    layer = submission.lora.LoRALinear(base, RANK, ALPHA, generator)
    base.load_state_dict({"weight": numbers["base.weight"], "bias": numbers["base.bias"]})
    agree_at_the_start(layer, base, x, OUTPUT, "after the given layer got other numbers")


@exercise("10.11")
def test_only_the_two_thin_matrices_are_trained(submission, expected, draw):
    mine, right = lora_layers(submission, expected, draw)
    x = draw_inputs(draw)
    wanted = right(x)
    trained = submission.lora.trainable.seen_as(lambda found: sorted(found), 0.0)(mine)
    names = ", ".join(sorted(trained)) or "nothing"
    require(
        sorted(trained) == ["down", "up"],
        f"training should change down and up only; as it is, it changes {names}",
    )
    agree(mine(x), wanted, "the output", OUTPUT)


@exercise("10.11")
def test_gradients_reach_the_thin_matrices_and_the_inputs(submission, expected, draw):
    mine, right = lora_layers(submission, expected, draw, dtype=torch.float64)
    x = draw_inputs(draw, torch.float64)
    compare_gradients(mine, right, (x,), {"0": "x", "parameter down": "down", "parameter up": "up"})


@exercise("10.11")
def test_gradients_reach_the_thin_matrices_through_the_merged_weight(submission, expected, draw):
    mine, right = lora_layers(submission, expected, draw, dtype=torch.float64)
    names = {"parameter down": "down", "parameter up": "up"}
    compare_gradients(mine.merged_weight, right.merged_weight, (), names, (mine, right))


def compare_gradients(submitted, wanted, args, names, layers=None):
    """Compare the gradients of some inputs and parameters; others may have none."""
    for layer in layers or (submitted, wanted):
        layer.requires_grad_()  # what is frozen is asked for, too
    right, found = gradients(wanted, *args), gradients(submitted, *args)
    for key, name in names.items():
        require(found.get(key) is not None, f"no gradient reaches {name}: it is cut off on the way")
        agree(found[key], right[key], f"the gradient for {name}", rel=1e-5, abs=1e-7)


@exercise("10.11")
def test_down_starts_with_random_numbers_of_the_right_size_and_up_with_zeros(submission, draw):
    d_in = 100
    base, generator = linear_layer(submission, d_in, 36), draw.generator()
    layer = submission.lora.LoRALinear(base, 20, ALPHA, generator)
    x = draw.normal(batch=3, d_in=d_in)
    agree_at_the_start(layer, base, x, "batch d_out")

    def told(state):
        down = state["down"].double()
        size = float(down.std())
        peak = float(down.abs().max()) / size if size else 0.0
        return [
            size * d_in**0.5,
            peak > 2.2,
            abs(float(down.mean())) > size / 4,
            bool(state["up"].any()),
        ]

    def roughly(state):
        size, peak, middle, zero = told(state)
        return [peak and (size > 1.1) - (size < 0.9), peak, middle, zero]

    layer.state_dict.seen_as(roughly, 0.0)()
    state = layer.state_dict.seen_as(told, 0.1)()
    up, down = state["up"], state["down"]
    require(not up.any(), f"up should start as zeros; its numbers go up to {float(up.abs().max()):.3g}")
    size, peak, middle, _ = told(state)
    require(
        abs(size - 1) < 0.1,
        f"the numbers of down should spread by 1 / sqrt(d_in) = {d_in**-0.5:.3g} at the start, "
        f"but their standard deviation is {float(down.std()):.3g}",
    )
    require(not middle, f"the mean of down should be about 0, it is {float(down.mean()):.3g}")
    require(peak, "the numbers of down have a sharp end, as uniform ones have: they should be normal")


@exercise("10.11")
def test_the_generator_draws_down(submission, draw):
    one, other = draw.generator(), draw.generator()
    x = draw.normal(batch=3, d_in=D_IN)
    drawn = []

    def same_as_first(state):
        drawn.append(state["down"])
        return bool(torch.equal(drawn[0], drawn[-1]))

    for generator in (one, one, other):
        base = linear_layer(submission)
        layer = submission.lora.LoRALinear(base, RANK, ALPHA, generator)
        layer.state_dict.seen_as(same_as_first, 0.0)()
    same, different = torch.equal(drawn[0], drawn[1]), not torch.equal(drawn[0], drawn[2])
    require(same, "two generators in the same state should give the same down, they gave two")
    require(different, "generators in different states gave the same down: does the generator draw it?")
    agree_at_the_start(layer, base, x, "batch d_out")


@exercise("10.11")
def test_a_layer_in_double_precision_stays_in_it(submission, expected, draw):
    mine, right = lora_layers(submission, expected, draw, dtype=torch.float64)
    x = draw_inputs(draw, torch.float64)
    wanted, merged = right(x), right.merged_weight()
    output, weight = mine(x), mine.merged_weight()
    keeps_dtype(output, torch.float64, "the output")
    keeps_dtype(weight, torch.float64, "the merged weight")
    agree(output, wanted, "in double precision the output", OUTPUT)
    agree(weight, merged, "in double precision the merged weight", WEIGHT)


@guard("10.11")
def test_a_lora_layer_leaves_its_inputs_and_its_base_alone(submission, expected, draw):
    mine, _ = lora_layers(submission, expected, draw)
    x = draw_inputs(draw)
    leaves_inputs_alone(mine, x, names=("x",))
