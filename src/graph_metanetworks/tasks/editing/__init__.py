"""Edit INRs: change their weights so that they render an edited image (section 5.2 of the paper)."""

from graph_metanetworks.tasks.editing.data import Canvas, ImageZoo
from graph_metanetworks.tasks.editing.images import EDITS, clahe, dilate, raise_contrast
from graph_metanetworks.tasks.editing.render import render_batch
from graph_metanetworks.tasks.editing.runner import EditRunner
from graph_metanetworks.tasks.editing.task import Editing, Options

__all__ = [
    "EDITS",
    "Canvas",
    "EditRunner",
    "Editing",
    "ImageZoo",
    "Options",
    "clahe",
    "dilate",
    "raise_contrast",
    "render_batch",
]
