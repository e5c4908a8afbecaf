"""Options that all tasks share: the method, its size, and the setting."""

from __future__ import annotations

from dataclasses import dataclass

from graph_metanetworks.methods.method import Method
from graph_metanetworks.methods.registry import METHOD_HELP, find_method
from graph_metanetworks.training.options import TrainingOptions, option


@dataclass(frozen=True)
class TaskOptions(TrainingOptions):
    """Options that affect the result of a run. A task adds its own in a subclass."""

    method: str = option("gmn", f"{METHOD_HELP}.")
    size: str = option(
        "small",
        "small (about 50,000 parameters, of the GMN 190,000 when editing) or paper (about 750,000).",
    )
    setting: str = option(
        "80",
        "Percentage of networks to train on; ood or ladder, by hidden size; or COLUMN!=VALUE to leave out.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        find_method(self.method).require_size(self.size)

    @property
    def found_method(self) -> Method:
        return find_method(self.method)

    @property
    def rate(self) -> float:
        """The learning rate to train with: the method's own if none is given."""
        return self.found_method.learning_rate if self.learning_rate is None else self.learning_rate
