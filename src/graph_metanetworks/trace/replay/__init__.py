"""Keep the operations of a forward pass, and run them again with other weights and inputs.

A recording holds operations by name and the constants that they read, so a pickled graph runs without the
code of the network's author. It also says which of its tensors shows the activations of which nodes.
"""

from graph_metanetworks.trace.replay.recording import Recording

__all__ = ["Recording"]
