"""Builds: equal bits however a zoo is built, growth, refused commands, failures."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
import torch

import graph_metanetworks as gmn
from graph_metanetworks.errors import StorageError, ZooError
from graph_metanetworks.storage import checksum
from graph_metanetworks.zoo import Zoo, build
from graph_metanetworks.zoo.description import Description
from graph_metanetworks.zoo.plan import draw
from graph_metanetworks.zoo.recipe import Recipe, Trained, network_seed
from support.zoo_folders import contents
from support.zoo_recipes import Config, OnceKilled, Regressors

alone = partial(build, workers=1, quiet=True)


def test_networks_are_those_of_the_recipe(tmp_path: Path) -> None:
    recipe = Regressors()
    zoo = alone(recipe, 30, tmp_path, seed=5)
    assert [network.index for network in zoo] == list(range(30))
    for network in zoo:
        config = draw(recipe, 5, network.index)
        (trained,) = recipe.train([config], [network_seed(5, network.index)], lambda share: None)
        assert network.config == config and network.metrics == trained.metrics
        assert all(torch.equal(x, trained.state_dict[name]) for name, x in network.state_dict.items())


def test_workers_make_the_same_zoo(tmp_path: Path) -> None:
    alone(Regressors(), 40, tmp_path / "one")
    build(Regressors(), 40, tmp_path / "two", workers=2, quiet=True)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


class Unannotated(Regressors):
    def draw(self, generator):
        return super().draw(generator)


class Misannotated(Regressors):
    def draw(self, generator) -> object:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().draw(generator)


class Plain(Regressors):
    def draw(self, generator):
        return {"family": "deep"}


def test_draw_needs_no_annotation(tmp_path: Path) -> None:
    for network in alone(Unannotated(), 3, tmp_path):
        assert network.config == draw(Unannotated(), 0, network.index)


@pytest.mark.parametrize(
    ("kind", "said"),
    [(Misannotated, "draw with the dataclass"), (Plain, "a config must be a dataclass")],
)
def test_configs_that_could_not_be_read_again_are_refused_at_once(kind, said: str, tmp_path: Path) -> None:
    with pytest.raises(ZooError, match=said):
        alone(kind(), 3, tmp_path / "zoo")
    assert not (tmp_path / "zoo").exists()


def test_threads_are_given_back(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        alone(Regressors(), 3, tmp_path)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_a_zoo_grows(tmp_path: Path) -> None:
    alone(Regressors(), 20, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*-0*")}
    zoo = alone(Regressors(), 50, tmp_path)
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())
    assert [network.index for network in zoo] == list(range(50))
    fresh = alone(Regressors(), 50, tmp_path.parent / "fresh")
    for ours, theirs in zip(zoo, fresh, strict=True):
        assert ours.config == theirs.config and ours.metrics == theirs.metrics


def test_another_seed_gives_other_networks(tmp_path: Path) -> None:
    zoos = [alone(Regressors(), 10, tmp_path / str(seed), seed=seed) for seed in (0, 1)]
    assert not set(zoos[0].table["rate"].to_pylist()) & set(zoos[1].table["rate"].to_pylist())


def test_diverged_networks_are_kept_or_dropped(tmp_path: Path) -> None:
    kept = alone(Regressors(), 40, tmp_path / "kept")
    dropped = alone(Regressors(), 40, tmp_path / "dropped", drop_diverged=True)
    wanted = [network.index for network in kept if not network.metrics["diverged"]]
    assert 0 < len(wanted) < 40
    assert [network.index for network in dropped] == wanted
    before = contents(tmp_path / "dropped")
    alone(Regressors(), 40, tmp_path / "dropped", drop_diverged=True)
    assert contents(tmp_path / "dropped") == before


class AllDiverge(Regressors):
    def train(
        self, configs: Sequence[Config], seeds: Sequence[int], progress: Callable[[float], None]
    ) -> list[Trained]:
        return [Trained({"w": torch.full((2,), torch.nan)}, {"diverged": True}) for _ in configs]


def test_all_networks_diverged(tmp_path: Path) -> None:
    zoo = alone(AllDiverge(), 20, tmp_path, drop_diverged=True)
    assert len(zoo) == 0 and len(zoo.table) == 0 and list(zoo) == []
    assert len(alone(AllDiverge(), 20, tmp_path.parent / "kept")) == 20


def test_checkpoints(tmp_path: Path) -> None:
    network = alone(Regressors(steps=3, checkpoints=True), 5, tmp_path)[2]
    assert network.steps == (0, 1, 2)
    before, after = network.checkpoint(0), network.state_dict
    assert list(before) == list(after)
    assert not torch.equal(before["0.weight"], after["0.weight"])
    with pytest.raises(ZooError, match="no checkpoint at step 7; its checkpoints are: 0, 1, 2"):
        network.checkpoint(7)


def test_half_precision(tmp_path: Path) -> None:
    full = alone(Regressors(), 5, tmp_path / "full")[1].state_dict
    half = alone(Regressors(), 5, tmp_path / "half", half=True)[1].state_dict
    for name, values in full.items():
        assert half[name].dtype == values.dtype
        torch.testing.assert_close(half[name], values, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 1}, "seed: 0, not 1"),
        ({"half": True}, "half: False, not True"),
        ({"drop_diverged": True}, "drop_diverged: False, not True"),
        ({"count": 9}, "count: 10, not 9"),
        ({"recipe": Regressors(steps=7)}, "steps: 3, not 7"),
        ({"recipe": AllDiverge()}, "recipe: '.*zoo_recipes:Regressors', not '.*AllDiverge'"),
    ],
)
def test_another_command_is_refused(change: dict, said: str, tmp_path: Path) -> None:
    alone(Regressors(), 10, tmp_path)
    before = contents(tmp_path)
    with pytest.raises(ZooError, match=f"(?s)a different zoo than this command builds.*{said}"):
        alone(**({"recipe": Regressors(), "count": 10, "out": tmp_path} | change))
    assert contents(tmp_path) == before


class OfImages(Regressors):
    """A recipe that describes its data as recipes for images do."""

    def __init__(self, name: str, digest: str | None = 64 * "a") -> None:
        super().__init__()
        known = {"checksum": digest} if digest else {}
        self.data = {"name": name, **known, "classes": [str(n) for n in range(100)]}

    def options(self) -> dict:
        return {"steps": 3, "checkpoints": False, "data": self.data}


def test_only_what_differs_is_named(tmp_path: Path) -> None:
    alone(OfImages("folder:images"), 10, tmp_path)
    with pytest.raises(ZooError) as refused:
        alone(OfImages("folder:images", 64 * "b"), 10, tmp_path)
    assert str(refused.value).count("\n  ") == 1
    assert f"data.checksum: {64 * 'a'!r}, not {64 * 'b'!r}" in str(refused.value)


def test_the_same_folder_of_images_by_another_path_is_the_same_data(tmp_path: Path) -> None:
    alone(OfImages("folder:images"), 10, tmp_path)
    assert len(alone(OfImages("folder:/home/me/images"), 20, tmp_path)) == 20
    with pytest.raises(ZooError, match=r"data.name: 'folder:images', not 'folder:other'"):
        alone(OfImages("folder:other", 64 * "b"), 20, tmp_path)
    with pytest.raises(
        ZooError, match=r"data.name: 'folder:images', not 'mnist'"
    ):  # its augmentation may differ
        alone(OfImages("mnist"), 20, tmp_path)


class Seeded(Regressors):
    def options(self) -> dict:
        return {"seed": 5}


def test_an_option_named_like_one_of_the_command_hides_nothing(tmp_path: Path) -> None:
    recipe = Seeded()
    alone(recipe, 10, tmp_path)
    with pytest.raises(ZooError, match="seed: 0, not 1"):
        alone(recipe, 10, tmp_path, seed=1)


def test_folders_without_a_checksum_may_differ(tmp_path: Path) -> None:
    alone(OfImages("folder:images", None), 10, tmp_path)
    with pytest.raises(ZooError, match=r"data.name: 'folder:images', not 'folder:other'"):
        alone(OfImages("folder:other", None), 10, tmp_path)


def test_where_a_zoo_came_from(tmp_path: Path) -> None:
    alone(Regressors(), 5, tmp_path)
    there = Description.load(tmp_path)
    assert there.versions and there.versions["graph_metanetworks"] == gmn.__version__
    assert there.created and datetime.fromisoformat(there.created) <= datetime.now().astimezone()
    alone(Regressors(), 9, tmp_path)  # later, and still the same zoo
    assert Description.load(tmp_path).created == there.created


def test_zoos_without_a_date_are_read(tmp_path: Path) -> None:
    alone(Regressors(), 5, tmp_path)
    file = tmp_path / "zoo.json"
    content = json.loads(file.read_text())
    del content["created"], content["checksum"]
    file.write_text(json.dumps(checksum.sealed(content)))
    assert len(alone(Regressors(), 5, tmp_path)) == 5


class OtherShapes(Regressors):
    def draw(self, generator: torch.Generator) -> Config:
        return Config("shallow", (5,), 0.0)


def test_a_recipe_that_changed_is_noticed(tmp_path: Path) -> None:
    alone(Regressors(), 40, tmp_path, reference="x:y")
    with pytest.raises(ZooError, match="does not hold the planned networks"):
        alone(OtherShapes(), 40, tmp_path, reference="x:y")


class Failing(Regressors):
    def train(
        self, configs: Sequence[Config], seeds: Sequence[int], progress: Callable[[float], None]
    ) -> list[Trained]:
        raise RuntimeError("the loss has no gradient")


class Forgetful(Regressors):
    def train(
        self, configs: Sequence[Config], seeds: Sequence[int], progress: Callable[[float], None]
    ) -> list[Trained]:
        return []


def test_a_recipe_that_fails_in_this_process(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match=r"(?s)training shard 0 failed.*the loss has no gradient.*to resume"):
        alone(Failing(), 5, tmp_path)


def test_a_recipe_must_return_all_networks(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match=r"Forgetful.train was given \d networks but returned 0"):
        alone(Forgetful(), 5, tmp_path)


@pytest.mark.slow
def test_a_recipe_that_fails_in_a_worker(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match=r"(?s)training shard \d failed.*the loss has no gradient"):
        build(Failing(), 40, tmp_path, workers=2, quiet=True)


@pytest.mark.slow
def test_a_worker_that_dies_is_reported(tmp_path: Path) -> None:
    recipe = OnceKilled(marker=str(tmp_path / "marker"))
    with pytest.raises(ZooError, match=r"a worker died in shard \d \(exit code -9\)"):
        build(recipe, 40, tmp_path / "zoo", workers=2, quiet=True)
    assert len(build(recipe, 40, tmp_path / "zoo", workers=1, quiet=True)) == 40


def test_a_recipe_that_cannot_be_sent(tmp_path: Path) -> None:
    recipe = Regressors()
    recipe.data = lambda: None  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ZooError, match="cannot be sent to worker processes"):
        build(recipe, 40, tmp_path / "zoo", workers=2, quiet=True)
    assert len(alone(recipe, 40, tmp_path / "zoo")) == 40


def test_recipes_with_the_former_names_of_options_still_work(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match=r"(settings is now called options|from_settings)"):

        class Former(Recipe):
            name = "former"
            draw, build, shape, train = Regressors.draw, Regressors.build, Regressors.shape, Regressors.train
            _one, steps, checkpoints, pause = Regressors._one, 3, False, 0.0

            def settings(self):
                return {"steps": self.steps}

            @classmethod
            def from_settings(cls, settings):
                return cls()

    zoo = alone(Former(), 5, tmp_path)
    assert len(zoo) == 5 and zoo.description.options == {"steps": 3}
    assert isinstance(Former.from_options({"steps": 3}), Former)


def test_zoo_json_keeps_its_keys(tmp_path: Path) -> None:
    alone(Regressors(), 5, tmp_path)
    content = json.loads((tmp_path / "zoo.json").read_text())
    assert content["settings"]["steps"] == 3
    assert list(content)[:4] == ["recipe", "settings", "seed", "ranges"]


def test_a_description_from_before_options_were_called_so(tmp_path: Path) -> None:
    old = {"recipe": "sine-inrs", "settings": {"steps": 3}, "seed": 0, "ranges": [], "format": 1}
    (tmp_path / "zoo.json").write_text(json.dumps(checksum.sealed(old)))
    assert Description.load(tmp_path).options == {"steps": 3}


def test_options_must_be_plain(tmp_path: Path) -> None:
    class Strange(Regressors):
        def options(self) -> dict:
            return {"data": torch.zeros(3)}

    with pytest.raises(ZooError, match="must be plain values"):
        alone(Strange(), 5, tmp_path)


def test_no_networks(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="at least one network, not 0"):
        alone(Regressors(), 0, tmp_path)


@pytest.mark.parametrize("option", ["workers", "shard_size"])
def test_numbers_below_one(option: str, tmp_path: Path) -> None:
    with pytest.raises(ZooError, match=f"{option} must be at least 1, not -1"):
        build(Regressors(), 5, tmp_path, **{option: -1})


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot write"):
        alone(Regressors(), 5, tmp_path / "file" / "zoo")


def test_other_versions_are_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone(Regressors(), 5, tmp_path)
    there = Description.load(tmp_path)
    assert there.versions
    Description(**(vars(there) | {"versions": there.versions | {"torch": "1.0"}})).save(tmp_path)
    build(Regressors(), 5, tmp_path, workers=1)
    assert "was started with torch 1.0, now" in " ".join(capsys.readouterr().err.split())


def test_another_size_of_shards_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    resumed = partial(build, Regressors(), 20, tmp_path, workers=1)
    resumed(shard_size=8)
    resumed(shard_size=8)
    resumed()
    assert "was started with" not in capsys.readouterr().err
    resumed(shard_size=4)
    said = "shards of 8 networks and keeps them. The shard size of 4 applies only to added networks"
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_zoo_is_opened_with_the_recipe_that_built_it(tmp_path: Path) -> None:
    zoo = alone(Regressors(steps=4), 5, tmp_path)
    assert isinstance(zoo.recipe, Regressors)
    assert Zoo.open(tmp_path).recipe.options() == zoo.recipe.options()
