"""The report of experiments with the task editing."""
