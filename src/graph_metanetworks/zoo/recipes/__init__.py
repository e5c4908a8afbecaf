"""Recipes that are there by name, and what one needs to write classifiers of one's own."""

from graph_metanetworks.zoo.draws import Choice, LogUniform, Uniform, drawn
from graph_metanetworks.zoo.population.course import TrainingConfig
from graph_metanetworks.zoo.recipes.classifier_recipe import ClassifierRecipe

__all__ = ["Choice", "ClassifierRecipe", "LogUniform", "TrainingConfig", "Uniform", "drawn"]
