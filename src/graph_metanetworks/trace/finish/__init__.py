"""From the interpreted operations to the graph."""
