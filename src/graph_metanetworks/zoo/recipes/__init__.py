"""Recipes for zoos."""
