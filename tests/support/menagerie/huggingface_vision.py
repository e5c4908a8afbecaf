"""Vision models of transformers, in tiny random configurations.

The key biases of ViT, DeiT, Swin, SegFormer and CLIP cannot be seen from outside: softmax forgets them.
"""

from functools import partial

import transformers as hf
from torch import nn

from .architecture import architecture
from .inputs import inputs, normal, tokens

vision = partial(architecture, family="transformers", example=inputs(pixel_values=normal(2, 3, 16, 16)))

PATCHES = {
    "image_size": 16,
    "patch_size": 4,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
}


@vision("hf-vit")
def vit() -> nn.Module:
    """Return a vision transformer that classifies by its class token."""
    return hf.ViTForImageClassification(hf.ViTConfig(**PATCHES, num_labels=5))


@vision("hf-deit")
def deit() -> nn.Module:
    """Return DeiT, with a class and a distillation token and a head for each."""
    config = hf.DeiTConfig(**PATCHES, num_labels=5)
    return hf.DeiTForImageClassificationWithTeacher(config)


@vision("hf-swin")
def swin() -> nn.Module:
    """Return Swin, with a plain and a shifted window in the first of two stages."""
    config = hf.SwinConfig(
        image_size=16,
        patch_size=2,
        embed_dim=6,
        depths=[2, 1],
        num_heads=[2, 3],
        window_size=4,
        mlp_ratio=1.5,
        num_labels=5,
    )
    return hf.SwinForImageClassification(config)


@vision("hf-segformer")
def segformer() -> nn.Module:
    """Return SegFormer: attention to a coarser grid, convolutions in its MLPs, a head that joins stages."""
    config = hf.SegformerConfig(
        num_encoder_blocks=2,
        depths=[1, 2],
        sr_ratios=[2, 1],
        hidden_sizes=[6, 8],
        patch_sizes=[3, 3],
        strides=[2, 2],
        num_attention_heads=[2, 4],
        mlp_ratios=[2, 3],
        decoder_hidden_size=10,
        num_labels=5,
    )
    return hf.SegformerForSemanticSegmentation(config)


@vision("hf-convnext")
def convnext() -> nn.Module:
    """Return ConvNeXt with visible layer scales."""
    config = hf.ConvNextConfig(
        hidden_sizes=[6, 8, 10, 12],
        depths=[1, 1, 2, 1],
        patch_size=2,
        layer_scale_init_value=1.0,
        num_labels=5,
    )
    return hf.ConvNextForImageClassification(config)


def resnet(layer_type: str) -> nn.Module:
    """Return a ResNet of two stages of the given kind of block."""
    config = hf.ResNetConfig(
        embedding_size=6, hidden_sizes=[12, 20], depths=[2, 1], layer_type=layer_type, num_labels=5
    )
    return hf.ResNetForImageClassification(config)


vision("hf-resnet-basic")(partial(resnet, "basic"))
vision("hf-resnet-bottleneck")(partial(resnet, "bottleneck"))


@vision("hf-mobilenet-v2")
def mobilenet_v2() -> nn.Module:
    """Return MobileNetV2 at a tenth of its width."""
    config = hf.MobileNetV2Config(
        image_size=16,
        output_stride=8,
        depth_multiplier=0.1,
        depth_divisible_by=2,
        min_depth=2,
        expand_ratio=2.0,
        finegrained_output=False,
        num_labels=5,
    )
    return hf.MobileNetV2ForImageClassification(config)


@vision("hf-efficientnet")
def efficientnet() -> nn.Module:
    """Return EfficientNet: a block without expansion, one that strides and one with a skip."""
    config = hf.EfficientNetConfig(
        image_size=16,
        width_coefficient=0.25,
        depth_coefficient=1.0,
        depth_divisor=2,
        in_channels=[32, 40],
        out_channels=[40, 48],
        kernel_sizes=[3, 5],
        strides=[1, 2],
        num_block_repeats=[1, 2],
        expand_ratios=[1, 3],
        hidden_dim=320,
        num_labels=5,
    )
    return hf.EfficientNetForImageClassification(config)


def regnet(layer_type: str) -> nn.Module:
    """Return a RegNet of two stages, with (y) or without (x) squeeze-excitation."""
    config = hf.RegNetConfig(
        embedding_size=6,
        hidden_sizes=[16, 24],
        depths=[1, 2],
        groups_width=8,
        layer_type=layer_type,
        num_labels=5,
    )
    return hf.RegNetForImageClassification(config)


vision("hf-regnet-x")(partial(regnet, "x"))
vision("hf-regnet-y")(partial(regnet, "y"))


@vision(
    "hf-clip",
    example=inputs(input_ids=tokens(2, 6, 17, first=3), pixel_values=normal(2, 3, 16, 16)),
)
def clip() -> nn.Module:
    """Return CLIP, which compares texts with images."""
    written = {
        "vocab_size": 17,
        "hidden_size": 10,
        "intermediate_size": 18,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 11,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return hf.CLIPModel(hf.CLIPConfig(text_config=written, vision_config=PATCHES, projection_dim=7))
