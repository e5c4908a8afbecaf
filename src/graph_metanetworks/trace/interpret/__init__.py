"""Run the rules over the recorded operations."""
