"""The networks that `transformers` maps in its auto classes, shrunken until each is traced in seconds.

Nothing is downloaded: each is built from its default configuration, made small, with random weights.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers as hf
from torch import Generator, Tensor, nn
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from support.menagerie.randomise import randomise

LARGEST = 2_000_000  # parameters
VOCABULARY, CHANNELS, IMAGE = 37, 3, 32


def _all(names: str, value: int) -> dict[str, int]:
    return dict.fromkeys(names.split(), value)


# Configurations share these names. Four heads of eight dimensions suit rotary, partly rotary and
# grouped-query attention alike.
WIDTHS = _all(
    "hidden_size d_model n_embd dim embed_dim embedding_size hidden_sizes embed_dims encoder_hidden_size "
    "lm_head_hidden_size projection_dim neck_hidden_sizes q_lora_rank kv_lora_rank o_lora_rank",
    32,
)
INNER = _all(
    "intermediate_size n_inner ffn_dim d_ff dff dim_ff d_inner hidden_dim mlp_dim ffn_hidden_size "
    "encoder_ffn_dim decoder_ffn_dim moe_intermediate_size expert_ffn_hidden_size dense_intermediate_size "
    "shared_intermediate_size shared_expert_intermediate_size moe_shared_expert_intermediate_size",
    40,
)
LAYERS = _all(
    "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers "
    "num_decoder_layers",
    2,
)
HEADS = _all(
    "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads "
    "swa_num_attention_heads linear_num_heads linear_num_value_heads mamba_n_heads mamba_num_heads "
    "num_groups num_experts num_local_experts n_routed_experts zero_expert_num",
    4,
)
SHARED_HEADS = _all("num_key_value_heads swa_num_key_value_heads linear_num_key_heads n_groups", 2)
HEAD_DIMENSIONS = _all(
    "head_dim dim_head d_head attention_head_size qk_rope_head_dim qk_nope_head_dim v_head_dim swa_head_dim "
    "index_head_dim linear_head_dim linear_key_head_dim linear_value_head_dim",
    8,
)
TOKENS = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
POSITIONS = _all("max_position_embeddings n_positions n_ctx max_sequence_length", 64)
STATE_SPACE = {
    **_all("state_size ssm_state_size mamba_d_state", 4),
    **_all("mamba_expand time_step_rank", 2),
    "conv_kernel": 3,
    "mamba_head_dim": 16,
}
OTHERS = {
    "num_experts_per_tok": 2,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "type_vocab_size": 2,
    "rotary_dim": 4,
    "sliding_window": 8,
    "depths": 1,
    "depth_multiplier": 0.25,
    "image_size": IMAGE,
    "patch_size": 4,
    "num_labels": 3,
    "use_cache": False,
}
SMALL = {
    **WIDTHS,
    **INNER,
    **LAYERS,
    **HEADS,
    **SHARED_HEADS,
    **HEAD_DIMENSIONS,
    **TOKENS,
    **POSITIONS,
    **STATE_SPACE,
    **OTHERS,
}

# What some configurations need besides, by the type of the model.
SWIN = {"depths": [1, 1], "num_heads": [2, 4], "window_size": 2}
PECULIAR: dict[str, dict[str, Any]] = {
    "donut-swin": SWIN,
    "efficientnet": {"width_coefficient": 0.25, "depth_coefficient": 0.25},
    "funnel": {"block_sizes": [1, 1]},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "luke": {"entity_vocab_size": 11},
    "mamba2": {"head_dim": 16},
    "reformer": {"is_decoder": True, "axial_pos_embds_dim": [16, 16], "axial_pos_shape": [8, 8]},
    "roc_bert": {"pronunciation_vocab_size": 11, "shape_vocab_size": 11},
    "swin": SWIN,
    "xmod": {"default_language": "en_XX"},
    "zaya": {"num_experts_per_tok": 1},
}


@dataclass(frozen=True)
class Entry:
    """One class of an auto class: for which kind of configuration, and what it reads."""

    name: str
    model_type: str
    reads: str

    def __str__(self) -> str:
        return self.name


class NotBuilt(Exception):
    """A class that has no small network without further settings; the message says why."""


def entries() -> list[Entry]:
    """Every causal, masked and image-classification class, in the order of `transformers`."""
    tasks = (
        (MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, "input_ids"),
        (MODEL_FOR_MASKED_LM_MAPPING_NAMES, "input_ids"),
        (MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES, "pixel_values"),
    )
    found: dict[str, Entry] = {}
    for mapping, reads in tasks:
        for model_type, names in mapping.items():
            for name in [names] if isinstance(names, str) else names:
                found.setdefault(name, Entry(name, model_type, reads))
    return list(found.values())


def build(entry: Entry) -> tuple[nn.Module, dict[str, Tensor]]:
    """The network in eval mode, every tensor of it random, and the keyword arguments to call it with."""
    example = {entry.reads: _example(entry.reads)}
    network = getattr(hf, entry.name)
    reasons = []
    for shrink in (_small, _without_groups, _with_everything_set):
        try:
            settings = shrink(network.config_class) | PECULIAR.get(entry.model_type, {})
            model = _network(network, settings)
            with torch.no_grad():
                model(**example)
        except Exception as error:  # whatever it raises, the class cannot be built this way
            reasons.append(f"{type(error).__name__}: {error}")
            continue
        return model, example
    raise NotBuilt(reasons[0])


def _example(reads: str) -> Tensor:
    generator = Generator().manual_seed(1)
    if reads == "pixel_values":
        return torch.randn((2, CHANNELS, IMAGE, IMAGE), generator=generator)
    return torch.randint(3, VOCABULARY, (2, 7), generator=generator)  # past the tokens of padding and ends


def _network(network: type[nn.Module], settings: dict[str, Any]) -> nn.Module:
    with torch.device("meta"):  # a default configuration may be too large to be built
        size = sum(p.numel() for p in network(network.config_class(**settings)).parameters())
    if size > LARGEST:
        raise NotBuilt(f"it has {size:,} parameters")
    torch.manual_seed(0)
    model = network(network.config_class(**settings)).eval()
    randomise(model, generator=Generator().manual_seed(0))
    return model


# ------------------------------------------------------------------ ways to make a configuration small


def _small(kind: type[hf.PretrainedConfig]) -> dict[str, Any]:
    """Small values for what the configuration gives a value by default."""
    return _chosen(kind, lambda default: default is not None)


def _without_groups(kind: type[hf.PretrainedConfig]) -> dict[str, Any]:
    """As many keys as queries."""
    return _small(kind) | {"num_key_value_heads": SMALL["num_attention_heads"]}


def _with_everything_set(kind: type[hf.PretrainedConfig]) -> dict[str, Any]:
    """Small values also where the default is None."""
    return _chosen(kind, lambda default: True)


def _chosen(kind: type[hf.PretrainedConfig], choose: Callable[[Any], bool]) -> dict[str, Any]:
    default = kind()
    values = default.to_dict()
    values |= {name: values.get(real) for name, real in kind.attribute_map.items()}
    settings = {
        name: [value] * len(values[name]) if isinstance(values[name], list | tuple) else value
        for name, value in SMALL.items()
        if name in values and choose(values[name])
    }
    for name in kind.sub_configs:
        if (nested := getattr(default, name, None)) is not None:
            settings[name] = _chosen(type(nested), choose)
    return settings
