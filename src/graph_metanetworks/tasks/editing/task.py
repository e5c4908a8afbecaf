"""Edit INRs: change their weights so that they render an edited image (section 5.2 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from graph_metanetworks.errors import TaskError
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.methods.method import Output
from graph_metanetworks.nn.editor import Editor
from graph_metanetworks.tasks.data import TaskData
from graph_metanetworks.tasks.editing.data import Images, ImageZoo
from graph_metanetworks.tasks.editing.images import EDITS
from graph_metanetworks.tasks.editing.render import render_batch
from graph_metanetworks.tasks.editing.runner import EditRunner
from graph_metanetworks.tasks.evaluation import Evaluation, exact_copy
from graph_metanetworks.tasks.options import TaskOptions
from graph_metanetworks.tasks.runner import exactly
from graph_metanetworks.tasks.task import Score, Task
from graph_metanetworks.tasks.traced_zoo import TracedZoo
from graph_metanetworks.training.job import Split
from graph_metanetworks.training.options import option

CANONICAL = ("signs", "scales", "none")
TARGETS = ("renders", "images")


@dataclass(frozen=True)
class Options(TaskOptions):
    """Options that affect the result."""

    edit: Literal["dilate", "contrast"] = option("dilate", "dilate (3 x 3) or contrast (CLAHE on luminance).")
    canonical: Literal["signs", "scales", "none"] = option(
        "signs", "Canonical form that networks are brought to before they are edited: signs, scales or none."
    )
    targets: Literal["renders", "images"] = option(
        "renders", "What is edited to make targets: what networks render, or images of the data set."
    )
    steps: int = option(1000, "Training steps, one batch each.", least=1)
    batch_size: int = option(32, "Networks per batch.", least=1)
    weight_decay: float = option(0.01, "Weight decay of AdamW.")

    def __post_init__(self) -> None:
        super().__post_init__()
        choices = (("edit", tuple(EDITS)), ("canonical", CANONICAL), ("targets", TARGETS))
        for name, known in choices:
            if getattr(self, name) not in known:
                raise TaskError(
                    f"there is no --{name} '{getattr(self, name)}': choose from {', '.join(known)}."
                )


class Editing(Task[Options]):
    """Targets are edited images; the loss is the squared error of what the edited networks render."""

    name = "editing"
    title = "Edit INRs"
    options_class = Options
    runner_class = EditRunner
    scores = (
        Score("loss", "MSE", higher_is_better=False, digits=4),
        Score("identity", "identity", higher_is_better=False, headline=False, digits=4),
        Score("mean_image", "mean image", higher_is_better=False, headline=False, digits=4),
        Score("constant", "best constant", higher_is_better=False, headline=False, digits=4),
    )
    methods = ("gmn", "nfn-np", "nfn-hnp", "nft", "mlp")
    settings = ("80",)

    def data(self, networks: TracedZoo) -> ImageZoo:
        return ImageZoo(networks, self.options.edit, images=self.options.targets == "images")

    def output(self, data: TaskData) -> Output:
        return Output(level="edge")

    def make_model(self, output: Output) -> Editor:
        kind = None if self.options.canonical == "none" else self.options.canonical
        return Editor(super().make_model(output), canonical=kind)

    def loss(self, outputs: Batch, targets: Images) -> Tensor:
        return mse_loss(render_batch(outputs, targets.coordinates), targets.values)

    def embed(self, model: nn.Module, batch: Batch) -> Tensor:
        editor = cast(Editor, model)
        return super().embed(editor.model, editor.canonical(batch))

    @torch.no_grad()
    def evaluate(self, model: nn.Module, data: TaskData, split: Split) -> Evaluation:
        """Measure the error of every network, beside the errors of methods that learn nothing."""
        zoo, exact = cast(ImageZoo, data), exact_copy(model)
        indices = zoo.networks.zoo.table["index"].to_numpy()
        scores, rows = {}, []
        for part, positions in split.parts().items():
            errors = []
            for batch, targets in zoo.in_batches(positions, self.options.batch_size):
                rendered = render_batch(exact(exactly(batch, exact)), targets.coordinates)
                difference = rendered.to(targets.values) - targets.values
                errors.append(difference.square().mean((1, 2)))
            found = torch.cat(errors)
            scores[part] = {"loss": float(found.mean()), **zoo.references(split.train, positions)}
            named = zip(indices[positions], found.tolist(), strict=True)
            rows += [{"index": index, "part": part, "mse": f"{error:.6f}"} for index, error in named]
        return Evaluation(scores, rows)
