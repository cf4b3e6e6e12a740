"""The `transformers` package as an oracle: weights of BERT and of ViT in our own models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from lab_transformer.families import MaskedLanguageModel, masked_model_from_bert
from lab_transformer.vision import VisionTransformer

if TYPE_CHECKING:
    from transformers import BertForMaskedLM

SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "attn_implementation": "eager",
}


def randomised(model: nn.Module) -> nn.Module:
    """Weights large enough that words differ, and no bias of zero."""
    model.double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def tiny_bert() -> BertForMaskedLM:
    from transformers import BertConfig, BertForMaskedLM  # seconds, where no other process needs it

    model = BertForMaskedLM(BertConfig(vocab_size=11, max_position_embeddings=12, **SIZES))
    randomised(model)
    return model


def pair_of_models() -> tuple[BertForMaskedLM, MaskedLanguageModel]:
    theirs = tiny_bert()
    return theirs, masked_model_from_bert(theirs.state_dict(), n_heads=3)


def both_logits(theirs, ours, tokens, segments=None):
    real = tokens != 0
    logits = theirs(tokens, attention_mask=real.long(), token_type_ids=segments).logits
    return ours(tokens, segments)[real], logits[real]


@pytest.mark.parametrize("length", [1, 7, 12])
def test_bert_weights_give_bert_logits(length):
    theirs, ours = pair_of_models()
    pair = both_logits(theirs, ours, torch.randint(1, 11, (2, length)))
    torch.testing.assert_close(*pair, rtol=1e-9, atol=1e-9)


def test_padding_and_segments_are_berts():
    theirs, ours = pair_of_models()
    tokens = torch.randint(1, 11, (3, 9))
    tokens[1, 6:] = 0
    tokens[2, 2:] = 0
    pair = both_logits(theirs, ours, tokens, torch.randint(2, (3, 9)))
    torch.testing.assert_close(*pair, rtol=1e-9, atol=1e-9)


def test_bert_weights_give_bert_gradients():
    theirs, ours = pair_of_models()
    for logits in both_logits(theirs, ours, torch.randint(1, 11, (2, 7))):
        logits.sin().sum().backward()
    embeddings = theirs.bert.embeddings
    pairs = [
        (ours.token_embedding.weight, embeddings.word_embeddings.weight),
        (ours.position_embedding.weight, embeddings.position_embeddings.weight),
        (ours.norm.bias, embeddings.LayerNorm.bias),
        (
            ours.encoder.blocks[0].attention.w_q.weight,
            theirs.bert.encoder.layer[0].attention.self.query.weight,
        ),
        (ours.output.bias, theirs.cls.predictions.bias),
    ]
    for mine, other in pairs:
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-8, atol=1e-8)


def test_loaded_weights_are_a_copy_and_stay_tied():
    theirs, ours = pair_of_models()
    assert ours.output.weight is ours.token_embedding.weight
    nn.init.zeros_(ours.token_embedding.weight)
    assert theirs.bert.embeddings.word_embeddings.weight.abs().sum() > 0


def test_a_checkpoint_may_hold_more_than_is_needed():
    theirs = tiny_bert()
    state = theirs.state_dict() | {"bert.pooler.dense.weight": torch.zeros(24, 24, dtype=torch.float64)}
    del state["cls.predictions.decoder.weight"]
    ours = masked_model_from_bert(state, n_heads=3)
    pair = both_logits(theirs, ours, torch.randint(1, 11, (2, 5)))
    torch.testing.assert_close(*pair, rtol=1e-9, atol=1e-9)


# ViT's names, in the order in which they are replaced.
VIT_NAMES = {
    "vit.embeddings.cls_token": "cls",
    "vit.embeddings.position_embeddings": "position_embedding.weight",
    "vit.embeddings.patch_embeddings.projection": "embedding",
    "vit.layers": "encoder.blocks",
    "q_proj": "w_q",
    "k_proj": "w_k",
    "v_proj": "w_v",
    "o_proj": "w_o",
    "layernorm_before": "norm_1",
    "layernorm_after": "norm_2",
    "mlp.fc": "feed_forward.w_",
    "vit.layernorm": "encoder.norm",
    "classifier": "output",
}


def test_vit_weights_give_vit_logits():
    from transformers import ViTConfig, ViTForImageClassification

    theirs = ViTForImageClassification(
        ViTConfig(
            image_size=8, patch_size=2, num_channels=3, num_labels=5, layer_norm_eps=1e-5, **SIZES
        )
    )
    randomised(theirs)
    ours = VisionTransformer(8, 2, 3, 5, n_layers=2, d_model=24, n_heads=3, d_ff=40).double()
    shapes = {name: tensor.shape for name, tensor in ours.state_dict().items()}
    state = {}
    for name, tensor in theirs.state_dict().items():
        for old, new in VIT_NAMES.items():
            name = name.replace(old, new)
        state[name] = tensor.reshape(shapes[name])
    ours.load_state_dict(state)
    images = torch.randn(4, 3, 8, 8, dtype=torch.float64)
    # transformers computes the softmax of a ViT in single precision.
    torch.testing.assert_close(ours(images), theirs(images).logits, rtol=1e-6, atol=1e-6)
