"""How operations treat scales. Operations without a rule take unscaled numbers only.

A rule returns the labels of its results, or None to say that it does not apply.
"""

from graph_metanetworks.trace.scaling.rules import (  # noqa: F401  (importing registers the rules)
    elementwise,
    moving,
    norms,
    products,
    reductions,
)
