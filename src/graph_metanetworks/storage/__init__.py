"""Files that are whole or absent, locks, checksums."""
