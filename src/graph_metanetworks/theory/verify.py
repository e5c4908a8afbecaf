"""All statements, and tables of the findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graph_metanetworks.table import Table
from graph_metanetworks.theory import (
    bias_nodes,
    channel_permutations,
    conjecture,
    equivariance,
    forward_pass,
    function_kept,
    mlp_automorphisms,
    npnfn,
    statnn,
)
from graph_metanetworks.theory.conjecture import Lifted
from graph_metanetworks.theory.statement import Finding, Statement, Trial

NETWORKS = 24  # two of each family

STATEMENTS = (
    Statement(1, "automorphisms keep the network's function", "automorphisms", function_kept.trials),
    Statement(2, "metanetworks are equivariant to them", "results", equivariance.trials),
    Statement(
        3, "in an MLP they permute neurons within layers", "permutations", mlp_automorphisms.trials, True
    ),
    Statement(4, "in a CNN permuting channels is one", "permutations", channel_permutations.trials, True),
    Statement(5, "a metanetwork equals StatNN", "MLPs", statnn.trials),
    Statement(6, "a metanetwork equals a layer of NP-NFN", "MLPs", npnfn.trials),
    Statement(7, "bias nodes: the sum of biases in one layer", "MLPs", bias_nodes.trials),
    Statement(8, "a metanetwork simulates the forward pass", "inputs", forward_pass.trials),
    Statement(9, "conjecture: those of parameter graphs lift", "automorphisms", conjecture.trials),
)


def verify(
    seed: int = 0,
    networks: int = NETWORKS,
    *,
    statements: Sequence[Statement] = STATEMENTS,
    on_trial: Callable[[Statement, Trial | None], None] = lambda statement, trial: None,
) -> list[Finding]:
    """Try every statement on random networks.

    `on_trial` receives each trial, and None at the end of a statement.
    """
    findings = []
    for statement in statements:
        trials = []
        for trial in statement.trials(seed, networks):
            on_trial(statement, trial)
            trials.append(trial)
        on_trial(statement, None)
        findings.append(Finding(statement, tuple(trials)))
    return findings


def table(findings: Sequence[Finding]) -> Table:
    """Return one row for each statement."""
    rows = [(str(found.statement.number), found.statement.text, *found.row()) for found in findings]
    header = ("", "statement", "networks", "checked", "error", "verdict")
    return Table("Statements of the paper", header, rows, right=("networks", "checked", "error"))


def evidence(finding: Finding) -> Table:
    """Tabulate what was found for the conjecture, by family of networks."""
    rows = []
    for family, found in finding.by_family().items():
        complete = sum(isinstance(trial, Lifted) and trial.complete for trial in found.trials)
        rows.append((family, *found.row()[:3], f"{complete} of {len(found.trials)}"))
    header = ("family", "networks", "lifted", "error", "all automorphisms shown")
    return Table("The conjecture by family", header, rows, right=("networks", "lifted", "error"))
