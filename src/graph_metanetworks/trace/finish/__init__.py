"""Turn the interpreted operations into a parameter graph."""
