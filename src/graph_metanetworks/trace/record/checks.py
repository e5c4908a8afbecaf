"""Check that a network and its example can be traced."""

from __future__ import annotations

from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.jit import ScriptModule
from torch.nn.parameter import is_lazy

from graph_metanetworks.errors import TraceError

EXPORT = "torch.export.exported_program"


def check_example(inputs: list[tuple[str, Tensor]]) -> None:
    """Refuse an empty example, which shows nothing of what the network does."""
    for name, tensor in inputs:
        if not tensor.numel():
            raise TraceError(
                f"the example is empty: '{name}' has shape {tuple(tensor.shape)}. Pass at least one sample."
            )


def check(model: nn.Module) -> None:
    """Refuse networks that cannot be traced, and say what to do instead."""
    if isinstance(model, ExportedProgram):
        raise TraceError("the network is an ExportedProgram of torch.export. Trace the original nn.Module.")
    if not isinstance(model, nn.Module):
        raise TraceError(
            f"gmn.trace takes an nn.Module, not {type(model).__name__}. Wrap a function in a module, or "
            "call the class to make an instance."
        )
    for name, module in model.named_modules():
        if isinstance(module, ScriptModule):
            what = f"'{name}' is a ScriptModule" if name else "the network is a ScriptModule"
            raise TraceError(
                f"{what}, which hides its operations. Trace the original nn.Module that it was scripted from."
            )
        if _is_exported(module):
            what = f"'{name}' is" if name else "the network is"
            raise TraceError(
                f"{what} a module of torch.export, which cannot be put into evaluation mode and whose "
                "operations were specialised to one example. Trace the original nn.Module."
            )
    tensors = [*model.named_parameters(), *model.named_buffers()]
    for name, tensor in tensors:
        if is_lazy(tensor):
            raise TraceError(
                f"'{name}' has no shape yet (a lazy module). Run the network once before tracing."
            )
    for name, parameter in model.named_parameters():
        if parameter.is_complex():
            raise TraceError(
                f"'{name}' is complex; store it as real numbers (torch.view_as_real) and view it as "
                "complex in forward."
            )
        has_values = parameter.device.type != "meta" and not isinstance(parameter, FakeTensor)
        if has_values and bool(parameter.detach().isnan().any()):
            raise TraceError(
                f"'{name}' contains NaN, and a forward pass with NaN may take other branches. Trace the "
                "architecture with other weights; graph.edge_values accepts NaN."
            )
    if not any(tensor.is_floating_point() and tensor.numel() for _, tensor in tensors):
        raise TraceError(
            f"{type(model).__name__} has no floating-point parameters, so its parameter graph would be empty."
        )


def _is_exported(module: nn.Module) -> bool:
    """Return whether `torch.export` made the module; it replaces `eval` by a method that raises."""
    return isinstance(module, GraphModule) and getattr(vars(module).get("eval"), "__module__", "") == EXPORT
