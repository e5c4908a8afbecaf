"""What notebooks show: pictures inline, and short HTML that unfolds."""

from html.parser import HTMLParser
from pathlib import Path

import pytest

import graph_metanetworks as gmn
from graph_metanetworks.plot.picture import Picture
from graph_metanetworks.table import Table
from graph_metanetworks.tasks.results import Results
from graph_metanetworks.tasks.runner import Result
from support.scaled_networks import scaled_zoo
from support.traced import one_of_each_family, traced


class Text(HTMLParser):
    """The words that are visible before anything is unfolded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "br":
            self.open.append(tag)
        self.hidden += tag == "details" and ("open", None) not in attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.hidden -= tag == "details" and self.hidden > 0

    def handle_data(self, data: str) -> None:
        if not self.hidden or "summary" in self.open:
            self.words += data.split()


def visible(shown: object) -> list[str]:
    parser = Text()
    parser.feed(shown._repr_html_())  # pyright: ignore
    assert not parser.open
    return parser.words


@one_of_each_family
def test_graphs_and_symmetries_are_no_wall_of_text(name: str) -> None:
    graph = traced(name).graph
    assert len(visible(graph)) < 120 and f"{graph.num_nodes:,}" in visible(graph)
    assert len(visible(graph.symmetry)) < 40
    for factor in graph.symmetry.factors[:3]:
        assert f">{factor.size:,}<" in graph.symmetry._repr_html_()


def test_a_picture_without_a_path_is_shown_inline(tmp_path: Path) -> None:
    graph = traced("mlp-relu").graph
    picture = graph.plot()
    assert isinstance(picture, Picture) and ".save('graph.svg')" in repr(picture)
    svg = picture._repr_svg_()
    assert "<svg" in svg and f">{graph.name}<" in svg
    assert picture.save(tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")
    assert graph.plot(detail="groups")._repr_svg_() != svg
    with pytest.raises(ValueError, match=r"\.svg, \.png, \.pdf"):
        picture.save(tmp_path / "graph.gif")


def test_a_zoo_shows_its_first_networks(tmp_path: Path) -> None:
    zoo = scaled_zoo(tmp_path / "zoo", 30)
    words = visible(zoo)
    assert "30" in words and "test_accuracy" not in words and len(words) < 30
    html = zoo._repr_html_()
    assert "test_accuracy" in html and "… 23 more" in html and html.count("<tr>") == 9
    assert "more" not in visible(zoo[:3])


def test_many_results_are_a_table() -> None:
    def table(results):
        return Table("Predictions", ("network", "output"), [(r.name, str(r.values[0])) for r in results])

    many = Results([Result(f"network {i}", (float(i),)) for i in range(100)], table=table)
    assert repr(many).startswith("Predictions\n") and len(repr(many).splitlines()) < 25
    assert many._repr_html_().count("<tr>") < 25 and "more rows" in many._repr_html_()
    assert many == list(many) and repr(Results(many[:1], table=table)).startswith("[Result(name='network 0'")


def test_predictions_are_results(tmp_path: Path) -> None:
    zoo = scaled_zoo(tmp_path / "zoo", 20)
    quick = {"setting": "50", "steps": 2, "rounds": 1, "batch_size": 8, "quiet": True}
    gmn.train("accuracy", zoo, out=tmp_path / "run", **quick)
    found = gmn.load(tmp_path / "run")(zoo, quiet=True)
    assert isinstance(found, list) and "Predicted accuracy" in found._repr_html_()  # pyright: ignore
