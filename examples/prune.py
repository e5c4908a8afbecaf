"""Prune a CNN that was trained on digits, fine-tune it, and plot accuracy against size.

python examples/prune.py [--plot prune.svg]      # magnitude, Taylor and random; three seeds, two minutes
"""

import argparse

import torch
from rich.progress import track
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import graph_metanetworks as gmn

parser = argparse.ArgumentParser(description="Accuracy of a pruned and fine-tuned network against its size.")
parser.add_argument("--plot", metavar="FILE", help="draw the curves to an svg, png or pdf file")
parser.add_argument("--epochs", type=int, default=15, help="training epochs")
parser.add_argument("--fine-tune", type=int, default=2, help="epochs of fine-tuning after pruning")
parser.add_argument("--seeds", type=int, default=3, help="networks that are trained and pruned")
parser.add_argument("--amounts", type=float, nargs="+", default=[0.3, 0.5, 0.7, 0.8, 0.9])
options = parser.parse_args()

pixels, numbers = load_digits(return_X_y=True)
images = torch.as_tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 16
labels = torch.as_tensor(numbers)
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
train, test = order[:1200], order[1200:]


def network() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU()),
        *(nn.Conv2d(64, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)),
    )


def fit(model: nn.Module, epochs: int, rate: float = 1e-3) -> nn.Module:
    model.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(epochs):
        for batch in train[torch.randperm(len(train))].split(64):
            optimiser.zero_grad()
            cross_entropy(model(images[batch]), labels[batch]).backward()
            optimiser.step()
    return model.eval()


@torch.no_grad()
def accuracy(model: nn.Module) -> float:
    return float((model(images[test]).argmax(-1) == labels[test]).float().mean())


def loss(model: nn.Module) -> torch.Tensor:
    return cross_entropy(model(images[train[:256]]), labels[train[:256]])


example = images[test[:2]]
curves: dict[str, dict[int, list[float]]] = {}  # accuracies by number of parameters
for seed in range(options.seeds):
    torch.manual_seed(seed)
    model = fit(network(), options.epochs)
    graph = gmn.trace(model, example)
    for importance in ("magnitude", "taylor", "random"):
        for amount in track([0.0, *options.amounts], f"{importance}, seed {seed}", transient=True):
            torch.manual_seed(seed)
            draws = torch.Generator().manual_seed(seed)
            plan = gmn.prune_plan(graph, model, amount, importance, loss=loss, generator=draws)
            small = fit(gmn.prune(model, plan, example), options.fine_tune) if amount else model
            found = curves.setdefault(importance, {}).setdefault(plan.parameters[1], [])
            found.append(accuracy(small))

for importance, points in curves.items():
    for amount, (size, scores) in zip([0.0, *options.amounts], points.items(), strict=True):
        share = f"{importance:9}  {amount:4.0%} of channels  {size:6,} parameters"
        print(f"{share}  {sum(scores) / len(scores):.1%} ({min(scores):.1%} to {max(scores):.1%})")

if options.plot:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.5, 3.5))
    for importance, points in curves.items():
        means = [sum(scores) / len(scores) for scores in points.values()]
        (line,) = axes.plot([*points], means, marker="o", label=importance)
        lowest, highest = ([pick(scores) for scores in points.values()] for pick in (min, max))
        axes.fill_between([*points], lowest, highest, color=line.get_color(), alpha=0.15, linewidth=0)
    axes.set(xscale="log", xlabel="parameters", ylabel="test accuracy")
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(options.plot)
