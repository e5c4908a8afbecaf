"""Run commands of `gmn` in this process, as a user types them."""

from typer.testing import CliRunner, Result

from graph_metanetworks.cli import app


def run(*args: object) -> Result:
    return CliRunner().invoke(app, [*map(str, args)])


def succeeds(*args: object) -> Result:
    result = run(*args)
    assert result.exit_code == 0, result.output
    return result


def fails(*args: object) -> str:
    """Return the message of an error, on one line."""
    result = run(*args)
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit), result.output
    return " ".join(result.output.split())
