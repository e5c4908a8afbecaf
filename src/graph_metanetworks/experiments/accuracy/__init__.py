"""What the report of `gmn experiment accuracy` shows besides the common sections."""
