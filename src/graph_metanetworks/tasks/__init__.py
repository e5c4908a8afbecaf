"""Learning tasks on zoos. Subclass `Task` to add one."""

from graph_metanetworks.tasks.api import train
from graph_metanetworks.tasks.data import TaskData, read_numbers
from graph_metanetworks.tasks.evaluation import Evaluation, number_rows, predict_parts, target_parts
from graph_metanetworks.tasks.loading import load
from graph_metanetworks.tasks.options import TaskOptions
from graph_metanetworks.tasks.runner import Runner
from graph_metanetworks.tasks.task import Score, Task
from graph_metanetworks.tasks.traced_zoo import TracedZoo
from graph_metanetworks.training.job import Split
from graph_metanetworks.training.options import option

__all__ = [
    "Evaluation",
    "Runner",
    "Score",
    "Split",
    "Task",
    "TaskData",
    "TaskOptions",
    "TracedZoo",
    "load",
    "number_rows",
    "option",
    "predict_parts",
    "read_numbers",
    "target_parts",
    "train",
]
