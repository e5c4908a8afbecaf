"""A tiny Llama of transformers as a GGUF file, in the layout of llama.cpp."""

from pathlib import Path

import numpy as np
from torch import nn

HEADS = {"q_proj": 4, "k_proj": 2}


def write_llama(path: Path) -> nn.Module:
    """Write the weights of a new network to a file, and return the network."""
    import gguf
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=48,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    network = LlamaForCausalLM(config).eval()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(16)
    writer.add_feed_forward_length(32)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(4)
    writer.add_vocab_size(48)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 1)
    for name, value in network.state_dict().items():
        module, _, ending = name.rpartition(".")
        heads = HEADS.get(module.rpartition(".")[2])
        array = value.numpy() if heads is None else _interleaved(value.numpy(), heads)
        writer.add_tensor(f"{names.get_name(module)}.{ending}", np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return network


def _interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """Pair the two halves of each head, as llama.cpp rotates them."""
    halves = weight.reshape(heads, 2, -1, weight.shape[1])
    return halves.swapaxes(1, 2).reshape(weight.shape)
