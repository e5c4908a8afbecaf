"""Train networks of three architectures on digits, and save them as three training scripts would.

python examples/own_checkpoints.py mine     # writes mine/checkpoints/ and mine/results.csv
"""

import argparse
import csv
from functools import cache
from pathlib import Path

import torch
from own_models import build
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

ARCHITECTURES, WIDTHS = ("mlp", "cnn", "gru"), (8, 12, 16)
TRAIN, BATCH = 1200, 64  # the other images test


@cache
def digits() -> tuple[Tensor, Tensor]:  # [N, 1, 8, 8], [N]
    pixels, numbers = load_digits(return_X_y=True)
    order = torch.randperm(len(numbers), generator=torch.Generator().manual_seed(0))
    images = torch.as_tensor(pixels, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    return images[order], torch.as_tensor(numbers)[order]


def train(network: nn.Module, steps: int, rate: float) -> torch.optim.Optimizer:
    images, labels = digits()
    optimizer = torch.optim.Adam(network.parameters(), lr=rate)
    for _ in range(steps):
        chosen = torch.randint(TRAIN, (BATCH,))
        optimizer.zero_grad()
        cross_entropy(network(images[chosen]), labels[chosen]).backward()
        optimizer.step()
    return optimizer


@torch.no_grad()
def accuracy(network: nn.Module) -> float:
    images, labels = digits()
    right = network.eval()(images[TRAIN:]).argmax(1) == labels[TRAIN:]
    return float(right.float().mean())


def save(architecture: str, network: nn.Module, optimizer: torch.optim.Optimizer, path: Path) -> Path:
    """Save a network: weights alone, a training state, or a checkpoint of Lightning; return the file."""
    weights = network.state_dict()
    if architecture == "mlp":
        file = path.with_suffix(".safetensors")
        save_file(weights, file)
    elif architecture == "cnn":
        file = path.with_suffix(".pt")
        parallel = {f"module.{name}": value for name, value in weights.items()}
        torch.save({"epoch": 3, "model_state": parallel, "optimizer": optimizer.state_dict()}, file)
    else:
        file = path.parent / "gru" / f"{path.name}.ckpt"
        file.parent.mkdir(exist_ok=True)
        module = {f"model.{name}": value for name, value in weights.items()}
        torch.save({"state_dict": module, "pytorch-lightning_version": "2.6.0"}, file)
    return file


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("into", type=Path)
    parser.add_argument("--count", type=int, default=60)
    arguments = parser.parse_args()
    checkpoints: Path = arguments.into / "checkpoints"
    checkpoints.mkdir(parents=True)
    torch.manual_seed(0)
    rows = []
    for number in range(arguments.count):
        architecture, width = ARCHITECTURES[number % 3], WIDTHS[number // 3 % 3]
        network, _ = build(architecture, width)
        steps, rate = int(10 ** (1 + 1.3 * torch.rand(()))), float(10 ** (-3 + 1.5 * torch.rand(())))
        optimizer = train(network, steps, rate)
        file = save(architecture, network, optimizer, checkpoints / f"run{number:02}")
        known = {"architecture": architecture, "width": width, "test_accuracy": round(accuracy(network), 4)}
        rows.append({"file": file.relative_to(checkpoints).as_posix(), **known})
    with open(arguments.into / "results.csv", "w", newline="") as table:
        writer = csv.DictWriter(table, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    print(f"{len(rows)} checkpoints in {checkpoints}, and their accuracies in {table.name}")


if __name__ == "__main__":
    main()
