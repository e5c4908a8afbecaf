"""Record the operations of one forward pass.

The network runs once, on real tensors or on the meta device, under a dispatch mode that sees every ATen
operation. Where weights have no values (meta, fake), operations on them compute shapes only, while masks,
positions and index tables that do not depend on weights keep their values.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch._decomp import decomposition_table
from torch._ops import HigherOrderOperator
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from graph_metanetworks.errors import UnsupportedOperation
from graph_metanetworks.trace.record.identities import Identities
from graph_metanetworks.trace.record.operation import (
    NO_VALUE,
    Escape,
    Operation,
    TensorRef,
    leaves,
    map_tensors,
    refs,
    tensors,
    written_arguments,
)

LARGEST_KEPT = 4096  # elements; larger results of operations are released unless a rule may read them
UNIFORM = {"zeros", "empty"}
_OUR_CODE = str(Path(__file__).resolve().parent.parent)
_TORCH_CODE = str(Path(torch.__file__).resolve().parent)


class WatchEscapes(TorchFunctionMode):
    """Record calls that hand a tensor's values to Python or NumPy without an operation."""

    METHODS: ClassVar[dict] = {
        Tensor.numpy: "Tensor.numpy",
        Tensor.tolist: "Tensor.tolist",
        Tensor.__array__: "Tensor.__array__",
        Tensor.data_ptr: "Tensor.data_ptr",
    }

    def __init__(self, tape: Tape):
        super().__init__()
        self.tape = tape

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in self.METHODS:
            self.tape.escape(args[0], self.METHODS[func])
        return func(*args, **(kwargs or {}))


class Tape(TorchDispatchMode):
    """The operations of a forward pass, in order.

    `knows` tells which operations have a rule; PyTorch decomposes the others where it can. `snapshot` keeps a
    copy of every tensor, for checks that run operations again. `originals` holds tensors that the network was
    given and wrote to, as they were before.
    """

    supports_higher_order_operators = True  # so that they reach `__torch_dispatch__`, which refuses them

    def __init__(self, knows: Callable[[Any], bool], *, snapshot: bool = False):
        super().__init__()
        self.operations: list[Operation] = []
        self.snapshot = snapshot
        self.originals: dict[int, Tensor] = {}
        self._knows = knows
        self._given: dict[int, list[Tensor]] = {}  # by storage: tensors that no operation made
        self._paths = [""]
        self._body: list[Operation] | None = None  # operations of the declared module that is running
        self._identities = Identities()
        self._released: set[int] = set()  # keys of activations whose values no rule reads

    def ref(self, tensor: Tensor) -> TensorRef:
        key = self._identities.key(tensor)
        value = NO_VALUE if key in self._released else tensor
        if tensor.layout != torch.strided:
            return TensorRef(key, tuple(tensor.shape), (), 0, tensor.dtype, id(tensor), tensor)
        return TensorRef(
            key,
            tuple(tensor.shape),
            tuple(tensor.stride()),
            int(tensor.storage_offset()),
            tensor.dtype,
            self._identities.storage(tensor),
            tensor.detach().clone() if self.snapshot else value,
        )

    def _result(self, tensor: Tensor) -> TensorRef:
        """Return a reference to the result of an operation.

        Rules read the values of constants, masks and indices. Other results are not kept alive: those of
        all layers together may need many times the memory of a forward pass.
        """
        if tensor.is_floating_point() and tensor.numel() > LARGEST_KEPT and tensor.layout == torch.strided:
            self._released.add(self._identities.release(tensor))
        return self.ref(tensor)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        inside = self._body is not None
        if isinstance(func, HigherOrderOperator):
            if inside:
                return self._run_higher_order(func, args, kwargs)
            raise UnsupportedOperation(_higher_order(func.name(), self.path))
        if not inside and not self._knows(func):
            result = self._decompose(func, args, kwargs)
            if result is not NotImplemented:
                return result
        args_before, kwargs_before = map_tensors(self._read, (args, kwargs))
        self._save_before_writing(func, args_before, kwargs_before)
        result = _run_inside(func, args, kwargs) if inside else run_abstractly(func, args, kwargs)
        self._record(func, args_before, kwargs_before, result)
        return result

    def _run_higher_order(self, func, args, kwargs) -> Any:
        """Run an operator that takes Python functions, inside a declared module."""
        given = tuple(self._read(tensor) for tensor in tensors((args, kwargs)))
        result = func(*args, **kwargs)
        self._record(Escape(func.name()), given, {}, result)
        return result

    def _read(self, tensor: Tensor) -> TensorRef:
        is_given = not self._identities.knows(tensor)
        ref = self.ref(tensor)
        if is_given:
            self._given.setdefault(ref.storage, []).append(tensor)
        return ref

    def _save_before_writing(self, func, args, kwargs) -> None:
        """Copy what the network was given before its first write to it, because it may run again."""
        for ref in written_arguments(func, args, kwargs):
            for tensor in self._given.pop(ref.storage, ()):
                self.originals[self.ref(tensor).key] = tensor.detach().clone()

    def escape(self, tensor: Tensor, name: str) -> None:
        """Record that the values of a tensor leave PyTorch."""
        self._record(Escape(name), (self.ref(tensor),), {}, ())

    def _decompose(self, func, args, kwargs) -> Any:
        mark = len(self.operations)
        try:
            with self:
                if func in decomposition_table:
                    return decomposition_table[func](*args, **kwargs)
                return func.decompose(*args, **kwargs)
        except Exception:
            # a decomposition that fails is not the user's error: the operation is recorded whole
            del self.operations[mark:]
            return NotImplemented

    def _record(self, func, args, kwargs, result) -> None:
        outputs = map_tensors(self._result, result)
        operations = self.operations if self._body is None else self._body
        operations.append(Operation(func, args, kwargs, outputs, self._paths[-1], _user_location()))

    # -------------------------------------------------------------- modules

    @contextmanager
    def following(self, model: nn.Module, declared: Callable[[nn.Module, int], bool]) -> Iterator[None]:
        """Track the module in which each operation runs; record declared modules as one operation."""
        names = {id(module): name for name, module in model.named_modules()}
        whole: list[tuple[nn.Module, list[TensorRef]]] = []  # the declared module that is running

        def enter(module: nn.Module, args: tuple) -> None:
            self._paths.append(names.get(id(module), self._paths[-1]))
            given = tensors(args)
            if not whole and declared(module, len(given)):
                whole.append((module, [self.ref(t) for t in given]))
                self._body = []

        def leave(module: nn.Module, args: tuple, kwargs: dict, result: Any) -> None:
            if whole and whole[0][0] is module:
                _, inputs = whole.pop()
                body, self._body = tuple(self._body or ()), None
                inputs += [self.ref(t) for t in tensors(kwargs)]
                outputs = [self.ref(t) for t in tensors(result)]
                self._record(module, tuple(inputs), {}, outputs)
                self.operations[-1] = replace(self.operations[-1], body=body)
            self._paths.pop()

        hooks = [
            nn.modules.module.register_module_forward_pre_hook(enter),
            nn.modules.module.register_module_forward_hook(leave, with_kwargs=True),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    @property
    def path(self) -> str:
        """The path of the running module, still valid after it raised."""
        return self._paths[-1]

    # -------------------------------------------------------------- liveness

    def live(self, results: Iterable[Tensor]) -> list[Operation]:
        """Return the operations on which the results depend, by memory, so that in-place writes count."""
        needed = {self.ref(tensor).storage for tensor in results}
        kept = []
        for operation in reversed(self.operations):
            written = {ref.storage for ref in refs(operation.outputs) + operation.writes}
            # a value that Python sees may affect anything that follows
            if needed & written or not refs(operation.outputs):
                kept.append(operation)
                needed |= {ref.storage for ref in operation.inputs}
        return kept[::-1]


def run_abstractly(func, args, kwargs) -> Any:
    """Run an operation; if a tensor without values takes part, compute shapes only."""
    if _any_meta(args, kwargs):
        return run_on_meta(func, args, kwargs)
    device = kwargs.get("device")
    if device is not None and torch.device(device).type == "meta" and not _is_uniform(func, kwargs):
        kwargs = {**kwargs, "device": torch.device("cpu")}
    return func(*args, **kwargs)


def _run_inside(func, args, kwargs) -> Any:
    """Run an operation of a declared module, whose results nobody interprets."""
    return run_on_meta(func, args, kwargs) if _any_meta(args, kwargs) else func(*args, **kwargs)


def _any_meta(args: tuple, kwargs: dict) -> bool:
    return any(isinstance(leaf, Tensor) and leaf.device.type == "meta" for leaf in leaves((args, kwargs)))


def _is_uniform(func: Any, kwargs: dict) -> bool:
    """Return whether the operation fills a floating-point tensor with one known value."""
    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    return dtype.is_floating_point and func._schema.name.split("::")[1] in UNIFORM


def run_on_meta(func, args, kwargs) -> Any:
    """Run an operation on the meta device for its shapes; in-place writes leave their target as it is."""
    if kwargs.get("device") is not None:
        kwargs = {**kwargs, "device": torch.device("meta")}
    meta_args, meta_kwargs = map_tensors(_to_meta, (args, kwargs))
    result = func(*meta_args, **meta_kwargs)
    changed_in_place = func._schema.is_mutable and isinstance(args[0], Tensor)
    if changed_in_place and args[0].device.type != "meta":
        return args[0]
    return result


def _to_meta(tensor: Tensor) -> Tensor:
    return tensor if tensor.device.type == "meta" else tensor.to("meta")


def _higher_order(name: str, path: str) -> str:
    instead = (
        "Use torch.nn.functional.scaled_dot_product_attention instead, with an attention mask in place of "
        "score_mod and block_mask"
        if name == "flex_attention"
        else "Write it out in plain operations"
    )
    place = f"'{path}'" if path else "the network itself"
    return (
        f"{name}, called in {place} ({_user_location()}), is a "
        "higher-order operator: it takes Python functions, whose operations cannot be followed. "
        f"{instead}, or describe the module with gmn.declare."
    )


def _user_location() -> str:
    """Return the file and line of the innermost frame that is neither PyTorch's nor ours."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_OUR_CODE, _TORCH_CODE, "<")):
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Disable fused kernels, autograd, autocast and compilation, so that the tape sees plain operations."""
    fast_path = torch.backends.mha.get_fastpath_enabled()
    one_dnn = torch._C._get_mkldnn_enabled()
    # the fused encoder layer and oneDNN's recurrent and convolution kernels are opaque operations
    torch.backends.mha.set_fastpath_enabled(False)
    torch._C._set_mkldnn_enabled(False)
    try:
        with ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            stack.enter_context(torch.autocast("cpu", enabled=False))
            stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(warnings.catch_warnings())
            # compiled modules run eagerly, so our hooks firing twice does no harm
            warnings.filterwarnings("ignore", "Using `torch.compile")
            stack.enter_context(torch.random.fork_rng(devices=[]))
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        torch._C._set_mkldnn_enabled(one_dnn)
