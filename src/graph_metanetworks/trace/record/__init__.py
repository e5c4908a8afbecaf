"""Record one forward pass."""
