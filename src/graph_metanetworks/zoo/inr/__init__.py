"""Implicit neural representations: SIRENs and other networks fitted to signals and images."""

from graph_metanetworks.zoo.inr.conventions import CLASSIFYING, EDITING, SINES, Conventions
from graph_metanetworks.zoo.inr.fitting import Fit, FitOptions, fit_alone
from graph_metanetworks.zoo.inr.grid import Grid, make_grid
from graph_metanetworks.zoo.inr.kinds import KINDS, InrArchitecture
from graph_metanetworks.zoo.inr.population import fit_population
from graph_metanetworks.zoo.inr.render import render
from graph_metanetworks.zoo.inr.sheet import save_sheet
from graph_metanetworks.zoo.inr.siren import Siren, SirenArchitecture, initial_weights
from graph_metanetworks.zoo.inr.stacked_fitting import fit_stacked

__all__ = [
    "CLASSIFYING",
    "EDITING",
    "KINDS",
    "SINES",
    "Conventions",
    "Fit",
    "FitOptions",
    "Grid",
    "InrArchitecture",
    "Siren",
    "SirenArchitecture",
    "fit_alone",
    "fit_population",
    "fit_stacked",
    "initial_weights",
    "make_grid",
    "render",
    "save_sheet",
]
