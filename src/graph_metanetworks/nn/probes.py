"""Probes: inputs on which every network of a batch is run, and what the networks make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from graph_metanetworks.errors import ReplayError, UnsupportedNetwork
from graph_metanetworks.graph.batch import Batch, Stack, require_batch
from graph_metanetworks.graph.parameter_graph import ParameterGraph
from graph_metanetworks.trace.replay.recording import Recording
from graph_metanetworks.trace.replay.stacked import run_stacked

Shape = Sequence[int]


@dataclass(frozen=True)
class ProbeSignals:
    """What the networks of a batch make of the probes."""

    outputs: Tensor  # [B, probes, outputs] raw outputs: logits, colours, ...
    nodes: Tensor  # [N, 2 * probes] activations of each node: means over positions, then deviations
    shown: Tensor  # [N] which nodes have activations; the rows of the others are zero


class Probes(nn.Module):
    """Learned inputs that are run through every network of a batch.

    >>> import torch, graph_metanetworks as gmn
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> graph = gmn.trace(model, torch.randn(1, 3))
    >>> batch = gmn.collate([(graph, model.state_dict())])
    >>> signals = gmn.nn.Probes(32, (3,))(batch)
    >>> signals.outputs.shape, signals.nodes.shape
    (torch.Size([1, 32, 2]), torch.Size([15, 64]))

    Networks run in evaluation mode, by their recorded operations (`graph.run`); those of one architecture run
    together. The result does not depend on the order of hidden neurons: outputs are invariant, activations
    are permuted like the nodes. Integer and boolean entries of state dicts are not in a batch, so they have
    the values of the network that was traced.

    Args:
        count: number of probes.
        shape: shape of one input without its batch dimension, `(3, 32, 32)` say, or the shapes of several
            inputs. Networks are traced with a batch of one such input, or with the input itself.
        inputs: the probes to start from, `[count, *shape]`, or one tensor for each of several inputs. Without
            them probes are standard normal. Token ids and other integers must be given, and stay fixed.
        learned: whether probes are parameters. If not, they are buffers.
        outputs: what networks return: "logits" of classes, which metanetworks read as probabilities, or
            "values" such as colours, which they read as they are.
    """

    def __init__(
        self,
        count: int,
        shape: Shape | Sequence[Shape],
        *,
        inputs: Tensor | Sequence[Tensor] | None = None,
        learned: bool = True,
        outputs: Literal["logits", "values"] = "logits",
    ):
        super().__init__()
        if outputs not in ("logits", "values"):
            raise ValueError(f"outputs={outputs!r} is neither 'logits' nor 'values'.")
        self.count, self.outputs = count, outputs
        self.shapes = _shapes(shape)
        for number, probes in enumerate(_initial(count, self.shapes, inputs)):
            if learned and probes.is_floating_point():
                self.register_parameter(f"inputs{number}", nn.Parameter(probes))
            else:
                self.register_buffer(f"inputs{number}", probes)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The probes, `[count, *shape]` for each input of the networks."""
        return tuple(getattr(self, f"inputs{number}") for number in range(len(self.shapes)))

    @property
    def config(self) -> dict[str, Any]:
        """What `from_config` needs to make probes that a state dict fits."""
        types = [str(probes.dtype).removeprefix("torch.") for probes in self.inputs]
        learned = any(True for _ in self.parameters())
        config = {"count": self.count, "shapes": self.shapes, "types": types}
        return config | {"learned": learned, "outputs": self.outputs}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Probes:
        count, shapes = config["count"], config["shapes"]
        inputs = [
            torch.zeros(count, *shape, dtype=getattr(torch, dtype))
            for shape, dtype in zip(shapes, config["types"], strict=True)
        ]
        return cls(count, shapes, inputs=inputs, learned=config["learned"], outputs=config["outputs"])

    def extra_repr(self) -> str:
        return f"{self.count}, {self.shapes[0] if len(self.shapes) == 1 else self.shapes}"

    def forward(self, batch: Batch) -> ProbeSignals:
        """Run all networks of a batch on all probes."""
        require_batch(batch)
        outputs: list[Tensor] = [torch.empty(0)] * len(batch)
        nodes: list[Tensor] = [torch.empty(0)] * len(batch)
        for stack in batch.stacks:
            found, statistics = self._run(batch, stack)  # [n, probes, outputs], [n, N, 2 * probes]
            for member, own, rows in zip(stack.members, found, statistics, strict=True):
                outputs[member], nodes[member] = own, rows
        _check_same_width(batch, outputs)
        shown = torch.cat([_recording(graph).program.readings.known for graph in batch.graphs])
        return ProbeSignals(torch.stack(outputs), torch.cat(nodes), shown.to(batch.device))

    def _run(self, batch: Batch, stack: Stack) -> tuple[Tensor, Tensor]:
        name = batch.names[stack.members[0]]
        recording = _recording(stack.graph)
        inputs = self._fitted(recording, name, batch.dtype)
        # a metanetwork in mixed precision must not change the precision of the networks
        with torch.autocast(batch.device.type, enabled=False):
            try:
                outputs, statistics = run_stacked(recording, stack.named_weights(), inputs, read=True)
            except ReplayError as error:
                raise UnsupportedNetwork(f"{name}: {error}") from error
        assert statistics is not None
        flat = [output.flatten(2).to(batch.dtype) for output in outputs]
        statistics = statistics.to(batch.dtype).permute(0, 2, 3, 1)  # [n, N, 2, probes]
        return torch.cat(flat, dim=-1), statistics.flatten(2)

    def _fitted(self, recording: Recording, name: str, dtype: torch.dtype) -> dict[int, Tensor]:
        """Return the probes as inputs of a network, `[probes, *input shape]` by key."""
        entries = recording.inputs
        if len(entries) != len(self.shapes):
            raise UnsupportedNetwork(
                f"{name} takes {len(entries)} tensor(s), but there are probes for {len(self.shapes)}: "
                f"shape={self.shapes}. Pass Probes the shape of every input."
            )
        fitted = {}
        for (key, entry), shape, probes in zip(entries.items(), self.shapes, self.inputs, strict=True):
            if entry.shape not in (shape, (1, *shape)):
                raise UnsupportedNetwork(
                    f"{name} was traced with an input of shape {entry.shape}, but probes have the shape "
                    f"{shape}. Trace networks with a batch of one input, {(1, *shape)}, and use one zoo, or "
                    "one Probes, for each shape of input."
                )
            if probes.is_floating_point() != entry.dtype.is_floating_point:
                raise UnsupportedNetwork(
                    f"{name} takes {entry.dtype}, but probes are {probes.dtype}. Give probes of that type, "
                    "such as Probes(count, shape, inputs=torch.randint(vocabulary, (count, *shape)))."
                )
            probes = probes.to(dtype) if probes.is_floating_point() else probes
            fitted[key] = probes.reshape(len(probes), *entry.shape)
        return fitted


def _shapes(shape: Shape | Sequence[Shape]) -> tuple[tuple[int, ...], ...]:
    several = [own for own in shape if not isinstance(own, int)]
    single = [own for own in shape if isinstance(own, int)]
    if several and single:
        raise ValueError(f"shape={shape} mixes sizes and shapes. Pass one shape, or a list of shapes.")
    return tuple(tuple(own) for own in several) if several else (tuple(single),)


def _initial(
    count: int, shapes: Sequence[tuple[int, ...]], inputs: Tensor | Sequence[Tensor] | None
) -> list[Tensor]:
    if inputs is None:
        return [torch.randn(count, *shape) for shape in shapes]
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    wanted = [(count, *shape) for shape in shapes]
    if [tuple(probes.shape) for probes in given] != wanted:
        found = ", ".join(str(tuple(probes.shape)) for probes in given)
        raise ValueError(
            f"probes of shape {found} do not fit: expected {', '.join(map(str, wanted))}, that is "
            "[count, *shape]."
        )
    return [probes.detach().clone() for probes in given]


def _recording(graph: ParameterGraph) -> Recording:
    if graph.recording is None:
        raise UnsupportedNetwork(
            f"the graph of {graph.name} was not traced from a network, so it cannot run."
        )
    return graph.recording


def _check_same_width(batch: Batch, outputs: Sequence[Tensor]) -> None:
    width = outputs[0].shape[-1]
    for name, own in zip(batch.names, outputs, strict=True):
        if own.shape[-1] != width:
            raise UnsupportedNetwork(
                f"{name} has {own.shape[-1]} outputs, but {batch.names[0]} has {width}, so their outputs on "
                "probes cannot be compared. Use one metanetwork for each number of outputs."
            )
