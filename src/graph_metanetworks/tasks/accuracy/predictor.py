"""A trained predictor: accuracies with intervals, and warnings where it should not be trusted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from graph_metanetworks._version import __version__
from graph_metanetworks.errors import TaskError, WeightsError
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.nn.fitted import resize_buffers, set_fitted_names
from graph_metanetworks.nn.weights import load_weights
from graph_metanetworks.tasks.accuracy.intervals import interval
from graph_metanetworks.tasks.accuracy.methods import find_method
from graph_metanetworks.tasks.accuracy.novelty import Novelty
from graph_metanetworks.tasks.accuracy.run_folder import MODEL, REFERENCE, Run

LEVEL = 0.9


@dataclass(frozen=True)
class Prediction:
    """The accuracy that a network should have on the data of the training zoo."""

    name: str
    accuracy: float
    low: float
    high: float
    warning: str = ""  # why not to trust it


class Reference(nn.Module):
    """What a run keeps of its training and validation networks."""

    def __init__(self, calibration: Tensor, novelty: Novelty) -> None:
        super().__init__()
        self.calibration = nn.Buffer(calibration)  # residuals of validation networks, ascending
        self.novelty = novelty
        resize_buffers(self, "calibration")


@dataclass(frozen=True, eq=False)
class Predictor:
    """What `gmn train accuracy` made, ready to be used.

    >>> predictor = Predictor.load("runs/gmn")  # doctest: +SKIP
    >>> predictor(gmn.collate([(graph, model.state_dict())]))  # doctest: +SKIP
    [Prediction(name='network 0 (Cnn2d)', accuracy=0.93, low=0.9, high=0.96, warning='')]
    """

    run: Run
    model: nn.Module
    calibration: Tensor  # residuals of validation networks, ascending
    novelty: Novelty

    @classmethod
    def load(cls, folder: str | Path) -> Predictor:
        folder = Path(folder)
        run = Run.load(folder)
        _require_alike(run, folder)
        if run.result is None:
            raise TaskError(
                f"the run in {folder} is not finished: repeat the gmn train command that started it."
            )
        model = find_method(run.options["method"]).make(run.options["size"])
        reference = Reference(torch.zeros(0), Novelty())
        set_fitted_names(model, run.result["scales"])
        set_fitted_names(reference, run.result["kinds"])
        try:
            load_weights(model, folder / MODEL)
            load_weights(reference, folder / REFERENCE)
        except WeightsError as error:
            raise TaskError(
                f"the run in {folder}, {run.options['method']} of size {run.options['size']}, cannot be "
                f"loaded: {error} It was made by version {run.version}. Train anew."
            ) from error
        return cls(run, model.double().eval(), reference.calibration, reference.novelty.double())

    @torch.no_grad()
    def __call__(self, batch: Batch, *, level: float = LEVEL) -> list[Prediction]:
        """Predictions for a batch, with intervals that hold the truth with probability `level`."""
        accuracies = self.accuracies(batch)
        low, high = interval(accuracies, self.calibration, level)
        return [
            Prediction(name, accuracy, below, above, strangeness.warning)
            for name, accuracy, below, above, strangeness in zip(
                batch.names,
                accuracies.tolist(),
                low.tolist(),
                high.tolist(),
                self.novelty.judge(batch, accuracies),
                strict=True,
            )
        ]

    @torch.no_grad()
    def accuracies(self, batch: Batch) -> Tensor:  # [B]
        return accuracies_of(self.model, batch)


@torch.no_grad()
def accuracies_of(model: nn.Module, batch: Batch) -> Tensor:  # [B]
    """What a model in float64 predicts, rounded to float32.

    Sums depend on the order of neurons by 1e-15 or so. Rounding takes that away: permuted networks get the
    same number.
    """
    return model(batch.to(torch.float64)).squeeze(-1).sigmoid().float()


def _require_alike(run: Run, folder: Path) -> None:
    """Versions that differ in more than their last number may compute otherwise."""
    if run.version.split(".")[:2] != __version__.split(".")[:2]:
        raise TaskError(
            f"the run in {folder} was made by version {run.version} of graph_metanetworks, and this is "
            f"version {__version__}: train again in another folder, or install version {run.version}."
        )
