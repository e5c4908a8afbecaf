"""Encoders of text and speech from transformers, in tiny random configurations.

Their key biases cannot be seen from outside: softmax forgets what is added to all scores of a
query.
"""

from functools import partial

import transformers as hf
from torch import nn

from .architecture import architecture
from .inputs import inputs, normal, tokens

VOCABULARY = 17

encoder = partial(
    architecture,
    family="transformers",
    # The first three tokens are padding and the ends of a sentence.
    example=inputs(input_ids=tokens(2, 6, VOCABULARY, first=3)),
)

ENCODER = {
    "vocab_size": VOCABULARY,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 11,
}


@encoder("hf-bert-masked-lm")
def bert_masked_lm() -> nn.Module:
    """Return BERT with a language-model head tied to its embedding."""
    return hf.BertForMaskedLM(hf.BertConfig(**ENCODER))


@encoder("hf-bert-masked-lm-eager-attention")
def bert_eager() -> nn.Module:
    """Return BERT with attention written out as matrix products and a softmax."""
    return hf.BertForMaskedLM(hf.BertConfig(**ENCODER, attn_implementation="eager"))


@encoder("hf-bert-sequence-classification")
def bert_classification() -> nn.Module:
    """Return BERT with a pooler and a classification head."""
    return hf.BertForSequenceClassification(hf.BertConfig(**ENCODER, num_labels=4))


@encoder("hf-roberta-masked-lm")
def roberta() -> nn.Module:
    """Return RoBERTa, whose positions skip the padding."""
    return hf.RobertaForMaskedLM(hf.RobertaConfig(**ENCODER))


SPEECH = {
    "vocab_size": VOCABULARY,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "conv_dim": [6, 8],
    "conv_kernel": [5, 3],
    "conv_stride": [3, 2],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def wav2vec2(feat_extract_norm: str, *, do_stable_layer_norm: bool) -> nn.Module:
    """Return Wav2Vec2 with a head for connectionist temporal classification."""
    config = hf.Wav2Vec2Config(
        **SPEECH,
        feat_extract_norm=feat_extract_norm,
        do_stable_layer_norm=do_stable_layer_norm,
        conv_bias=feat_extract_norm == "layer",
    )
    return hf.Wav2Vec2ForCTC(config)


# The embedding that hides time steps, masked_spec_embed, is used in training alone.
wave = partial(encoder, example=inputs(input_values=normal(2, 60)), tracer={"unused": "keep"})
wave("hf-wav2vec2")(partial(wav2vec2, "group", do_stable_layer_norm=False))
wave("hf-wav2vec2-layer-norm")(partial(wav2vec2, "layer", do_stable_layer_norm=True))


@wave("hf-conformer")
def conformer() -> nn.Module:
    """Return a conformer: convolutions with batch norm between attention with relative positions."""
    # The convolution for absolute positions stays unused.
    config = hf.Wav2Vec2ConformerConfig(**SPEECH, conv_depthwise_kernel_size=3, max_source_positions=20)
    return hf.Wav2Vec2ConformerForCTC(config)
