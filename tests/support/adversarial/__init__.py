"""Small networks made to break the tracer: one odd operation between ordinary layers.

Each family maps a name to a case: what is done, and the sizes of the sets of neurons that can still be
permuted, derived by hand; None where we are content with less than the largest group.
"""

from .case import Case
from .escapes import ESCAPES
from .heads import HEADS
from .memory import MEMORY
from .views import VIEWS
from .weights import WEIGHTS
from .weights_packed import PACKED

CASES: dict[str, Case] = {
    f"{family}: {name}": case
    for family, cases in {
        "views": VIEWS,
        "heads": HEADS,
        "memory": MEMORY,
        "weights": WEIGHTS,
        "packed": PACKED,
        "escapes": ESCAPES,
    }.items()
    for name, case in cases.items()
}

__all__ = ["CASES", "Case"]
