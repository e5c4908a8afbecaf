"""Populations: networks of one architecture trained together, each as if it were trained alone."""
