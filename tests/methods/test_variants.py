"""Variants of methods by modifiers: `mlp+permuted` is `mlp` behind a preparation."""

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.errors import TaskError
from graph_metanetworks.methods import MODIFIERS, Output, find_method
from graph_metanetworks.methods.method import as_metanetwork
from graph_metanetworks.nn import aligned
from graph_metanetworks.nn.prepared import seen
from graph_metanetworks.nn.reordering import Permuted
from support.traced import traced

NAMES = ("mlp-relu", "mlp-tanh")


def networks(*names: str, count: int = 3) -> gmn.Batch:
    """Networks of a few architectures with weights of their own, in float64 and in mixed order."""
    generator = torch.Generator().manual_seed(0)
    pairs = []
    for _ in range(count):
        for name in names:
            weights = traced(name).model.state_dict()
            pairs.append((traced(name).graph, {n: _noisy(x, generator) for n, x in weights.items()}))
    return gmn.collate(pairs)


def _noisy(value: Tensor, generator: torch.Generator) -> Tensor:
    return value.double() + 0.1 * torch.randn(value.shape, generator=generator, dtype=torch.float64)


def made(name: str, batch: gmn.Batch, **output) -> nn.Module:
    torch.manual_seed(0)
    model = find_method(name).make("small", Output(**output)).double()
    as_metanetwork(model).fit([batch])
    return model


@pytest.mark.parametrize("kind", ["scales", "signs"])
def test_the_canonical_gmn_is_the_option_of_the_gmn(kind: str) -> None:
    batch = networks(*NAMES)
    torch.manual_seed(0)
    ours = gmn.GraphMetanetwork(24, 3, blocks="matrix-product", canonical=kind).double()  # pyright: ignore
    ours.fit([batch])
    assert torch.equal(made(f"gmn+{kind}", batch)(batch), ours(batch))
    assert torch.equal(made(f"gmn+{kind}", batch).embed(batch), ours.embed(batch))  # pyright: ignore


def rescaled_pair(batch: gmn.Batch) -> gmn.Batch:
    """The first network of a batch and a rescaled copy of it."""
    graph = batch.graphs[0]
    own = {p.name: batch.stacks[0].weights[p.name][:, 0, 0].view(p.shape) for p in graph.parameters}
    rescaled = graph.scaling.sample(torch.Generator().manual_seed(0)).apply(own)
    return gmn.collate([(graph, own), (graph, rescaled)])


def test_canonical_statistics_do_not_see_rescalings() -> None:
    batch = networks("mlp-relu")
    with torch.no_grad():
        plain, canonical = (made(name, batch)(rescaled_pair(batch)) for name in ("statnn", "statnn+scales"))
    assert torch.allclose(canonical[0], canonical[1], atol=1e-9)
    assert not torch.allclose(plain[0], plain[1], atol=1e-3)


def test_permuted_copies_are_for_training_only() -> None:
    batch = networks(*NAMES)
    model, plain = made("dmc+permuted", batch), made("dmc", batch)
    first, second = model(batch), model(batch)
    assert not torch.allclose(first, second, atol=1e-4)
    assert torch.equal(model.eval()(batch), plain(batch))
    again = made("dmc+permuted", batch)
    assert torch.equal(again(batch), first), "the same seed gives the same copies"
    resumed = made("dmc+permuted", batch)
    resumed.load_state_dict(again.state_dict())
    assert torch.equal(resumed(batch), second)


@pytest.mark.parametrize("level", ["graph", "node", "edge"])
def test_what_is_equivariant_does_not_see_permutations(level: str) -> None:
    batch = networks(*NAMES)
    model, plain = made("gmn+permuted", batch, level=level), made("gmn", batch, level=level)
    assert torch.allclose(model(batch), plain(batch), atol=1e-9)


def test_aligned_copies_are_equal() -> None:
    batch = networks(*NAMES)
    model, plain = made("dmc+aligned", batch), made("dmc", batch)
    copies = Permuted().orders(batch).apply()  # pyright: ignore
    assert torch.allclose(model(copies), model(batch), atol=1e-9)
    assert not torch.allclose(plain(copies), plain(batch), atol=1e-3)
    again = find_method("dmc+aligned").make("small").double()
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(batch), model(batch))


def test_alignments_are_remembered_by_content(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = networks(*NAMES)
    model = made("dmc+aligned", batch)
    expected = model(batch)
    monkeypatch.setattr(aligned, "align_stack", None)  # a call would fail
    assert torch.equal(model(batch), expected)
    monkeypatch.undo()
    other = Permuted().orders(batch).apply()  # pyright: ignore
    assert torch.allclose(model(other), expected, atol=1e-9)


def test_an_architecture_without_reference() -> None:
    model = made("dmc+aligned", networks("mlp-relu"))
    with pytest.raises(gmn.UnsupportedNetwork, match="no reference to align it to"):
        model(networks("mlp-tanh"))


def test_results_per_edge_belong_to_what_is_seen() -> None:
    """New weights compute the same function: those of the canonical form, in the order that is given."""
    batch = networks("mlp-relu")
    model = made("gmn+scales+permuted", batch, level="edge")
    canonical = gmn.nn.Canonical()(batch)
    for ours, expected in zip(seen(model, batch).stacks, canonical.stacks, strict=True):
        assert all(torch.equal(value, expected.weights[name]) for name, value in ours.weights.items())
    assert seen(nn.Identity(), batch) is batch


def test_boosting() -> None:
    batch = networks("mlp-relu", count=30)
    model = made("statnn-boosting+scales", batch)
    targets = torch.rand(30, generator=torch.Generator().manual_seed(0))
    model.learn([(batch, targets)], seed=0)  # pyright: ignore
    first, second = model(rescaled_pair(batch))
    assert torch.allclose(first, second, atol=1e-9)
    assert model(batch).std() > 0.1
    assert not hasattr(model, "embed")
    with pytest.raises(TaskError, match=r"statnn-boosting learns from all networks in one call, and \+perm"):
        find_method("statnn-boosting+permuted")


def test_names() -> None:
    method, base = find_method("gmn-probes+signs+permuted"), find_method("gmn-probes")
    assert (method.name, method.title) == (
        "gmn-probes+signs+permuted",
        "GMN with probes, canonical signs, permuted",
    )
    assert (method.levels, method.learning_rate, method.strategy) == (
        base.levels,
        base.learning_rate,
        base.strategy,
    )
    assert list(method.sizes) == list(base.sizes)
    with pytest.raises(
        TaskError, match=r"no modifier 'sign'; choose from \+scales, \+signs, \+permuted, \+aligned"
    ):
        find_method("gmn+sign")
    with pytest.raises(TaskError, match=r"gmn\+signs\+signs has \+signs twice"):
        find_method("gmn+signs+signs")
    with pytest.raises(TaskError, match="there is no method 'gnn'"):
        find_method("gnn+signs")
    assert all(name == modifier.name for name, modifier in MODIFIERS.items())
