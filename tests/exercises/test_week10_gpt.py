"""Week 10: build your own GPT, from the bytes of a text to a model that writes."""

from lab_check.running.testing import exercise, fail, guard, require, same_items

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
    """Let the order of a dictionary's entries not matter."""
    return sorted(counts.items(), key=repr) if isinstance(counts, dict) else counts


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
            fail(f"of {what} {pair} should not be in the result: it does not occur; it counts {count}")
        require(pair in found, f"of {what} {pair} should count {right}, it is missing")
        plain = type(count) is int
        require(plain, f"a count should be a plain integer, that of {pair} is {count!r:.60}")
        require(count == right, f"of {what} {pair} should count {right}, it is {count}")


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
def test_learning_ends_when_no_pair_occurs_twice(submission):
    check_merges(submission, "abc\nabd\nxyz", 300, [(97, 98)], "where only ab occurs twice")


@exercise("10.3")
def test_a_pair_that_occurs_twice_is_still_merged(submission, expected, draw):
    text = draw_text(draw, 25, words=6)
    wanted = expected.tokenizer.train_bpe(text, 2000)
    check_merges(submission, text, 2000, wanted, "where nothing is left to merge in the end")


@exercise("10.3")
def test_the_size_of_the_vocabulary_counts_the_bytes(submission, draw):
    text = draw_text(draw, 80)
    size = draw.number(259, 264)
    found = submission.tokenizer.train_bpe.seen_as(len, 0.0)(text, size)
    require(
        len(found) == size - 256,
        f"{size} tokens are the 256 bytes and {size - 256} merges; there are {len(found)} merges",
    )


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
def test_the_longest_token_is_not_what_decides(submission):
    # abc is a token, but bc was learned first, and takes the b away.
    check_encoded(submission, "abc", [(98, 99), (97, 98), (257, 99)], [97, 256])


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
def test_the_longer_of_two_special_tokens_counts(submission):
    for special, short, long in ((["<s>", "<s>2"], 256, 257), (["<s>2", "<s>"], 257, 256)):
        check_encoded(submission, "<s>2<s>3", [], [long, short, 51], special)


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
    special = ["<s>", "<ende é>"]
    check_decoded(submission, [257, 97, 256, 258], [(97, 98)], "<s>aab<ende é>", special)
    check_decoded(submission, [257, 256], [], "<ende é><s>", special)


@guard("10.5")
def test_no_tokens_give_an_empty_text(submission):
    check_decoded(submission, [], [(97, 98)], "")
    check_decoded(submission, [], [], "", ["<s>"])
