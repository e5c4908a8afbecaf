"""Populations: networks of one architecture trained in one go, each as if it were alone."""
