"""Encoders: statistics of a zoo, scales, and the words they know."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.trace.interpret.rules.pointwise import ACTIVATIONS
from support.traced import every_architecture, traced


def zoo(scale=1.0, size=12):
    models = [nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double() for _ in range(size)]
    graph = gmn.trace(models[0], torch.zeros(1, 3).double())
    states = [{name: scale * value for name, value in model.state_dict().items()} for model in models]
    return graph, states


def test_fitted_statistics_by_hand():
    graph, states = zoo()
    net = gmn.GraphMetanetwork(16, 2).double()
    halves = [gmn.collate([(graph, state) for state in part]) for part in (states[:5], states[5:])]
    net.edge_encoder.fit(halves)
    encoder, kinds = net.edge_encoder, len(net.edge_encoder.vocabulary.edge_kinds)
    assert set(encoder.fitted_names) == {
        f"{n}.{part} (linear {part})" for n in (0, 2) for part in ("weight", "bias")
    }
    for row, name in enumerate(encoder.fitted_names, kinds):
        values = torch.stack([state[name.split()[0]] for state in states])
        torch.testing.assert_close(encoder.mean[row, 0], values.mean())
        torch.testing.assert_close(encoder.deviation[row, 0], values.std(correction=0))
    row = encoder.vocabulary.edge_kinds.index("linear weight")
    values = torch.cat([state[name].flatten() for state in states for name in ("0.weight", "2.weight")])
    torch.testing.assert_close(encoder.mean[row, 0], values.mean())
    torch.testing.assert_close(encoder.deviation[row, 0], values.std(correction=0))


@pytest.mark.parametrize("engine", ["blocks", "stream", "edge_list"])
@torch.no_grad()
def test_after_fitting_the_scale_of_a_zoo_does_not_matter(engine):
    graph, states = zoo()
    scales = {"0.weight": 1e3, "0.bias": 1e-4, "2.weight": 7.0, "2.bias": 1e-2}
    scaled = [{name: scales[name] * value for name, value in state.items()} for state in states]
    net = gmn.GraphMetanetwork(16, 2, engine=engine).double()
    results = []
    for members in (states, scaled):
        batch = gmn.collate([(graph, state) for state in members])
        net.edge_encoder.fit([batch])
        results.append(net(batch))
    torch.testing.assert_close(results[0], results[1], rtol=1e-8, atol=1e-9)


def test_weights_of_very_different_scales_train():
    """The target depends on a tensor ten thousand times smaller than another."""
    graph, states = zoo(size=32)
    scaled = [
        state | {"0.weight": 1e2 * state["0.weight"], "2.weight": 1e-2 * state["2.weight"]}
        for state in states
    ]
    batch = gmn.collate([(graph, state) for state in scaled]).to(torch.float32)
    target = torch.stack([state["2.weight"].sum() for state in states])[:, None].float()
    net = gmn.GraphMetanetwork(16, 2)
    net.edge_encoder.fit([batch])
    optimiser = torch.optim.Adam(net.parameters(), 1e-2)
    losses = []
    for _ in range(100):
        loss = (net(batch) - target).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]


# ------------------------------------------------------------------ vocabulary


@every_architecture
def test_the_vocabulary_covers_the_menagerie(name):
    for field in ("node_kinds", "edge_kinds", "activations"):
        gmn.nn.Vocabulary().rows(field, getattr(traced(name).graph, field), name)


def documented(title: str) -> set[str]:
    """The first column of the tables below a heading of the docs."""
    text = (Path(__file__).parents[2] / "docs" / "parameter-graph.md").read_text()
    section = re.search(rf"^## {title}\n(.*?)^## ", text, re.DOTALL | re.MULTILINE)
    assert section
    rows = re.findall(r"^\| (`[^|]*) \|", section[1], re.MULTILINE)
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row) if not word.endswith("...")}


def test_the_vocabulary_covers_the_docs():
    assert len(documented("Kinds of nodes")) > 30 and len(documented("Kinds of edges")) > 30
    assert documented("Kinds of nodes") <= set(gmn.nn.Vocabulary().node_kinds)
    assert documented("Kinds of edges") <= set(gmn.nn.Vocabulary().edge_kinds)


def test_the_vocabulary_covers_activation_functions():
    assert set(ACTIVATIONS.values()) <= set(gmn.nn.Vocabulary().activations)


def test_no_word_twice():
    words = gmn.nn.Vocabulary()
    for field in (words.node_kinds, words.edge_kinds, words.activations):
        assert len(set(field)) == len(field)


def test_further_words():
    graph, states = zoo()
    empty = gmn.nn.Vocabulary((), (), ())
    small = empty.extended([graph])
    assert set(small.edge_kinds) == {"linear weight", "linear bias"}
    batch = gmn.collate([(graph, states[0])]).to(torch.float32)
    gmn.GraphMetanetwork(8, 1, vocabulary=small)(batch)
    with pytest.raises(gmn.nn.UnknownKind):
        gmn.GraphMetanetwork(8, 1, vocabulary=empty)(batch)
    with pytest.raises(gmn.nn.UnknownKind):
        gmn.nn.EdgeEncoder(8, empty).fit([batch])


@torch.no_grad()
def test_parts_of_one_parameter_have_scales_of_their_own():
    model = nn.MultiheadAttention(4, 2, batch_first=True)
    with torch.no_grad():
        model.in_proj_weight[:4] *= 100  # queries
    inputs = torch.zeros(1, 3, 4)
    graph = gmn.trace(model, inputs, inputs, inputs)
    net = gmn.GraphMetanetwork(8, 1)
    net.fit([gmn.collate([(graph, model.state_dict())])])
    encoder = net.edge_encoder
    rows = {name: len(encoder.vocabulary.edge_kinds) + row for row, name in enumerate(encoder.fitted_names)}
    query, key = (float(encoder.deviation[rows[f"in_proj_weight ({k} weight)"]]) for k in ("query", "key"))
    assert query > 30 * key
    assert query == pytest.approx(float(model.in_proj_weight[:4].std(correction=0)), rel=1e-5)
