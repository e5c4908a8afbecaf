"""Tables as plain text and as HTML, cut to a number of rows and a width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 100  # columns of text
GAP = "  "
SHORTEST = 16  # a column is never cut below this


@dataclass(frozen=True, slots=True)
class Table:
    """A title, a header and rows of text; columns named in `right` are aligned to the right.

    >>> print(Table("Fruit", ("name", "count"), [("apple", "7"), ("fig", "12")], right=("count",)).text())
    Fruit
      name   count
      apple      7
      fig       12
    """

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    right: tuple[str, ...] = ()

    def abbreviated(self, max_rows: int) -> tuple[list[tuple[str, ...]], str, list[tuple[str, ...]]]:
        """Return the first rows, a placeholder for the middle, and the last rows."""
        rows = list(self.rows)
        if len(rows) <= max_rows:
            return rows, "", []
        shown = max(2, max_rows - 1)
        first, last = rows[: shown - shown // 2], rows[-(shown // 2) :]
        return first, f"… {len(rows) - shown:,} more rows …", last

    def text(self, max_rows: int = 40) -> str:
        first, between, last = self.abbreviated(max_rows)
        widths = self._widths([self.header, *first, *last])
        lines = [self.title, self._line(self.header, widths)]
        lines += [self._line(row, widths) for row in first]
        lines += [GAP + between] if between else []
        lines += [self._line(row, widths) for row in last]
        return "\n".join(lines)

    def html(self, max_rows: int = 40, *, folded: bool = False) -> str:
        """Return the table below its title, which shows and hides it; `folded` hides it at first."""
        first, between, last = self.abbreviated(max_rows)
        middle = f'<tr><td colspan="{len(self.header)}">{escape(between)}</td></tr>' if between else ""
        head = "".join(f"<th>{escape(cell)}</th>" for cell in self.header)
        body = "".join(map(self._html_row, first)) + middle + "".join(map(self._html_row, last))
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        unfolded = "" if folded else " open"
        return f"<details{unfolded}><summary><b>{escape(self.title)}</b></summary>{table}</details>"

    def _widths(self, rows: Sequence[Sequence[str]]) -> list[int]:
        """Return natural widths, the widest text columns cut until a line fits. Numbers are never cut."""
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        text = [place for place, name in enumerate(self.header) if name not in self.right]
        while sum(widths) + len(GAP) * len(widths) > WIDTH:
            widest = max(text, key=lambda place: widths[place], default=None)
            if widest is None or widths[widest] <= SHORTEST:
                break
            widths[widest] -= 1
        return widths

    def _line(self, row: Sequence[str], widths: Sequence[int]) -> str:
        cells = [
            shortened(cell, width).rjust(width) if name in self.right else shortened(cell, width).ljust(width)
            for cell, name, width in zip(row, self.header, widths, strict=True)
        ]
        return (GAP + GAP.join(cells)).rstrip()

    def _html_row(self, row: Sequence[str]) -> str:
        cells = [
            f'<td style="text-align: {"right" if name in self.right else "left"}">{escape(cell)}</td>'
            for cell, name in zip(row, self.header, strict=True)
        ]
        return f"<tr>{''.join(cells)}</tr>"


def shortened(text: str, width: int) -> str:
    """Drop the beginning of a text: the end of a module path says most.

    >>> shortened("bert.encoder.layer.0.attention.self.query", 21)
    '…attention.self.query'
    """
    if len(text) <= width:
        return text
    kept = text[1 - width :]
    dot = kept.find(".")
    return "…" + (kept[dot + 1 :] if 0 <= dot < 7 else kept)


def listed(names: Iterable[str], shown: int = 3) -> str:
    """List the first few names and count the rest.

    >>> listed(["query", "key", "value", "out", "head"])
    'query, key, value and 2 more'
    """
    names = list(dict.fromkeys(names))
    return ", ".join(names[:shown]) + (f" and {len(names) - shown:,} more" if len(names) > shown else "")


def capitalized(text: str) -> str:
    """Start with a capital letter; the others stay as they are."""
    return text[:1].upper() + text[1:]
