"""Zoos: data sets of trained networks."""

from graph_metanetworks.zoo.build import build
from graph_metanetworks.zoo.recipe import Recipe, Trained
from graph_metanetworks.zoo.sharing import from_hub, push_to_hub
from graph_metanetworks.zoo.zoo import Zoo, ZooNetwork

__all__ = ["Recipe", "Trained", "Zoo", "ZooNetwork", "build", "from_hub", "push_to_hub"]
