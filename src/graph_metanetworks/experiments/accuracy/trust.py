"""Questions to ask before trusting a predictor, answered on test networks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from graph_metanetworks.experiments.accuracy.rivals import rival_predictions, within_groups
from graph_metanetworks.experiments.accuracy.shifts import Shift, examine_shifts, permutation_gap
from graph_metanetworks.experiments.grid import Cell
from graph_metanetworks.experiments.results import Predicted, Results
from graph_metanetworks.table import capitalized
from graph_metanetworks.tasks.accuracy import LabelledZoo, Predictor
from graph_metanetworks.tasks.accuracy.intervals import coverage_error, covered
from graph_metanetworks.tasks.accuracy.predictor import find_probes
from graph_metanetworks.tasks.accuracy.scores import Scores, scores
from graph_metanetworks.tasks.splits import HIDDEN, Setting, family_of

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
LEVEL = 0.9
LEAST = 20  # networks of a group to judge its intervals by


@dataclass(frozen=True)
class Trust:
    """Findings for one method in one setting, first seed; some of them for all methods."""

    title: str
    setting: Setting
    within: dict[str, Scores]  # by family and size
    rivals: dict[str, tuple[Scores, float]]  # scores, and mean tau within family and size
    levels: tuple[float, ...]
    coverage: dict[str, list[float]]  # by method
    shifts: dict[str, list[Shift]]  # by method: the first, and those with probes
    permuted: dict[str, float]  # largest change of a prediction, by method
    networks: int  # in the test part
    known: int  # residuals that intervals come from
    groups: dict[str, dict[str, tuple[int, float]]]  # networks and coverage by method and group

    @property
    def within_answer(self) -> str:
        if not self.within:
            return "The test part has too few networks of any one family and size to say."
        mean = mean_tau(self.within)
        return f"Within one family and size, tau is {mean:.2f} on average over {len(self.within)} groups."

    @property
    def rival_answer(self) -> str:
        ours, *others = self.rivals.items()
        if not others:
            return "The zoo records no hyper-parameters or training losses."
        r2 = ours[1][0].r2
        beaten = [f"{name} ({own.r2:.3f})" for name, (own, _) in others if own.r2 < r2]
        ahead = [f"{name} ({own.r2:.3f})" for name, (own, _) in others if own.r2 >= r2]
        answer = f"With R² {r2:.3f} it beats {', '.join(beaten) or 'none of them'}"
        return f"{answer}. Still ahead of it: {', '.join(ahead)}." if ahead else f"{answer}."

    @property
    def calibration_answer(self) -> str:
        held = self.coverage[self.title][self.levels.index(LEVEL)]
        chance = 2 * coverage_error(LEVEL, self.networks)
        verdict = "they keep their promise" if held >= LEVEL - chance else "fewer than promised"
        return (
            f"Intervals of {LEVEL:.0%} hold the truth for {held:.1%} of {self.networks:,} test networks: "
            f"{verdict} (from {self.known:,} validation networks; chance allows {chance:.1%} less)."
        )

    @property
    def group_answer(self) -> str:
        parts = []
        for method, groups in self.groups.items():
            if groups:
                worst = min(groups, key=lambda name: groups[name][1])
                count, held = groups[worst]
                chance = 2 * coverage_error(LEVEL, count)
                parts.append(f"{method}: {held:.1%} for {worst} ({count:,} networks, chance {chance:.1%})")
        return (
            f"The worst family or size. {'; '.join(parts)}." if parts else "The groups are too small to say."
        )

    @property
    def shift_answer(self) -> str:
        answers = []
        for method, shifts in self.shifts.items():
            parts = [
                f"{shift.name}: {shift.predicted:.2f} predicted{_true(shift)}, "
                f"{shift.warned:.0%} called out of distribution{_learned(shift)}"
                for shift in shifts
            ]
            answers.append(f"{method}. {capitalized('; '.join(parts))}.")
        return " ".join(answers)

    @property
    def permutation_answer(self) -> str:
        same = [method for method, gap in self.permuted.items() if gap == 0]
        other = [method for method, gap in self.permuted.items() if gap > 0]
        if not other:
            return "No: predictions of permuted networks are equal in every digit."
        if not same:
            return f"Yes: predictions of permuted networks differ with {', '.join(other)}."
        return (
            f"Not with {', '.join(same)}: predictions are equal in every digit. With {', '.join(other)}, yes."
        )


def _learned(shift: Shift) -> str:
    if shift.learned is None or shift.learned[0] == shift.networks:
        return ""
    count, warned = shift.learned
    return f" ({warned:.0%} of the {count} that learned something)"


def _true(shift: Shift) -> str:
    return "" if shift.true is None else f" ({shift.true:.2f} true)"


def examine(results: Results, data: LabelledZoo) -> Trust | None:
    """Examine the first method that has a run in the first setting; None if there is none."""
    setting = results.grid.settings[0]
    cells = results.first_runs(setting)
    if not cells:
        return None
    title, cell = next(iter(cells.items()))
    table = data.networks.zoo.table
    split = results.task.split(data, setting, 0)
    found = results.predictions(cell)["test"]
    sizes = table[HIDDEN].to_pylist() if HIDDEN in table.column_names else [""] * len(table)
    families = family_of(table)
    every = np.array([f"{f} {s}".strip() for f, s in zip(families.tolist(), sizes, strict=True)])
    groups = every[split.test]
    others = rival_predictions(table, data.labels, split)
    predicted = {f"the weights ({title})": found.predicted, **others}
    predictors = {name: Predictor.load(own.folder(results.out)) for name, own in cells.items()}
    examined = {
        name: own for name, own in predictors.items() if name == title or find_probes(own.model) is not None
    }
    return Trust(
        title=title,
        setting=results.task.setting(setting),
        within=within_groups(found.predicted, found.true, groups),
        rivals={
            name: (_scores(own, found.true), mean_tau(within_groups(own, found.true, groups)))
            for name, own in predicted.items()
        },
        levels=LEVELS,
        coverage={name: _coverage(results, own, predictors[name]) for name, own in cells.items()},
        shifts=examine_shifts(examined, data, split.test),
        permuted={name: permutation_gap(own, data, split.test) for name, own in predictors.items()},
        networks=len(found.true),
        known=len(predictors[title].calibration),
        groups={
            name: _group_coverage(results, cells[name], own, families[split.test], groups)
            for name, own in examined.items()
        },
    )


def mean_tau(groups: dict[str, Scores]) -> float:
    """Average tau over groups, weighted by their networks; groups of equal accuracies have no tau."""
    known = [own for own in groups.values() if own.tau == own.tau]
    if not known:
        return float("nan")
    return float(np.average([own.tau for own in known], weights=[own.networks for own in known]))


def _coverage(results: Results, cell: Cell, predictor: Predictor) -> list[float]:
    """The share of test networks in their interval, at each level."""
    test: Predicted = results.predictions(cell)["test"]
    predicted, true = torch.from_numpy(test.predicted), torch.from_numpy(test.true)
    calibration = predictor.calibration.double()
    return [covered(predicted, true, calibration, level) for level in LEVELS]


def _group_coverage(
    results: Results, cell: Cell, predictor: Predictor, *groupings: np.ndarray
) -> dict[str, tuple[int, float]]:
    """Return networks and coverage at `LEVEL` of each family, and of each family and size."""
    test: Predicted = results.predictions(cell)["test"]
    predicted, true = torch.from_numpy(test.predicted), torch.from_numpy(test.true)
    found = {}
    for groups in groupings:
        for group in sorted(set(groups.tolist())):
            own = torch.from_numpy(groups == group)
            if own.sum() >= LEAST:
                held = covered(predicted[own], true[own], predictor.calibration.double(), LEVEL)
                found[group] = (int(own.sum()), held)
    return found


def _scores(predicted: np.ndarray, true: np.ndarray) -> Scores:
    return scores(torch.from_numpy(predicted), torch.from_numpy(true))
