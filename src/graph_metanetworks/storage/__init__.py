"""Atomic writes, folder locks and checksums."""
