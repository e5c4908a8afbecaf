"""The script `gmn`, and `python -m graph_metanetworks`."""

from __future__ import annotations

import sys

from graph_metanetworks.extras import MissingExtra, optional_imports


def main() -> None:
    """Run the command line. Name the extra if its packages are not installed."""
    try:
        with optional_imports():
            from graph_metanetworks.cli import main as run
    except MissingExtra as error:
        sys.exit(f"error: {error}")
    run()


if __name__ == "__main__":
    main()
