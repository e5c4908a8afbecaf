"""Run a module with given weights, where its recorded operations cannot be run again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.func import functional_call

from graph_metanetworks.errors import ReplayError
from graph_metanetworks.trace.record.outputs import output_tensors
from graph_metanetworks.trace.replay.readings import Readings

if TYPE_CHECKING:
    from graph_metanetworks.trace.replay.recording import Recording


class ModuleRunner:
    """Run a module like a recording. Only its inputs and outputs are seen, so it shows no node."""

    def __init__(self, recording: Recording, module: nn.Module):
        self.recording, self.module = recording, module
        self.readings = Readings((), recording.num_nodes)
        self.refusal = ""
        self.layered, self.way = None, 0

    def run(
        self, weights: Mapping[str, Tensor], inputs: Mapping[int, Tensor], *, read: bool = False
    ) -> tuple[list[Tensor], Tensor | None]:
        args, kwargs = [], {}
        for key, entry in self.recording.inputs.items():
            for name in entry.names:
                if name.split()[0] == "input":
                    args.append(inputs[key])
                else:
                    kwargs[name] = inputs[key]
        with _evaluating(self.module):
            result = functional_call(self.module, dict(weights), tuple(args), kwargs)
        outputs = output_tensors(result)
        if len(outputs) != len(self.recording.outputs):
            raise ReplayError(
                f"{type(self.module).__name__} returned {len(outputs)} tensors, but the graph was traced "
                f"with {len(self.recording.outputs)} outputs. Wrap it in a module that returns these only."
            )
        return outputs, torch.zeros(2, 0, device=outputs[0].device) if read else None


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    modes = [(inner, inner.training) for inner in module.modules()]
    try:
        module.eval()
        yield
    finally:
        for inner, mode in modes:
            inner.training = mode
