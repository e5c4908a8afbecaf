"""The paper's propositions as executable constructions; `gmn verify` prints the results."""

from graph_metanetworks.theory.statement import Finding, Statement, Trial
from graph_metanetworks.theory.verify import STATEMENTS, evidence, table, verify

__all__ = ["STATEMENTS", "Finding", "Statement", "Trial", "evidence", "table", "verify"]
