"""Zoos made from folders of checkpoints."""
