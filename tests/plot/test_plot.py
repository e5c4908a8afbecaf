"""Pictures: what is drawn, at which level of detail, and that lines do not cross boxes."""

from collections import Counter
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from matplotlib._pylab_helpers import Gcf
from matplotlib.collections import EllipseCollection, PathCollection
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Curve
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.plot import level_of_detail
from graph_metanetworks.plot.columns import arrange
from graph_metanetworks.plot.curves import rank_parallel
from graph_metanetworks.plot.groups import draw_groups
from graph_metanetworks.plot.neurons import draw_neurons
from graph_metanetworks.plot.outline import outline
from graph_metanetworks.plot.palette import NEGATIVE, POSITIVE
from graph_metanetworks.plot.repeats import fold_repeats
from graph_metanetworks.plot.routes import BOX, TALL, Router
from support.traced import every_architecture, traced

SMALL = ["mlp-relu", "cnn-2d-batch-norm", "lstm", "multihead-self-attention", "deep-sets", "grid-triplane"]
LARGE = ["hf-bert-masked-lm", "hf-t5", "hf-resnet-bottleneck", "u-net-transposed", "transformer", "gin"]


def mlp(*widths: int) -> nn.Sequential:
    return nn.Sequential(*(nn.Linear(a, b) for a, b in pairwise(widths)))


# ------------------------------------------------------------------ files


@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("PDF", b"%PDF")])
def test_the_suffix_chooses_the_format(tmp_path, suffix, start):
    path = traced("mlp-relu").graph.plot(tmp_path / f"graph.{suffix}")
    assert path == tmp_path / f"graph.{suffix}"
    assert path.read_bytes().startswith(start)


@pytest.mark.parametrize("name", ["graph.gif", "graph"])
def test_another_suffix_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=r"\.svg, \.png, \.pdf"):
        traced("mlp-relu").graph.plot(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_an_unknown_detail_is_refused(tmp_path):
    with pytest.raises(ValueError, match="auto, neurons, groups, layers"):
        traced("mlp-relu").graph.plot(tmp_path / "graph.svg", detail="atoms")


def test_a_picture_made_twice_is_the_same_file(tmp_path):
    graph = traced("mlp-relu").graph
    first = graph.plot(tmp_path / "graph.svg").read_bytes()
    assert graph.plot(tmp_path / "graph.svg").read_bytes() == first


def test_no_figure_is_left_open(tmp_path):
    traced("mlp-relu").graph.plot(tmp_path / "graph.png")
    assert not Gcf.figs


def test_names_are_drawn_as_they_are(tmp_path):
    model = nn.Sequential(nn.ModuleDict({"a$b$<i>": nn.Linear(2, 2)})["a$b$<i>"])
    model.add_module("$x_$<b>", nn.Linear(2, 2))
    graph = gmn.trace(model, torch.randn(1, 2))
    for detail in ("neurons", "groups"):
        text = graph.plot(tmp_path / f"{detail}.svg", detail=detail).read_text()
        assert "$x_$&lt;b&gt;" in text


# ------------------------------------------------------------------ every neuron


@pytest.mark.parametrize("name", SMALL)
def test_every_neuron_and_every_edge_is_drawn_once(name):
    graph = traced(name).graph
    artists = draw_neurons(graph).axes.get_children()
    nodes = [a for a in artists if isinstance(a, EllipseCollection)]
    places = np.concatenate([np.asarray(collection.get_offsets()) for collection in nodes])
    assert len(places) == graph.num_nodes
    assert len(np.unique(places.round(6), axis=0)) == graph.num_nodes, "two neurons at one place"
    lines = [a.get_path() for a in artists if isinstance(a, PathPatch)]
    assert sum((path.codes == Curve.MOVETO).sum() for path in lines) == graph.num_edges


def test_edges_join_the_neurons_of_the_graph():
    graph = traced("mlp-relu").graph
    artists = draw_neurons(graph).axes.get_children()
    nodes = [np.asarray(a.get_offsets()) for a in artists if isinstance(a, EllipseCollection)]
    place = np.concatenate(nodes)
    (first, *_) = [a.get_path() for a in artists if isinstance(a, PathPatch)]
    ends = first.vertices.reshape(-1, 2, 2)
    source, target = graph.edge_index[:, graph.edge_slices[0]].numpy()
    np.testing.assert_allclose(ends[:, 0], place[source])
    np.testing.assert_allclose(ends[:, 1], place[target])


def test_weights_give_edges_their_colour_and_width():
    model = nn.Linear(3, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, -2.0, 0.5], [-0.1, 0.0, 4.0]]))
    graph = gmn.trace(model, torch.randn(1, 3))
    artists = draw_neurons(graph, model.state_dict()).axes.get_children()
    (edges,) = [a for a in artists if isinstance(a, PathCollection)]
    values = graph.edge_values(model.state_dict())
    red = [tuple(c[:3]) for c in edges.get_edgecolor()]
    expected = {True: POSITIVE, False: NEGATIVE}
    for colour, value in zip(red, values, strict=True):
        text = "#" + "".join(f"{round(255 * part):02x}" for part in colour)
        assert text == expected[bool(value >= 0)]
    assert np.array_equal(np.argsort(edges.get_linewidth()), np.argsort(values.abs().numpy()))


def test_parallel_edges_are_bent_apart():
    graph = traced("cnn-2d-plain").graph
    source, target = graph.edge_index.numpy()
    bend = rank_parallel(source, target)
    alike = Counter(zip(source, target, bend.round(9), strict=True))
    assert max(alike.values()) == 1
    assert (bend[np.isin(source, source[-4:])] == 0).any(), "a single edge is straight"


# ------------------------------------------------------------------ groups


def test_large_networks_are_drawn_in_groups():
    assert level_of_detail(traced("mlp-relu").graph) == "neurons"
    assert level_of_detail(traced("u-net-transposed").graph) == "groups"  # too many edges
    assert level_of_detail(traced("hf-bert-masked-lm").graph) == "layers"  # too many groups


@pytest.mark.parametrize("name", SMALL + LARGE)
def test_the_outline_shows_every_group_and_every_block(name):
    graph = traced(name).graph
    picture = outline(graph, fold=False)
    assert len(picture.boxes) + sum(len(box.parameters) for box in picture.boxes) == len(graph.groups)
    ends = graph.block_ends
    shown = {box.group for box in picture.boxes}
    expected = {
        (source, target, block.kind)
        for block in graph.blocks
        for source, target in ends.pairs(block)
        if source in shown
    }
    drawn = {(picture.boxes[a.source].group, picture.boxes[a.target].group, a.kind) for a in picture.arrows}
    assert drawn == expected


def test_equal_layers_are_folded():
    graph = traced("hf-bert-masked-lm").graph
    boxes = outline(graph, fold=True).boxes
    names = {box.group.name: box.copies for box in boxes}
    assert names["bert.encoder.layer.0.attention.self.query"] == 2
    assert not any(name.startswith("bert.encoder.layer.1") for name in names)
    assert names["cls.predictions.decoder"] == 1


def test_layers_with_other_sizes_or_kernels_are_not_folded():
    widths = gmn.trace(mlp(4, 4, 4, 5, 5, 2), torch.randn(1, 4))
    assert [group.name for group in widths.groups if fold_repeats(widths)[group] != group] == ["1", "1"]
    kernels = nn.Sequential(nn.Conv1d(2, 2, 1), nn.Conv1d(2, 2, 3), nn.Conv1d(2, 2, 3), nn.Conv1d(2, 3, 1))
    graph = gmn.trace(kernels, torch.randn(1, 2, 9))
    assert [group.name for group in graph.groups if fold_repeats(graph)[group] != group] == ["2", "2"]


@pytest.mark.parametrize("name", SMALL + LARGE)
@pytest.mark.parametrize("fold", [False, True], ids=["groups", "layers"])
def test_boxes_do_not_overlap_and_lines_do_not_cross_them(name, fold):
    picture = outline(traced(name).graph, fold=fold)
    router = Router(arrange(picture), picture.arrows)
    centres = np.array([router.box(number) for number in range(len(picture.boxes))])
    for one, two in combinations(centres, 2):
        assert abs(one[0] - two[0]) >= BOX or abs(one[1] - two[1]) >= TALL, "two boxes overlap"
    assert (np.abs(centres[:, 0] - router.width / 2) <= (router.width - BOX) / 2 + 1e-9).all()
    assert (-router.height <= centres[:, 1]).all() and (centres[:, 1] <= 0).all()
    for number, arrow in enumerate(picture.arrows):
        points = router.path(number).interpolated(20).vertices
        assert (points[:, 0] >= 0).all() and (points[:, 0] <= router.width).all(), "a line leaves the picture"
        for box, centre in enumerate(centres):
            inside = (np.abs(points - centre) < np.array([BOX, TALL]) / 2 - 1e-6).all(axis=1)
            assert not inside.any(), f"the line of {arrow} crosses box {box}"


def test_each_arrow_ends_at_its_boxes():
    picture = outline(traced("transformer").graph, fold=False)
    router = Router(arrange(picture), picture.arrows)
    for number, arrow in enumerate(picture.arrows):
        start, end = router.path(number).vertices[[0, -1]]
        for point, box in ((start, arrow.source), (end, arrow.target)):
            assert (np.abs(point - router.box(box)) <= np.array([BOX, TALL]) / 2 + 1e-6).all()


def test_an_arrow_may_return_to_its_own_box():
    picture = outline(traced("lstm").graph, fold=False)
    assert any(arrow.source == arrow.target for arrow in picture.arrows)
    draw_groups(traced("lstm").graph, fold=False)


def test_a_long_network_is_wrapped():
    graph = gmn.trace(mlp(*(2 + i % 2 for i in range(60))), torch.randn(1, 2))
    picture = outline(graph, fold=False)
    places = arrange(picture)
    assert len({(place.row, place.column, place.slot) for place in places}) == len(picture.boxes)
    assert max(place.column for place in places) < 6 < max(place.row for place in places)


def test_meta_networks_can_be_drawn(tmp_path):
    with torch.device("meta"):
        graph = gmn.trace(mlp(64, 64, 64), torch.randn(1, 64))
        assert graph.plot(tmp_path / "graph.svg").stat().st_size > 1000


@pytest.mark.slow
@every_architecture
def test_every_network_can_be_drawn(tmp_path, name):
    assert traced(name).graph.plot(tmp_path / "graph.svg").stat().st_size > 1000
