"""In-place writes: the nodes behind every other view of the memory are the new ones."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.trace.interpret.memory import _overlap
from graph_metanetworks.trace.record.operation import TensorRef
from support.composed import Composed
from support.graph_hash import hash_of

X = torch.linspace(-1, 1, 20).view(4, 5).sin()
LAYERS = [nn.Linear(5, 4), nn.Linear(5, 4), nn.Linear(8, 3)]

# each pair computes the same function, once with writes and once without
PAIRS: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "two halves": (
        lambda x, f, g, h: h(_into(torch.zeros(4, 8), f(x), g(x))),
        lambda x, f, g, h: h(torch.cat([f(x), g(x)], 1)),
    ),
    "two halves in uninitialised memory": (
        lambda x, f, g, h: h(_into(torch.empty(4, 8), f(x), g(x))),
        lambda x, f, g, h: h(torch.cat([f(x), g(x)], 1)),
    ),
    "two halves of the transpose": (
        lambda x, f, g, h: h(_into(torch.zeros(8, 4).t(), f(x), g(x))),
        lambda x, f, g, h: h(torch.cat([f(x), g(x)], 1)),
    ),
    "an activation on a slice": (
        lambda x, f, g, h: h(_on_slice(torch.cat([f(x), g(x)], 1), lambda part: part.relu_())),
        lambda x, f, g, h: h(torch.cat([f(x).relu(), g(x)], 1)),
    ),
    "sample by sample": (
        lambda x, f, g, h: h(_rows(torch.cat([f(x), g(x)], 1))),
        lambda x, f, g, h: h(torch.cat([f(x), g(x)], 1)),
    ),
    "the result of out=": (
        lambda x, f, g, h: h(torch.cat([f(x), g(x)], 1, out=torch.empty(4, 8))),
        lambda x, f, g, h: h(torch.cat([f(x), g(x)], 1)),
    ),
}


def _into(memory: Tensor, first: Tensor, second: Tensor) -> Tensor:
    memory[:, :4] = first
    memory[:, 4:] = second
    return memory


def _on_slice(memory: Tensor, write: Callable[[Tensor], object]) -> Tensor:
    write(memory[:, :4])
    return memory


def _rows(values: Tensor) -> Tensor:
    memory = torch.zeros(4, 8)
    for index in range(4):
        memory[index] = values[index]
    return memory


@pytest.mark.parametrize("name", PAIRS)
@torch.no_grad()
def test_writes_look_like_the_function_they_compute(name: str) -> None:
    written, plain = (Composed(function, *LAYERS) for function in PAIRS[name])
    torch.testing.assert_close(written(X), plain(X))
    assert hash_of(written, X) == hash_of(plain, X)


@torch.no_grad()
def test_a_view_taken_before_the_write_sees_it() -> None:
    def function(x: Tensor, f: nn.Module, g: nn.Module, h: nn.Module) -> Tensor:
        memory = torch.zeros(4, 8)
        view = memory.view(2, 2, 8)
        memory.copy_(torch.cat([f(x), g(x)], 1))
        return h(view.flatten(0, 1))

    network = Composed(function, *LAYERS)
    graph = gmn.trace(network, X)
    sources = next(b for b in graph.blocks if b.parameter == "owned.2.weight").source.flatten()
    made = {
        n
        for b in graph.blocks
        if b.parameter in ("owned.0.weight", "owned.1.weight")
        for n in b.target.flatten().tolist()
    }
    assert set(sources.tolist()) == made


@torch.no_grad()
def test_a_copy_taken_before_the_write_does_not_see_it() -> None:
    def function(x: Tensor, f: nn.Module, g: nn.Module, h: nn.Module) -> Tensor:
        memory = torch.cat([f(x), g(x)], 1)
        copy = memory.clone()
        memory.mul_(torch.arange(8))
        return h(copy)

    graph = gmn.trace(Composed(function, *LAYERS), X)
    assert sorted(v.size for v in graph.symmetry.variables) == [4, 4]


def test_inputs_that_are_written_are_left_as_they_were_for_the_user() -> None:
    """A network that writes into its input does so too when it is traced, as model(x) would."""
    x = X.clone()
    gmn.trace(Composed(lambda x, f, g, h: h(torch.cat([f(x.relu_()), g(x)], 1)), *LAYERS), x)
    assert torch.equal(x, X.relu()) or torch.equal(x, X)


# ------------------------------------------------------------------ how two views overlap


def ref(view: Tensor) -> TensorRef:
    return TensorRef(
        id(view), tuple(view.shape), view.stride(), int(view.storage_offset()), view.dtype, 0, view
    )


@st.composite
def views(draw: st.DrawFn, base: Tensor) -> Tensor:
    """Slices, transposed or viewed otherwise now and then."""
    if draw(st.booleans()) and draw(st.booleans()):
        base = base.view(draw(st.sampled_from([(3, 2, 4), (6, 4), (24,), (2, 3, 4), (4, 3, 2), (1, 24, 1)])))
    for dim, length in enumerate(base.shape):
        start = draw(st.integers(0, length - 1))
        stop = draw(st.integers(start + 1, length))
        base = base[(slice(None),) * dim + (slice(start, stop, draw(st.sampled_from([1, 1, 1, 2]))),)]
    return base.mT if base.dim() > 1 and draw(st.booleans()) else base


@given(st.data())
@settings(max_examples=400)
def test_a_write_is_seen_where_views_overlap(data: st.DataObject) -> None:
    """As in the memory itself, where labels are numbers that are written."""
    base = torch.zeros(30, dtype=torch.int64)[data.draw(st.sampled_from([0, 5])) :][:24].view(3, 2, 4)
    written, other = data.draw(views(base)), data.draw(views(base))
    base.copy_(torch.arange(24).view(base.shape))
    was = other.clone()
    now = 100 + torch.arange(written.numel()).view(written.shape)
    overwrite = _overlap(ref(written), ref(other))
    written.copy_(now)
    seen = was if overwrite is None else overwrite(was, now)
    assert torch.equal(seen, other)


@torch.no_grad()
def test_labels_of_slices_stay_small() -> None:
    """A write into half of the channels makes a label per channel, not per pixel."""

    def function(x: Tensor, f: nn.Module, g: nn.Module) -> Tensor:
        memory = torch.zeros(1, 8, 64, 64)
        memory[:, :4] = f(x)
        memory[:, 4:] = g(x)
        return memory.relu()

    network = Composed(function, nn.Conv2d(2, 4, 1), nn.Conv2d(2, 4, 1))
    _, interpreter = gmn.Tracer().record(network, (torch.zeros(1, 2, 64, 64),), {})
    sizes = [x.untyped_storage().nbytes() for value in interpreter.values.values() for x in value.labels]
    assert max(sizes) <= 8 * 8
