"""Sections of the report that only `gmn experiment accuracy` has."""
