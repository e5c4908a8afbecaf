"""The summary: what it lists, how it is cut, and its HTML."""

from html.parser import HTMLParser

import pytest
import torch
from torch import nn

import graph_metanetworks as gmn
from graph_metanetworks.graph.summary import summary, summary_html
from graph_metanetworks.table import WIDTH, Table
from support.traced import traced

NAMES = ["mlp-relu", "cnn-2d-batch-norm", "attention-packed-qkv", "lstm", "hf-bert-masked-lm", "hf-t5"]


def section(text: str, title: str) -> list[list[str]]:
    """The rows of one table, split at runs of spaces."""
    (part,) = [part for part in text.split("\n\n") if part.startswith(title)]
    return [line.split() for line in part.splitlines()[2:]]


@pytest.mark.parametrize("name", NAMES)
def test_it_fits_the_page(name):
    text = traced(name).graph.summary()
    assert max(map(len, text.splitlines())) <= WIDTH
    assert all(line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_counts_add_up(name):
    graph = traced(name).graph
    text = summary(graph, max_rows=10_000)
    assert (
        f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {graph.num_parameters:,} parameters" in text
    )
    assert len(section(text, "Node groups")) == len(graph.groups)
    assert len(section(text, "Edge blocks")) == len(graph.blocks)
    for title, total in (("Node kinds", graph.num_nodes), ("Edge kinds", graph.num_edges)):
        assert sum(int(row[-1].replace(",", "")) for row in section(text, title)) == total


def test_groups_and_blocks_are_described():
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    text = gmn.trace(model, torch.randn(1, 3)).summary()
    groups, blocks = section(text, "Node groups"), section(text, "Edge blocks")
    assert ["0", "neuron", "5", "1", "relu"] in groups
    assert ["2", "output", "2", "2"] in groups
    assert ["2.weight", "linear", "weight", "2×5", "0", "2", "owner"] in blocks
    assert ["2.bias", "linear", "bias", "2", "own", "node", "2", "owner"] in blocks


def test_symmetry_names_the_free_axes():
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    text = gmn.trace(model, torch.randn(1, 3)).summary()
    assert "120 permutations of neurons (log order 4.787), 1 free axis" in text
    assert section(text, "Free axes") == [["5", "1", "4.8", "0"]]


def test_heads_are_copies():
    rows = section(traced("attention-packed-qkv").graph.summary(), "Free axes")
    assert ["4", "3", "9.5"] in [row[:3] for row in rows]  # four dimensions in each of three heads


def test_the_free_axes_add_up_to_the_log_order():
    graph = traced("hf-bert-masked-lm").graph
    rows = section(graph.summary(), "Free axes")
    found = sum(float(next(cell for cell in row[1:] if "." in cell)) for row in rows)
    assert found == pytest.approx(graph.symmetry.log_order, abs=0.05 * len(rows))


def test_no_symmetry():
    text = gmn.trace(nn.Linear(3, 2), torch.randn(1, 3)).summary()
    assert "symmetry: none" in text and "Free axes" not in text


def test_long_tables_keep_their_first_and_last_rows():
    graph = traced("hf-t5").graph
    full, cut = summary(graph, max_rows=10_000), summary(graph, max_rows=11)
    rows, shown = section(full, "Edge blocks"), section(cut, "Edge blocks")
    assert len(shown) == 11
    assert shown[5] == ["…", str(len(rows) - 10), "more", "rows", "…"]
    assert [row[-1] for row in shown[:5] + shown[6:]] == [row[-1] for row in rows[:5] + rows[-5:]]


@pytest.mark.parametrize("max_rows", range(1, 6))
def test_no_row_is_lost_uncounted(max_rows):
    table = Table("Numbers", ("n",), [(str(n),) for n in range(5)])
    first, between, last = table.abbreviated(max_rows)
    hidden = int(between.split()[1]) if between else 0
    assert len(first) + hidden + len(last) == 5
    assert first[0] == ("0",) and (last or first)[-1] == ("4",)


def test_tied_aliases_and_ignored_entries_are_told():
    tied = traced("language-model-tied-embedding").graph
    (parameter,) = [p for p in tied.parameters if p.tied]
    assert f"Tied: {parameter.name} = {parameter.tied[0]}." in tied.summary()
    assert any(row[-1] == "alias" for row in section(tied.summary(), "Edge blocks"))
    assert "num_batches_tracked" in traced("cnn-2d-batch-norm").graph.summary()


def test_structural_edges_are_told():
    graph = traced("attention-packed-qkv").graph
    structural = sum(block.num_edges for block in graph.blocks if block.parameter is None)
    assert f"{structural} structural edges" in graph.summary()
    assert any(row[-1] == "structural" for row in section(graph.summary(), "Edge blocks"))


class Sorted(nn.Module):
    """Sorting channels through an operation for which there is no rule."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.outer(torch.special.bessel_j0(torch.linalg.matrix_exp(self.inner(x))))


def test_what_was_not_understood_is_told():
    graph = gmn.Tracer(unknown="pin").trace(Sorted(), torch.randn(4, 3))
    assert graph.notes
    for note in graph.notes:
        assert " ".join(f"Pinned: {note}".split()) in " ".join(graph.summary().split())


def test_meta_networks_have_a_summary():
    with torch.device("meta"):
        graph = gmn.trace(nn.Linear(4096, 4096), torch.randn(1, 4096))
        assert "16,781,312 parameters" in graph.summary()


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.tags = [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", NAMES)
def test_html_is_well_formed(name):
    graph = traced(name).graph
    parser = Cells()
    parser.feed(graph._repr_html_())
    assert not parser.open
    assert {"table", "th", "td"} <= parser.tags


def test_html_escapes_names():
    model = nn.Sequential()
    model.add_module("<script>", nn.Linear(2, 2))
    html = summary_html(gmn.trace(model, torch.randn(1, 2)))
    assert "&lt;script&gt;" in html and "<script>" not in html


def test_numbers_are_never_cut():
    header = ("a name", *(f"column {number}" for number in range(8)))
    row = ("some.module.with.a.path", *["0.123 ± 0.001"] * 8)
    text = Table("", header, [row], right=header[1:]).text()
    assert text.count("0.123 ± 0.001") == 8 and "…" in text
