"""Train a model on batches of networks: options, run folders, samplers, Lightning, several processes.

Nothing here knows a task. An `Objective` defines the loss, the scores and the learning curve; tasks implement
it.
"""
