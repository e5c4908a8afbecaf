"""Time of alignment: a permuted, noisy copy, and an unrelated network, of the shapes of well known networks.

    python benchmarks/align.py                    # all shapes, minutes
    python benchmarks/align.py --only resnet50    # one of them
    ... --markdown                                # as Markdown, for docs/benchmarks.md

Two threads, float32. `copy` is a permuted copy with noise of one hundredth of each tensor's deviation, found
again if every neuron is back in its place. `other` is a network of other random weights. Beside the seconds
stands their ratio to one pass over all inner products: every weight, along every dimension that is permuted.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.symmetry.align import Descent
from graph_metanetworks.symmetry.matching import Matching


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, outputs: int, stride: int):
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.skip = nn.Identity()
        if inputs != outputs:
            self.skip = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.skip(x) + self.branch(x))


def resnet50() -> tuple[nn.Module, Tensor]:
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    inputs = 64
    for stage, depth in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for block in range(depth):
            layers.append(Bottleneck(inputs, width, 4 * width, 2 if stage and not block else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)), torch.zeros(
        1, 3, 64, 64
    )


def mlp() -> tuple[nn.Module, Tensor]:
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return model, torch.zeros(1, 784)


class VisionTransformer(nn.Module):
    def __init__(self, width: int = 384, heads: int = 6, depth: int = 12):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.position = nn.Parameter(0.02 * torch.randn(1, 16, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, 1000)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.layers(self.patches(image).flatten(2).mT + self.position).mean(1))


def vit_small() -> tuple[nn.Module, Tensor]:
    return VisionTransformer(), torch.zeros(1, 3, 64, 64)


SHAPES: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "mlp": mlp,
    "vit_small": vit_small,
    "resnet50": resnet50,
}


def random_weights(model: nn.Module, seed: int) -> dict[str, Tensor]:
    """Every floating-point entry random, norms and statistics too."""
    generator = torch.Generator().manual_seed(seed)
    scale = {n: max(v.double().std(correction=0).item(), 0.1) for n, v in model.state_dict().items()}
    return {
        n: v.mean() + scale[n] * torch.randn(v.shape, generator=generator) if v.is_floating_point() else v
        for n, v in model.state_dict().items()
    }


def noisy(weights: dict[str, Tensor], seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        n: v + 0.01 * v.std() * torch.randn(v.shape, generator=generator) if v.is_floating_point() else v
        for n, v in weights.items()
    }


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def one_pass(graph: gmn.ParameterGraph, weights: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    descent = Descent(graph, weights, other)

    def products() -> None:
        for tree in descent.trees:
            Matching.of(tree, descent.pairs(tree))

    return seconds(products)


def row(name: str) -> list[str]:
    model, x = SHAPES[name]()
    graph = gmn.trace(model.eval(), x)
    weights = random_weights(model, 0)
    planted = graph.symmetry.sample(torch.Generator().manual_seed(1))
    copy, other = noisy(planted.apply(weights), 2), random_weights(model, 3)
    unit = one_pass(graph, weights, copy)
    found: list[gmn.Alignment] = []
    copied = seconds(lambda: found.append(gmn.align(graph, weights, copy, progress=False)))
    unrelated = seconds(lambda: found.append(gmn.align(graph, weights, other, progress=False)))
    closer = found[1].distance / found[1].distance_before
    return [
        name,
        f"{graph.num_parameters / 1e6:.1f} M",
        str(len(graph.symmetry.factors)),
        "yes" if found[0].automorphism == ~planted else "no",
        f"{copied:.1f} s",
        f"{copied / unit:.1f}",
        f"{unrelated:.1f} s",
        f"{unrelated / unit:.1f}",
        f"{closer:.3f}",
    ]


HEADER = [
    "network",
    "parameters",
    "factors",
    "found",
    "copy",
    "/ pass",
    "other",
    "/ pass",
    "distance, after / before",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", choices=SHAPES, help="one network")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    options = parser.parse_args()
    torch.set_num_threads(2)
    names = [options.only] if options.only else list(SHAPES)
    rows = [row(name) for name in track(names, "aligning", console=Console(stderr=True), transient=True)]
    if options.markdown:
        lines = [HEADER, ["---"] * len(HEADER), *rows]
        print("\n".join(f"| {' | '.join(cells)} |" for cells in lines))
        return
    widths = [max(map(len, column)) for column in zip(HEADER, *rows, strict=True)]
    for cells in (HEADER, *rows):
        print("  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)))


if __name__ == "__main__":
    main()
