"""Merge two independently trained networks: the loss on the line between them, before and after alignment.

python examples/merge.py [--plot merge.svg]      # two small networks on digits, a few seconds
"""

import argparse
from collections.abc import Mapping

import torch
from rich.progress import track
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

import graph_metanetworks as gmn

POINTS = 21
parser = argparse.ArgumentParser(description="The loss between two networks, before and after alignment.")
parser.add_argument("--plot", metavar="FILE", help="draw both curves to an svg, png or pdf file")
parser.add_argument("--width", type=int, default=256, help="neurons in each hidden layer")
parser.add_argument("--epochs", type=int, default=15, help="training epochs")
options = parser.parse_args()

pixels, numbers = load_digits(return_X_y=True)
images, labels = torch.as_tensor(pixels, dtype=torch.float32) / 16, torch.as_tensor(numbers)
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
train, test = order[:1200], order[1200:]


def network() -> nn.Module:
    w = options.width
    return nn.Sequential(nn.Linear(64, w), nn.ReLU(), nn.Linear(w, w), nn.ReLU(), nn.Linear(w, 10))


def trained(seed: int) -> dict[str, Tensor]:
    torch.manual_seed(seed)
    model = network()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    for _ in track(range(options.epochs), f"training network {seed}", transient=True):
        for batch in train[torch.randperm(len(train))].split(64):
            optimiser.zero_grad()
            cross_entropy(model(images[batch]), labels[batch]).backward()
            optimiser.step()
    return {name: value.detach() for name, value in model.state_dict().items()}


@torch.no_grad()
def loss(weights: Mapping[str, Tensor]) -> float:
    return cross_entropy(functional_call(model, dict(weights), (images[test],)), labels[test]).item()


def along_the_line(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> list[float]:
    return [loss(gmn.interpolate(first, second, t)) for t in torch.linspace(0, 1, POINTS).tolist()]


def barrier(losses: list[float]) -> float:
    """Return how far the loss rises above the straight line between its endpoints."""
    line = torch.linspace(losses[0], losses[-1], len(losses))
    return (torch.tensor(losses) - line).max().item()


model = network()
first, second = trained(1), trained(2)
graph = gmn.trace(model, images[:1])
found = gmn.align(graph, first, second)
before, after = along_the_line(first, second), along_the_line(first, found.state_dict)
print(f"distance {found.distance_before:.2f}, aligned {found.distance:.2f}")
print(f"loss at the endpoints {before[0]:.3f} and {before[-1]:.3f}; aligned {after[-1]:.3f}")
print(f"loss at the midpoint {before[POINTS // 2]:.3f}, aligned {after[POINTS // 2]:.3f}")
print(f"barrier {barrier(before):.3f}, aligned {barrier(after):.3f}")

if options.plot:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 3), layout="constrained")
    axes = figure.subplots()
    positions = torch.linspace(0, 1, POINTS).tolist()
    axes.plot(positions, before, color="#b04a4a", label="as trained")
    axes.plot(positions, after, color="#2f6db0", label="aligned")
    axes.set(xlabel="from the first network to the second", ylabel="loss on held-out digits", ylim=(0, None))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(options.plot, metadata={"Date": None} if options.plot.endswith("svg") else None)
    print(f"drew {options.plot}")
