"""Differentiable rendering of the INRs of a batch, those of one architecture at once."""

from __future__ import annotations

import torch
from torch import Tensor

from graph_metanetworks.errors import ReplayError, TaskError
from graph_metanetworks.graph.batch import Batch
from graph_metanetworks.trace.replay.stacked import run_stacked


def render_batch(batch: Batch, coordinates: Tensor) -> Tensor:
    """Return the values of INRs at coordinates. [points, inputs] -> [B, outputs, points]

    The recorded operations of an architecture run for all of its networks and points at once: one batched
    product per layer. Gradients flow to the weights.
    """
    found: list[Tensor] = [torch.empty(0)] * len(batch)
    for stack in batch.stacks:
        name, recording = batch.names[stack.members[0]], stack.graph.recording
        entries = {} if recording is None else recording.inputs
        shapes = [entry.shape for entry in entries.values()]
        if recording is None or len(shapes) != 1 or shapes[0][-1:] != coordinates.shape[1:]:
            raise TaskError(
                f"{name} does not map {coordinates.shape[1]} coordinates to values: its inputs have the "
                f"shapes {shapes}. Edit INRs, such as those of the recipe image-inrs."
            )
        (key,) = entries
        points = coordinates.to(batch.device, batch.dtype).reshape(-1, *shapes[0])
        try:
            (values,), _ = run_stacked(recording, stack.named_weights(), {key: points})
        except ReplayError as error:
            raise TaskError(f"{name} cannot be rendered: {error}") from error
        values = values.flatten(2).transpose(1, 2)  # [n, outputs, points]
        for member, own in zip(stack.members, values, strict=True):
            found[member] = own
        if len(stack.members) == len(batch):  # in the order of the batch
            return values
    return torch.stack(found)
