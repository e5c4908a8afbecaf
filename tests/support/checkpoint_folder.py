"""A folder of checkpoints of several architectures and formats, with a table and a file of builders."""

from __future__ import annotations

import csv
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

MODELS = '''
import torch
from torch import nn


def mlp(width):
    return nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 3))


def deep(width):
    layers = [nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 3)]
    return nn.Sequential(*layers)


class Gru(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.rnn, self.out = nn.GRU(2, width, batch_first=True), nn.Linear(width, 3)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


def build(architecture, width):
    """Build a network with an example input, from the columns of the table."""
    if architecture == "gru":
        return Gru(width), torch.zeros(1, 4, 2)
    return {"mlp": mlp, "deep": deep}[architecture](width), torch.zeros(1, 2)
'''


def write_folder(place: Path, count: int = 12) -> Path:
    """Write models.py, results.csv and `checkpoints/`, a third of each architecture; return the last."""
    folder = place / "checkpoints"
    (folder / "more").mkdir(parents=True)
    (place / "models.py").write_text(MODELS)
    space: dict = {}
    exec(MODELS, space)
    rows = []
    generator = torch.Generator().manual_seed(0)
    for number in range(count):
        architecture, width = ("mlp", "deep", "gru")[number % 3], 3 + number % 2
        network = space["build"](architecture, width)[0]
        scale = 0.1 + 2 * float(torch.rand((), generator=generator))
        weights = {name: scale * torch.randn(x.shape, generator=generator) for name, x in _sizes(network)}
        name = _save(folder, architecture, f"run{number:02}", weights)
        rows.append(
            {"name": name, "architecture": architecture, "width": width, "test_accuracy": scale / 2.2}
        )
    with (place / "results.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return folder


def _sizes(network: nn.Module) -> list[tuple[str, torch.Tensor]]:
    return list(network.state_dict().items())


def _save(folder: Path, architecture: str, name: str, weights: dict[str, torch.Tensor]) -> str:
    """Save weights in the format of an architecture, and return how the table names the file."""
    if architecture == "mlp":
        save_file(weights, folder / f"{name}.safetensors")
        return f"{name}.safetensors"
    if architecture == "deep":
        saved = {"epoch": 3, "model_state": {f"module.{key}": x for key, x in weights.items()}}
        torch.save(saved, folder / f"{name}.pt")
        return name
    lightning = {
        "state_dict": {f"model.{k}": x for k, x in weights.items()},
        "pytorch-lightning_version": "2",
    }
    torch.save(lightning, folder / "more" / f"{name}.ckpt")
    return f"more/{name}"
