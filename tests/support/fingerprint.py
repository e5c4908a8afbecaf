"""Everything about a model, and about PyTorch, that tracing could disturb."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.parameter import UninitializedTensorMixin


def fingerprint(model: nn.Module) -> list[Any]:
    """Flags, attributes, hooks and registries by identity; tensors by identity, version and bits."""
    found: list[Any] = []
    for path, module in model.named_modules(remove_duplicate=False):
        attributes = {key: id(value) for key, value in vars(module).items()}
        registries = [
            (name, {key: id(entry) for key, entry in value.items()})
            for name, value in vars(module).items()
            if isinstance(value, dict)
        ]
        found.append((path, module.training, attributes, registries))
    for tensor in (*model.parameters(), *model.buffers()):
        found.append((tensor._version, tensor.requires_grad, tensor.grad, tensor.dtype, tensor.device))
        found.append(bits(tensor))
    return found


def bits(tensor: Tensor) -> bytes:
    """The values of a tensor as they lie in memory; nothing for one without values."""
    if tensor.device.type == "meta" or isinstance(tensor, FakeTensor | UninitializedTensorMixin):
        return b""
    return tensor.detach().flatten().contiguous().view(torch.uint8).numpy().tobytes()


def surroundings() -> tuple:
    everywhere = nn.modules.module
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.get_rng_state().tolist(),
        torch.backends.mha.get_fastpath_enabled(),
        torch.backends.mkldnn.enabled,  # pyright: ignore[reportAttributeAccessIssue]
        len(everywhere._global_forward_hooks),
        len(everywhere._global_forward_pre_hooks),
    )


@contextmanager
def left_as_found(model: Any) -> Iterator[None]:
    """Fails if the model, or anything global, is not afterwards what it was before."""
    is_module = isinstance(model, nn.Module)
    before = fingerprint(model) if is_module else []
    around = surroundings()
    yield
    assert surroundings() == around
    assert not is_module or fingerprint(model) == before
