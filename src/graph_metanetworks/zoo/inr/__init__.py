"""Implicit neural representations: SIRENs fitted to signals and images."""

from graph_metanetworks.zoo.inr.conventions import CLASSIFYING, EDITING, SINES, Conventions
from graph_metanetworks.zoo.inr.fitting import Fit, FitOptions, fit_alone
from graph_metanetworks.zoo.inr.grid import Grid, make_grid
from graph_metanetworks.zoo.inr.population import fit_population
from graph_metanetworks.zoo.inr.render import render
from graph_metanetworks.zoo.inr.sheet import save_sheet
from graph_metanetworks.zoo.inr.siren import Siren, SirenArchitecture, initial_weights

__all__ = [
    "CLASSIFYING",
    "EDITING",
    "SINES",
    "Conventions",
    "Fit",
    "FitOptions",
    "Grid",
    "Siren",
    "SirenArchitecture",
    "fit_alone",
    "fit_population",
    "initial_weights",
    "make_grid",
    "render",
    "save_sheet",
]
