"""What the graph lets a metanetwork see: equal networks look equal, different ones do not."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import graph_metanetworks as gmn
from support.composed import Composed
from support.grammar.attention import Attention
from support.graph_hash import graph_hash, hash_of
from support.menagerie.equivariant import DeepSetsLayer
from support.traced import sample, traced

X = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0))

SEVERAL = [
    "mlp-batch-norm",
    "cnn-2d-batch-norm-flatten",
    "autoencoder-2d",
    "resnet-option-a",
    "densenet",
    "attention-packed-qkv",
    "attention-grouped-query",
    "vision-transformer",
    "deep-sets",
    "lstm-bidirectional",
    "grid-hash",
    "weight-norm",
    "gat",
    "language-model-tied-embedding",
    "bilinear",
    "multihead-self-attention",
    "hf-llama",
    "hf-t5",
]


@pytest.mark.parametrize("name", SEVERAL)
def test_the_hash_is_invariant_under_automorphisms(name: str) -> None:
    case = traced(name)
    state = {n: v for n, v in case.model.state_dict().items() if n not in case.graph.ignored}
    assert graph_hash(case.graph, state) == graph_hash(case.graph, sample(case.graph).apply(state))


@pytest.mark.parametrize("name", SEVERAL)
def test_the_hash_sees_wrong_permutations(name: str) -> None:
    """One tensor left behind, or two elements of one tensor exchanged."""
    case = traced(name)
    state = {n: v for n, v in case.model.state_dict().items() if n not in case.graph.ignored}
    before = graph_hash(case.graph, state)
    permuted = sample(case.graph, 1).apply(state)
    moved = [p for p in case.graph.parameters if not torch.equal(permuted[p.name], state[p.name])]
    for parameter in moved[:: max(1, len(moved) // 3)]:
        behind = {n: state[n] for n in (parameter.name, *parameter.tied)}
        assert graph_hash(case.graph, permuted | behind) != before, parameter.name


@pytest.mark.parametrize("name", SEVERAL)
def test_the_hash_sees_every_exchange_of_two_elements(name: str) -> None:
    case = traced(name)
    state = {n: v for n, v in case.model.state_dict().items() if n not in case.graph.ignored}
    before = graph_hash(case.graph, state)
    for parameter in case.graph.parameters[:: max(1, len(case.graph.parameters) // 3)]:
        flat = state[parameter.name].flatten().clone()
        if flat.numel() < 4:
            continue
        flat[[0, -2]] = flat[[-2, 0]]
        if torch.equal(flat, state[parameter.name].flatten()):
            continue
        changed = dict.fromkeys((parameter.name, *parameter.tied), flat.view(parameter.shape))
        assert graph_hash(case.graph, state | changed) != before, parameter.name


# ------------------------------------------------------------------ differences that must show


def attention(heads: int, size: int, form: str = "separate") -> Attention:
    torch.manual_seed(0)
    return Attention(5, heads, size, form, fused=False)


def test_queries_and_keys_are_told_apart() -> None:
    model = attention(2, 3)
    before = hash_of(model, X)
    model.query, model.key = model.key, model.query
    assert hash_of(model, X) != before


def test_keys_and_values_are_told_apart() -> None:
    model = attention(2, 3)
    before = hash_of(model, X)
    model.value, model.key = model.key, model.value
    assert hash_of(model, X) != before


def test_the_number_of_heads_shows() -> None:
    """The same weights, as one head or as four."""
    one, four = attention(1, 8), attention(4, 2)
    four.load_state_dict(one.state_dict())
    assert hash_of(one, X) != hash_of(four, X)


def test_which_head_a_value_belongs_to_shows() -> None:
    """Values of two heads exchanged, queries and keys left as they were."""
    model = attention(2, 3)
    before = hash_of(model, X)
    with torch.no_grad():
        for part in model.value.parameters():
            part.copy_(part.roll(3, 0))
        model.out.weight.copy_(model.out.weight.roll(3, 1))
    assert hash_of(model, X) != before


def test_the_two_matrices_of_deep_sets_are_told_apart() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(DeepSetsLayer(5, 4), nn.ReLU(), DeepSetsLayer(4, 4))
    before = hash_of(model, X)
    model[0].own, model[0].shared = model[0].shared, model[0].own
    assert hash_of(model, X) != before


def test_a_transposed_kernel_shows() -> None:
    torch.manual_seed(0)
    model, image = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Conv2d(3, 1, 3)), torch.randn(1, 2, 6, 6)
    before = hash_of(model, image)
    with torch.no_grad():
        model[2].weight.copy_(model[2].weight.mT.clone())
    assert hash_of(model, image) != before


def test_flattened_places_show() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 3, 2), nn.Flatten(), nn.Linear(9, 2))
    x = torch.randn(1, 2, 4)
    before = hash_of(model, x)
    with torch.no_grad():
        model[2].weight.copy_(model[2].weight.view(2, 3, 3).flip(2).reshape(2, 9))
    assert hash_of(model, x) != before


@pytest.mark.parametrize(
    ("first", "second"), [("weight", "bias"), ("running_mean", "running_var"), ("weight", "running_var")]
)
def test_the_parts_of_a_batch_norm_are_told_apart(first: str, second: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)).eval()
    state = {n: torch.rand_like(v) if v.is_floating_point() else v for n, v in model.state_dict().items()}
    model.load_state_dict(state)
    before = hash_of(model, X[0])
    names = f"1.{first}", f"1.{second}"
    state[names[0]], state[names[1]] = state[names[1]], state[names[0]]
    model.load_state_dict(state)
    assert hash_of(model, X[0]) != before


def test_norms_are_told_apart() -> None:
    norms = [nn.LayerNorm(4, bias=False), nn.RMSNorm(4), nn.GroupNorm(1, 4), nn.BatchNorm1d(4)]
    hashes = set()
    for norm in norms:
        torch.manual_seed(0)
        hashes.add(hash_of(nn.Sequential(nn.Linear(5, 4), norm, nn.Linear(4, 2)).eval(), X[0]))
    assert len(hashes) == len(norms)


def test_activation_functions_are_told_apart() -> None:
    hashes = set()
    for activation in (nn.ReLU(), nn.GELU(), nn.Tanh(), nn.Identity()):
        torch.manual_seed(0)
        hashes.add(hash_of(nn.Sequential(nn.Linear(5, 4), activation, nn.Linear(4, 2)), X))
    assert len(hashes) == 4


WRITTEN_OUT: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "gelu": (lambda x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.045 * x.pow(3)))), "gelu"),
    "gelu, factors exchanged": (lambda x: (1 + torch.tanh(0.8 * x)) * (0.5 * x), "gelu"),
    "silu": (lambda x: x * x.sigmoid(), "silu"),
    "mish": (lambda x: x * torch.tanh(F.softplus(x)), "mish"),
    "a function of its own result": (lambda x: x.sigmoid() * (1 - x.sigmoid()), "sigmoid"),
    "a square": (lambda x: x.tanh() * x.tanh(), "tanh"),
}


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_activation_functions_that_are_written_out(name: str) -> None:
    function, expected = WRITTEN_OUT[name]
    model = Composed(lambda x, first, last: last(function(first(x))), nn.Linear(5, 4), nn.Linear(4, 2))
    graph = gmn.trace(model, X)
    assert [group.activation for group in graph.groups if group.kind == "neuron"] == [expected]


def test_residual_connections_show() -> None:
    hashes = set()
    for skip in (0, 1):
        torch.manual_seed(0)
        layers = nn.Linear(5, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        hashes.add(
            hash_of(
                Composed(lambda x, f, g, h, s=skip: h(g(f(x)) + s * f(x)) if s else h(g(f(x))), *layers), X
            )
        )
    assert len(hashes) == 2


# ------------------------------------------------------------------ differences that must not show

SAME: dict[str, tuple[list[nn.Module], list[Callable[..., Tensor]]]] = {
    "a linear layer by hand": (
        [nn.Linear(5, 4), nn.Linear(4, 3)],
        [
            lambda x, f, g: g(f(x).relu()),
            lambda x, f, g: g((x @ f.weight.t() + f.bias).relu()),
            lambda x, f, g: (
                F.linear(torch.addmm(f.bias, x.flatten(0, 1), f.weight.T).view(2, 4, 4).relu(), g.weight)
                + g.bias
            ),
            lambda x, f, g: (
                torch.einsum(
                    "bni,oi->bno", F.relu(torch.einsum("oi,bni->bno", f.weight, x) + f.bias), g.weight
                )
                + g.bias
            ),
        ],
    ),
    "a residual connection": (
        [nn.Linear(5, 4), nn.Linear(4, 4), nn.Linear(4, 3)],
        [
            lambda x, f, g, h: (lambda y: h(y + g(y).relu()))(f(x)),
            lambda x, f, g, h: (lambda y: h(g(y).relu() + y))(f(x)),
            lambda x, f, g, h: (lambda y: h(g(y).relu().add_(y)))(f(x)),
            lambda x, f, g, h: (lambda y: h(torch.add(y, g(y).relu())))(f(x)),
        ],
    ),
    "two branches added": (
        [nn.Linear(5, 4), nn.Linear(5, 4), nn.Linear(4, 3)],
        [lambda x, f, g, h: h((f(x) + g(x)).relu()), lambda x, f, g, h: h((g(x) + f(x)).relu())],
    ),
    "a gate": (
        [nn.Linear(5, 4), nn.Linear(5, 4), nn.Linear(4, 3)],
        [lambda x, f, g, h: h(f(x) * g(x).sigmoid()), lambda x, f, g, h: h(g(x).sigmoid() * f(x))],
    ),
    "an activation in place": (
        [nn.Linear(5, 4), nn.Linear(4, 3)],
        [lambda x, f, g: g(f(x).relu()), lambda x, f, g: g(f(x).relu_()), lambda x, f, g: g(F.relu(f(x)))],
    ),
    "concatenated or written into memory": (
        [nn.Linear(5, 4), nn.Linear(5, 2), nn.Linear(6, 3)],
        [
            lambda x, f, g, h: h(torch.cat([f(x), g(x)], -1)),
            lambda x, f, g, h: h(_written(f(x), g(x))),
        ],
    ),
    "a shape there and back": (
        [nn.Linear(5, 4), nn.Linear(4, 3)],
        [
            lambda x, f, g: g(f(x)),
            lambda x, f, g: g(f(x.transpose(0, 1)).view(4, 2, 2, 2).flatten(2).transpose(0, 1)),
        ],
    ),
}


def _written(first: Tensor, second: Tensor) -> Tensor:
    memory = torch.zeros(2, 4, 6)
    memory[..., :4] = first
    memory[..., 4:] = second
    return memory


@pytest.mark.parametrize("name", SAME)
def test_one_network_written_differently(name: str) -> None:
    modules, functions = SAME[name]
    networks = [Composed(function, *modules) for function in functions]
    results = [network(X) for network in networks]
    for result in results[1:]:
        torch.testing.assert_close(result, results[0])
    assert len({hash_of(network, X) for network in networks}) == 1


@pytest.mark.parametrize("fused", [False, True])
def test_packed_and_separate_attention_look_alike(fused: bool) -> None:
    torch.manual_seed(0)
    packed = Attention(5, 2, 3, "split", fused=fused)
    shaped = Attention(5, 2, 3, "reshape", fused=fused)
    separate = Attention(5, 2, 3, "separate", fused=fused)
    shaped.load_state_dict(packed.state_dict())
    for layer, weight in zip(
        (separate.query, separate.key, separate.value), packed.qkv.weight.chunk(3), strict=True
    ):
        layer.weight, layer.bias = nn.Parameter(weight.detach().clone()), None
    separate.out = packed.out
    hashes = {hash_of(nn.Sequential(network), X) for network in (packed, shaped, separate)}
    assert len(hashes) == 1
