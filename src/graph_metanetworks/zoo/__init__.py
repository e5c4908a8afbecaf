"""Zoos: data sets of trained networks."""
