"""Whatever mode PyTorch is in, and whatever the weights are stored as, the same graph comes out."""

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks import testing
from support.fingerprint import left_as_found
from support.traced import BY_NAME, assert_same_graph, traced

SEVERAL = (
    "mlp-batch-norm",
    "cnn-2d-batch-norm",
    "lstm",
    "transformer-encoder",
    "attention-packed-qkv",
    "hf-llama",
    "gcn",
)
several = pytest.mark.parametrize("name", SEVERAL)


# ------------------------------------------------------------------ modes of PyTorch


MODES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "enable_grad": torch.enable_grad,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "detect_anomaly": lambda: torch.autograd.set_detect_anomaly(True),
}


@several
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
def test_modes(name: str, mode: str) -> None:
    case = traced(name)
    with MODES[mode](), left_as_found(case.model):
        graph = case.tracer.trace(case.model, *case.args, **case.kwargs)
    assert_same_graph(case.graph, graph)


@several
def test_a_model_made_in_inference_mode(name: str) -> None:
    case = traced(name)
    with torch.inference_mode():
        model, args, kwargs = BY_NAME[name].make()
    assert_same_graph(case.graph, case.tracer.trace(model, *args, **kwargs))


@several
@pytest.mark.parametrize("training", [True, False])
def test_train_and_eval(name: str, training: bool) -> None:
    model, args, kwargs = BY_NAME[name].make()
    model.train(training)
    with left_as_found(model):
        graph = gmn.trace(model, *args, **kwargs)
    assert_same_graph(traced(name).graph, graph)
    assert all(module.training == training for module in model.modules())


@several
def test_frozen_parameters_and_gradients(name: str) -> None:
    model, args, kwargs = BY_NAME[name].make()
    for index, parameter in enumerate(model.parameters()):
        parameter.requires_grad_(index % 2 == 0)
        parameter.grad = torch.ones_like(parameter) if index % 3 == 0 else None
    grads = [parameter.grad for parameter in model.parameters()]
    graph = gmn.trace(model, *args, **kwargs)
    assert all(p.grad is grad for p, grad in zip(model.parameters(), grads, strict=True))
    assert_same_graph(traced(name).graph, graph)


def test_inputs_that_require_gradients() -> None:
    x = torch.randn(4, 5, requires_grad=True)
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    testing.assert_automorphism(gmn.trace(model, x), model)
    assert x.grad is None


@several
def test_default_dtype_of_float64(name: str) -> None:
    model, args, kwargs = BY_NAME[name].make()
    torch.set_default_dtype(torch.float64)
    try:
        graph = gmn.trace(model, *args, **kwargs)
    finally:
        torch.set_default_dtype(torch.float32)
    assert_same_graph(traced(name).graph, graph)


# ------------------------------------------------------------------ dtypes and memory


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["mlp-layer-norm", "cnn-2d-batch-norm", "attention-packed-qkv", "lstm"])
def test_dtypes(name: str, dtype: torch.dtype) -> None:
    model, args, kwargs = BY_NAME[name].make()
    model.to(dtype)
    graph = gmn.trace(model, *(arg.to(dtype) for arg in args), **kwargs)
    assert len(graph.symmetry.variables) == len(traced(name).graph.symmetry.variables)
    assert {p.dtype for p in graph.parameters} == {dtype}
    testing.assert_round_trip(graph, model)
    testing.assert_covers(graph, model)
    testing.assert_automorphism(graph, model)


class MixedDtypes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 8)
        self.second = nn.Linear(8, 7).to(torch.bfloat16)
        self.third = nn.Linear(7, 3).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x).relu().bfloat16()).relu().double())


def test_mixed_dtypes() -> None:
    model = MixedDtypes()
    graph = gmn.trace(model, torch.randn(4, 5))
    assert graph.edge_values(model.state_dict()).dtype == torch.float64
    assert {p.name: p.dtype for p in graph.parameters}["second.weight"] == torch.bfloat16
    assert [v.size for v in graph.symmetry.variables] == [8, 7]
    testing.assert_round_trip(graph, model)
    testing.assert_automorphism(graph, model)


def test_parameters_that_are_not_contiguous() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 3))
    strided = nn.Parameter(torch.randn(8 * 16, 3).t())
    assert not strided.is_contiguous()
    model[3].weight = strided
    model[0].to(memory_format=torch.channels_last)  # pyright: ignore
    expanded = nn.Linear(3, 3, bias=False)
    expanded.weight = nn.Parameter(torch.randn(6, 6)[::2, ::2])
    model.append(expanded)
    graph = testing.assert_all(model, torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last))
    back = graph.state_dict(graph.edge_values(model.state_dict()))
    assert torch.equal(back["3.weight"], strided)


def test_an_expanded_parameter_and_slices_of_one_memory() -> None:
    """Entries of the state dict may share memory without being the same tensor."""
    memory = torch.randn(11, 8)
    model = nn.Sequential(nn.Linear(5, 8, bias=False), nn.ReLU(), nn.Linear(8, 6, bias=False))
    model[0].weight = nn.Parameter(memory[:5].t())
    model[2].weight = nn.Parameter(memory[5:])
    testing.assert_all(model, torch.randn(4, 5))


@pytest.mark.parametrize("shape", [(1, 5), (5,), (1, 1, 5)], ids=str)
def test_batches_of_one(shape: tuple[int, ...]) -> None:
    model = nn.Sequential(nn.Linear(5, 8), nn.Softmax(-1), nn.Linear(8, 3))
    graph = gmn.trace(model, torch.randn(shape))
    assert_same_graph(gmn.trace(model, torch.randn(4, 5)), graph)


def test_an_empty_batch() -> None:
    """Shows nothing of what the network does with its channels."""
    model = nn.Sequential(nn.Linear(5, 8), nn.Softmax(-1), nn.Linear(8, 3))
    with pytest.raises(gmn.TraceError, match=r"empty.*\(0, 5\)"):
        gmn.trace(model, torch.randn(0, 5))


@pytest.mark.parametrize("name", ["cnn-2d-batch-norm-flatten", "attention-packed-qkv", "vision-transformer"])
def test_the_batch_size_does_not_matter(name: str) -> None:
    case = traced(name)
    (x,) = case.args
    assert_same_graph(case.graph, case.tracer.trace(case.model, x[:1]))
    assert_same_graph(case.graph, case.tracer.trace(case.model, torch.cat([x, x, x])))


# ------------------------------------------------------------------ compiled modules


@several
@pytest.mark.parametrize("part", ["whole", "submodules"])
def test_compiled_modules(name: str, part: str) -> None:
    model, args, kwargs = BY_NAME[name].make()
    if part == "whole":
        model = torch.compile(model, backend="eager")
        assert isinstance(model, nn.Module)
    children = model.named_children() if part == "submodules" else ()
    for child_name, child in list(children):
        if not isinstance(child, nn.ModuleList):
            setattr(model, child_name, torch.compile(child, backend="eager"))
    graph = gmn.trace(model, *args, **kwargs)
    assert graph.symmetry.log_order == pytest.approx(traced(name).graph.symmetry.log_order)
    testing.assert_covers(graph, model)
    testing.assert_round_trip(graph, model)
    testing.assert_automorphism(graph, model)


def test_a_function_compiled_inside_a_network() -> None:
    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(5, 8), nn.Linear(8, 3)
            self.function = torch.compile(lambda x: x.relu() * 2, backend="eager")

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.function(self.first(x)))

    graph = gmn.trace(Network(), torch.randn(4, 5))
    assert [v.size for v in graph.symmetry.variables] == [8]
