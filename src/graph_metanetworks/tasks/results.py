"""The results of a runner: a list that shows itself as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from graph_metanetworks.table import Table

FEW = 3  # results that are shown as they are
SHOWN = 20  # rows of a table


class Results(list[Any]):
    """One result per network. Many are shown as a table, in notebooks and in the terminal.

    >>> Results([1, 2], table=lambda results: Table("Numbers", ("number",), [(str(r),) for r in results]))
    [1, 2]
    """

    def __init__(self, results: Iterable[Any], *, table: Callable[[Sequence[Any]], Table]) -> None:
        super().__init__(results)
        self._table = table

    def __repr__(self) -> str:
        return super().__repr__() if len(self) <= FEW else self._table(self).text(SHOWN)

    def _repr_html_(self) -> str:
        return self._table(self).html(SHOWN)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)  # a pickle holds the results, not the model
