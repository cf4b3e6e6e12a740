"""Week 7: two sequences meet."""

import torch

from lab_check.running.testing import (
    agree,
    exercise,
    gradients,
    gradients_agree,
    guard,
    keeps_dtype,
    leaves_inputs_alone,
    require,
    same_items,
)

# Sizes never coincide: an exchanged axis cannot go unnoticed.
LAYERS, HEADS, BATCH, QUERY, KEY, D_FF, D_MODEL = 2, 3, 5, 6, 7, 8, 12
SOURCE_VOCAB, TARGET_VOCAB, PAD = 11, 13, 0
STATES, WEIGHTS = "batch query d_model", "batch head query key"
LAYER_WEIGHTS = "batch layer head query key"


def twins(draw, submitted, right, *sizes, dtype=torch.float32, tie=None, compared=True, **options):
    """Make the submitted module and the right one, with the same drawn parameters.

    The right one gets them only where it is needed for comparison.
    """
    theirs = right(*sizes, **options)
    mine = submitted(*sizes, **options)
    if dtype == torch.float64:
        theirs.double()
        mine.double()
    state = draw.state(theirs)
    if tie is not None:
        state[tie[0]] = state[tie[1]]
    for module in (theirs, mine) if compared else (mine,):
        module.load_state_dict(state)
    return mine, theirs


def draw_sides(draw, dtype=torch.float32, query=QUERY, key=KEY, scale=1.0):
    """Draw the states of the output side and the memory of the source."""
    return (
        draw.normal(batch=BATCH, query=query, d_model=D_MODEL, dtype=dtype, scale=scale),
        draw.normal(batch=BATCH, key=key, d_model=D_MODEL, dtype=dtype, scale=scale),
    )


def draw_masks(draw, query=QUERY, key=KEY):
    """Draw a padding mask for the target, whose first word is real, and one for the source."""
    mask = draw.mask(batch=BATCH, heads=1, query=1, key=query)
    mask[..., 0] = True
    return mask, draw.mask(batch=BATCH, heads=1, query=1, key=key)


# 7.1: cross-attention


def attentions(submission, expected, draw, dtype=torch.float32, **options):
    return twins(
        draw,
        submission.attention.MultiHeadAttention,
        expected.attention.MultiHeadAttention,
        D_MODEL,
        HEADS,
        dtype=dtype,
        **options,
    )


def compare_attention(submission, expected, modules, x, memory, mask=None, when=""):
    right_output, right_weights = expected.attention.cross_attention(x, memory, modules[1], mask)
    output, weights = submission.attention.cross_attention(x, memory, modules[0], mask)
    axes = ("batch ", "")[x.ndim == 2]
    agree(weights, right_weights, f"{when}the weight", f"{axes}head query key")
    agree(output, right_output, f"{when}the output", f"{axes}query d_model")


@exercise("7.1")
def test_the_output_side_asks_and_the_memory_answers(submission, expected, draw):
    modules = attentions(submission, expected, draw)
    compare_attention(submission, expected, modules, *draw_sides(draw))


@exercise("7.1")
def test_padding_of_the_source_gets_no_weight(submission, expected, draw):
    modules = attentions(submission, expected, draw)
    x, memory = draw_sides(draw)
    mask = draw.mask(batch=BATCH, heads=1, query=1, key=KEY)
    compare_attention(submission, expected, modules, x, memory, mask, "with a padded source ")


@exercise("7.1")
def test_a_mask_of_its_own_for_every_query_is_passed_on(submission, expected, draw):
    modules = attentions(submission, expected, draw)
    x, memory = draw_sides(draw)
    mask = draw.mask(batch=BATCH, heads=1, query=QUERY, key=KEY)
    compare_attention(submission, expected, modules, x, memory, mask, "with a mask for every query ")


@exercise("7.1")
def test_both_sides_may_have_the_same_length(submission, expected, draw):
    modules = attentions(submission, expected, draw)
    x, memory = draw_sides(draw, key=QUERY)
    compare_attention(submission, expected, modules, x, memory, when="with equal lengths ")


@exercise("7.1")
def test_both_sides_may_have_the_same_length_and_the_source_padding(submission, expected, draw):
    modules = attentions(submission, expected, draw)
    x, memory = draw_sides(draw, key=QUERY)
    mask = draw.mask(batch=BATCH, heads=1, query=1, key=QUERY)
    compare_attention(submission, expected, modules, x, memory, mask, "with equal lengths and a mask ")


@guard("7.1")
def test_what_stands_in_the_padding_of_the_source_does_not_matter(submission, expected, draw):
    mine, _ = attentions(submission, expected, draw, compared=False)
    x, memory = draw_sides(draw)
    mask = draw.mask(batch=BATCH, heads=1, query=1, key=KEY)
    other = torch.where(mask[:, 0, 0, :, None], memory, draw.normal(d_model=D_MODEL, scale=1e4))
    output, _ = submission.attention.cross_attention(x, memory, mine, mask)
    again, _ = submission.attention.cross_attention(x, other, mine, mask)
    agree(again, output, "after other numbers in hidden places of the memory, the output", STATES)


@exercise("7.1")
def test_the_order_of_the_memory_does_not_matter_but_its_words_do(submission, expected, draw):
    mine, _ = attentions(submission, expected, draw, compared=False)
    x, memory = draw_sides(draw)
    output, _ = submission.attention.cross_attention(x, memory, mine)
    shuffled, _ = submission.attention.cross_attention(x, memory.flip(1), mine)
    agree(shuffled, output, "with the memory in another order the output", STATES)
    other, _ = submission.attention.cross_attention(x, -memory, mine)
    require(
        not torch.allclose(other, output, atol=1e-3),
        "the output does not depend on the memory: it should be made of what the source says",
    )


@exercise("7.1")
def test_a_single_sentence_without_batch_and_with_one_word_works(submission, expected, draw):
    modules = attentions(submission, expected, draw)
    x = draw.normal(query=1, d_model=D_MODEL)
    memory = draw.normal(key=KEY, d_model=D_MODEL)
    compare_attention(submission, expected, modules, x, memory, when="for one word ")


@exercise("7.1")
def test_large_numbers_in_memory_with_other_strides_are_no_problem(submission, expected, draw):
    modules = attentions(submission, expected, draw, torch.float64)
    x = draw.normal(batch=BATCH, query=QUERY, d_model=D_MODEL, dtype=torch.float64, scale=1e4)
    memory = draw.normal(batch=BATCH, d_model=D_MODEL, key=KEY, dtype=torch.float64, scale=1e4).mT
    compare_attention(submission, expected, modules, x, memory, when="for numbers of 1e4 ")


@exercise("7.1")
def test_gradients_reach_both_sides(submission, expected, draw):
    mine, right = attentions(submission, expected, draw, torch.float64)
    x, memory = draw_sides(draw, torch.float64)
    mask = draw.mask(batch=BATCH, heads=1, query=1, key=KEY)
    gradients_agree(
        submission.attention.cross_attention,
        expected.attention.cross_attention,
        x, memory, mine, mask,
        expected_args=(x, memory, right, mask),
        names=("decoder_states", "memory"),
    )  # fmt: skip


@guard("7.1")
def test_cross_attention_leaves_its_inputs_alone(submission, expected, draw):
    mine, _ = attentions(submission, expected, draw, compared=False)
    x, memory = draw_sides(draw)
    mask = draw.mask(batch=BATCH, heads=1, query=1, key=KEY)
    leaves_inputs_alone(
        submission.attention.cross_attention,
        x, memory, mine, mask,
        names=("decoder_states", "memory", "attention", "memory_mask"),
    )  # fmt: skip


@guard("7.1")
def test_cross_attention_keeps_the_dtype(submission, expected, draw):
    mine, _ = attentions(submission, expected, draw, torch.float64, compared=False)
    output, weights = submission.attention.cross_attention(*draw_sides(draw, torch.float64), mine)
    keeps_dtype(output, torch.float64, "the output")
    keeps_dtype(weights, torch.float64, "the weights")


# 7.2: the decoder block


def blocks(submission, expected, draw, dtype=torch.float32, **options):
    return twins(
        draw,
        submission.decoder.DecoderBlock,
        expected.decoder.DecoderBlock,
        D_MODEL,
        HEADS,
        D_FF,
        dtype=dtype,
        **options,
    )


def compare_decoders(modules, *args, when="", axes=WEIGHTS):
    mine, right = modules
    right_states, right_weights = right(*args)
    states, weights = mine(*args)
    agree(weights, right_weights, f"{when}the weight of the cross-attention", axes)
    agree(states, right_states, f"{when}the state", STATES)


def compare_future(mine, draw, x, memory, *masks):
    """Require that target words from the fourth on change nothing before them."""
    other = torch.cat([x[:, :3], draw.normal(batch=BATCH, later=QUERY - 3, d_model=D_MODEL)], dim=1)
    states, weights = mine(x, memory, *masks)
    again, same = mine(other, memory, *masks)
    agree(
        again[:, :3],
        states[:, :3],
        "after a change of later words, the state of an earlier word",
        STATES,
    )
    agree(same[..., :3, :], weights[..., :3, :], "after that, the weight of an earlier word")


def compare_source_padding(mine, draw, x, memory, memory_mask):
    """Require that numbers in hidden places of the memory change nothing."""
    noise = draw.normal(d_model=D_MODEL, scale=1e3)
    other = torch.where(memory_mask[:, 0, 0, :, None], memory, noise)
    states, weights = mine(x, memory, None, memory_mask)
    again, _ = mine(x, other, None, memory_mask)
    agree(again, states, "after other numbers in hidden places of the memory, the state", STATES)
    hidden = weights.masked_fill(memory_mask.reshape(BATCH, *(1,) * (weights.ndim - 2), -1), 0.0)
    agree(hidden, 0.0, "the weight of a hidden source word")


@exercise("7.2")
def test_a_pre_norm_block_has_three_sublayers(submission, expected, draw):
    compare_decoders(blocks(submission, expected, draw), *draw_sides(draw), when="with pre-norm ")


@exercise("7.2")
def test_a_post_norm_block_has_three_sublayers(submission, expected, draw):
    modules = blocks(submission, expected, draw, norm_first=False)
    compare_decoders(modules, *draw_sides(draw), when="with post-norm ")


@exercise("7.2")
def test_padding_is_hidden_on_both_sides(submission, expected, draw):
    modules = blocks(submission, expected, draw)
    compare_decoders(modules, *draw_sides(draw), *draw_masks(draw), when="with both masks ")


@exercise("7.2")
def test_padding_is_hidden_on_both_sides_with_post_norm(submission, expected, draw):
    modules = blocks(submission, expected, draw, norm_first=False)
    compare_decoders(modules, *draw_sides(draw), *draw_masks(draw), when="with post-norm and masks ")


@exercise("7.2")
def test_only_the_target_may_be_padded(submission, expected, draw):
    modules = blocks(submission, expected, draw)
    sides = draw_sides(draw)
    mask, _ = draw_masks(draw)
    compare_decoders(modules, *sides, mask, when="with a padded target ")


@exercise("7.2")
def test_each_mask_belongs_to_its_own_side(submission, expected, draw):
    modules = blocks(submission, expected, draw)
    sides, masks = draw_sides(draw, key=QUERY), draw_masks(draw, key=QUERY)
    compare_decoders(modules, *sides, *masks, when="with equal lengths and both masks ")


@guard("7.2")
def test_a_later_target_word_changes_nothing_before_it(submission, expected, draw):
    mine, _ = blocks(submission, expected, draw, compared=False)
    compare_future(mine, draw, *draw_sides(draw))


@guard("7.2")
def test_a_later_target_word_changes_nothing_under_a_padding_mask(submission, expected, draw):
    mine, _ = blocks(submission, expected, draw, compared=False)
    compare_future(mine, draw, *draw_sides(draw), *draw_masks(draw))


@exercise("7.2")
def test_the_first_target_word_sees_the_whole_source(submission, expected, draw):
    mine, _ = blocks(submission, expected, draw, compared=False)
    x, memory = draw_sides(draw, scale=0.3)
    _, weights = mine(x, memory)
    require(
        bool((weights[:, :, 0] > 0).all()),
        "the first target word gives no weight to some source words, although it may see all of them",
    )
    agree(weights.sum(dim=-1), 1.0, "the sum of the weights over the source", "batch head query")


@guard("7.2")
def test_the_padding_of_the_source_changes_no_state(submission, expected, draw):
    mine, _ = blocks(submission, expected, draw, compared=False)
    sides = draw_sides(draw)
    compare_source_padding(mine, draw, *sides, draw_masks(draw)[1])


@exercise("7.2")
def test_one_target_word_and_a_source_of_nothing_but_padding_work(submission, expected, draw):
    modules = blocks(submission, expected, draw)
    x, memory = draw_sides(draw, query=1)
    memory_mask = draw.mask(batch=BATCH, heads=1, query=1, key=KEY)
    memory_mask[1] = False
    compare_decoders(modules, x, memory, None, memory_mask, when="for one word and an empty source ")


@exercise("7.2")
def test_large_numbers_with_other_strides_are_no_problem_for_a_block(submission, expected, draw):
    modules = blocks(submission, expected, draw, torch.float64)
    x = draw.normal(batch=BATCH, d_model=D_MODEL, query=QUERY, dtype=torch.float64, scale=1e4).mT
    memory = draw.normal(batch=BATCH, d_model=D_MODEL, key=KEY, dtype=torch.float64, scale=1e4).mT
    compare_decoders(modules, x, memory, when="for numbers of 1e4 ")


@exercise("7.2")
def test_gradients_reach_both_sides_and_all_parameters_of_a_block(submission, expected, draw):
    mine, right = blocks(submission, expected, draw, torch.float64)
    sides, masks = draw_sides(draw, torch.float64), draw_masks(draw)
    gradients_agree(mine, right, *sides, *masks, names=("x", "memory"))


@guard("7.2")
def test_a_decoder_block_leaves_its_inputs_alone(submission, expected, draw):
    mine, _ = blocks(submission, expected, draw, compared=False)
    names = ("x", "memory", "mask", "memory_mask")
    sides, (mask, memory_mask) = draw_sides(draw), draw_masks(draw)
    # A mask of the size of the causal one: only such a mask could be combined with it in place.
    square = mask.repeat(1, 1, QUERY, 1)
    leaves_inputs_alone(mine, *sides, square, memory_mask, names=names)


# 7.3: the decoder


def decoders(submission, expected, draw, layers=LAYERS, dtype=torch.float32, **options):
    return twins(
        draw,
        submission.decoder.Decoder,
        expected.decoder.Decoder,
        layers,
        D_MODEL,
        HEADS,
        D_FF,
        dtype=dtype,
        **options,
    )


@exercise("7.3")
def test_every_block_continues_and_a_norm_comes_last(submission, expected, draw):
    modules = decoders(submission, expected, draw)
    compare_decoders(modules, *draw_sides(draw), axes=LAYER_WEIGHTS)


@exercise("7.3")
def test_a_post_norm_decoder_needs_no_final_norm(submission, expected, draw):
    modules = decoders(submission, expected, draw, norm_first=False)
    compare_decoders(modules, *draw_sides(draw), when="with post-norm ", axes=LAYER_WEIGHTS)


@exercise("7.3")
def test_both_masks_reach_every_block(submission, expected, draw):
    modules = decoders(submission, expected, draw)
    sides, masks = draw_sides(draw), draw_masks(draw)
    compare_decoders(modules, *sides, *masks, when="with both masks ", axes=LAYER_WEIGHTS)


@exercise("7.3")
def test_both_masks_reach_their_own_side_in_every_block(submission, expected, draw):
    modules = decoders(submission, expected, draw)
    sides, masks = draw_sides(draw, key=QUERY), draw_masks(draw, key=QUERY)
    when = "with equal lengths and both masks "
    compare_decoders(modules, *sides, *masks, when=when, axes=LAYER_WEIGHTS)


@exercise("7.3")
def test_a_decoder_of_one_block_writes_a_single_word(submission, expected, draw):
    modules = decoders(submission, expected, draw, layers=1)
    sides = draw_sides(draw, query=1)
    mask = draw.mask(batch=BATCH, heads=1, query=1, key=KEY)
    compare_decoders(modules, *sides, None, mask, when="with one block ", axes=LAYER_WEIGHTS)


@guard("7.3")
def test_a_later_target_word_changes_nothing_before_it_through_all_blocks(submission, expected, draw):
    mine, _ = decoders(submission, expected, draw, compared=False)
    compare_future(mine, draw, *draw_sides(draw), *draw_masks(draw))


@guard("7.3")
def test_the_padding_of_the_source_changes_no_state_through_all_blocks(submission, expected, draw):
    mine, _ = decoders(submission, expected, draw, compared=False)
    sides = draw_sides(draw)
    compare_source_padding(mine, draw, *sides, draw_masks(draw)[1])


@exercise("7.3")
def test_large_numbers_with_other_strides_are_no_problem_for_a_decoder(submission, expected, draw):
    modules = decoders(submission, expected, draw, dtype=torch.float64)
    x = draw.normal(batch=BATCH, d_model=D_MODEL, query=QUERY, dtype=torch.float64, scale=1e4).mT
    memory = draw.normal(batch=BATCH, d_model=D_MODEL, key=KEY, dtype=torch.float64, scale=1e4).mT
    compare_decoders(modules, x, memory, when="for numbers of 1e4 ", axes=LAYER_WEIGHTS)


@exercise("7.3")
def test_gradients_reach_both_sides_and_the_parameters_of_all_blocks(submission, expected, draw):
    mine, right = decoders(submission, expected, draw, dtype=torch.float64)
    sides, masks = draw_sides(draw, torch.float64), draw_masks(draw)
    gradients_agree(mine, right, *sides, *masks, names=("x", "memory"))


@guard("7.3")
def test_a_decoder_leaves_its_inputs_alone(submission, expected, draw):
    mine, _ = decoders(submission, expected, draw, compared=False)
    names = ("x", "memory", "mask", "memory_mask")
    leaves_inputs_alone(mine, *draw_sides(draw), *draw_masks(draw), names=names)


# 7.4: the Transformer

SIZES = {"n_layers": 1, "d_model": D_MODEL, "n_heads": HEADS, "d_ff": D_FF, "max_length": 16}
TIED = ("output.weight", "target_embedding.weight")


def transformers(submission, expected, draw, dtype=torch.float32, **options):
    return twins(
        draw,
        submission.transformer.Transformer,
        expected.transformer.Transformer,
        SOURCE_VOCAB,
        TARGET_VOCAB,
        dtype=dtype,
        tie=TIED,
        **SIZES | options,
    )


def draw_source(draw, pad=PAD):
    """Draw source sentences; the first two end in padding."""
    source = draw.integers(1, SOURCE_VOCAB, batch=BATCH, key=KEY)
    source[0, -3:] = source[1, -1:] = pad
    return source


def draw_target(draw, pad=PAD):
    """Draw target sentences; in two of them padding stands where later words could see it."""
    target = draw.integers(1, TARGET_VOCAB, batch=BATCH, query=QUERY)
    target[0, -2:] = target[1, 1:3] = target[2, 3] = pad
    return target


def draw_memory(draw, dtype=torch.float32):
    memory = draw.normal(batch=BATCH, key=KEY, d_model=D_MODEL, dtype=dtype)
    return memory, draw.mask(batch=BATCH, heads=1, query=1, key=KEY)


def compare_encode(modules, source, when=""):
    mine, right = modules
    right_memory, right_mask = right.encode(source)
    memory, mask = mine.encode(source)
    same_items(mask, right_mask, f"{when}the mask of encode")
    agree(memory, right_memory, f"{when}the memory", "batch key d_model")


def compare_decode(modules, *args, when="", **options):
    mine, right = modules
    right_logits, right_weights = right.decode(*args, **options)
    logits, weights = mine.decode(*args, **options)
    agree(weights, right_weights, f"{when}the weight of the cross-attention", LAYER_WEIGHTS)
    agree(logits, right_logits, f"{when}the logit", "batch query vocab")


@exercise("7.4")
def test_encode_reads_the_source_and_hides_its_padding(submission, expected, draw):
    compare_encode(transformers(submission, expected, draw), draw_source(draw))


@exercise("7.4")
def test_decode_gives_logits_and_the_weights_of_every_layer(submission, expected, draw):
    modules = transformers(submission, expected, draw, n_layers=LAYERS)
    compare_decode(modules, draw_target(draw), *draw_memory(draw))


@exercise("7.4")
def test_decode_works_without_a_mask_for_the_memory(submission, expected, draw):
    modules = transformers(submission, expected, draw)
    memory, _ = draw_memory(draw)
    compare_decode(modules, draw_target(draw), memory, when="without a mask for the memory ")


@exercise("7.4")
def test_decode_counts_positions_from_the_offset(submission, expected, draw):
    modules = transformers(submission, expected, draw)
    target, sides = draw_target(draw), draw_memory(draw)
    compare_decode(modules, target, *sides, offset=3, when="from position 3 on ")


@exercise("7.4")
def test_any_token_can_be_the_padding_of_the_source(submission, expected, draw):
    modules = transformers(submission, expected, draw, pad_id=4, norm_first=False)
    source = draw_source(draw, pad=4)
    source[2, 1] = source[3, 4] = 0  # a real word here
    compare_encode(modules, source, "with pad_id 4 ")


@exercise("7.4")
def test_any_token_can_be_the_padding_of_the_target(submission, expected, draw):
    modules = transformers(submission, expected, draw, pad_id=4, norm_first=False)
    target = draw_target(draw, pad=4)
    target[3, 1] = target[4, 2] = 0
    compare_decode(modules, target, *draw_memory(draw), when="with pad_id 4 ")


@exercise("7.4")
def test_source_and_target_meet_in_the_logits(submission, expected, draw):
    mine, right = transformers(submission, expected, draw)
    source, target = draw_source(draw), draw_target(draw)
    right_logits = right(source, target)
    agree(mine(source, target), right_logits, "the logit", "batch query vocab")


@guard("7.4")
def test_more_padding_after_the_source_changes_no_logit(submission, expected, draw):
    mine, _ = transformers(submission, expected, draw, compared=False)
    source, target = draw_source(draw), draw_target(draw)
    longer = torch.cat([source, source.new_full((BATCH, 4), PAD)], dim=1)
    logits = mine(source, target)
    agree(mine(longer, target), logits, "after more padding, the logit", "batch query vocab")


@guard("7.4")
def test_a_prefix_of_the_target_gets_the_logits_it_has_in_the_whole(submission, expected, draw):
    mine, _ = transformers(submission, expected, draw, compared=False)
    target, sides = draw_target(draw), draw_memory(draw)
    logits, _ = mine.decode(target, *sides)
    prefix, _ = mine.decode(target[:, :4], *sides)
    agree(prefix, logits[:, :4], "for a prefix of the target, the logit", "batch query vocab")


@exercise("7.4")
def test_output_layer_and_target_embedding_learn_one_matrix(submission, expected, draw):
    mine, right = transformers(submission, expected, draw, torch.float64)
    target, sides = draw_target(draw), draw_memory(draw, torch.float64)
    wanted = gradients(right.decode, target, *sides)["parameter target_embedding.weight"]
    # How values are shared, before and after two different matrices are loaded, tells mistakes apart.
    new = submission.transformer.Transformer(SOURCE_VOCAB, TARGET_VOCAB, **SIZES)
    state = new.state_dict.seen_as(shares_values, 0.0)()
    new.load_state_dict(state | {TIED[0]: state[TIED[0]] + 1.0})
    new.state_dict.seen_as(shares_values, 0.0)()
    found = gradients(mine.decode, target, *sides)["parameter target_embedding.weight"]
    require(
        found is not None and torch.allclose(found, wanted, rtol=1e-5, atol=1e-7),
        "the gradient for the target embedding is not that of one matrix with two uses: it should be "
        "trained by the look-up of target words and by the output layer, both",
    )


def shares_values(state):
    return bool(torch.equal(state[TIED[0]], state[TIED[1]])) if TIED[0] in state else None


@exercise("7.4")
def test_gradients_reach_all_parameters_of_the_transformer(submission, expected, draw):
    mine, right = transformers(submission, expected, draw, torch.float64)
    gradients_agree(mine, right, draw_source(draw), draw_target(draw))


@exercise("7.4")
def test_gradients_reach_the_memory(submission, expected, draw):
    mine, right = transformers(submission, expected, draw, torch.float64)
    target, sides = draw_target(draw), draw_memory(draw, torch.float64)
    gradients_agree(mine.decode, right.decode, target, *sides, names=("target", "memory"))


@guard("7.4")
def test_a_transformer_leaves_its_inputs_alone(submission, expected, draw):
    mine, _ = transformers(submission, expected, draw, compared=False)
    source, target, sides = draw_source(draw), draw_target(draw), draw_memory(draw)
    leaves_inputs_alone(mine.encode, source, names=("source",))
    leaves_inputs_alone(mine.decode, target, *sides, names=("target", "memory", "memory_mask"))


# 7.5: an alignment from weights


def draw_weights(draw, **axes):
    return draw.normal(scale=2.0, **axes).softmax(dim=-1)


@exercise("7.5")
def test_every_target_word_is_linked_to_the_source_word_it_looks_at_most(submission, device):
    weights = torch.tensor(
        [
            [0.1, 0.2, 0.1, 0.6],
            [0.3, 0.4, 0.1, 0.2],
            [0.5, 0.3, 0.1, 0.1],
        ],
        device=device,
    )
    links = submission.attention.alignment_from_attention(weights)
    same_items(links, {(3, 0), (1, 1), (0, 2)}, "the alignment, as pairs (source, target),")
    even = torch.full((2, 4), 0.25, device=device)
    links = submission.attention.alignment_from_attention(even)
    require(len(links) == 2, "a target word has one link, also where its weights are all equal")


@exercise("7.5")
def test_two_target_words_may_share_a_source_word(submission, device):
    weights = torch.tensor([[0.1, 0.9], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]], device=device)
    links = submission.attention.alignment_from_attention(weights)
    same_items(links, {(1, 0), (1, 1), (0, 2), (1, 3)}, "the alignment, as pairs (source, target),")


@exercise("7.5")
def test_heads_are_averaged_before_the_largest_weight_is_taken(submission, device):
    first = [[0.6, 0.4, 0.0], [0.5, 0.4, 0.1]]
    second = [[0.0, 0.4, 0.6], [0.1, 0.4, 0.5]]
    third = [[0.3, 0.4, 0.3], [0.0, 0.1, 0.9]]
    weights = torch.tensor([first, second, third], device=device)
    links = submission.attention.alignment_from_attention(weights)
    same_items(links, {(1, 0), (2, 1)}, "the alignment of averaged heads")


@exercise("7.5")
def test_a_sentence_without_heads_is_aligned(submission, expected, draw):
    weights = draw_weights(draw, query=9, key=4)
    wanted = expected.attention.alignment_from_attention(weights)
    same_items(submission.attention.alignment_from_attention(weights), wanted, "the alignment")


@exercise("7.5")
def test_all_heads_of_one_layer_are_averaged(submission, expected, draw):
    weights = draw_weights(draw, heads=HEADS, query=8, key=11)
    wanted = expected.attention.alignment_from_attention(weights)
    same_items(submission.attention.alignment_from_attention(weights), wanted, "the alignment")


@exercise("7.5")
def test_all_heads_of_all_layers_are_averaged(submission, expected, draw):
    weights = draw_weights(draw, layers=LAYERS, heads=HEADS, query=13, key=10)
    wanted = expected.attention.alignment_from_attention(weights)
    links = submission.attention.alignment_from_attention(weights)
    same_items(links, wanted, "the alignment from layers and heads")


@exercise("7.5")
def test_weights_with_other_strides_in_double_precision_are_aligned(submission, expected, draw):
    weights = draw.normal(query=12, layers=LAYERS, key=9, heads=HEADS, dtype=torch.float64)
    weights = (2 * weights).softmax(dim=2).permute(1, 3, 0, 2)
    wanted = expected.attention.alignment_from_attention(weights)
    links = submission.attention.alignment_from_attention(weights)
    same_items(links, wanted, "the alignment from weights with other strides")


@exercise("7.5")
def test_one_target_word_or_one_source_word_is_aligned(submission, draw):
    wide = draw_weights(draw, heads=HEADS, query=1, key=1)
    tall = draw_weights(draw, heads=HEADS, query=5, key=1)
    one = submission.attention.alignment_from_attention(wide)
    same_items(one, {(0, 0)}, "the alignment of one word with one word")
    links = submission.attention.alignment_from_attention(tall)
    same_items(links, {(0, i) for i in range(5)}, "the alignment of five words with one word")


@exercise("7.5")
def test_weights_are_averaged_even_where_they_are_very_small(submission, device):
    weights = torch.tensor([[[0.0, 0.3, 0.7], [1.0, 0.0, 0.0]], [[0.9, 0.1, 0.0], [0.0, 0.6, 0.4]]])
    links = submission.attention.alignment_from_attention(weights.to(device))
    same_items(links, {(0, 0), (0, 1)}, "the alignment of two heads that disagree")


@guard("7.5")
def test_the_alignment_is_a_set_of_plain_numbers(submission, draw):
    links = submission.attention.alignment_from_attention(
        draw_weights(draw, heads=HEADS, query=6, key=4)
    )
    require(
        not isinstance(links, list),
        "the alignment should be a set: a list cannot be cut with the set of gold links",
    )
    require(
        all(type(place) is int for link in links for place in link),
        "every link should be a pair of plain integers, so that it equals a gold link such as (2, 0)",
    )


@guard("7.5")
def test_the_weights_are_left_alone(submission, draw):
    weights = draw_weights(draw, layers=LAYERS, heads=HEADS, query=4, key=5)
    leaves_inputs_alone(submission.attention.alignment_from_attention, weights, names=("weights",))


# 7.6: the alignment error rate


def draw_links(draw, number):
    """Draw a set of links; `number` of them unless some are the same."""
    return {tuple(pair) for pair in draw.integers(0, 4, links=number, sides=2).tolist()}


@guard("7.6")
def test_an_alignment_that_is_right_has_no_error(submission):
    sure, possible = {(0, 0), (1, 2), (2, 1)}, {(0, 0), (1, 2), (2, 1), (3, 1)}
    rate = submission.attention.alignment_error_rate
    agree(rate(sure, sure, possible), 0.0, "the error rate of exactly the sure links")
    agree(rate(possible, sure, possible), 0.0, "the error rate of the sure links and a possible one")


@guard("7.6")
def test_an_alignment_with_nothing_right_has_the_error_one(submission):
    rate = submission.attention.alignment_error_rate({(0, 1), (1, 0)}, {(0, 0), (1, 1)}, {(0, 2)})
    agree(rate, 1.0, "the error rate of links that are all wrong")


@exercise("7.6")
def test_the_error_rate_of_a_small_example(submission):
    predicted = {(0, 0), (1, 1), (2, 3), (3, 2), (4, 0)}
    sure, possible = {(0, 0), (1, 1), (2, 2)}, {(0, 0), (1, 1), (2, 2), (3, 2)}
    # Two of the predicted links are sure, three are possible; 5 are predicted and 3 sure.
    rate = submission.attention.alignment_error_rate(predicted, sure, possible)
    agree(rate, 0.375, "the error rate of the example")


@exercise("7.6")
def test_a_sure_link_is_possible_too_whether_it_is_repeated_or_not(submission):
    predicted, sure = {(0, 0), (1, 1), (2, 3)}, {(0, 0), (1, 1), (3, 3), (4, 4)}
    rate = submission.attention.alignment_error_rate
    # Two predicted links are sure and, with (2, 3), three possible; 3 are predicted and 4 sure.
    agree(
        rate(predicted, sure, {(2, 3)}), 2 / 7, "where possible links do not repeat sure ones, the rate"
    )
    agree(
        rate(predicted, sure, {(2, 3)} | sure), 2 / 7, "where possible links repeat sure ones, the rate"
    )


@exercise("7.6")
def test_without_possible_links_only_sure_ones_count(submission):
    predicted, sure = {(0, 0), (1, 1), (2, 2)}, {(0, 0), (1, 2)}
    rate = submission.attention.alignment_error_rate(predicted, sure, set())
    agree(rate, 0.6, "without possible links the error rate")


@exercise("7.6")
def test_a_link_has_a_direction(submission):
    rate = submission.attention.alignment_error_rate(
        {(0, 1), (2, 2)}, {(1, 0), (2, 2)}, {(1, 0), (2, 2)}
    )
    agree(rate, 0.5, "where one link is predicted the wrong way round, the error rate")


@guard("7.6")
def test_nothing_predicted_where_nothing_is_sure_is_no_error(submission):
    rate = submission.attention.alignment_error_rate
    agree(rate(set(), set(), set()), 0.0, "the error rate of nothing at all")
    agree(
        rate(set(), set(), {(1, 0)}), 0.0, "the error rate of nothing where a link is merely possible"
    )


@guard("7.6")
def test_nothing_predicted_where_something_is_sure_is_all_wrong(submission):
    rate = submission.attention.alignment_error_rate(set(), {(0, 0), (1, 2)}, {(0, 0), (1, 2), (1, 1)})
    agree(rate, 1.0, "the error rate of an empty alignment")


@exercise("7.6")
def test_links_where_nothing_is_sure_can_still_be_possible(submission):
    rate = submission.attention.alignment_error_rate({(0, 0), (1, 1), (2, 2)}, set(), {(1, 1), (2, 1)})
    agree(rate, 2 / 3, "where nothing is sure and one of three links is possible, the error rate")


@exercise("7.6")
def test_the_error_rate_of_any_alignment(submission, expected, draw):
    rate = submission.attention.alignment_error_rate
    for number in (5, 8, 11):
        links = draw_links(draw, number), draw_links(draw, 4), draw_links(draw, 6)
        wanted = expected.attention.alignment_error_rate(*links)
        agree(rate(*links), wanted, "the error rate")


@guard("7.6")
def test_the_three_sets_are_left_alone(submission):
    leaves_inputs_alone(
        submission.attention.alignment_error_rate,
        {(0, 0), (1, 1)}, {(0, 0), (2, 2)}, {(1, 1)},
        names=("predicted", "sure", "possible"),
    )  # fmt: skip
