"""Label tensors: stride 0 where nothing varies, and views of parameters without memory."""

from math import prod

import torch
from hypothesis import given
from hypothesis import strategies as st

from graph_metanetworks.trace.interpret.labels import (
    View,
    canonical,
    compact,
    lay_along,
    number_sets,
    pairs,
    pattern,
    reshaped,
    varies,
)

CHANNELS = torch.arange(4).view(1, 4, 1)


def test_an_expanded_label_varies_only_where_it_must() -> None:
    label = CHANNELS.expand(2, 4, 3)
    assert pattern(label) == {1}
    assert varies(label, 1)
    assert not varies(label, 0)
    assert compact(label, {1}).shape == (1, 4, 1)


def test_canonical_finds_constant_dimensions() -> None:
    dense = CHANNELS.expand(2, 4, 3).contiguous()
    assert pattern(dense) == {0, 1, 2}
    assert pattern(canonical(dense)) == {1}
    assert torch.equal(canonical(dense), dense)
    assert pattern(canonical(torch.full((2, 3), 7))) == set()


def test_canonical_keeps_labels_that_vary_together() -> None:
    label = torch.tensor([[0, 1], [1, 0]])
    assert pattern(canonical(label)) == {0, 1}


def factors(draw: st.DrawFn, total: int) -> list[int]:
    """Draw a shape with the given number of elements."""
    shape = []
    while total > 1:
        shape.append(draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0])))
        total //= shape[-1]
    return shape + [1] * draw(st.integers(0, 1))


@given(st.data())
def test_reshaped(data: st.DataObject) -> None:
    """As a reshape, in no more memory than is needed to tell what varies in each part of the shape."""
    total = data.draw(st.sampled_from([1, 8, 12, 24, 36]))
    old, new = (data.draw(st.composite(factors)(total)) for _ in range(2))
    small = [data.draw(st.sampled_from([1, n])) for n in old]
    label = torch.arange(prod(small)).view(small).expand(old)
    result = reshaped(label, new)
    assert torch.equal(result, label.reshape(new))
    assert result.untyped_storage().nbytes() <= 8 * total


def test_reshaped_does_not_write_out_what_is_constant() -> None:
    label = CHANNELS.view(1, 1, 4).expand(1000, 1000, 4)
    assert reshaped(label, (10**6, 2, 2)).untyped_storage().nbytes() == 4 * 8
    assert reshaped(label, (1000, 4000)).untyped_storage().nbytes() == 4000 * 8


def test_number_sets() -> None:
    heads = torch.tensor([[5, 1], [5, 2], [5, 1]]).view(3, 1, 2).expand(3, 7, 2)
    assert number_sets(heads, 2).tolist() == [[[0]], [[1]], [[0]]]
    assert number_sets(heads.mT, 1).tolist() == [[[0]], [[1]], [[0]]]


def test_lay_along() -> None:
    assert lay_along(torch.arange(3), 1, 3).shape == (1, 3, 1)


def test_pairs_are_distinct() -> None:
    first = torch.tensor([0, 0, 1]).view(3, 1).expand(3, 5)
    second = torch.tensor([7, 7, 8]).view(3, 1).expand(3, 5)
    assert pairs(first, second).tolist() == [[0, 1], [7, 8]]


def test_pairs_with_places_that_have_no_node() -> None:
    both = pairs(torch.tensor([-1, 3]), torch.tensor([5, -1]))
    assert sorted(zip(*both.tolist(), strict=True)) == [(-1, 5), (3, -1)]


def test_a_whole_view_needs_no_memory() -> None:
    view = View.whole("weight", (4096, 4096, 4096))
    assert view.label.device.type == "meta"
    turned = view.moved(lambda label: label.transpose(0, 2)[5])
    assert turned.label.device.type == "meta"
    assert turned.elements().strides == (4096, 4096**2)
    assert turned.elements().offset == 5


def test_views_show_the_right_elements() -> None:
    view = View.whole("weight", (2, 3))
    numbers = torch.arange(6).view(2, 3)
    for move in (
        lambda x: x.t(),
        lambda x: x[:, 1:],
        lambda x: x.reshape(3, 2),
        lambda x: x.t().reshape(2, 3),  # no view any more: gets values
        lambda x: x.flip(0),
        lambda x: x.repeat(2, 1),
        lambda x: x[:, torch.tensor([2, 0])],
    ):
        assert torch.equal(view.moved(move).dense(), move(numbers))
        assert torch.equal(view.moved(move).elements().index(), move(numbers))


def test_a_view_of_several_results() -> None:
    first, second = View.whole("weight", (4, 3)).moved_all(lambda x: x.split([1, 3]))
    assert first.dense().tolist() == [[0, 1, 2]]
    assert second.dense()[0].tolist() == [3, 4, 5]


def test_an_expanded_view_repeats_elements() -> None:
    view = View.whole("bias", (3,)).expand((2, 3))
    assert view.dense().tolist() == [[0, 1, 2]] * 2
    assert pattern(view.label) == {1}
