"""Recipes that are there by name."""
