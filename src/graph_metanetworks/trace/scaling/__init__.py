"""Find the scales of hidden units that a network's operations pass on.

The recording is read a second time. Every tensor carries *labels*: for each element the number of an unknown
scale, negative for its inverse, 0 for none; the scale of an element is the product over the labels. Views run
on labels. Operations demand equations between unknowns; one without a rule demands that nothing is scaled.
"""

from graph_metanetworks.trace.scaling.recording import find_frequencies, find_scaling

__all__ = ["find_frequencies", "find_scaling"]
