"""Prune networks along the factors of their symmetry groups, and prove the result."""

from graph_metanetworks.prune.api import Pruning, prune
from graph_metanetworks.prune.plan import PlannedFactor, PrunePlan, prune_plan

__all__ = ["PlannedFactor", "PrunePlan", "Pruning", "prune", "prune_plan"]
