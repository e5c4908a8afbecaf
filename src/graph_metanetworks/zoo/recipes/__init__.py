"""Built-in recipes, and the parts needed to write recipes for your own classifiers."""

from graph_metanetworks.zoo.draws import Choice, LogUniform, Uniform, drawn
from graph_metanetworks.zoo.population.schedule import TrainingConfig
from graph_metanetworks.zoo.recipes.classifier_recipe import ClassifierRecipe

__all__ = ["Choice", "ClassifierRecipe", "LogUniform", "TrainingConfig", "Uniform", "drawn"]
