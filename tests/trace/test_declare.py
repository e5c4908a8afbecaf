"""Modules declared as a whole in axis notation."""

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks import testing


class Hidden(nn.Module):
    """A linear layer in numpy, which no tracer can follow. Subclasses are declared one by one."""

    def __init__(self, inner: int = 5, outer: int = 8, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner))
        self.bias = nn.Parameter(torch.randn(outer)) if bias else None

    def forward(self, x: Tensor) -> Tensor:  # [B, inner] -> [B, outer]
        result = x.detach().numpy() @ self.weight.detach().numpy().T
        if self.bias is not None:
            result = result + self.bias.detach().numpy()
        return torch.from_numpy(result)


def around(layer: nn.Module, width: int = 8) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), layer, nn.Tanh(), nn.Linear(width, 2))


X = torch.linspace(-1, 1, 12).view(4, 3)


def sizes(graph: gmn.ParameterGraph) -> list[int]:
    return sorted(v.size for v in graph.symmetry.variables)


def proven(model: nn.Module, *args: Tensor) -> gmn.ParameterGraph:
    graph = gmn.trace(model, *args)
    testing.assert_covers(graph, model)
    testing.assert_round_trip(graph, model)
    testing.assert_automorphism(graph, model)
    testing.assert_function_kept(graph, model, *args)
    return graph


# ------------------------------------------------------------------ the worked example


class Declared(Hidden):
    pass


gmn.declare(Declared, inputs=["B i"], parameters={"weight": "o i", "bias": "o"}, outputs=["B o"])


def test_a_module_that_cannot_be_followed() -> None:
    with pytest.raises(gmn.TraceError, match=r"numpy.*gmn\.declare"):
        gmn.trace(around(Hidden()), X)
    graph = proven(around(Declared()), X)
    assert sizes(graph) == [5, 8]
    by_name = {b.parameter: b for b in graph.blocks}
    assert (by_name["2.weight"].kind, by_name["2.bias"].kind) == ("linear weight", "linear bias")
    assert by_name["2.weight"].path == "2"
    proven(around(Declared(bias=False)), X)


def test_the_same_graph_as_a_linear_layer() -> None:
    """But for the name of the module."""
    plain, declared = around(nn.Linear(5, 8)), around(Declared())
    first, second = gmn.trace(plain, X), gmn.trace(declared, X)
    assert [(g.kind, g.size, g.depth) for g in first.groups] == [
        (g.kind, g.size, g.depth) for g in second.groups
    ]
    assert first.symmetry.log_order == second.symmetry.log_order


# ------------------------------------------------------------------ notation


class Packed(nn.Module):
    """Two halves of one weight: a gate and a value, as (2 o)."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(16, 5))

    def forward(self, x: Tensor) -> Tensor:
        gate, value = (x @ self.weight.t()).chunk(2, -1)
        return gate.sigmoid() * value


def test_packed_axes() -> None:
    class Gate(Packed):
        pass

    gmn.declare(
        Gate,
        inputs=["B i"],
        parameters={"weight": "(2 o) i"},
        outputs=["B o"],
        kinds={"weight": "gate weight"},
    )
    graph = proven(around(Gate()), X)
    assert sizes(graph) == [5, 8]
    weight = next(b for b in graph.blocks if b.parameter == "2.weight")
    assert weight.kind == "gate weight"
    assert weight.shape == (2, 8, 5)
    assert weight.positions == (0,)


def test_axes_side_by_side() -> None:
    class TwoLayers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Linear(5, 3), nn.Linear(5, 5)

        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([self.left(x), self.right(x)], -1)

    gmn.declare(
        TwoLayers,
        inputs=["B i"],
        parameters={"left.weight": "f i", "left.bias": "f", "right.weight": "g i", "right.bias": "g"},
        outputs=["B f+g"],
    )
    assert sizes(proven(around(TwoLayers()), X)) == [3, 5, 5]


def test_any_number_of_leading_places() -> None:
    class Anywhere(Packed):
        pass

    gmn.declare(Anywhere, inputs=["... i"], parameters={"weight": "(2 o) i"}, outputs=["... o"])
    for shape in ((3,), (4, 3), (2, 4, 3)):
        assert sizes(gmn.trace(around(Anywhere()), torch.randn(shape))) == [5, 8]


def test_a_fixed_size() -> None:
    class Three(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(3, 5, 8))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.table.sum(0)

    gmn.declare(Three, inputs=["B i"], parameters={"table": "3 i o"}, outputs=["B o"])
    assert sizes(proven(around(Three()), X)) == [5, 8]


def test_edges_against_the_flow() -> None:
    """A recurrent weight ends where it starts."""

    class Settling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inward = nn.Parameter(torch.randn(8, 5))
            self.within = nn.Parameter(0.1 * torch.randn(8, 8))

        def forward(self, x: Tensor) -> Tensor:
            state = x.new_zeros(len(x), 8)
            for _ in range(3):
                state = torch.tanh(x @ self.inward.t() + state @ self.within.t())
            return state

    gmn.declare(
        Settling,
        inputs=["B i"],
        parameters={"inward": "h i", "within": "h h : h -> h"},
        outputs=["B h"],
    )
    graph = proven(around(Settling()), X)
    within = next(b for b in graph.blocks if b.parameter == "2.within")
    assert torch.equal(within.source.unique(), within.target.unique())


def test_a_declaration_that_depends_on_the_module() -> None:
    class Sized(Hidden):
        pass

    def declaration(module: nn.Module) -> gmn.Declaration | None:
        if module.bias is None:
            return None  # followed operation by operation
        return gmn.Declaration(["B i"], {"weight": "o i", "bias": "o"}, ["B o"])

    gmn.declare(Sized, declaration)
    proven(around(Sized()), X)
    with pytest.raises(gmn.TraceError, match="numpy"):
        gmn.trace(around(Sized(bias=False)), X)


def test_subclasses_and_longer_calls_are_followed() -> None:
    class Base(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 5))

        def forward(self, x: Tensor, shift: Tensor | None = None) -> Tensor:
            result = x @ self.weight.t()
            return result if shift is None else result + shift

    class Derived(Base):
        pass

    class Calls(nn.Module):
        def __init__(self, layer: nn.Module) -> None:
            super().__init__()
            self.first, self.layer, self.last = nn.Linear(3, 5), layer, nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            hidden = self.first(x)
            return self.last(self.layer(hidden, hidden.sum(-1, keepdim=True)))

    gmn.declare(Base, inputs=["B i"], parameters={"weight": "o i"}, outputs=["B o"])
    assert sizes(proven(around(Derived()), X)) == [5, 8]
    assert sizes(proven(Calls(Base()), X)) == [5, 8]


# ------------------------------------------------------------------ mistakes


def test_a_module_can_be_declared_once() -> None:
    class Once(Hidden):
        pass

    gmn.declare(Once, inputs=["B i"], parameters={"weight": "o i"}, outputs=["B o"])
    with pytest.raises(ValueError, match="Once is already declared"):
        gmn.declare(Once, inputs=["B i"], parameters={"weight": "o i"}, outputs=["B o"])


@pytest.mark.parametrize(
    ("parameters", "outputs", "named"),
    [
        ({"weight": "o i", "bias": "i"}, ["B o"], ["'2'", "8", "i", "gmn.declare"]),
        ({"weight": "o i j", "bias": "o"}, ["B o"], ["(8, 5)", "'o i j'"]),
        ({"weight": "o i", "bias": "o"}, ["B o p"], ["(4, 8)", "'B o p'"]),
        ({"weight": "(3 o) i", "bias": "o"}, ["B o"], ["8", "3 o"]),
        ({"weight": "(o p) i", "bias": "(o p)"}, ["B (o p)"], ["o p"]),
    ],
    ids=["size", "too many words", "output", "divisor", "ambiguous"],
)
def test_a_declaration_that_does_not_fit(parameters: dict, outputs: list[str], named: list[str]) -> None:
    class Wrong(Hidden):
        pass

    gmn.declare(Wrong, inputs=["B i"], parameters=parameters, outputs=outputs)
    with pytest.raises(gmn.TraceError) as caught:
        gmn.trace(around(Wrong()), X)
    for part in named:
        assert part in str(caught.value)


def test_a_parameter_that_is_not_declared() -> None:
    class Forgets(Hidden):
        pass

    gmn.declare(Forgets, inputs=["B i"], parameters={"weight": "o i"}, outputs=["B o"])
    with pytest.raises(gmn.UnusedParameters, match=r"2\.bias"):
        gmn.trace(around(Forgets()), X)


def test_a_parameter_that_does_not_exist() -> None:
    class Misspelt(Hidden):
        pass

    gmn.declare(Misspelt, inputs=["B i"], parameters={"wieght": "o i", "bias": "o"}, outputs=["B o"])
    with pytest.raises(gmn.TraceError, match="weight"):
        gmn.trace(around(Misspelt()), X)


def test_a_wrong_declaration_is_caught_by_the_oracle() -> None:
    """Says that inputs may be permuted, although the module adds a ramp to them."""

    class Lies(Hidden):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x * torch.arange(5))

    gmn.declare(Lies, inputs=["B i"], parameters={"weight": "o i", "bias": "o"}, outputs=["B o"])
    model = around(Lies())
    graph = gmn.trace(model, X)
    with pytest.raises(AssertionError, match="changes its output"):
        testing.assert_function_kept(graph, model, X)


# ------------------------------------------------------------------ recurrent modules


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_modules(kind: type[nn.RNNBase], bidirectional: bool, layers: int) -> None:
    """Every state that comes out of them is read."""

    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(3, 5)
            self.recurrence = kind(5, 4, layers, bidirectional=bidirectional, batch_first=True)
            self.last = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            everything, last = self.recurrence(self.first(x))
            states = last if isinstance(last, tuple) else (last,)
            return self.last(sum(s[-1] for s in states) + everything[:, -1, :4])

    model = Reads()
    graph = gmn.trace(model, torch.randn(2, 6, 3))
    testing.assert_covers(graph, model)
    testing.assert_automorphism(graph, model)
    testing.assert_function_kept(graph, model, torch.randn(2, 6, 3))
    assert 5 in sizes(graph)


def test_a_recurrent_module_with_packed_sequences_or_states_is_followed() -> None:
    class Starts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.start, self.gru, self.last = nn.Linear(3, 4), nn.GRU(3, 4, batch_first=True), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.last(self.gru(x, self.start(x[:, 0])[None])[0])

    graph = testing.assert_all(Starts(), torch.randn(2, 3, 3))
    assert sizes(graph) == [4]
