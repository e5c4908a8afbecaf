"""Families of classifiers from the paper's appendix D.1. Each has its own module."""

from __future__ import annotations

from graph_metanetworks.zoo.families.cnn1d import CNN_1D
from graph_metanetworks.zoo.families.cnn2d import CNN_2D
from graph_metanetworks.zoo.families.deepsets import DEEPSETS
from graph_metanetworks.zoo.families.family import ClassifierArchitecture, Family, ImageSpec
from graph_metanetworks.zoo.families.resnet import RESNET
from graph_metanetworks.zoo.families.vit import VIT

__all__ = ["FAMILIES", "ClassifierArchitecture", "Family", "ImageSpec"]

FAMILIES = {family.name: family for family in (CNN_2D, CNN_1D, DEEPSETS, RESNET, VIT)}
