"""Encoder-decoders from transformers, in tiny random configurations.

The key biases of BART cannot be seen from outside: softmax forgets what is added to all scores of a
query. T5 and LongT5 compute their RMSNorm in float32, whatever the dtype of the model.
"""

from functools import partial

import transformers as hf
from torch import nn

from .architecture import architecture
from .inputs import inputs, normal, tokens

VOCABULARY = 17

# The first three tokens are padding and the ends of a sentence.
source, target = tokens(2, 6, VOCABULARY, first=3), tokens(2, 5, VOCABULARY, first=3)
encoder_decoder = partial(
    architecture,
    family="transformers",
    example=inputs(input_ids=source, decoder_input_ids=target),
)


T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 12,
    "d_kv": 5,
    "d_ff": 20,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 6,
    "use_cache": False,
    "decoder_start_token_id": 0,
}


@encoder_decoder("hf-t5", float64=False)
def t5() -> nn.Module:
    """Return T5, an encoder and decoder with relative position biases."""
    return hf.T5ForConditionalGeneration(hf.T5Config(**T5, num_layers=2))


@encoder_decoder("hf-longt5", float64=False)
def long_t5() -> nn.Module:
    """Return LongT5, whose encoder attends to blocks and their neighbours."""
    return hf.LongT5ForConditionalGeneration(hf.LongT5Config(**T5, num_layers=1, local_radius=2))


BART = {
    "vocab_size": VOCABULARY,
    "d_model": 12,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 22,
    "use_cache": False,
}


@encoder_decoder("hf-bart")
def bart() -> nn.Module:
    """Return BART, an encoder and decoder with learned positions."""
    return hf.BartForConditionalGeneration(hf.BartConfig(**BART, max_position_embeddings=11))


@encoder_decoder("hf-whisper", example=inputs(input_features=normal(2, 7, 16), decoder_input_ids=target))
def whisper() -> nn.Module:
    """Return Whisper, an encoder of spectrograms and a decoder of text."""
    config = hf.WhisperConfig(
        **BART,
        num_mel_bins=7,
        max_source_positions=8,
        max_target_positions=11,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    return hf.WhisperForConditionalGeneration(config)
