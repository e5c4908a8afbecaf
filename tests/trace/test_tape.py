"""The tape: which operations it sees, where they ran, and which of them matter."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.trace.interpret.declare import is_declared
from graph_metanetworks.trace.interpret.registry import has_rule
from graph_metanetworks.trace.record.operation import Operation, tensors
from graph_metanetworks.trace.record.tape import Tape, plain_kernels, run_abstractly


def record(model: nn.Module, *args: Tensor, snapshot: bool = False) -> tuple[Tape, Tensor]:
    tape = Tape(has_rule, snapshot=snapshot)
    with plain_kernels(), tape.following(model, is_declared), tape:
        result = model.eval()(*args)
    return tape, result


def names(operations: list[Operation]) -> list[str]:
    return [str(operation.func) for operation in operations]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 8), nn.ReLU())
        self.last = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(x)
        hidden.sum().sqrt()  # nobody needs this
        return self.last(hidden) + 1


def test_operations_in_order_with_their_modules() -> None:
    tape, _ = record(Network(), torch.randn(4, 5))
    where = [(str(o.func), o.path) for o in tape.operations if "addmm" in str(o.func)]
    assert where == [("aten.addmm.default", "body.0"), ("aten.addmm.default", "last")]
    assert tape.operations[-1].path == ""
    assert tape.path == ""


def test_the_line_of_the_user_is_noted() -> None:
    tape, _ = record(Network(), torch.randn(4, 5))
    file, _, line = tape.operations[-1].location.rpartition(":")
    assert file == __file__
    with open(__file__) as source:
        assert "return self.last(hidden) + 1" in source.readlines()[int(line) - 1]


def test_only_what_the_result_depends_on_is_live() -> None:
    tape, result = record(Network(), torch.randn(4, 5))
    assert "aten.sqrt.default" in names(tape.operations)
    assert "aten.sqrt.default" not in names(tape.live([result]))
    assert "aten.relu.default" in names(tape.live([result]))


def test_writes_are_live_by_memory() -> None:
    class Writes(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            memory = torch.zeros(4, 5)
            memory[:, :2].copy_(x[:, :2])
            memory[:, 2:].sum()
            return memory

    tape, result = record(Writes(), torch.randn(4, 5))
    live = names(tape.live([result]))
    assert "aten.copy_.default" in live
    assert "aten.zeros.default" in live


def test_snapshots_keep_what_was_overwritten() -> None:
    class Overwrites(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x + 1).mul_(0)

    tape, _ = record(Overwrites(), torch.ones(2), snapshot=True)
    (write,) = [o for o in tape.operations if "mul_" in str(o.func)]
    assert write.inputs[0].value.tolist() == [2, 2]
    assert [ref.key for ref in write.writes] == [write.inputs[0].key]


def test_declared_modules_are_one_operation() -> None:
    tape, _ = record(Recurrent(), torch.randn(2, 3, 5))
    wholes = [o for o in tape.operations if isinstance(o.func, nn.Module)]
    assert [type(o.func) for o in wholes] == [nn.LSTM]
    assert wholes[0].path == "lstm"
    assert not any("sigmoid" in name for name in names(tape.operations))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0] + 1


def test_unknown_operations_are_decomposed() -> None:
    class Decomposed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.aten.frac(x) + torch.nn.functional.pixel_shuffle(x.view(1, 4, 1, 1), 2).sum()

    tape, _ = record(Decomposed(), torch.randn(4))
    assert not any("pixel_shuffle" in name for name in names(tape.operations))


def test_hooks_and_switches_are_put_back_after_an_error() -> None:
    class Fails(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("no")

    hooks = len(nn.modules.module._global_forward_hooks)
    fast = torch.backends.mha.get_fastpath_enabled()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no"):
            record(Fails(), torch.randn(1))
    assert len(nn.modules.module._global_forward_hooks) == hooks
    assert torch.backends.mha.get_fastpath_enabled() == fast


# ------------------------------------------------------------------ without values


def test_values_that_do_not_depend_on_weights_are_kept() -> None:
    """Masks and positions have values although the weights have none."""

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.empty(5, 5, device="meta"))

        def forward(self, x: Tensor) -> Tensor:
            return (x @ self.weight) * torch.arange(5, device=self.weight.device).ge(2)

    tape, result = record(Masked(), torch.randn(2, 5))
    assert result.device.type == "meta"
    (product,) = [o for o in tape.operations if "aten.mul" in str(o.func)]
    assert not product.inputs[0].has_value
    assert product.inputs[1].value.tolist() == [False, False, True, True, True]


def test_abstract_operations_compute_shapes() -> None:
    weight = torch.empty(5, 3, device="meta")
    result = run_abstractly(torch.ops.aten.mm.default, (torch.randn(2, 5), weight), {})
    assert (result.device.type, tuple(result.shape)) == ("meta", (2, 3))


# ------------------------------------------------------------------ results


@dataclass
class Result:
    first: Tensor
    second: dict


def test_tensors_in_nested_results() -> None:
    a, b, c = torch.ones(1), torch.ones(2), torch.ones(3)
    assert tensors({"x": [a, (b, None)], "y": Result(c, {"z": "text"})}) == [a, b, c]
    assert tensors(None) == tensors("text") == tensors(3.5) == []


def test_a_tensor_is_an_output_however_often_it_is_returned() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(5, 3)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            y = self.layer(x)
            return y, y, y.view(-1)

    graph = gmn.trace(Twice(), torch.randn(4, 5))
    assert [group.size for group in graph.groups if group.kind == "output"] == [3]
