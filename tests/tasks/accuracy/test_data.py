"""Labels, batches and the order in which networks are seen."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from graph_metanetworks.errors import TaskError, ZooError
from graph_metanetworks.tasks import traced_zoo
from graph_metanetworks.tasks.accuracy import LabelledZoo, TracedZoo
from graph_metanetworks.tasks.accuracy.data import read_labels
from graph_metanetworks.training.samplers import InOrder, Rounds
from support.scaled_networks import ScaledNetworks, labelled, scaled_zoo


def test_a_batch_has_the_weights_and_labels_of_its_networks(data: LabelledZoo) -> None:
    positions = [5, 0, 17, 3]
    batch, labels = data[positions]
    for number, position in enumerate(positions):
        network = data.networks.zoo[position]
        (stack,) = [s for s in batch.stacks if number in s.members]
        row = stack.members.index(number)
        for name, weights in network.state_dict.items():
            assert torch.equal(stack.weights[name][:, row, 0], weights.flatten())
        assert labels[number] == pytest.approx(network.metrics["test_accuracy"])


def test_each_architecture_is_traced_once(zoo_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from graph_metanetworks.zoo import Zoo

    traced = []
    original = traced_zoo.trace_network
    monkeypatch.setattr(traced_zoo, "trace_network", lambda *args: traced.append(args) or original(*args))
    networks = TracedZoo(Zoo.open(zoo_folder))
    assert len(traced) == len(networks.graphs) == 4
    for start in range(0, 40, 8):
        networks.batch(range(start, start + 8))
    assert len(traced) == 4
    shapes = [networks.zoo.recipe.shape(network.config) for network in networks.zoo]
    assert len({(s, a) for s, a in zip(shapes, networks.architectures.tolist(), strict=True)}) == 4


def test_networks_with_nan_weights_are_not_used(tmp_path: Path) -> None:
    data = labelled(scaled_zoo(tmp_path, 30, broken=3))
    broken = [any(x.isnan().any() for x in n.state_dict.values()) for n in data.networks.zoo]
    assert 0 < sum(broken) < 30 and (data.usable == ~np.array(broken)).all()


def test_a_recipe_without_an_example_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zoo = scaled_zoo(tmp_path, 4)
    monkeypatch.delattr(ScaledNetworks, "example")
    with pytest.raises(ZooError, match=r"Define ScaledNetworks\.example\(config\)"):
        TracedZoo(zoo)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([0.5, None, 0.1], "1 of 3 networks of the zoo have no 'accuracy'"),
        ([0.5, float("nan"), 0.1], "1 of 3 networks"),
        ([0.5, 7.0, 0.1], "goes from 0.1 to 7"),
        (["a", "b", "c"], "has no numbers"),
    ],
)
def test_bad_labels(column: list, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        read_labels(pa.table({"accuracy": column}), "accuracy", where="the zoo")


def test_a_label_that_is_not_there() -> None:
    with pytest.raises(TaskError, match=r"no column 'accuracy'.*its columns are loss.*--label"):
        read_labels(pa.table({"loss": [1.0]}), "accuracy", where="the zoo")


def test_rounds_see_every_network_equally_often() -> None:
    positions = np.arange(10, 25)
    seen = [p for k in range(5) for batch in Rounds(positions, 6, 5, seed=3, round=k) for p in batch.tolist()]
    counts = np.bincount(seen)[10:]
    assert len(seen) == 150 and (counts == 10).all()


def test_a_round_depends_on_its_number_only() -> None:
    positions = np.arange(20)
    rounds = Rounds(positions, 4, 3, seed=0)
    first = [batch.tolist() for batch in rounds]
    rounds.set_epoch(1)
    second = [batch.tolist() for batch in rounds]
    fresh = Rounds(positions, 4, 3, seed=0, round=1)
    assert [batch.tolist() for batch in fresh] == second != first


@pytest.mark.parametrize("world", [2, 4])
def test_processes_share_each_batch(world: int) -> None:
    positions = np.arange(30)
    alone = list(Rounds(positions, 8, 6, seed=1))
    shared = [list(Rounds(positions, 8, 6, seed=1, rank=rank, world=world)) for rank in range(world)]
    for step, batch in enumerate(alone):
        parts = [own[step].tolist() for own in shared]
        assert sorted(p for part in parts for p in part) == sorted(batch.tolist())
        assert {len(part) for part in parts} == {8 // world}
    validated = [p for rank in range(world) for b in InOrder(positions, 7, rank, world) for p in b.tolist()]
    assert sorted(validated) == positions.tolist()


def test_a_batch_that_cannot_be_shared() -> None:
    with pytest.raises(TaskError, match="multiple of 3"):
        Rounds(np.arange(9), 8, 1, seed=0, world=3)
