"""Fixtures of the tests of commands."""

import sys

import pytest


@pytest.fixture(autouse=True)
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what commands that import a user's file add to the path."""
    monkeypatch.setattr(sys, "path", sys.path[:])
