"""Hand-written losses and gradients of several SIRENs at once.

Autograd would allocate more than fits into the caches. Here every tensor with an entry per neuron and point
is computed for a few networks at a time (a tile), in buffers that are reused. Small tensors are computed for
all networks at once, because for them the time goes into calls.

Axis letters: n networks, h neurons, c outputs; points are rows p times columns q. Layers count from 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from graph_metanetworks.zoo.inr.conventions import Conventions
from graph_metanetworks.zoo.inr.grid import Grid
from graph_metanetworks.zoo.inr.parameters import Parameters
from graph_metanetworks.zoo.inr.sincos import sine_and_cosine
from graph_metanetworks.zoo.inr.siren import SirenArchitecture

TILE_BYTES = 2_200_000  # size of a buffer; a network with two hidden layers needs five
MAX_TILE = 16  # networks


@dataclass(frozen=True, eq=False)
class _Prepared:
    """The parameters in the form that tiles use."""

    rows: Tensor  # [n, h, 4, p]: sine and cosine of the row part of the first angle, and both times the row
    columns: Tensor  # [n, h, 2, q]: cosine and sine of the column part
    weights: list[Tensor]  # [n, h, h] of layers 1, 2, ..., for angles in turns
    biases: list[Tensor]  # [n, h, 1]
    last_bias: Tensor  # [n, c, 1]
    factor: Tensor  # [n, h, 1]: deferred factor of the derivatives by the angles of the last sine layer


class Gradients:
    """Losses and gradients of networks of one architecture on one grid, with space for `at_least` networks.

    The result for a network does not depend on the others, bit for bit, because all tiles have the same size.
    """

    def __init__(self, architecture: SirenArchitecture, conventions: Conventions, grid: Grid, at_least: int):
        dtype, hidden, layers = grid.rows.dtype, architecture.hidden, architecture.layers
        fitting = TILE_BYTES // (hidden * grid.num_points * dtype.itemsize)
        tile = min(max(1, fitting), MAX_TILE)
        self.networks = networks = -(-at_least // tile) * tile
        self.parameters = Parameters(architecture, networks, dtype)
        self.gradients = Parameters(architecture, networks, dtype)
        self._grid, self._conventions, self._last = grid, conventions, layers
        self._one_output = architecture.outputs == 1 and layers > 1
        self._tiles = [slice(start, start + tile) for start in range(0, networks, tile)]
        buffers = torch.empty(2 * layers + 1, tile, hidden, grid.num_points, dtype=dtype)
        self._turns, self._scratch, *values = buffers.unbind()
        self._sines, self._cosines = values[:layers], values[layers:]  # cosines of layers 1, 2, ...
        self._losses = torch.empty(networks, dtype=dtype)
        self._first_sums = torch.empty(networks, hidden, 4, len(grid.columns), dtype=dtype)

    def compute(self, targets: Tensor, wanted: Sequence[bool]) -> Tensor:  # [n, c, points] -> [n]
        """Return the losses of the wanted networks, and store their gradients in `gradients`."""
        prepared = self._prepare()
        for tile in (tile for tile in self._tiles if any(wanted[tile])):
            residuals = self._forward(tile, prepared).sub_(targets[tile])
            self._losses[tile] = residuals.square().mean(dim=(1, 2))
            self._backward(tile, prepared, residuals.mul_(2 / targets[0].numel()))
        self._finish(prepared)
        return self._losses

    def _prepare(self) -> _Prepared:
        omega, (row_input, column_input) = self._conventions.omega, self._grid.inputs_of
        weight, bias = self.parameters.weight(0) * omega, self.parameters.bias(0) * omega
        a = torch.addcmul(bias[..., None], weight[..., row_input, None], self._grid.rows)
        b = weight[..., column_input, None] * self._grid.columns
        rows, columns = torch.stack((a.sin(), a.cos()), dim=2), torch.stack((b.cos(), b.sin()), dim=2)
        turns = omega / (2 * math.pi)
        sine_layers = range(1, self._last)
        last = self.parameters.weight(self._last)
        return _Prepared(
            rows=torch.cat((rows, rows * self._grid.rows), dim=2),
            columns=columns,
            weights=[self.parameters.weight(layer) * turns for layer in sine_layers],
            biases=[self.parameters.bias(layer)[..., None] * turns for layer in sine_layers],
            last_bias=self.parameters.bias(self._last)[..., None] + self._conventions.output_offset,
            factor=last.transpose(1, 2) if self._one_output else last.new_ones(len(last), last.shape[2], 1),
        )

    def _forward(self, tile: slice, prepared: _Prepared) -> Tensor:  # [n, c, points]
        # sin(a + b) = sin a cos b + cos a sin b, where a depends on the row and b on the column
        rows, columns = prepared.rows[tile, :, :2].flatten(0, 1), prepared.columns[tile].flatten(0, 1)
        torch.bmm(rows.transpose(1, 2), columns, out=self._by_rows(self._sines[0]))
        sines = self._sines[0]
        for layer in range(1, self._last):
            weight, bias = prepared.weights[layer - 1][tile], prepared.biases[layer - 1][tile]
            torch.baddbmm(bias, weight, sines, out=self._turns)
            sines, cosines = self._sines[layer], self._cosines[layer - 1]
            sine_and_cosine(self._turns, sine=sines, cosine=cosines, scratch=self._scratch)
        return torch.baddbmm(prepared.last_bias[tile], self.parameters.weight(self._last)[tile], sines)

    def _backward(self, tile: slice, prepared: _Prepared, residuals: Tensor) -> None:
        """Backpropagate `residuals` [n, c, points], the derivatives of the loss by the outputs."""
        upper, weight = residuals, self.parameters.weight(self._last)[tile]
        self._set(self._last, tile, upper)
        for layer in range(self._last - 1, 0, -1):
            angles = self._cosines[layer - 1]
            if (
                layer == self._last - 1 and self._one_output
            ):  # an outer product, whose column factor is deferred
                angles.mul_(upper)
                weight = self.parameters.weight(layer)[tile] * prepared.factor[tile]
            else:
                angles.mul_(torch.bmm(weight.transpose(1, 2), upper, out=self._turns))
                weight = self.parameters.weight(layer)[tile]
            self._set(layer, tile, angles)
            upper, weight = angles, weight * self._conventions.omega
        by_sines = torch.bmm(weight.transpose(1, 2), upper, out=self._turns)
        rows = prepared.rows[tile].flatten(0, 1)
        torch.bmm(rows, self._by_rows(by_sines), out=self._first_sums[tile].flatten(0, 1))

    def _set(self, layer: int, tile: slice, upper: Tensor) -> None:
        """Set the gradient of a layer from the derivatives by its outputs, without omega and the factor."""
        self.gradients.weight(layer)[tile] = torch.bmm(upper, self._sines[layer - 1].transpose(1, 2))
        self.gradients.bias(layer)[tile] = upper.sum(2)

    def _finish(self, prepared: _Prepared) -> None:
        omega, (row_input, column_input) = self._conventions.omega, self._grid.inputs_of
        for layer in range(1, self._last):
            scale = prepared.factor * omega if layer == self._last - 1 else prepared.factor.new_tensor(omega)
            self.gradients.weight(layer).mul_(scale)
            self.gradients.bias(layer).unsqueeze(2).mul_(scale)
        # cos(a + b) = cos a cos b - sin a sin b; the sums over rows are done, those over columns remain
        sine, cosine, row_sine, row_cosine = self._first_sums.unbind(2)  # [n, h, q]
        columns = prepared.columns * omega
        by_angle = columns[:, :, 0] * cosine - columns[:, :, 1] * sine
        by_row = columns[:, :, 0] * row_cosine - columns[:, :, 1] * row_sine
        weight = self.gradients.weight(0).zero_()
        weight[..., row_input] += by_row.sum(2)
        weight[..., column_input] += by_angle @ self._grid.columns
        torch.sum(by_angle, dim=2, out=self.gradients.bias(0))

    def _by_rows(self, values: Tensor) -> Tensor:  # [n, h, points] -> [n h, p, q]
        return values.view(-1, len(self._grid.rows), len(self._grid.columns))
