"""Bad input to the tracer: the error's class, what its message names, and a model that is as before."""

import inspect
import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.utils import prune

import graph_metanetworks as gmn
from graph_metanetworks import testing
from support.fingerprint import left_as_found

X = torch.linspace(-1, 1, 20).view(4, 5)


class Apply(nn.Module):
    def __init__(self, function: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> object:
        return self.function(x)


class Between(nn.Module):
    """Two linear layers with a function between them, in the module 'body.middle'."""

    def __init__(self, function: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.first = nn.Linear(5, 8)
        self.body = nn.ModuleDict({"middle": Apply(function)})
        self.last = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.body["middle"](self.first(x)))


def refused(model: object, *args: object, error: type[Exception] = gmn.TraceError, names: list[str]) -> str:
    """Trace, expect the error, check what its message names and that the model is as before."""
    with left_as_found(model), pytest.raises(error) as caught:
        gmn.trace(model, *args)  # type: ignore[arg-type]
    assert isinstance(caught.value, gmn.TraceError)
    message = str(caught.value)
    for name in names:
        assert name in message, message
    return message


def line_of(function: Callable) -> str:
    """`file:line` of the first line inside a function."""
    return f"{__file__}:{inspect.getsourcelines(function)[1] + 1}"


# ------------------------------------------------------------------ operations without a rule


def decompose(x: Tensor) -> Tensor:
    return x * torch.linalg.qr(x)[1].trace()


def test_an_operation_without_a_rule() -> None:
    remedies = ["@gmn.rule", "gmn.declare", 'gmn.Tracer(unknown="pin")']
    names = ["linalg_qr", "'body.middle'", line_of(decompose), *remedies]
    refused(Between(decompose), X, error=gmn.UnsupportedOperation, names=names)


def test_an_operation_without_a_rule_can_be_pinned() -> None:
    model = Between(decompose)
    with left_as_found(model):
        graph = gmn.Tracer(unknown="pin").trace(model, X)
    assert len(graph.notes) == 1
    for name in ("linalg_qr", "'body.middle'", line_of(decompose)):
        assert name in graph.notes[0]
        assert name in graph.summary()
    assert not graph.symmetry.variables
    testing.assert_covers(graph, model)
    testing.assert_round_trip(graph, model)
    testing.assert_function_kept(graph, model, X)


def test_an_operation_without_a_rule_on_inputs_alone_is_no_problem() -> None:
    model = nn.Sequential(Apply(decompose), nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
    assert len(testing.assert_all(model, X).symmetry.variables) == 1


# ------------------------------------------------------------------ parameters that are not reached


class Idle(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
        self.spare = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x)


def test_a_parameter_that_is_never_reached() -> None:
    names = ["Idle", "spare.weight", "spare.bias", 'gmn.Tracer(unused="keep")']
    message = refused(Idle(), X, error=gmn.UnusedParameters, names=names)
    assert "used.0" not in message


def test_a_parameter_that_is_never_reached_can_be_kept() -> None:
    model = Idle()
    with left_as_found(model):
        graph = gmn.Tracer(unused="keep").trace(model, X)
    assert len(graph.symmetry.variables) == 1
    testing.assert_covers(graph, model)
    testing.assert_round_trip(graph, model)
    testing.assert_automorphism(graph, model)
    testing.assert_function_kept(graph, model, X)


def test_a_parameter_whose_effect_is_thrown_away() -> None:
    model = Between(lambda x: torch.zeros(x.shape))
    refused(model, X, error=gmn.UnusedParameters, names=["first.weight", "first.bias"])


def to_numpy(x: Tensor) -> Tensor:
    return torch.from_numpy(x.detach().numpy() + 1)


def test_a_parameter_that_leaves_pytorch() -> None:
    """What numpy computes cannot be followed."""
    refused(Between(to_numpy), X, names=["numpy", "'body.middle'", line_of(to_numpy), "gmn.declare"])


# ------------------------------------------------------------------ models that cannot be traced


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_script_modules() -> None:
    plain = nn.Sequential(nn.Linear(5, 8), nn.ReLU())
    for scripted in (torch.jit.script(plain), torch.jit.trace(plain, X)):
        refused(scripted, X, names=["ScriptModule", "original"])
        refused(nn.Sequential(nn.Identity(), scripted), X, names=["'1'", "ScriptModule", "original"])


@pytest.mark.parametrize("model", [nn.ReLU(), nn.Sequential(), nn.Dropout()], ids=str)
def test_nothing_to_trace(model: nn.Module) -> None:
    refused(model, X, names=[type(model).__name__, "no floating-point parameters"])


@pytest.mark.parametrize("model", [torch.relu, nn.Linear, None, {}, X], ids=lambda m: type(m).__name__)
def test_not_a_module(model: object) -> None:
    refused(model, X, names=["nn.Module", type(model).__name__])


def test_an_exported_module() -> None:
    program = torch.export.export(nn.Linear(5, 3), (X,))
    refused(program, X, names=["ExportedProgram", "Trace the original nn.Module"])
    exported = program.module()
    refused(exported, X, names=["torch.export", "evaluation mode", "Trace the original nn.Module"])
    refused(nn.Sequential(nn.Identity(), exported), X, names=["'1'", "torch.export"])


def attend(x: Tensor) -> Tensor:
    heads = x.view(1, 2, 4, 4)  # [batch, heads, positions, channels]
    return flex_attention(heads, heads, heads).view(4, 8)  # pyright: ignore


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_a_higher_order_operator() -> None:
    names = ["flex_attention", "'body.middle'", f"{__file__}:", "scaled_dot_product_attention", "gmn.declare"]
    message = refused(Between(attend), X, error=gmn.UnsupportedOperation, names=names)
    assert "meta" not in message


def test_a_pruned_module_that_is_never_called() -> None:
    model = nn.MultiheadAttention(8, 2)
    prune.random_unstructured(model.out_proj, "weight", 0.5)
    x = torch.randn(3, 1, 8)
    remedy = "torch.nn.utils.prune.remove(model.get_submodule('out_proj'), 'weight')"
    with pytest.raises(gmn.UnusedParameters, match="never called") as caught:
        gmn.trace(model, x, x, x)
    assert remedy in str(caught.value)
    prune.remove(model.get_submodule("out_proj"), "weight")
    testing.assert_covers(gmn.trace(model, x, x, x), model)


def test_only_integer_parameters() -> None:
    model = Apply(lambda x: x)
    model.weight = nn.Parameter(torch.ones(3, dtype=torch.int8), requires_grad=False)
    refused(model, X, names=["no floating-point parameters"])


def test_a_lazy_module() -> None:
    refused(nn.Sequential(nn.LazyLinear(3)), X, names=["0.weight", "lazy", "Run the network once"])
    buffers = nn.Sequential(nn.Linear(5, 3), nn.LazyBatchNorm1d(affine=False))
    refused(buffers, X, names=["1.running_mean", "lazy"])


class Complex(nn.Module):
    def __init__(self, *, also_real: bool) -> None:
        super().__init__()
        self.phase = nn.Parameter(torch.ones(5, 3, dtype=torch.cfloat))
        self.scale = nn.Parameter(torch.ones(3)) if also_real else 1

    def forward(self, x: Tensor) -> Tensor:
        return (x.cfloat() @ self.phase).abs() * self.scale


@pytest.mark.parametrize("also_real", [False, True])
def test_a_complex_parameter(also_real: bool) -> None:
    refused(Complex(also_real=also_real), X, names=["'phase'", "complex", "view_as_real"])


def test_weights_that_are_not_numbers() -> None:
    """A forward pass of nan may take other branches; weights of the traced architecture may be nan."""
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    graph = gmn.trace(model, X)
    with torch.no_grad():
        model[2].weight[1, 2] = torch.nan
        model[2].bias[0] = torch.inf
    testing.assert_round_trip(graph, model)
    testing.assert_automorphism(graph, model)
    refused(model, X, names=["'2.weight'", "NaN"])


# ------------------------------------------------------------------ calls that fail


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ((torch.ones(4, 6),), ["'first'", "Linear", "4x6"]),
        ((torch.ones(4, 5, dtype=torch.int64),), ["'first'", "dtype"]),
        ((), ["argument"]),
        ((X, X), ["argument"]),
        (("text",), ["'first'", "str"]),
    ],
    ids=["shape", "dtype", "missing", "superfluous", "text"],
)
def test_an_example_that_does_not_fit(args: tuple, named: list[str]) -> None:
    refused(Between(torch.relu), *args, names=[*named, "Check that model(*args, **kwargs) runs"])


def fail(x: Tensor) -> Tensor:
    raise KeyError("the network's own trouble")


def test_a_model_that_raises() -> None:
    model = Between(fail)
    with pytest.raises(gmn.TraceError) as caught:
        gmn.trace(model, X)
    assert isinstance(caught.value.__cause__, KeyError)
    refused(model, X, names=["KeyError", "the network's own trouble", "'body.middle'", line_of(fail)])


class Sealed:
    """A result that shows its tensor to those who know where to ask."""

    __slots__ = ("logits",)

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits


def test_a_result_without_tensors() -> None:
    model = nn.Sequential(nn.Linear(5, 3), Apply(Sealed))
    refused(model, X, names=["Sealed", "gmn.Tracer(outputs=...)"])
    graph = gmn.Tracer(outputs=lambda result: result.logits).trace(model, X)
    assert graph.num_parameters == 18


def test_outputs_that_cannot_be_picked() -> None:
    model = nn.Linear(5, 3)
    tracer = gmn.Tracer(outputs=lambda result: result.logits)
    with left_as_found(model), pytest.raises(gmn.TraceError, match="outputs") as caught:
        tracer.trace(model, X)
    assert "logits" in str(caught.value)


def test_options_are_checked() -> None:
    for option in ("unknown", "unused", "attention", "heads"):
        with pytest.raises(ValueError, match=rf"{option}='perhaps'.*one of"):
            gmn.Tracer(**{option: "perhaps"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=re.escape("speed")):
        gmn.Tracer(speed="fast")  # type: ignore[call-arg]
