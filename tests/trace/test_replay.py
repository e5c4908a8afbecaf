"""A traced graph runs itself: stacked, in other precisions, after pickling, or it says why not."""

import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

import graph_metanetworks as gmn
from graph_metanetworks.testing.function import difference
from graph_metanetworks.trace.replay import constants
from graph_metanetworks.trace.replay.recording import Recording
from graph_metanetworks.trace.replay.stacked import run_stacked
from support.adversarial import CASES
from support.composed import Composed
from support.tiny import mlp
from support.traced import every_architecture, one_of_each_family, traced

NETWORKS, INPUTS = 2, 3


def recording_of(graph: gmn.ParameterGraph) -> Recording:
    assert graph.recording is not None
    return graph.recording


def varied(tensors: dict, count: int) -> list[dict]:
    """Copies in which floating-point numbers differ by some percent."""
    generator = torch.Generator().manual_seed(0)

    def noisy(value: Tensor) -> Tensor:
        noise = torch.randn(value.shape, generator=generator)
        return (value * (1 + 0.05 * noise)).to(value.dtype) if value.is_floating_point() else value.clone()

    return [{key: noisy(value) for key, value in tensors.items()} for _ in range(count)]


def stack(each: list[dict]) -> dict:
    return {key: torch.stack([one[key] for one in each]) for key in each[0]}


def assert_stacks(recording: Recording, weights: list[dict], inputs: list[dict]) -> None:
    """Stacked runs equal single ones."""
    outputs, nodes = run_stacked(recording, stack(weights), stack(inputs), read=True)
    assert nodes is not None
    for i, j in ((0, 0), (-1, -1)):
        expected, statistics = recording.run(weights[i], inputs[j], read=True)
        assert statistics is not None
        assert difference(_real(expected), _real([output[i, j] for output in outputs])) < 1e-5
        assert difference([statistics], [nodes[i, j]], smallest=1e-3) < 1e-4


def _real(tensors: list[Tensor]) -> list[Tensor]:
    return [torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in tensors]


# ------------------------------------------------------------------ stacks

# which expert takes which token depends on the weights, and so do the shapes of tensors
DATA_DEPENDENT = {"hf-mixtral", "hf-gpt-oss"}


@every_architecture
def test_stacked_networks_on_stacked_inputs(name: str) -> None:
    case = traced(name)
    recording = recording_of(case.graph)
    weights = varied(case.model.state_dict(), NETWORKS)
    inputs = varied(recording.matched(case.args, case.kwargs), INPUTS)
    with torch.no_grad():
        if name not in DATA_DEPENDENT:
            assert_stacks(recording, weights, inputs)
            return
        with pytest.raises(gmn.ReplayError, match=r"nonzero.*experts.*was traced.*with_module"):
            run_stacked(recording, stack(weights), stack(inputs))


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("escapes")])
def test_stacked_networks_that_write_and_view(name: str) -> None:
    """Memory that networks share is written with values that differ between them."""
    model, x = CASES[name].network(), CASES[name].example()
    recording = recording_of(gmn.trace(model, x))
    inputs = varied(recording.matched((x,), {}), INPUTS)
    before = [dict(example) for example in inputs]
    with torch.no_grad():
        assert_stacks(recording, varied(model.state_dict(), NETWORKS), inputs)
    for example, kept in zip(inputs, before, strict=True):
        assert all(torch.equal(example[key], kept[key]) for key in kept)


@one_of_each_family
def test_gradients(name: str) -> None:
    """They flow to weights and inputs, as in the module."""
    case = traced(name)
    recording = recording_of(case.graph)
    used = {p.name for p in case.graph.parameters}
    weights = {n: v.detach().clone().requires_grad_(n in used) for n, v in case.model.state_dict().items()}
    outputs, _ = recording.run(weights, recording.matched(case.args, case.kwargs))
    stacked, _ = run_stacked(
        recording,
        {name: value.expand(2, *value.shape) for name, value in weights.items()},
        {key: v.expand(2, *v.shape) for key, v in recording.matched(case.args, case.kwargs).items()},
    )
    wanted = [weights[name] for name in sorted(used)]
    once = torch.autograd.grad(total(outputs), wanted, allow_unused=True)
    four = torch.autograd.grad(total(stacked), wanted, allow_unused=True)
    for single, several in zip(once, four, strict=True):
        assert (single is None) == (several is None)
        if single is not None and several is not None:
            assert difference([4 * single], [several], smallest=0.1) < 1e-4


def total(outputs: list[Tensor]) -> Tensor:
    return torch.stack([o.real.sum() for o in outputs if o.requires_grad]).sum()


@pytest.mark.parametrize("name", ["memory: column by column", "memory: relu_", "memory: an alias read later"])
def test_the_caller_may_use_vmap(name: str) -> None:
    model, x = CASES[name].network(), CASES[name].example()
    graph = gmn.trace(model, x)
    weights, inputs = varied(model.state_dict(), 3), torch.stack([x, 2 * x])
    found = vmap(lambda own: vmap(lambda one: graph.run(own, one))(inputs))(stack(weights))
    for own, outputs in zip(weights, found, strict=True):
        for one, output in zip(inputs, outputs, strict=True):
            assert torch.allclose(output, functional_call(model, own, one), atol=1e-5)


# ------------------------------------------------------------------ what it takes and gives


def test_several_inputs_and_outputs_by_name() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(2, 3), nn.Linear(4, 3)

        def forward(self, x: Tensor, *, y: Tensor, z: Tensor) -> dict[str, Tensor]:
            return {"sum": self.first(x) + self.second(y) * z, "input": x}

    model, x = Two(), torch.randn(1, 2)
    graph = gmn.trace(model, x, y=torch.randn(1, 4), z=torch.randn(1, 3))
    y, z = torch.randn(1, 4), torch.randn(1, 3)
    expected = tuple(model(x, y=y, z=z).values())
    for found in (
        graph.run(model.state_dict(), x, z=z, y=y),
        graph.run(model.state_dict(), x, y, z),
    ):
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    with pytest.raises(gmn.ReplayError, match=r"3 tensor\(s\) \(input, y, z\).*run with 1"):
        graph.run(model.state_dict(), x)


def test_inputs_of_other_shapes_and_types() -> None:
    model = mlp(3, 5, 2)
    graph = gmn.trace(model, torch.randn(1, 3))
    with pytest.raises(gmn.ReplayError, match=r"\(4, 3\).*traced with \(1, 3\).*vmap"):
        graph.run(model.state_dict(), torch.randn(4, 3))
    with pytest.raises(gmn.ReplayError, match=r"torch.int64.*torch.float32"):
        graph.run(model.state_dict(), torch.zeros(1, 3, dtype=torch.int64))
    with pytest.raises(gmn.StateDictMismatch, match="missing"):
        graph.run({}, torch.randn(1, 3))
    channels = {name: value[..., None] for name, value in model.state_dict().items()}
    with pytest.raises(gmn.StateDictMismatch, match="channel"):
        graph.run(channels, torch.randn(1, 3))


def test_weights_and_inputs_stay_as_they_are() -> None:
    """Although the network writes to them."""

    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.register_buffer("calls", torch.zeros(3))
            self.scratch = torch.ones(1, 3)

        def forward(self, x: Tensor) -> Tensor:
            seen = x[:, :2]
            x.mul_(2)
            self.calls += 1
            self.scratch[:, 0] += x.sum()
            return self.layer(x + self.scratch) * self.calls + seen.sum()

    model = Writes()
    graph = gmn.trace(model, torch.ones(1, 3))
    weights, x = {name: value.clone() for name, value in model.state_dict().items()}, torch.randn(1, 3)
    kept = {name: value.clone() for name, value in weights.items()}, x.clone()
    first, second = graph.run(weights, x), graph.run(weights, x)
    assert torch.equal(x, kept[1])
    assert all(torch.equal(weights[name], value) for name, value in kept[0].items())
    assert torch.equal(first, second)
    model.scratch = torch.ones(1, 3)  # as it was before the first call
    assert torch.allclose(first, model(x.clone()))


def test_an_attribute_that_shows_a_weight() -> None:
    """A slice that was stored beforehand follows the weights of the run."""
    layer = nn.Linear(3, 4)
    rows = layer.weight.data[1:3]
    model = Composed(lambda x, f: f(x)[:, :2] @ rows, layer)
    graph = gmn.trace(model, torch.randn(1, 3))
    weights, x = {name: 2 * value for name, value in model.state_dict().items()}, torch.randn(1, 3)
    assert torch.allclose(graph.run(weights, x), 2 * layer(x)[:, :2] @ (2 * rows))


@pytest.mark.parametrize("name", ["cnn-2d-batch-norm", "attention-rotary", "lstm", "hf-llama", "hf-swin"])
def test_other_precisions(name: str) -> None:
    """Constants and casts follow the weights."""
    case = traced(name)
    recording = recording_of(case.graph)
    inputs = recording.matched(case.args, case.kwargs)

    def cast(tensors: dict, dtype: torch.dtype) -> dict:
        return {k: v.to(dtype) if v.is_floating_point() else v for k, v in tensors.items()}

    (expected, *_), _ = recording.run(case.model.state_dict(), inputs)
    for dtype, tolerance in ((torch.float64, 1e-5), (torch.bfloat16, 0.2)):
        (found, *_), nodes = recording.run(
            cast(case.model.state_dict(), dtype), cast(inputs, dtype), read=True
        )
        assert nodes is not None
        assert found.dtype == nodes.dtype == dtype
        assert difference([expected], [found]) < tolerance


def test_integer_entries_come_from_the_state_dict_or_from_tracing() -> None:
    class Choice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 4)
            self.register_buffer("index", torch.tensor([0, 2]))

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x)[:, self.index]

    model, x = Choice(), torch.randn(1, 3)
    weights = model.state_dict()
    graph = gmn.trace(model, x)
    other = {**weights, "index": torch.tensor([1, 3])}
    assert torch.equal(graph.run(other, x), model.layer(x)[:, [1, 3]])
    floats = {name: value for name, value in weights.items() if value.is_floating_point()}
    assert torch.equal(graph.run(floats, x), model(x))
    graph = gmn.trace(model.to("meta"), x)
    assert torch.equal(graph.run(weights, x), graph.run(other, x)) is False
    with pytest.raises(gmn.ReplayError, match=r"'index'.*real weights"):
        graph.run(floats, x)


# ------------------------------------------------------------------ what it refuses


def scaled_by_hand(x: Tensor, layer: nn.Module) -> Tensor:
    return layer(x * torch.from_numpy(np.sign(x.numpy())))


REFUSED: dict[str, tuple[Callable[..., Tensor], str]] = {
    "dropout": (lambda x, f: nn.functional.dropout(f(x), training=True), r"bernoulli_.*random"),
    "noise": (lambda x, f: f(x + torch.randn(1, 3)), r"randn.*random"),
    "numpy": (scaled_by_hand, r"Tensor.numpy.*Python"),
    "a list": (lambda x, f: f(x * torch.tensor(x.tolist())), r"Tensor.tolist.*Python"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_run_again_is_refused(name: str) -> None:
    function, message = REFUSED[name]
    model, x = Composed(function, nn.Linear(3, 2)), torch.randn(1, 3)
    graph = gmn.Tracer(unknown="pin").trace(model, x)
    for again in (graph, pickle.loads(pickle.dumps(graph))):
        with pytest.raises(gmn.ReplayError, match=rf"{message}.*graph.with_module\(model\)"):
            again.run(model.state_dict(), x)


def test_the_module_runs_instead() -> None:
    model, x = Composed(scaled_by_hand, nn.Linear(3, 2)), torch.randn(1, 3)
    graph = gmn.trace(model.train(), x).with_module(model)
    other = {name: 2 * value for name, value in model.state_dict().items()}
    assert torch.equal(graph.run(other, x), functional_call(model, other, x))
    assert model.training
    assert not graph.shown_nodes.any()
    assert torch.equal(graph.activity(other, x), torch.zeros(graph.num_nodes, 2))
    outputs, _ = run_stacked(
        recording_of(graph),
        {name: torch.stack([value, value]) for name, value in other.items()},
        {key: x[None] for key in recording_of(graph).inputs},
    )
    assert torch.allclose(outputs[0][1, 0], functional_call(model, other, x))


def test_a_module_in_a_declared_one_is_named() -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(2, 3))

        def forward(self, x: Tensor) -> Tensor:
            return (x + torch.randn(1, 3)) @ self.weight.T

    gmn.declare(Noisy, inputs=["B i"], parameters={"weight": "o i"}, outputs=["B o"])
    model, x = nn.Sequential(nn.Linear(3, 3), Noisy()), torch.randn(1, 3)
    with pytest.raises(gmn.ReplayError, match=r"randn.*in '1'.*random"):
        gmn.trace(model, x).run(model.state_dict(), x)


def test_numbers_that_python_sees_must_be_the_same() -> None:
    """A network that branches runs where it takes the branch that was traced."""
    model = Composed(lambda x, f: f(x) if x.sum() > 0 else -f(x), nn.Linear(3, 2))
    graph = gmn.trace(model, torch.ones(1, 3))
    weights = model.state_dict()
    assert torch.equal(graph.run(weights, 2 * torch.ones(1, 3)), model(2 * torch.ones(1, 3)))
    with pytest.raises(gmn.ReplayError, match=r"gives False to Python, but True"):
        graph.run(weights, -torch.ones(1, 3))
    scaled = Composed(lambda x, f: f(x) * x.sum().item(), nn.Linear(3, 2))
    graph = gmn.trace(scaled, torch.ones(1, 3))
    with pytest.raises(gmn.ReplayError, match=r"gives 6.0 to Python, but 3.0"):
        graph.run(weights, 2 * torch.ones(1, 3))


def test_large_constants_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    table = torch.randn(300, 3)
    model, x = Composed(lambda x, f: f(x + table.mean(0)), nn.Linear(3, 2)), torch.randn(1, 3)
    graph = gmn.trace(model, x)
    assert recording_of(graph).constants.nbytes == table.nbytes
    assert torch.equal(graph.run(model.state_dict(), x), model(x))
    monkeypatch.setattr(constants, "MOST_BYTES", 1000)
    graph = gmn.trace(model, x)
    assert recording_of(graph).constants.nbytes == 0
    with pytest.raises(gmn.ReplayError, match=r"shape \(300, 3\).*MB.*buffers"):
        graph.run(model.state_dict(), x)


def test_an_operation_that_is_not_registered_here() -> None:
    graph = gmn.trace(mlp(3, 5, 2), torch.randn(1, 3))
    pickled = pickle.dumps(graph).replace(b"addmm", b"addnn")
    again = pickle.loads(pickled)
    with pytest.raises(gmn.ReplayError, match=r"aten::addnn, which is not registered"):
        again.run(mlp(3, 5, 2).state_dict(), torch.randn(1, 3))


# ------------------------------------------------------------------ size


def test_a_recording_holds_no_weights() -> None:
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(4096, 4096) for _ in range(4)))
    graph = gmn.trace(model, torch.randn(1, 4096))
    assert len(pickle.dumps(recording_of(graph))) < 20_000
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
    graph = gmn.trace(model, torch.randn(1, 512))
    assert len(pickle.dumps(recording_of(graph))) < 20_000
    assert recording_of(graph).constants.nbytes == 0
