"""Exported specifications equal those that Git Re-Basin wrote by hand (weight_matching.py).

They are written here from its published functions, in PyTorch's names and order of dimensions.
"""

import json
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn.functional import relu

import graph_metanetworks as gmn
from graph_metanetworks.symmetry.export import export


def specification(model: nn.Module, *shape: int) -> dict[str, list[str | None]]:
    graph = gmn.trace(model.eval(), torch.randn(*shape))
    return json.loads(export(graph.symmetry, "git-re-basin"))


def same_up_to_names(ours: dict, published: dict) -> bool:
    """The names of permutations are free, but which dimensions share one is not."""
    forwards: dict = {}
    backwards: dict = {}
    assert ours.keys() == published.keys()
    return all(
        forwards.setdefault(a, b) == b and backwards.setdefault(b, a) == a
        for name in published
        for a, b in zip(ours[name], published[name], strict=True)
    )


def dense(name: str, before: str | None, after: str | None, bias: bool = True) -> dict:
    """As in its `dense_layer`; PyTorch has the output first."""
    return {f"{name}.weight": [after, before]} | ({f"{name}.bias": [after]} if bias else {})


def conv(name: str, before: str | None, after: str | None) -> dict:
    return {f"{name}.weight": [after, before, None, None]}


def norm(name: str, p: str | None) -> dict:
    return {f"{name}.{part}": [p] for part in ("weight", "bias", "running_mean", "running_var")}


def test_mlp() -> None:
    """`mlp_permutation_spec(4)`."""
    sizes = [6, 8, 8, 8, 8, 3]
    layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
    model = nn.Sequential(*(m for layer in layers for m in (layer, nn.ReLU())))[:-1]
    published = dense("0", None, "P_0")
    for i in range(1, 4):
        published |= dense(f"{2 * i}", f"P_{i - 1}", f"P_{i}")
    published |= dense("8", "P_3", None)
    assert same_up_to_names(specification(model, 1, 6), published)


def test_vgg() -> None:
    """`vgg16_permutation_spec`: a chain of convolutions with norms, then three dense layers."""
    widths = [4, 4, 5, 5, 6, 6, 6, 7, 7, 7, 8, 8, 8]
    modules: dict[str, nn.Module] = {}
    published: dict = {}
    before: str | None = None
    channels = 3
    for i, width in enumerate(widths):
        modules |= {f"conv{i}": nn.Conv2d(channels, width, 3, padding=1), f"norm{i}": nn.BatchNorm2d(width)}
        modules[f"relu{i}"] = nn.ReLU()
        published |= conv(f"conv{i}", before, f"P_{i}") | {f"conv{i}.bias": [f"P_{i}"]}
        published |= norm(f"norm{i}", f"P_{i}")
        before, channels = f"P_{i}", width
    modules |= {"pool": nn.AdaptiveAvgPool2d(1), "flat": nn.Flatten(), "fc0": nn.Linear(8, 9)}
    modules |= {"r0": nn.ReLU(), "fc1": nn.Linear(9, 10), "r1": nn.ReLU(), "fc2": nn.Linear(10, 4)}
    published |= dense("fc0", before, "P_d0") | dense("fc1", "P_d0", "P_d1") | dense("fc2", "P_d1", None)
    model = nn.Sequential()
    for name, module in modules.items():
        model.add_module(name, module)
    assert same_up_to_names(specification(model, 1, 3, 8, 8), published)


class Block(nn.Module):
    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.norm2 = nn.Conv2d(after, after, 3, padding=1, bias=False), nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        return relu(self.norm2(self.conv2(relu(self.norm1(self.conv1(x))))) + self.shortcut(x))


def test_resnet() -> None:
    """`resnet20_permutation_spec`: easy blocks share the stream, shortcut blocks begin a new one."""
    model = nn.Sequential()
    model.add_module("conv1", nn.Conv2d(3, 4, 3, padding=1, bias=False))
    model.add_module("norm1", nn.BatchNorm2d(4))
    published = conv("conv1", None, "P_bg0") | norm("norm1", "P_bg0")
    width, stream = 4, "P_bg0"
    for group, wider in enumerate((4, 6, 8), 1):
        for index in range(3):
            name, inner, after = f"block{group}_{index}", f"P_{group}_{index}_inner", f"P_bg{group}"
            model.add_module(name, Block(width, wider))
            target = after if width != wider else stream
            published |= conv(f"{name}.conv1", stream, inner) | norm(f"{name}.norm1", inner)
            published |= conv(f"{name}.conv2", inner, target) | norm(f"{name}.norm2", target)
            if width != wider:
                published |= conv(f"{name}.shortcut.0", stream, target) | norm(f"{name}.shortcut.1", target)
            width, stream = wider, target
    model.add_module("pool", nn.AdaptiveAvgPool2d(1))
    model.add_module("flat", nn.Flatten())
    model.add_module("linear", nn.Linear(8, 5))
    published |= dense("linear", stream, None)
    assert same_up_to_names(specification(model, 1, 3, 8, 8), published)


def test_other_forms() -> None:
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    symmetry = gmn.trace(model, torch.randn(1, 3)).symmetry
    (group,) = json.loads(export(symmetry, "torch-pruning"))
    assert group["channels"] == 5
    assert {(own["module"], own["parameter"], own["dim"]) for own in group["layers"]} == {
        ("0", "weight", 0),
        ("0", "bias", 0),
        ("2", "weight", 1),
    }
    (factor,) = json.loads(export(symmetry, "json"))
    assert factor["parameters"] == [["0.weight", 0], ["0.bias", 0], ["2.weight", 1]]
    heads = gmn.trace(nn.MultiheadAttention(8, 2), *[torch.randn(3, 1, 8)] * 3).symmetry
    with pytest.raises(gmn.UnsupportedNetwork, match="several parts"):
        export(heads, "git-re-basin")
