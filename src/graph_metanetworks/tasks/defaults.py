"""Defaults of training, apart from what trains: commands show them without importing Lightning."""

STEPS = 1000
ROUNDS = 20
BATCH_SIZE = 8
PATIENCE = 10
