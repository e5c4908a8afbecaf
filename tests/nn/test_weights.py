"""Files of weights: precision, damage, what is missing."""

import pytest
import torch
from torch import nn

from graph_metanetworks.errors import WeightsError
from graph_metanetworks.nn.weights import load_weights, save_weights


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.exact = nn.Buffer(torch.rand(3, dtype=torch.float64))
        self.count = nn.Buffer(torch.tensor(3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_precision_is_that_of_the_file(dtype: torch.dtype, tmp_path) -> None:
    module, other = Mixed(), Mixed()
    module.layer.to(dtype)
    save_weights(module, tmp_path / "weights")
    load_weights(other, str(tmp_path / "weights"))
    assert other.layer.weight.dtype == dtype and other.exact.dtype == torch.float64
    for name, value in module.state_dict().items():
        assert torch.equal(other.state_dict()[name], value)


def test_shared_and_transposed_tensors(tmp_path) -> None:
    layer = nn.Linear(3, 3)
    layer.weight = nn.Parameter(torch.rand(3, 3).t())
    save_weights(nn.Sequential(layer, layer), tmp_path / "weights")
    other = nn.Linear(3, 3)
    load_weights(nn.Sequential(other, other), tmp_path / "weights")
    assert torch.equal(other.weight, layer.weight)


def test_missing_and_damaged(tmp_path) -> None:
    path = tmp_path / "weights"
    with pytest.raises(WeightsError, match=r"no file of weights at .*weights"):
        load_weights(Mixed(), path)
    save_weights(Mixed(), path)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(WeightsError, match="weights is damaged"):
        load_weights(Mixed(), path)
    path.write_text("not at all")
    with pytest.raises(WeightsError, match="weights is damaged"):
        load_weights(Mixed(), path)


def test_nothing_is_left_behind(tmp_path) -> None:
    save_weights(Mixed(), tmp_path / "weights")
    save_weights(Mixed(), tmp_path / "weights")
    assert [file.name for file in tmp_path.iterdir()] == ["weights"]
