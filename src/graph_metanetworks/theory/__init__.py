"""The paper's propositions as constructions that run; `gmn verify` prints what comes of them."""

from graph_metanetworks.theory.statement import Finding, Statement, Trial
from graph_metanetworks.theory.verify import STATEMENTS, evidence, table, verify

__all__ = ["STATEMENTS", "Finding", "Statement", "Trial", "evidence", "table", "verify"]
