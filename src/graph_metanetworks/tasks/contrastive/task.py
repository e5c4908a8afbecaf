"""Self-supervised learning of embeddings from two views of each network (section 5.3 of the paper)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from graph_metanetworks.errors import TaskError
from graph_metanetworks.extras import optional_imports
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.methods.method import Output
from graph_metanetworks.nn.mlp import Mlp
from graph_metanetworks.tasks.contrastive.loss import info_nce, retrieval
from graph_metanetworks.tasks.contrastive.model import Encoded, Inputs, Outputs
from graph_metanetworks.tasks.contrastive.options import SUPERVISED, Options, find_setting
from graph_metanetworks.tasks.contrastive.regression import Regression
from graph_metanetworks.tasks.contrastive.runner import Encoder
from graph_metanetworks.tasks.contrastive.views import join
from graph_metanetworks.tasks.data import TaskData, read_numbers
from graph_metanetworks.tasks.evaluation import Evaluation, exact_copy
from graph_metanetworks.tasks.runner import embeddings
from graph_metanetworks.tasks.splits import Setting
from graph_metanetworks.tasks.task import Score, Task
from graph_metanetworks.tasks.traced_zoo import TracedZoo
from graph_metanetworks.training.job import Networks, Split

if TYPE_CHECKING:
    from torchmetrics import Metric

SMALLEST = 1e-12  # variance of a column in a batch


def _retrieval() -> Metric:
    with optional_imports():  # it imports torchmetrics
        from graph_metanetworks.tasks.contrastive.metrics import Retrieval
    return Retrieval()


def _error() -> Metric:
    with optional_imports():
        from graph_metanetworks.tasks.contrastive.metrics import LinearError
    return LinearError()


LOSS = Score("loss", "loss", higher_is_better=False, headline=False)
RETRIEVAL = Score("retrieval", "retrieval", metric=_retrieval, headline=False)
ERROR = Score("mse", "MSE", higher_is_better=False, metric=_error)


class Contrastive(Task[Options]):
    """Learn embeddings in which two views of a network are alike; measure them by linear regression.

    The encoder is trained with a projector behind it and the NT-Xent loss. Embeddings are what the projector
    is given for clean networks. In the settings `supervised`, a linear layer predicts the columns instead:
    the error of the same encoder with labels.
    """

    name = "contrastive"
    title = "Self-supervised embeddings of networks"
    options_class = Options
    runner_class = Encoder
    scores = (LOSS, ERROR, RETRIEVAL)
    methods = ("gmn", "gmn+scales", "dws", "inr2vec", "transformer", "mlp", "mlp+permuted", "mlp+aligned")
    settings = ("80", SUPERVISED)

    def __init__(self, options: Options | None = None, *, reference: str | None = None) -> None:
        super().__init__(options, reference=reference)
        names = self.options.column_names
        each = tuple(
            Score(f"mse_{name}", f"MSE of {name}", higher_is_better=False, headline=False) for name in names
        )
        first = (ERROR, LOSS) if self.options.select == "error" else (LOSS, ERROR)
        self.scores = (*first, RETRIEVAL, *each) if names else (LOSS, RETRIEVAL)

    # -------------------------------------------------------------- data

    def data(self, networks: TracedZoo) -> TaskData:
        table, where = networks.zoo.table, str(networks.zoo.folder)
        columns = [
            torch.from_numpy(read_numbers(table, name, where=where, option="--columns"))
            for name in self.options.column_names
        ]
        return TaskData(networks, torch.stack(columns, 1) if columns else torch.zeros(len(networks), 0))

    def setting(self, name: str) -> Setting:
        return find_setting(name)

    def split(self, data: TaskData, setting: str, seed: int) -> Split:
        split, size = super().split(data, setting, seed), self.options.batch_size
        if len(split.train) < size:
            raise TaskError(
                f"a batch of {size} needs as many different networks, and the setting {setting} leaves "
                f"{len(split.train)} to train on: choose a smaller --batch-size."
            )
        return split

    def transform(self, batch: Batch, generator: torch.Generator, *, training: bool) -> Inputs:
        if self.options.supervised:
            return Inputs(batch, len(batch), clean=True, views=False)
        pair = self.options.made_views.pair(batch, generator)
        clean = not training and bool(self.options.column_names)
        return Inputs(join([batch, *pair] if clean else pair), len(batch), clean, views=True)

    # -------------------------------------------------------------- learning

    def output(self, data: TaskData) -> Output:
        return Output(width=self.options.embedding)

    def make_model(self, output: Output) -> Encoded:
        width, columns = output.width, len(self.options.column_names)
        top = nn.Linear(width, columns) if self.options.supervised else projector(width)
        return Encoded(super().make_model(output), top)

    def forward(self, model: Any, inputs: Inputs | Batch) -> Outputs | Tensor:
        return model(inputs) if isinstance(inputs, Batch) else model.run(inputs)

    def loss(self, outputs: Outputs, targets: Tensor) -> Tensor:
        if outputs.projections is not None:
            return info_nce(outputs.projections, self.options.temperature)
        assert outputs.estimates is not None
        deviation, mean = torch.std_mean(targets, dim=0, correction=0)
        return mse_loss(outputs.estimates, (targets - mean) / deviation.clamp(min=SMALLEST))

    def embed(self, model: Any, batch: Batch) -> Tensor:  # [B, d]
        return model(batch)

    # -------------------------------------------------------------- evaluation

    def make_reference(self) -> Regression:
        return Regression()

    @torch.no_grad()
    def evaluate(self, model: nn.Module, data: TaskData, split: Split) -> Evaluation:
        """Fit a linear regression on the training networks; measure it, and the contrastive loss."""
        scores = {part: self._agreement(model, data, own) for part, own in split.parts().items()}
        regression, names = Regression(), self.options.column_names
        if not names:
            return Evaluation(scores, reference=regression)
        exact, size = exact_copy(model), self.options.batch_size
        embedded = {
            part: torch.cat([embeddings(self, exact, batch) for batch in Networks(data, own, size)])
            for part, own in split.parts().items()
        }
        regression.fit(embedded["train"], data.targets[split.train])
        rows, indices = [], data.networks.zoo.table["index"].to_numpy()
        for part, own in split.parts().items():
            true, predicted = data.targets[own].double(), regression(embedded[part].cpu())
            errors = (predicted - true).square().mean(0)
            each = {f"mse_{name}": float(error) for name, error in zip(names, errors, strict=True)}
            scores[part] |= {"mse": float(errors.mean()), **each}
            rows += _rows(indices[own], part, names, true, predicted)
        return Evaluation(scores, rows, regression)

    def _agreement(self, model: nn.Module, data: TaskData, positions: np.ndarray) -> dict[str, float]:
        """Measure the loss and retrieval on views, batch by batch; NaN for a supervised model."""
        if self.options.supervised:
            return {"loss": float("nan"), "retrieval": float("nan")}
        device = next(model.parameters()).device
        loss, found, generator = 0.0, 0.0, torch.Generator().manual_seed(self.options.seed)
        for batch in Networks(data, positions, self.options.batch_size):
            pair = self.options.made_views.pair(batch.to(device), generator)
            outputs = self.forward(model, Inputs(join(pair), len(batch), clean=False, views=True))
            assert isinstance(outputs, Outputs) and outputs.projections is not None
            share = len(batch) / len(positions)
            loss += share * float(info_nce(outputs.projections, self.options.temperature))
            found += share * float(retrieval(outputs.projections).double().mean())
        return {"loss": loss, "retrieval": found}


def projector(width: int) -> nn.Module:
    """Make what only the contrastive loss sees. Embeddings share a large mean, so they are standardized."""
    return nn.Sequential(nn.BatchNorm1d(width, affine=False), Mlp(width, width, width))


def _rows(
    indices: np.ndarray, part: str, names: tuple[str, ...], true: Tensor, predicted: Tensor
) -> list[dict[str, Any]]:
    """Make the lines of predictions.csv: a true and a predicted value of each column."""
    header = ["index", "part", *(f"true {name}" for name in names), *(f"predicted {name}" for name in names)]
    values = torch.cat([true, predicted], dim=1).tolist()
    return [
        dict(zip(header, [index, part, *(f"{value:.6f}" for value in own)], strict=True))
        for index, own in zip(indices.tolist(), values, strict=True)
    ]
