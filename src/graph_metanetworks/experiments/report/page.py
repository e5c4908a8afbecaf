"""A report as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from graph_metanetworks.table import Table

STYLE = """
body { font: 16px/1.55 system-ui, sans-serif; color: #1f2937; background: #f8fafc; margin: 0 }
main { max-width: 1080px; margin: 0 auto; padding: 2rem 1rem 4rem }
section { background: white; border: 1px solid #e2e8f0; border-radius: 10px; padding: 1rem 1.5rem;
  margin: 1.5rem 0; overflow-x: auto }
h1 { margin-bottom: 0 } h2 { margin: .2rem 0 .6rem } h3 { margin: 1.2rem 0 .3rem }
.lead { color: #475569; margin-top: .3rem }
img { max-width: 100%; height: auto; display: block; margin: .8rem auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; margin: .6rem 0 }
th { text-align: left; color: #475569; font-weight: 600; border-bottom: 2px solid #cbd5e1 }
th, td { padding: .3rem .8rem .3rem 0; white-space: nowrap } td { border-bottom: 1px solid #eef2f7 }
td.best { font-weight: 700 } .note { color: #475569; font-size: 14px }
.answer { background: #eff6ff; border-left: 4px solid #1d6fb8; padding: .5rem .9rem; margin: .6rem 0 }
nav a { margin-right: 1em } a { color: #1d6fb8 }
"""


@dataclass(frozen=True)
class Section:
    """A titled part of a page; `body` is HTML."""

    title: str
    body: str

    @property
    def anchor(self) -> str:
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    links = "".join(f'<a href="#{part.anchor}">{escape(part.title)}</a>' for part in sections)
    body = "".join(
        f'<section id="{part.anchor}"><h2>{escape(part.title)}</h2>{part.body}</section>' for part in sections
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body><main>'
        f'<h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p><nav>{links}</nav>{body}</main>'
        "</body></html>\n"
    )


def paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def html_table(table: Table, *, bold: Sequence[tuple[int, int]] = ()) -> str:
    """Render a table; the cells at (row, column) in `bold` stand out."""
    chosen = set(bold)
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.header)
    rows = []
    for number, row in enumerate(table.rows):
        cells = [
            f"<td{' class=best' if (number, column) in chosen else ''}>{escape(cell)}</td>"
            for column, cell in enumerate(row)
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
