"""The task: data, rendering, training, and the runner."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.errors import TaskError, UnsupportedNetwork
from graph_metanetworks.methods import METHODS
from graph_metanetworks.nn.editor import Editor
from graph_metanetworks.tasks.editing import (
    Canvas,
    Editing,
    EditRunner,
    ImageZoo,
    Options,
    dilate,
    render_batch,
)
from graph_metanetworks.tasks.registry import make_task
from graph_metanetworks.zoo import build
from graph_metanetworks.zoo.inr import render
from graph_metanetworks.zoo.recipes.inrs import ImageInrs, SineInrs
from support.zoo_recipes import Regressors


def test_a_batch_is_rendered_as_its_networks_are_one_by_one(data: ImageZoo) -> None:
    """Also if a batch has several architectures; and gradients reach the weights."""
    zoo = data.networks.zoo
    other = zoo.recipe.build(zoo[0].config)
    stacks = [(data.networks.graph(0), zoo[number].state_dict) for number in (0, 1)]
    stacks.insert(1, (gmn.trace(other, torch.zeros(1, 2)), other.state_dict()))
    batch = gmn.collate(stacks)
    edges = torch.cat([graph.edge_values(weights) for graph, weights in stacks]).requires_grad_()
    found = render_batch(batch.stacked(edges), data.canvas.coordinates)
    expected = [zoo[0].render(), render(other.state_dict(), data.canvas.conventions), zoo[1].render()]
    assert torch.allclose(found, torch.stack(expected).flatten(2), atol=1e-5)
    (grad,) = torch.autograd.grad(found[1].sum(), edges)
    assert [bool(own.any()) for own in batch.split_edges(grad)] == [False, True, False]


class Fourier(nn.Module):
    """Another kind of INR: fixed features of coordinates, then a ReLU network."""

    def __init__(self) -> None:
        super().__init__()
        self.frequencies = nn.Buffer(torch.randn(2, 6))
        self.layers = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, coordinates: Tensor) -> Tensor:
        angles = coordinates @ self.frequencies
        return self.layers(torch.cat([angles.sin(), angles.cos()], dim=-1))


def test_other_kinds_of_inrs_are_rendered_too(data: ImageZoo) -> None:
    first = Fourier()
    graph = gmn.trace(first, torch.zeros(1, 2))
    second = {name: value + 0.1 for name, value in first.state_dict().items()}
    points = data.canvas.coordinates.float()
    found = render_batch(gmn.collate([(graph, first.state_dict()), (graph, second)]), points)
    expected = [first(points).T]
    first.load_state_dict(second)
    assert torch.allclose(found, torch.stack([*expected, first(points).T]), atol=1e-5)


def test_targets_are_edits_of_what_networks_render(data: ImageZoo) -> None:
    rendered = data.networks.zoo[3].render()
    unit = data.canvas.conventions.to_unit(rendered)
    batch, (values, coordinates) = data[[3, 5]]
    assert len(batch) == 2 and values.shape == (2, 1, 64) and coordinates.shape == (64, 2)
    assert torch.allclose(values[0].view(1, 8, 8), 2 * dilate(unit[None])[0] - 1, atol=1e-5)
    images = ImageZoo(data.networks, "dilate", images=True)
    difference = (images[[3]][1].values - values[:1]).square().mean()
    assert 0 < difference < 0.01  # the fit is not perfect


def test_errors_of_methods_that_learn_nothing(data: ImageZoo) -> None:
    positions = torch.arange(10).numpy()
    found = data.references(positions, positions)
    targets = data[positions][1].values
    assert found["constant"] == pytest.approx(float(targets.var(correction=0)), rel=1e-4)
    assert found["mean_image"] == pytest.approx(float(targets.var(0, correction=0).mean()), rel=1e-4)
    assert found["identity"] > 0


@pytest.mark.parametrize("canonical", [None, "signs"])
def test_without_a_step_size_the_function_is_kept(canonical, data: ImageZoo) -> None:
    editor = Editor(gmn.GraphMetanetwork(8, 1, level="edge", blocks="matrix-product"), canonical=canonical)
    batch, (_, coordinates) = data[[0, 1, 2]]
    editor.fit([batch])
    before = render_batch(batch, coordinates)
    assert not torch.allclose(render_batch(editor(batch), coordinates), before, atol=1e-3)
    nn.init.zeros_(editor.gamma)
    assert torch.allclose(render_batch(editor(batch), coordinates), before, atol=1e-4)


def test_an_editor_is_equivariant_to_permutations_and_its_images_to_signs(data: ImageZoo) -> None:
    graph, weights = data.networks.graph(0), data.networks.zoo[0].state_dict
    model = gmn.GraphMetanetwork(8, 2, level="edge", blocks="matrix-product")
    editor = Editor(model, canonical="signs").double()
    editor.fit([data[[0, 1, 2]][0].to(torch.float64)])
    generator = torch.Generator().manual_seed(0)
    weights = {name: value.double() for name, value in weights.items()}
    copies = [weights, graph.symmetry.sample(generator).apply(weights)]
    copies.append(graph.scaling.sample(generator).apply(weights))
    batch = gmn.collate([(graph, own) for own in copies])
    first, *others = render_batch(editor(batch), data.canvas.coordinates)
    assert all(torch.allclose(first, other, atol=1e-6) for other in others)


def test_an_editor_learns_and_edits(edit_run: Path, data: ImageZoo) -> None:
    runner = gmn.load(edit_run)
    assert isinstance(runner, EditRunner)
    scores = runner.run.scores["test"]
    assert scores["loss"] < scores["identity"] and scores.keys() == {s.name for s in Editing.scores}
    zoo = data.networks.zoo
    edited = runner(zoo.folder, quiet=True)
    assert len(edited) == len(zoo) and "Edited networks" in repr(edited)
    network = zoo[0].build()
    network.load_state_dict(edited[0])
    pictures = runner.pictures(data[[0]][0])
    rendered = data.canvas.conventions.to_unit(render(edited[0], data.canvas.conventions))
    assert torch.allclose(pictures.edited[0], rendered, atol=1e-4)
    assert torch.allclose(pictures.target[0], dilate(pictures.original)[0], atol=1e-5)
    alone = runner([(data.networks.graph(0), zoo[0].state_dict)])
    assert all(torch.allclose(alone[0][name], edited[0][name], atol=1e-6) for name in alone[0])
    assert runner.embed(data[[0, 1]][0]).shape[0] == 2


def test_networks_that_cannot_be_edited(edit_run: Path, data: ImageZoo, tmp_path: Path) -> None:
    runner = gmn.load(edit_run)
    recipe = ImageInrs(data="digits", protocol="editing", hidden=16, layers=3)
    deep = recipe.build(recipe.draw(torch.Generator()))
    with pytest.raises(UnsupportedNetwork, match=r"that no training network had: seq\.3"):
        runner(deep, torch.zeros(1, 2))
    other = ImageInrs(data="digits", protocol="classifying", steps=2)
    build(other, 2, tmp_path / "other", workers=1, quiet=True)
    with pytest.raises(TaskError, match=r"other conventions.*output_offset 0\.5, not 0\.0"):
        runner(tmp_path / "other")
    with pytest.raises(TaskError, match="represent signals, and edits are of images"):
        Canvas.of(SineInrs(), "sine-inrs")
    with pytest.raises(TaskError, match="represent no signal that could be rendered"):
        Canvas.of(Regressors(), "regressors")
    with pytest.raises(TaskError, match="does not map 3 coordinates"):
        render_batch(data[[0]][0], torch.zeros(5, 3))


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if "edge" in method.levels])
def test_every_method_with_results_on_edges_is_an_editor(name: str, data: ImageZoo) -> None:
    task = Editing(Options(method=name))
    batch, targets = data[[0, 1, 2, 3]]
    editor = task.make_model(replace(task.output(data), input_shape=data.networks.input_shape))
    editor.fit([batch])
    loss = task.loss(editor(batch), targets)
    loss.backward()
    assert editor.gamma.grad is not None and editor.gamma.grad.all()
    nn.init.zeros_(editor.gamma)
    identity = (data.renders[:4] - targets.values).square().mean()
    assert task.loss(editor(batch), targets).item() == pytest.approx(identity.item(), rel=1e-3)


def test_options_that_do_not_exist() -> None:
    with pytest.raises(TaskError, match="no --edit 'blur': choose from dilate, contrast"):
        make_task("editing", {"edit": "blur"})
    with pytest.raises(TaskError, match="no --canonical"):
        Options(canonical="phases")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TaskError, match="no --targets"):
        Options(targets="files")  # pyright: ignore[reportArgumentType]
