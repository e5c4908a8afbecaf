"""Predict a network's accuracy from its weights alone (section 5.1 of the paper)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

from graph_metanetworks.errors import TaskError
from graph_metanetworks.extras import optional_imports
from graph_metanetworks.methods.method import Output
from graph_metanetworks.tasks.accuracy import intervals
from graph_metanetworks.tasks.accuracy.data import LABEL, LabelledZoo
from graph_metanetworks.tasks.accuracy.novelty import Novelty
from graph_metanetworks.tasks.accuracy.predictor import AccuracyReference, Predictor, find_probes
from graph_metanetworks.tasks.accuracy.scores import scores
from graph_metanetworks.tasks.accuracy.untrained import fresh_networks
from graph_metanetworks.tasks.data import TaskData
from graph_metanetworks.tasks.evaluation import Evaluation, number_rows, predict_parts, target_parts
from graph_metanetworks.tasks.options import TaskOptions
from graph_metanetworks.tasks.task import Score, Task
from graph_metanetworks.tasks.traced_zoo import TracedZoo
from graph_metanetworks.training.job import Networks, Split
from graph_metanetworks.training.options import option

if TYPE_CHECKING:
    from torchmetrics import Metric

Loss = Literal["bce", "mse"]


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options that affect the result."""

    label: str = option(LABEL, "Column of the zoo to predict.")
    loss: Loss = option("bce", "Cross-entropy, or squared error.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss not in ("bce", "mse"):
            raise TaskError(f"there is no loss '{self.loss}': choose bce or mse.")


def _r2() -> Metric:
    with optional_imports():
        from torchmetrics import R2Score
    return R2Score()


def _tau() -> Metric:
    with optional_imports():
        from torchmetrics import KendallRankCorrCoef
    return KendallRankCorrCoef()


def _r2_and_tau() -> Metric:
    return (_r2() + _tau()) / 2


# R² of a few validation networks depends on the errors of some, and is often highest long before the end
SELECTION = Score("r2_tau", "mean of R² and tau", metric=_r2_and_tau)


class Accuracy(Task[Options]):
    """Predict accuracies: outputs are logits, the loss is cross-entropy or the squared error."""

    name = "accuracy"
    title = "Predict accuracy from weights"
    options_class = Options
    runner_class = Predictor
    scores = (
        Score("r2", "R²", metric=_r2),
        Score("tau", "tau", metric=_tau),
        Score("mae", "mean error", higher_is_better=False, headline=False),
    )

    @property
    def selection(self) -> Score:
        return SELECTION

    def data(self, networks: TracedZoo) -> LabelledZoo:
        return LabelledZoo(networks, self.options.label)

    def output(self, data: TaskData) -> Output:
        return Output(link="logit")

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        logits = outputs.squeeze(-1)
        if self.options.loss == "bce":
            return binary_cross_entropy_with_logits(logits, targets)
        return mse_loss(logits.sigmoid(), targets)

    def predict(self, outputs: Tensor) -> Tensor:  # [B, 1] -> [B]
        return outputs.squeeze(-1).sigmoid()

    def make_reference(self) -> AccuracyReference:
        return AccuracyReference()

    @torch.no_grad()
    def evaluate(self, model: nn.Module, data: TaskData, split: Split) -> Evaluation:
        """Measure scores, residuals for intervals, and statistics of the training networks."""
        predicted, true = predict_parts(self, model, data, split), target_parts(data, split)
        calibration = intervals.residuals(predicted["validation"], true["validation"])
        return Evaluation(
            {part: asdict(scores(predicted[part], true[part])) for part in predicted},
            number_rows(data, split, predicted),
            AccuracyReference(calibration, self._fit_novelty(model, data, split, predicted)),
        )

    def _fit_novelty(
        self, model: nn.Module, data: TaskData, split: Split, predicted: dict[str, Tensor]
    ) -> Novelty:
        """Fit the detector of networks that are out of distribution."""
        novelty, size = Novelty().double(), self.options.batch_size
        train, validation = (Networks(data, part, size) for part in (split.train, split.validation))
        accuracies = torch.cat([predicted["train"], predicted["validation"]])
        novelty.fit(train, validation, accuracies, find_probes(model))
        novelty.untrained.fit(fresh_networks(data.networks, split.train, size), train)
        return novelty
