"""Plans, pruned networks and the proofs that every pruning runs."""

import copy

import pytest
import torch
from torch import Tensor, nn

import graph_metanetworks as gmn
from graph_metanetworks.prune.resize import RULES
from support.traced import BY_NAME, traced

SOME = (
    "cnn-2d-batch-norm",
    "cnn-2d-group-norm",
    "cnn-depthwise-separable",
    "densenet",
    "attention-packed-qkv",
    "attention-grouped-query",
    "lstm",
    "slice-assignment",
    "resnet-option-a",
    "hf-gpt2",
)


def mlp() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    layers = nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 2)
    return nn.Sequential(*layers), torch.randn(5, 3)


def outputs(result) -> Tensor:
    return result if isinstance(result, Tensor) else next(iter(result.values()))


def prune_by_30_percent(name: str) -> nn.Module | None:
    case = traced(name)
    plan = gmn.prune_plan(case.graph, case.model, 0.3)
    if not plan.pruned:
        return None
    small = gmn.prune(case.model, plan, *case.args, **case.kwargs)
    proof = small.pruning.proof
    assert proof.commutes <= 1e-9
    assert proof.removal is None or proof.removal <= 1e-9
    assert proof.removal is not None or proof.coupled
    left = sum(p.numel() for p in small.state_dict().values())
    assert left < sum(p.numel() for p in case.model.state_dict().values()) + 200  # constants of a program
    return small


@pytest.mark.parametrize("name", SOME)
def test_some_architectures(name: str) -> None:
    assert prune_by_30_percent(name) is not None


# refused with every factor, pruned without the dimensions within heads
REFUSED = {"hf-mixtral", "hf-gpt-oss"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in BY_NAME if name not in SOME])
def test_every_architecture(name: str) -> None:
    if name in REFUSED:
        with pytest.raises(gmn.PruneError, match=r"cannot (be pruned|take what is left)"):
            prune_by_30_percent(name)
    else:
        prune_by_30_percent(name)


def test_a_hidden_layer_is_cut_on_both_sides() -> None:
    model, x = mlp()
    before = copy.deepcopy(model.state_dict())
    plan = gmn.prune_plan(gmn.trace(model, x), model, 0.5)
    small = gmn.prune(model, plan, x)
    kept = plan["0"].kept
    scores = torch.cat([before["0.weight"], before["0.bias"][:, None], before["2.weight"].T], 1).norm(dim=1)
    assert set(kept.nonzero().flatten().tolist()) == set(scores.topk(4).indices.tolist())
    assert torch.equal(small[0].weight, before["0.weight"][kept])
    assert torch.equal(small[2].weight, before["2.weight"][plan["2"].kept][:, kept])
    assert (small[2].in_features, small[2].out_features) == (4, 3)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    again = gmn.trace(small, x)
    assert sorted(f.size for f in again.symmetry.factors) == [3, 4]


def test_in_place() -> None:
    model, x = mlp()
    small = gmn.prune(model, gmn.prune_plan(gmn.trace(model, x), model, 0.5), x, inplace=True)
    assert small is model and model[0].out_features == 4 and model(x).shape == (5, 2)


def test_a_program_trains() -> None:
    model, x = mlp()
    program = gmn.prune(model, gmn.prune_plan(gmn.trace(model, x), model, 0.5), x, form="program")
    module = gmn.prune(model, gmn.prune_plan(gmn.trace(model, x), model, 0.5), x)
    assert program.pruning.form == "program"
    assert torch.allclose(program(x), module(x))
    program(x).sum().backward()
    assert all(parameter.grad is not None for parameter in program.parameters())


@pytest.mark.parametrize("name", ["attention-packed-qkv", "attention-grouped-query", "transformer-encoder"])
def test_a_program_takes_other_batches(name: str, tmp_path) -> None:
    case = traced(name)
    (x,) = case.args
    small = gmn.prune(case.model, gmn.prune_plan(case.graph, case.model, 0.3), x, form="program")
    assert small.pruning.fixed_batch == ""
    gmn.save_pruned(small, tmp_path)
    for program in (small, gmn.load_pruned(tmp_path)):
        assert torch.allclose(program(x[:1]), program(x)[:1], atol=1e-5)
        assert torch.allclose(program(torch.cat([x, x, x]))[-1], program(x)[-1], atol=1e-5)


def test_a_program_says_why_its_batch_is_fixed() -> None:
    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x).relu()) * (1.5 / len(x))

    model, x = Mixer(), torch.randn(4, 3)
    plan = gmn.prune_plan(gmn.trace(model, x), model)
    small = gmn.prune(model, plan, x, form="program")
    assert "0.375 becomes 0.3" in small.pruning.fixed_batch
    assert small(x).shape == (4, 2)


class HeadsInAttributes(nn.Module):
    """Heads and their dimensions, of which either could explain a smaller product of the two."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.out = nn.Linear(5, 3 * 32), nn.Linear(32, 2)
        self.num_heads, self.head_dim = 4, 8

    def forward(self, x: Tensor) -> Tensor:  # [B, N, 5] -> [B, N, 2]
        shape = *x.shape[:2], 3, self.num_heads, self.head_dim
        query, key, value = self.project(x).reshape(shape).permute(2, 0, 3, 1, 4)
        found = (query @ key.mT).softmax(-1) @ value
        return self.out(found.transpose(1, 2).reshape(*x.shape[:2], self.num_heads * self.head_dim))


def test_attributes_are_told_apart() -> None:
    model, x = HeadsInAttributes(), torch.randn(2, 6, 5)
    plan = gmn.prune_plan(gmn.trace(model, x), model, {"*heads": 0.25}, exclude="*within heads*")
    small = gmn.prune(model, plan, x, form="module")
    assert (small.num_heads, small.head_dim) == (3, 8)


@pytest.mark.parametrize("form", ["program", "module"])
def test_results_can_be_saved_by_torch(form: str, tmp_path) -> None:
    model, x = HeadsInAttributes(), torch.randn(2, 6, 5)
    plan = gmn.prune_plan(gmn.trace(model, x), model, exclude="*within heads*")
    small = gmn.prune(model, plan, x, form=form)
    torch.save(small, tmp_path / "small.pt")
    assert torch.equal(torch.load(tmp_path / "small.pt", weights_only=False)(x), small(x))


def test_a_program_has_weights_of_its_own() -> None:
    model, x = mlp()
    graph = gmn.trace(model, x)
    for form in ("program", "module"):
        small = gmn.prune(model, gmn.prune_plan(graph, model, {"0": 0.5}), x, form=form)
        with torch.no_grad():
            small.get_parameter("4.weight").zero_()
        assert bool(model[4].weight.any())


def test_a_layer_norm_couples() -> None:
    model = nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 2))
    graph = gmn.trace(model, torch.randn(2, 3))
    assert gmn.prune_plan(graph, model).coupled == ("0",)
    plan = gmn.prune_plan(graph, model, coupled=False)
    assert (plan["0"].size, plan["0"].reason, plan["2"].size) == (8, "coupled by a norm", 3)


def test_options() -> None:
    model, x = mlp()
    graph = gmn.trace(model, x)

    def sizes(**options) -> tuple[int, int]:
        plan = gmn.prune_plan(graph, model, **options)
        return plan["0"].size, plan["2"].size

    assert sizes(amount=0.5, minimum=4) == (4, 4)
    assert sizes(amount=0.5, multiple_of=4) == (4, 4)
    assert sizes(amount=0.5, exclude=["2"]) == (4, 6)
    assert sizes(amount={"0": 0.25}) == (6, 6)
    assert sum(sizes(amount=0.5, scope="global")) == 7
    plan = gmn.prune_plan(graph, model, 0.5, target="parameters")
    assert plan.parameters[1] <= plan.parameters[0] / 2
    plan = gmn.prune_plan(graph, model, 0.5, minimum={"0": 9})
    assert (plan["0"].reason, plan["2"].size) == ("the minimum is 9", 3)
    own = gmn.prune_plan(graph, model, 0.5, {"0": torch.arange(8)})
    assert own["0"].kept.tolist() == [False] * 4 + [True] * 4


def test_gradients_rank_units() -> None:
    model, x = mlp()
    with torch.no_grad():
        model[2].weight[:, 3] = 0  # the loss does not depend on this unit
    graph = gmn.trace(model, x)
    plan = gmn.prune_plan(graph, model, 1 / 8, "taylor", loss=lambda m: m(x).square().mean())
    assert plan["0"].removed.tolist() == [[3]]
    with pytest.raises(gmn.PruneError, match="loss"):
        gmn.prune_plan(graph, model, 0.5, "taylor")


def test_meta() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(64, 4096), nn.ReLU(), nn.Linear(4096, 10))
    plan = gmn.prune_plan(gmn.trace(model, torch.randn(1, 64)), model, 0.5)
    assert plan.parameters == (64 * 4096 + 4096 + 40970, 64 * 2048 + 2048 + 20490)
    with pytest.raises(gmn.PruneError, match="no values"):
        gmn.prune(model, plan, torch.randn(1, 64))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"amount": 1.0}, "leave nothing"),
        ({"exclude": ["nothing"]}, "no factor is called 'nothing'"),
        ({"importance": "size"}, "none of magnitude"),
        ({"importance": {"9": torch.ones(8)}}, "no factor '9'"),
        ({"importance": {"0": torch.ones(7)}}, "has 8 units"),
        ({"importance": "batch-norm"}, "no batch norm"),
        ({"importance": {"0": torch.full((8,), torch.nan)}}, "NaN"),
        ({"importance": "taylor", "loss": lambda model: torch.zeros(2)}, "one number"),
        ({"amount": "half"}, "between 0 and 1"),
        ({"minimum": 0}, "at least 1"),
        ({"minimum": 9}, "has 8, and the minimum is 9"),
        ({"multiple_of": 8}, "has 8, and sizes are multiples of 8"),
        ({"amount": 0.99, "target": "parameters", "minimum": 4}, "cannot be reduced"),
    ],
)
def test_bad_options(options: dict, message: str) -> None:
    model, x = mlp()
    with pytest.raises(gmn.PruneError, match=message):
        gmn.prune_plan(gmn.trace(model, x), model, **options)


def test_networks_that_prove_nothing() -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 8), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x).relu()) + torch.rand(1)

    x = torch.randn(2, 3)
    model = Noisy()
    with pytest.raises(gmn.PruneError, match="different outputs"):
        gmn.prune(model, gmn.prune_plan(gmn.trace(model, x), model), x)
    norm = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    plan = gmn.prune_plan(gmn.trace(norm, x), norm)
    with pytest.raises(gmn.PruneError, match="eval"):
        gmn.prune(norm.train(), plan, x)
    model, x = mlp()
    with pytest.raises(gmn.PruneError, match="traced"):
        gmn.prune(nn.Linear(3, 2), gmn.prune_plan(gmn.trace(model, x), model), x)


def test_a_wrong_size_is_never_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that forgets a size, and one that reads the wrong part, end in an error."""
    case = traced("attention-packed-qkv")
    plan = gmn.prune_plan(case.graph, case.model, 0.3)
    with monkeypatch.context() as patch:
        patch.delitem(RULES, "aten::view")
        with pytest.raises(gmn.PruneError, match=r"aten\.view"):
            gmn.prune(case.model, plan, *case.args)
    case = traced("slices-of-channels")
    plan = gmn.prune_plan(case.graph, case.model, 0.3)
    right = RULES["aten::slice"]

    def shifted(op):
        func, changed = right(op)
        moved = 1 if changed.get("start", 0) > 0 else 0
        return func, {name: value - moved for name, value in changed.items()}

    monkeypatch.setitem(RULES, "aten::slice", shifted)
    with pytest.raises(gmn.PruneError, match="zero changes"):
        gmn.prune(case.model, plan, *case.args)


@pytest.mark.parametrize("name", ["cnn-2d-batch-norm", "attention-packed-qkv", "lstm"])
def test_saving(name: str, tmp_path) -> None:
    case = traced(name)
    small = gmn.prune(case.model, gmn.prune_plan(case.graph, case.model, 0.3), *case.args, **case.kwargs)
    gmn.save_pruned(small, tmp_path)
    program = gmn.load_pruned(tmp_path)
    expected = outputs(small(*case.args, **case.kwargs))
    assert torch.allclose(program(*case.args), expected, atol=1e-5)
    assert torch.allclose(program(case.args[0][:1]), expected[:1], atol=1e-5)
    if small.pruning.form == "module":
        module = gmn.load_pruned(tmp_path, build=lambda: copy.deepcopy(case.model))
        assert type(module) is type(case.model)
        assert torch.equal(outputs(module(*case.args, **case.kwargs)), expected)
    else:
        with pytest.raises(gmn.PruneError, match="holds a program"):
            gmn.load_pruned(tmp_path, build=lambda: copy.deepcopy(case.model))
    with pytest.raises(gmn.PruneError, match="no pruned network"):
        gmn.load_pruned(tmp_path / "elsewhere")


def llama():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 20, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(**sizes, num_hidden_layers=1, head_dim=4, vocab_size=11)
    return transformers.LlamaForCausalLM(config)


def gpt2():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_embd=16, n_layer=1, n_head=4, vocab_size=11, n_positions=8)
    return transformers.GPT2LMHeadModel(config)


@pytest.mark.parametrize(
    ("build", "amount", "expected"),
    [
        (llama, {"*gate_proj*": 0.5}, {"intermediate_size": 10}),
        (
            llama,
            {"*q_proj heads": 0.5},
            {"num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 16},
        ),
        (gpt2, {"*c_fc": 0.5}, {"n_inner": 32, "n_embd": 16}),
    ],
)
def test_a_configuration_of_transformers(build, amount, expected, tmp_path) -> None:
    model = build().eval()
    example = {"input_ids": torch.arange(6)[None], "use_cache": False}
    plan = gmn.prune_plan(gmn.trace(model, **example), model, amount)
    small = gmn.prune(model, plan, **example)
    gmn.save_pruned(small, tmp_path)
    again = type(model).from_pretrained(tmp_path)
    assert {name: getattr(again.config, name) for name in expected} == expected
    assert torch.allclose(again(**example).logits, small(**example).logits, atol=1e-6)


def test_sizes_that_are_equal_by_chance_are_told_apart() -> None:
    """BERT with as many heads as dimensions in each: both fit every operation."""
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=16, num_attention_heads=4, intermediate_size=8, num_hidden_layers=1, vocab_size=11
    )
    model, ids = transformers.BertModel(config).eval(), torch.arange(6)[None]
    plan = gmn.prune_plan(gmn.trace(model, ids), model, {"*heads": 0.5}, exclude="*within*")
    small = gmn.prune(model, plan, ids, form="module")
    assert small.encoder.layer[0].attention.self.attention_head_size == 4
