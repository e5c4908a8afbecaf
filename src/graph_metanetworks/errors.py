"""Errors. Each message says what happened, where, and what to do next."""

from __future__ import annotations


class TraceError(ValueError):
    """A network, its example or its weights do not fit together; the message says how."""


class UnsupportedOperation(TraceError):
    """The network uses an operation for which no rule is known."""


class UnusedParameters(TraceError):
    """The example input never reached some parameters, so nothing is known about their symmetry."""


class UnseenWeights(UserWarning):
    """The output depends on weights that lie on no edge, so a metanetwork does not see them."""


class ReplayError(TraceError):
    """A graph cannot run itself: its recorded operations cannot be repeated, or do not fit the input."""


class StateDictMismatch(TraceError):
    """A state dict or an edge vector does not belong to this parameter graph."""


class CheckpointError(TraceError):
    """A file is no checkpoint, or holds more than weights, or its weights cannot be found."""


class UnsupportedNetwork(ValueError):
    """A method cannot take a network; the message says which and why."""


class WeightsError(ValueError):
    """A file of weights is damaged, or does not fit the module that loads it."""


class StorageError(ValueError):
    """A folder is in use by another process, or cannot be written to."""


class ZooError(ValueError):
    """A zoo cannot be built, opened or read; the message says why and what to do."""


class PruneError(ValueError):
    """A network cannot be pruned as planned; the message names the factor or the operation."""


class TooLarge(TraceError):
    """A graph, or what is needed to build it, would be too large; the message says how large."""


class TaskError(ValueError):
    """A task cannot be trained, or a trained one not be used; the message says why and what to do."""


class Diverged(TaskError):
    """No score of a training was ever finite."""
