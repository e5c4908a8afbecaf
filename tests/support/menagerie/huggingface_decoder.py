"""Decoders of text from transformers, in tiny random configurations.

Those with float64=False compute their RMSNorm, and Mamba its scan and its logits too, in float32
whatever the dtype of the model.
"""

from functools import partial

import transformers as hf
from torch import nn

from .architecture import architecture
from .inputs import inputs, tokens

VOCABULARY = 17

decoder = partial(
    architecture,
    family="transformers",
    # The first three tokens are padding and the ends of a sentence.
    example=inputs(input_ids=tokens(2, 6, VOCABULARY, first=3)),
)

# Rotary embeddings turn pairs of channels, so each head has four; queries share keys and values.
DECODER = {
    "vocab_size": VOCABULARY,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "intermediate_size": 20,
    "max_position_embeddings": 11,
    "use_cache": False,
    "pad_token_id": None,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@decoder("hf-gpt2")
def gpt2() -> nn.Module:
    """Return GPT-2, with packed qkv in transposed linear layers."""
    config = hf.GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=11,
        n_embd=12,
        n_layer=2,
        n_head=3,
        n_inner=20,
        use_cache=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    return hf.GPT2LMHeadModel(config)


@decoder("hf-gpt-neox")
def gpt_neox() -> nn.Module:
    """Return GPT-NeoX, with parallel branches and partly rotary heads."""
    config = hf.GPTNeoXConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=11,
        use_cache=False,
    )
    return hf.GPTNeoXForCausalLM(config)


@decoder("hf-llama", float64=False)
def llama() -> nn.Module:
    """Return Llama: grouped queries, rotary positions, RMSNorm and a gated MLP."""
    return hf.LlamaForCausalLM(hf.LlamaConfig(**DECODER))


@decoder("hf-llama-eager-attention", float64=False)
def llama_eager() -> nn.Module:
    """Return Llama with attention written out and biases everywhere."""
    config = hf.LlamaConfig(**DECODER, attention_bias=True, mlp_bias=True, attn_implementation="eager")
    return hf.LlamaForCausalLM(config)


@decoder("hf-qwen3", float64=False)
def qwen3() -> nn.Module:
    """Return Qwen3, which normalises queries and keys per head."""
    return hf.Qwen3ForCausalLM(hf.Qwen3Config(**DECODER))


@decoder("hf-gemma", float64=False)
def gemma() -> nn.Module:
    """Return Gemma, with a scaled and tied embedding and norms around one."""
    return hf.GemmaForCausalLM(hf.GemmaConfig(**DECODER))


def mixtral(experts_implementation: str) -> nn.Module:
    """Return Mixtral, which sends each token to two of three experts."""
    config = hf.MixtralConfig(
        **DECODER,
        num_local_experts=3,
        num_experts_per_tok=2,
        experts_implementation=experts_implementation,
    )
    return hf.MixtralForCausalLM(config)


# The default implementation, grouped_mm, refuses float64.
decoder("hf-mixtral", float64=False)(partial(mixtral, "eager"))
decoder("hf-mixtral-batched-experts", float64=False)(partial(mixtral, "batched_mm"))


@decoder("hf-gpt-oss", float64=False)
def gpt_oss() -> nn.Module:
    """Return GPT-OSS: attention sinks, windows in every other layer, experts with interleaved gates."""
    config = hf.GptOssConfig(
        **DECODER,
        num_local_experts=3,
        num_experts_per_tok=2,
        sliding_window=3,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        experts_implementation="eager",
    )
    return hf.GptOssForCausalLM(config)


STATE_SPACE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 8,
    "state_size": 5,
    "num_hidden_layers": 2,
    "expand": 2,
    "conv_kernel": 3,
    "use_cache": False,
}


@decoder("hf-mamba", float64=False)
def mamba() -> nn.Module:
    """Return Mamba, a selective state-space model in its sequential form."""
    return hf.MambaForCausalLM(hf.MambaConfig(**STATE_SPACE, time_step_rank=3))


@decoder("hf-mamba2", float64=False)
def mamba2() -> nn.Module:
    """Return Mamba-2, whose heads share a state in groups of two and are scanned in chunks."""
    config = hf.Mamba2Config(**STATE_SPACE, num_heads=4, head_dim=4, n_groups=2, chunk_size=4)
    return hf.Mamba2ForCausalLM(config)
