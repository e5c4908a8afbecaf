"""Tasks: what is learned from a zoo. Subclass `Task` to add one."""

from graph_metanetworks.tasks.api import train
from graph_metanetworks.tasks.data import TaskData
from graph_metanetworks.tasks.loading import load
from graph_metanetworks.tasks.options import TaskOptions
from graph_metanetworks.tasks.runner import Runner
from graph_metanetworks.tasks.task import Evaluation, Score, Task
from graph_metanetworks.tasks.traced_zoo import TracedZoo
from graph_metanetworks.training.options import option

__all__ = [
    "Evaluation",
    "Runner",
    "Score",
    "Task",
    "TaskData",
    "TaskOptions",
    "TracedZoo",
    "load",
    "option",
    "train",
]
