"""A statement of the paper, the trials that test it, and their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

TOLERANCE = 1e-10  # in float64


@dataclass(frozen=True)
class Trial:
    """One network: how many cases were checked, and the largest error or the number of wrong ones."""

    family: str
    cases: int
    error: float


@dataclass(frozen=True)
class Statement:
    """A statement of the paper in one line, and its test: `trials(seed, networks)`."""

    number: int
    text: str
    cases: str  # what is counted: "automorphisms", say
    trials: Callable[[int, int], Iterator[Trial]]
    counts: bool = False  # errors are numbers of wrong cases

    def finding(self, trials: Sequence[Trial]) -> Finding:
        return Finding(self, tuple(trials))


@dataclass(frozen=True)
class Finding:
    """The trials of a statement. It passes if there were any and none failed.

    >>> statement = Statement(1, "two and two are four", "sums", lambda seed, networks: iter(()))
    >>> statement.finding([Trial("small", 3, 0.0), Trial("large", 2, 1e-16)]).passed
    True
    """

    statement: Statement
    trials: tuple[Trial, ...] = field(repr=False)

    @property
    def cases(self) -> int:
        return sum(trial.cases for trial in self.trials)

    @property
    def error(self) -> float:
        return max((trial.error for trial in self.trials), default=float("inf"))

    @property
    def passed(self) -> bool:
        return self.cases > 0 and all(trial.error <= TOLERANCE for trial in self.trials)

    def by_family(self) -> dict[str, Finding]:
        families = dict.fromkeys(trial.family for trial in self.trials)
        return {
            name: Finding(self.statement, tuple(trial for trial in self.trials if trial.family == name))
            for name in families
        }

    def row(self) -> tuple[str, ...]:
        """Return networks, cases, error and verdict as text."""
        return (
            f"{len(self.trials)}",
            f"{self.cases:,} {self.statement.cases}",
            self._shown(),
            self._verdict(),
        )

    def _shown(self) -> str:
        return f"{self.error:,.0f} wrong" if self.statement.counts else f"{self.error:.1e}"

    def _verdict(self) -> str:
        return "pass" if self.passed else "FAIL"
