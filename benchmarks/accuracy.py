"""Training to predict accuracy: where the time goes, and how soon the score is reached.

    python benchmarks/accuracy.py zoos/diverse [--method gmn] [--steps 20]
    python benchmarks/accuracy.py zoos/diverse --curve [--minutes 15] [--networks 1000]

The first measures reading, forward and backward of training steps. The second trains once, on half of the
networks, and prints the validation score against time.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import torch

from graph_metanetworks.allocator import keep_freed_memory
from graph_metanetworks.methods.method import as_metanetwork, count_parameters
from graph_metanetworks.table import Table
from graph_metanetworks.tasks.accuracy import Accuracy, LabelledZoo, Options, TracedZoo, train
from graph_metanetworks.training.job import Networks
from graph_metanetworks.training.samplers import Rounds
from graph_metanetworks.zoo import Zoo

PHASES = ("data", "forward", "backward", "optimiser")


@dataclass
class Clock:
    """Seconds of each phase."""

    seconds: dict[str, float]
    since: float

    def tick(self, phase: str) -> None:
        now = perf_counter()
        self.seconds[phase] += now - self.since
        self.since = now


def measure(data: LabelledZoo, options: Options) -> Table:
    """The share of each phase of a training step, after one step to warm up."""
    task = Accuracy(options)
    split = task.split(data, options.setting, 0)
    model = task.make_model(task.output(data))
    as_metanetwork(model).fit(Networks(data, split.train[:64], options.batch_size))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches = Rounds(split.train, options.batch_size, options.steps + 1, seed=0)
    clock, edges = Clock(dict.fromkeys(PHASES, 0.0), perf_counter()), 0
    for number, positions in enumerate(batches):
        if number == 1:
            clock, edges = Clock(dict.fromkeys(PHASES, 0.0), perf_counter()), 0
        networks, accuracies = data[positions]
        clock.tick("data")
        loss = task.loss(model(networks), accuracies)
        clock.tick("forward")
        optimizer.zero_grad()
        loss.backward()
        clock.tick("backward")
        optimizer.step()
        clock.tick("optimiser")
        edges += networks.num_edges
    total = sum(clock.seconds.values())
    rows = [
        (phase, f"{spent / options.steps * 1e3:.0f} ms", f"{spent / total:.1%}")
        for phase, spent in clock.seconds.items()
    ]
    rows.append(("all", f"{total / options.steps * 1e3:.0f} ms", f"{total / edges * 1e6:.2f} µs per edge"))
    title = f"{options.method}, {count_parameters(model):,} parameters, batches of {options.batch_size}"
    return Table(title, ("phase", "a step", "share"), rows, right=("a step", "share"))


def curve(data: LabelledZoo, options: Options, minutes: float) -> Table:
    """The validation score against time, and when the best was reached."""
    with tempfile.TemporaryDirectory() as folder:
        run = train(data, Path(folder) / "run", options)
        lines = (Path(folder) / "run" / "curve.csv").read_text().splitlines()
    names, *rows = [line.split(",") for line in lines]
    points = [dict(zip(names, map(float, row), strict=True)) for row in rows]
    best = max(points, key=lambda point: point["val_r2"])
    shown = [
        (
            f"{point['seconds'] / 60:.1f}",
            f"{point['step']:.0f}",
            f"{point['val_r2']:.3f}",
            f"{point['val_tau']:.3f}",
            "best" if point is best else "",
        )
        for point in points
    ]
    reached = best["seconds"] / 60
    verdict = "within" if reached <= minutes else "not within"
    assert run.result is not None
    title = (
        f"best validation R² {best['val_r2']:.3f} after {reached:.1f} minutes, {verdict} {minutes:g}; "
        f"test R² {run.result['scores']['test']['r2']:.3f}"
    )
    header = ("minutes", "steps", "validation R²", "tau", "")
    return Table(title, header, shown, right=header[:4])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("zoo", type=Path)
    parser.add_argument("--method", default="gmn")
    parser.add_argument("--size", default="small")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--networks", type=int, help="only the first of the zoo")
    asked = parser.parse_args()
    data = LabelledZoo(TracedZoo(Zoo.open(asked.zoo)[: asked.networks]))
    chosen = {"method": asked.method, "size": asked.size, "setting": "50"}
    if asked.curve:
        options = Options(**chosen, steps=asked.steps or Options.steps)
        print(curve(data, options, asked.minutes).text(max_rows=100))
        return
    keep_freed_memory()  # as training does
    options = Options(**chosen, steps=asked.steps or 20, rounds=1)
    print(measure(data, options).text())


if __name__ == "__main__":
    main()
