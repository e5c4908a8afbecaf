"""Prune networks along the factors of their symmetry groups, and prove the result."""

from graph_metanetworks.prune.api import Pruning, prune
from graph_metanetworks.prune.folder import load_pruned, save_pruned
from graph_metanetworks.prune.plan import PlannedFactor, PrunePlan, prune_plan

__all__ = ["PlannedFactor", "PrunePlan", "Pruning", "load_pruned", "prune", "prune_plan", "save_pruned"]
