"""Kernels of message passing: edge blocks stacked into panels, and passes over them."""
