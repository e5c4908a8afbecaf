"""Select the output tensors of a network's result."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from graph_metanetworks.trace.record.operation import tensors


def output_tensors(result: Any) -> list[Tensor]:
    """Return every tensor of a result, except in the caches of `transformers`.

    A cache of keys and values is state: it saves the next call some work, and its neurons may be permuted.
    """
    return tensors(result, skip=_is_cache)


def _is_cache(node: Any) -> bool:
    # by name, so that transformers need not be installed; some of its caches share no base class
    return any(
        base.__name__.endswith("Cache") and base.__module__.partition(".")[0] == "transformers"
        for base in type(node).__mro__
    )
