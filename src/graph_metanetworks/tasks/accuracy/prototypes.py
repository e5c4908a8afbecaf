"""Prototypes: inputs that the best training networks assign to a class, made without data.

Networks trained on the same data agree on prototypes, whatever their architecture, and better networks more
so. Networks trained on other data, or with other labels, answer arbitrarily.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from graph_metanetworks.errors import ReplayError
from graph_metanetworks.graph.batch import Batch, Stack
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.nn.fitted import Fitted, resize_buffers
from graph_metanetworks.trace.replay.stacked import run_stacked

MOST, PER_CLASS = 40, 4  # prototypes
ENSEMBLE = 48  # networks that prototypes are made with
AT_ONCE = 4  # of them, in each step
STEPS, RATE = 80, 0.1
NOISE = 0.3  # added to inputs of size one, so that they do not depend on details of a few networks
SEED = 1_000_003


@dataclass(frozen=True)
class Form:
    """What networks must share to be run on the same prototypes."""

    outputs: int
    shape: tuple[int, ...]  # of an example input

    @staticmethod
    def of(graph: ParameterGraph) -> Form | None:
        """Return the form of a network that takes one tensor and returns one number per class."""
        recording = graph.recording
        if recording is None or recording.refusal or not recording.input_shape or len(recording.outputs) != 1:
            return None
        (entry,) = recording.inputs.values()
        outputs = num_outputs(graph)
        return Form(outputs, tuple(entry.shape)) if outputs > 1 else None

    @staticmethod
    def parse(name: str) -> Form:
        outputs, shape = name.split(" outputs of ")
        return Form(int(outputs), tuple(int(size) for size in shape.split("x")))

    def __str__(self) -> str:
        return f"{self.outputs} outputs of {'x'.join(map(str, self.shape))}"

    @property
    def labels(self) -> Tensor:
        """The class of each prototype, ascending, the same number for each class."""
        classes = classes_of(self.outputs)
        return classes.repeat_interleave(min(PER_CLASS, MOST // len(classes)))

    @property
    def numel(self) -> int:
        return len(self.labels) * prod(self.shape)


class Prototypes(Fitted):
    """Prototypes for each form of networks, and what networks answer to them."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs = nn.Buffer(torch.zeros(0))  # all prototypes of all forms, flat
        resize_buffers(self, "inputs")

    def make_tables(self) -> None:
        sizes = [Form.parse(name).numel for name in self.fitted_names]
        self.inputs = nn.Buffer(self.inputs.new_zeros(sum(sizes)))

    def fit(self, batches: Iterable[Batch], accuracies: Tensor) -> None:
        """Make prototypes with the best training networks, given predicted accuracies `[n]`."""
        found: dict[str, Tensor] = {}
        for form, networks in best_networks(batches, accuracies).items():
            inputs = ascend(networks, form)
            if inputs is not None:
                found[str(form)] = inputs
        self.set_fitted_names(found)
        if found:
            self.inputs.copy_(torch.cat([inputs.flatten() for inputs in found.values()]))

    @torch.no_grad()
    def forward(self, batch: Batch) -> list[Tensor | None]:
        """Return the outputs on prototypes, `[prototypes, outputs]` for each network that can be run."""
        forms = [Form.parse(name) for name in self.fitted_names]
        parts = self.inputs.split([form.numel for form in forms]) if forms else ()
        known = dict(zip(forms, parts, strict=True))
        found: list[Tensor | None] = [None] * len(batch)
        for stack in batch.to(torch.float64).stacks:
            form = Form.of(stack.graph)
            if form in known:
                outputs = _run(stack, known[form].double().view(-1, *form.shape), form)
                if outputs is not None:
                    for member, own in zip(stack.members, outputs, strict=True):
                        found[member] = own
        return found


def classes_of(outputs: int) -> Tensor:
    """Return the classes that have prototypes: all, or some if there are many."""
    return torch.linspace(0, outputs - 1, min(outputs, MOST)).round().long()


def num_outputs(graph: ParameterGraph) -> int:
    """Return the number of output nodes."""
    kinds = graph.node_kinds
    return int((graph.node_kind == kinds.index("output")).sum()) if "output" in kinds else 0


def best_networks(batches: Iterable[Batch], accuracies: Tensor) -> dict[Form, list[Stack]]:
    """Return the networks with the highest accuracies, each as a stack, by form."""
    found: dict[Form, list[tuple[float, Stack, int]]] = {}
    start = 0
    for batch in batches:
        for stack in batch.stacks:
            form = Form.of(stack.graph)
            if form is not None:
                scored = ((float(accuracies[start + m]), stack, i) for i, m in enumerate(stack.members))
                found.setdefault(form, []).extend(scored)
        start += len(batch)
    return {
        form: [_member(stack, i) for _, stack, i in sorted(own, key=lambda one: -one[0])[:ENSEMBLE]]
        for form, own in found.items()
    }


def ascend(networks: Sequence[Stack], form: Form) -> Tensor | None:
    """Find inputs of size one that networks assign to classes, `[prototypes, *shape]`; None if they cannot.

    Each step takes a few of the networks at random, and blurs the inputs by noise.
    """
    generator = torch.Generator().manual_seed(SEED)
    raw = torch.randn(len(form.labels), *form.shape, generator=generator, dtype=torch.float64)
    optimizer = torch.optim.Adam([raw.requires_grad_()], lr=RATE)
    for _ in range(STEPS):
        chosen = torch.randperm(len(networks), generator=generator)[:AT_ONCE].tolist()
        noise = [NOISE * torch.randn(raw.shape, generator=generator, dtype=raw.dtype) for _ in chosen]
        optimizer.zero_grad()
        try:
            for number, blur in zip(chosen, noise, strict=True):
                with torch.enable_grad():
                    outputs = _run(networks[number], _unit(raw) + blur, form)
                    if outputs is None or not outputs.requires_grad:
                        return None
                    F.cross_entropy(outputs[0], form.labels).backward()
        except RuntimeError:  # an operation without a gradient must not cost the run that was trained
            return None
        optimizer.step()
    return _unit(raw).detach()


def _run(stack: Stack, inputs: Tensor, form: Form) -> Tensor | None:  # [networks, prototypes, outputs]
    assert stack.graph.recording is not None
    (key,) = stack.graph.recording.inputs
    weights = {name: value.double() for name, value in stack.named_weights().items()}
    try:
        (outputs,), _ = run_stacked(stack.graph.recording, weights, {key: inputs})
    except ReplayError:
        return None
    outputs = outputs.flatten(2)
    return outputs if outputs.shape[2] == form.outputs else None


def _member(stack: Stack, number: int) -> Stack:
    weights = {name: value[:, number : number + 1] for name, value in stack.weights.items()}
    return Stack(stack.graph, (0,), weights)


def _unit(inputs: Tensor) -> Tensor:
    size = inputs.flatten(1).square().mean(1).sqrt().clamp(min=1e-6)
    return inputs / size.view(-1, *[1] * (inputs.dim() - 1))
