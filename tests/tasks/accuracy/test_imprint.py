"""What a network's outputs share: the same for permuted neurons, other for other data."""

import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.tasks.accuracy.imprint import Imprint, relations

CLASSES, KNOWN = 8, 90


def network(pattern: Tensor, seed: int, hidden: int = 12) -> tuple[gmn.ParameterGraph, dict[str, Tensor]]:
    """Outputs that are alike as the rows of a pattern, among noise."""
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, hidden), nn.ReLU(), nn.Linear(hidden, len(pattern)))
    weights = {name: torch.randn(x.shape, generator=generator) for name, x in model.state_dict().items()}
    spread = torch.randn(pattern.shape[1], hidden, generator=generator)
    weights["2.weight"] = pattern @ spread + 0.5 * weights["2.weight"]
    return gmn.trace(model, torch.zeros(1, 6)), weights


def patterns() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(CLASSES, 3, generator=generator), torch.randn(CLASSES, 3, generator=generator)


def batch_of(pattern: Tensor, seeds: range, hidden: int = 12) -> gmn.Batch:
    return gmn.collate([network(pattern, seed, hidden) for seed in seeds])


def fitted(pattern: Tensor) -> Imprint:
    imprint = Imprint()
    imprint.fit(relations(batch_of(pattern, range(KNOWN))), torch.linspace(0.5, 1, KNOWN))
    return imprint


def test_other_data_is_noticed_whatever_the_architecture() -> None:
    same, other = patterns()
    imprint, accuracies = fitted(same), torch.full((20,), 0.8)
    for hidden in (12, 20):
        usual = imprint(relations(batch_of(same, range(500, 520), hidden)), accuracies)
        strange = imprint(relations(batch_of(other, range(500, 520), hidden)), accuracies)
        highest = imprint.known_scores().max()
        assert (usual > highest).sum() <= 3
        assert (strange > highest).sum() >= 17


def test_the_order_of_classes_counts_and_that_of_neurons_does_not() -> None:
    graph, weights = network(patterns()[0], seed=1)
    permuted = graph.symmetry.sample(torch.Generator().manual_seed(1)).apply(weights)
    renamed = weights | {"2.weight": weights["2.weight"].flip(0)}
    (own, _), (same, _), (other, _) = relations(
        gmn.collate([(graph, weights), (graph, permuted), (graph, renamed)])
    )
    assert torch.allclose(own, same, atol=1e-12)
    assert not torch.allclose(own, other, atol=1e-2)
    normed = nn.functional.normalize(weights["2.weight"].double(), dim=1)
    assert torch.allclose(own[:3], (normed[0] * normed[1:4]).sum(1), atol=1e-6)


def test_another_number_of_outputs_is_strange() -> None:
    imprint = fitted(patterns()[0])
    mixed = gmn.collate([network(patterns()[0], 700), network(patterns()[0][:5], 701)])
    usual, strange = imprint(relations(mixed), torch.tensor([0.8, 0.8])).tolist()
    assert usual < strange == torch.inf


def test_networks_without_classes_are_not_judged() -> None:
    model = nn.Linear(3, 1)
    batch = gmn.collate([(gmn.trace(model, torch.zeros(1, 3)), model.state_dict())])
    imprint = Imprint()
    imprint.fit(relations(batch), torch.tensor([0.5]))
    assert [len(own) for own, _ in relations(batch)] == [0]
    assert imprint(relations(batch), torch.tensor([0.5])).tolist() == [-torch.inf]
