"""The page that the tour writes: self-contained, one card per network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import log
from pathlib import Path

import graph_metanetworks as gmn

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1f2937; background: #f8fafc; margin: 0 }
main { max-width: 1080px; margin: 0 auto; padding: 2rem 1rem 4rem }
section { background: white; border: 1px solid #e2e8f0; border-radius: 10px }
section { padding: 1rem 1.5rem; margin: 1.5rem 0 }
section svg { width: 100%; height: auto; max-height: 820px }
h1 { margin-bottom: 0 } h2 { margin: 0 }
nav a { margin-right: .8em } a { color: #1d6fb8 }
.yes { color: #15803d } .no { color: #b91c1c; font-weight: bold }
.oracles span { margin-right: 1.2em; white-space: nowrap }
pre { font-size: 12px; line-height: 1.35; overflow-x: auto; background: #f8fafc; padding: 1em }
"""

INTRODUCTION = """
<p>Each network below was run once on an example input and turned into its <b>parameter graph</b>: nodes are
neurons or channels, edges are parameters, dashed edges carry no parameter. Permuting neurons together with
their edges gives other weights for the same function; the number of such permutations is the order of the
symmetry group. Nothing on this page is drawn by hand.</p>
<p>Every graph was checked with five oracles. <b>Covers</b>: each parameter element is on exactly one
edge. <b>Round trip</b>: converting weights to edges and back changes nothing, bit for bit.
<b>Automorphism</b>: sampled permutations of nodes map edges to edges of the same kind, position and value.
<b>Function</b>: the permuted weights compute the same output, to 1e-9 in float64, and wrongly permuted ones
do not. <b>Operations</b>: every single operation of the network is equivariant to the permutation.</p>
"""


@dataclass(frozen=True)
class Card:
    """The entry of one network on the page."""

    name: str
    about: str
    graph: gmn.ParameterGraph
    verdicts: Mapping[str, str]  # by oracle; empty if it passed
    picture: Path


def page(cards: Sequence[Card]) -> str:
    links = "".join(f'<a href="#{anchor(card)}">{escape(card.name)}</a>' for card in cards)
    body = "".join(map(section, cards))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Graph metanetworks: a tour</title>'
        f"<style>{STYLE}</style></head><body><main><h1>Neural networks as graphs</h1>{INTRODUCTION}"
        f"<nav>{links}</nav>{body}</main></body></html>\n"
    )


def section(card: Card) -> str:
    verdicts = "".join(
        f'<span class="no" title="{escape(why)}">✗ {oracle}</span>'
        if why
        else f'<span class="yes">✓ {oracle}</span>'
        for oracle, why in card.verdicts.items()
    )
    return (
        f'<section id="{anchor(card)}"><h2>{escape(card.name)}</h2><p>{escape(card.about)}</p>'
        f'<p class="oracles">{verdicts}</p>{inline(card.picture)}<p>{order(card.graph)}</p>'
        f"<details><summary>Summary</summary><pre>{escape(card.graph.summary())}</pre></details></section>"
    )


def anchor(card: Card) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in card.name.lower())


def order(graph: gmn.ParameterGraph) -> str:
    symmetry = graph.symmetry
    if symmetry.log_order < log(1e9):
        return f"{symmetry.order():,} permutations of neurons preserve the function."
    power = f"10<sup>{symmetry.log_order / log(10):.1f}</sup>"
    return (
        f"About {power} permutations of neurons preserve the function; "
        f"{len(symmetry.variables)} axes are free."
    )


def inline(picture: Path) -> str:
    """Return an svg file without its XML declaration, which is only allowed at the start of a document."""
    text = picture.read_text()
    return text[text.index("<svg") :]
