"""Train a model on batches of networks: options, run folders, samplers, Lightning, several processes.

Nothing here knows a task. What is learned, how it is scored and what the learning curve shows comes from an
`Objective`, which tasks are.
"""
