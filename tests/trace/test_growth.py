"""Tracing needs little more memory than a forward pass, and an error says where it would need much more."""

import json
from collections import Counter
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

import graph_metanetworks as gmn
from graph_metanetworks.trace.interpret import size_limit
from graph_metanetworks.trace.interpret.builder import ParameterGraphBuilder
from graph_metanetworks.trace.interpret.interpreter import Interpreter
from graph_metanetworks.trace.record.tape import Tape
from support.composed import Composed
from support.menagerie.relative_position import MapTransformer, MultiscaleAttention
from support.processes import run_python


def map_transformer(side: int, batch: int = 1, **options: object) -> tuple[nn.Module, Tensor]:
    attend = MultiscaleAttention(96, 2, side, **options)  # pyright: ignore[reportArgumentType]
    return MapTransformer(attend, 96, bool(options.get("token"))).eval(), torch.randn(batch, side, side, 3)


# ------------------------------------------------------------------ memory

LARGE: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "pooled": lambda: map_transformer(56, query_stride=1, key_stride=4),
    "not pooled": lambda: map_transformer(40),
    "with a token": lambda: map_transformer(56, query_stride=1, key_stride=4, token=True),
    "a batch": lambda: map_transformer(28, 8, query_stride=1, key_stride=2),
    # each activation has 40 MB: the C library returns so much to the system when it is freed
    "many layers": lambda: (nn.Sequential(*[nn.Linear(2, 2) for _ in range(10)]), torch.randn(5_000_000, 2)),
}
MEASURE = """
import json, os, resource, torch
import graph_metanetworks as gmn
from trace_growth import LARGE, map_transformer

def peak():  # MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

torch.set_num_threads(1)
network, x = map_transformer(4, token=True, key_stride=2)
gmn.trace(network, x)  # what PyTorch loads for the first one does not count
for name in LARGE:
    if os.fork():  # each in a process of its own, because peaks do not fall
        os.wait()
        continue
    network, x = LARGE[name]()
    peaks = [peak()]
    with torch.no_grad():
        network(x)
    peaks.append(peak())
    gmn.trace(network, x)
    print(json.dumps([name, *peaks, peak()]), flush=True)
    os._exit(0)
"""


def peaks() -> dict[str, list[float]]:
    """Return the peak of a process before and after a forward pass, and after tracing."""
    here = f"import importlib.util as u, sys; s = u.spec_from_file_location('trace_growth', {__file__!r}); "
    load = "m = u.module_from_spec(s); sys.modules['trace_growth'] = m; s.loader.exec_module(m)\n"
    done = run_python("-c", here + load + MEASURE)
    assert not done.returncode, done.stderr
    return {name: found for name, *found in map(json.loads, done.stdout.splitlines())}


def test_memory_stays_near_that_of_the_forward_pass() -> None:
    found = peaks()
    assert found.keys() == LARGE.keys()
    for name, (before, forward, after) in found.items():
        assert after - forward < 30 + (forward - before) / 2, name


def test_activations_are_freed_while_the_network_runs() -> None:
    made: list[StorageWeakRef] = []

    def watched(x: Tensor, *layers: nn.Module) -> Tensor:
        for layer in layers:
            x = layer(x)
            made.append(StorageWeakRef(x.untyped_storage()))
        return x

    network = Composed(watched, *(nn.Linear(8, 8) for _ in range(4)))
    with torch.no_grad(), Tape(lambda func: True) as tape:
        result = network(torch.zeros(1000, 8))
    assert [memory.expired() for memory in made] == [True, True, True, False]
    storages = {ref.storage for operation in tape.operations for ref in operation.inputs}
    assert len(storages) == 4 + 4 + 4  # inputs, weights, biases: memory that is used again counts again
    assert result.shape == (1000, 8)


# ------------------------------------------------------------------ labels stay small


def two_d(x: Tensor) -> Tensor:
    return x.unflatten(-1, (8, 8))


# Functions of [2, 6, 64]: batch, channels, places. Their labels need no entry for a place.
MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "roll": lambda x: x.roll(3, -1),
    "flip": lambda x: x.flip(-1),
    "repeat": lambda x: x.repeat(2, 1, 3),
    "repeat of channels": lambda x: x.repeat(1, 2, 1),
    "lookup of places": lambda x: x[:, :, torch.arange(64).flip(0)],
    "lookup of channels": lambda x: x[:, torch.tensor([3, 1, 2])],
    "lookup of both": lambda x: x[:, torch.tensor([[3], [1]]), torch.arange(5)],
    "index_select of places": lambda x: x.index_select(2, torch.tensor([5, 9])),
    "index_select of channels": lambda x: x.index_select(1, torch.tensor([5, 0])),
    "cat of channels": lambda x: torch.cat([x, x.relu()], 1),
    "cat of places": lambda x: torch.cat([x, x.relu()], 2),
    "stack": lambda x: torch.stack([x, x.relu()], 1).flatten(1, 2),
    "pad of channels": lambda x: F.pad(x, (0, 0, 1, 2)),
    "pad of places": lambda x: F.pad(x, (3, 1)),
    "patches": lambda x: F.unfold(two_d(x), 3),
    "windows": lambda x: two_d(x).unflatten(3, (4, 2)).unflatten(2, (4, 2)).transpose(3, 4).flatten(2, 4),
    "batch with channels": lambda x: x.flatten(0, 1)[:, None],
    "heads with the batch": lambda x: x.view(4, 3, 64),
    "a write": lambda x: x.clone().index_fill_(0, torch.tensor([1]), 0.0),
    "a write of channels": lambda x: _written(x),
}


def _written(x: Tensor) -> Tensor:
    memory = torch.zeros(2, 8, 64)
    memory[:, :6] = x
    return memory


@pytest.mark.parametrize("name", MOVES)
def test_labels_do_not_hold_places(name: str) -> None:
    move = MOVES[name]
    network = Composed(lambda x, f: move(f(x)).amax(-1), nn.Conv1d(3, 6, 1))
    graph, interpreter = gmn.Tracer().record(network, (torch.randn(2, 3, 64),), {})
    gmn.testing.assert_automorphism(graph)
    sizes = [x.untyped_storage().nbytes() for value in interpreter.values.values() for x in value.labels]
    assert max(sizes) <= 8 * 2 * 6 * 9  # a batch of 2, of 6 channels with 9 places of a patch


# ------------------------------------------------------------------ the graph does not depend on the example


def kinds(graph: gmn.ParameterGraph) -> Counter[str]:
    return Counter({kind: sum(g.size for g in graph.groups if g.kind == kind) for kind in graph.node_kinds})


@pytest.mark.parametrize("options", [{}, {"query_stride": 1, "key_stride": 2}, {"fused": True}], ids=str)
def test_a_larger_map_has_longer_tables_only(options: dict) -> None:
    small, large = (gmn.trace(*map_transformer(side, **options)) for side in (4, 8))
    assert (kinds(large) - kinds(small)).keys() == {"position"}
    assert not kinds(small) - kinds(large)


@pytest.mark.parametrize("options", [{}, {"query_stride": 1, "key_stride": 2}, {"token": True}], ids=str)
def test_a_larger_batch_changes_nothing(options: dict) -> None:
    network, x = map_transformer(4, **options)
    one, three = (gmn.trace(network, x.expand(batch, -1, -1, -1)) for batch in (1, 3))
    assert kinds(one) == kinds(three)
    assert one.num_edges == three.num_edges


def test_positions_lead_to_the_heads() -> None:
    """Each distance has a node, and what positions add to the scores is added to their heads."""
    graph = gmn.trace(*map_transformer(4))
    tables = [block for block in graph.blocks if block.parameter in ("attend.rows", "attend.columns")]
    assert [(b.kind, b.num_edges) for b in tables] == [("position", 7 * 48)] * 2
    heads = next(group for group in graph.groups if group.kind == "head")
    added = [b for b in graph.blocks if b.kind == "residual" and graph.block_ends.targets(b) == [heads]]
    assert len(added) == 2
    assert {"query weight", "key weight", "value weight"} <= set(graph.edge_kinds)


# ------------------------------------------------------------------ the limit


class Generator(nn.Module):
    """Attention on tokens that a linear layer made: each has nodes of its own, and so has each pair."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.make, self.tokens = nn.Linear(2, tokens * width), tokens
        self.attend = nn.MultiheadAttention(width, 1, batch_first=True)

    def forward(self, z: Tensor) -> Tensor:  # [B, 2] -> [B, tokens, width]
        x = self.make(z).unflatten(1, (self.tokens, -1))
        return self.attend(x, x, x, need_weights=False)[0]


def test_growth_beyond_the_limit_is_an_error() -> None:
    with pytest.raises(gmn.TooLarge) as caught:
        gmn.trace(Generator(1024, 32), torch.zeros(1, 2))
    message = str(caught.value)
    for part in ("aten.bmm", "in 'attend'", "33,554,432 entries", "at most 16,777,216", "smaller example"):
        assert part in message


def test_the_limit_grows_with_the_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_limit, "ENTRIES", 100)
    gmn.trace(nn.Linear(100, 100), torch.zeros(1, 100))
    with pytest.raises(gmn.TooLarge, match="entries, and at most 128 are allowed"):
        gmn.trace(Generator(8, 4), torch.zeros(1, 2))


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 9 bytes")],
    ids=["python", "torch"],
)
@pytest.mark.parametrize(("where", "name"), [(Interpreter, "step"), (ParameterGraphBuilder, "reset")])
def test_too_little_memory(error: Exception, where: type, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While operations are interpreted, or while the graph is assembled."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(where, name, fail)
    with pytest.raises(gmn.TooLarge, match="more entries than fit into memory"):
        gmn.Tracer(heads="index").trace(nn.TransformerEncoderLayer(8, 2, 8), torch.zeros(3, 1, 8))
