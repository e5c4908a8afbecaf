"""Importers of published zoos."""
