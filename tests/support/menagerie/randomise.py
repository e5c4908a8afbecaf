"""Random values for every tensor of a model, so that no permutation of it goes unseen.

A fresh model hides mistakes: a norm of ones and zeros, a zero bias or a layer scale of 1e-6 looks
the same after a wrong permutation.
"""

import torch
from torch import Generator, Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils.parametrize import ParametrizationList

# The deviation of biases and means: visible, but small enough to leave most ReLU channels alive.
SHIFT = 0.3


@torch.no_grad()
def randomise(model: nn.Module, *, generator: Generator) -> None:
    """Draw every parameter and running statistic of the model anew, in place."""
    for module in model.modules():
        # Spectral norm keeps singular vectors of the weight it was built with: keep that weight.
        if isinstance(module, ParametrizationList):
            continue
        for name, parameter in module.named_parameters(recurse=False):
            if is_scale(name, parameter, module):
                parameter.uniform_(0.5, 1.5, generator=generator)
                continue
            parameter.normal_(std=deviation(parameter, module), generator=generator)
        for name, buffer in module.named_buffers(recurse=False):
            if name == "running_mean":
                buffer.normal_(std=SHIFT, generator=generator)
            if name == "running_var":
                buffer.uniform_(0.5, 1.5, generator=generator)


def is_scale(name: str, parameter: Tensor, module: nn.Module) -> bool:
    """Whether the parameter weights a norm, or starts as one positive constant."""
    if name == "weight" and "Norm" in type(module).__name__:
        return True
    first = parameter.flatten()[0]
    return bool(first > 0) and torch.equal(parameter, first.expand_as(parameter))


def deviation(parameter: Tensor, module: nn.Module) -> float:
    """Return the standard deviation that keeps signals of size one at that size."""
    if parameter.ndim < 2:
        return SHIFT
    if isinstance(module, _ConvNd):
        # Zeros at the border, ReLU and squeeze-excitation shrink what a deep stack passes on.
        return 2 * parameter[0].numel() ** -0.5
    return parameter.shape[-1] ** -0.5
