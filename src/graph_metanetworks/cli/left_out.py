"""Say which networks were left out, and why."""

from __future__ import annotations

from collections.abc import Sequence

from graph_metanetworks.console import say
from graph_metanetworks.table import listed
from graph_metanetworks.tasks.zoo_part import NOT_FINITE
from graph_metanetworks.zoo.from_folder.sources import LeftOut

SHOWN = 10  # files that were left out


def say_left_out(left_out: Sequence[LeftOut], total: int, noun: str, *, more: str = "") -> None:
    """List files that were left out, the first of them if there are many."""
    if not left_out:
        return
    things = f"{len(left_out):,} {noun}{'' if len(left_out) == 1 else 's'}"
    say(f"left out {things} of {total:,}:", "yellow", err=True)
    for one in left_out[:SHOWN]:
        say(f"  {one.line}", "yellow", err=True)
    if len(left_out) > SHOWN:
        say(f"  and {len(left_out) - SHOWN:,} more{more}", "yellow", err=True)


def say_not_finite(left_out: Sequence[LeftOut], total: int) -> None:
    """Say in one line which networks diverged."""
    if left_out:
        counted = f"left out {len(left_out):,} of {total:,} networks"
        names = listed(one.file for one in left_out)
        say(f"{counted}: {NOT_FINITE} in {names}.", "yellow", err=True)


def nothing_left(verb: str, left_out: Sequence[LeftOut]) -> str:
    """Return why there are no results."""
    reasons = [one for one in left_out if one.reason != NOT_FINITE]
    if not reasons:
        return f"nothing to {verb}: the weights of every network are NaN or infinite. Did training diverge?"
    more = "".join(f"\n{one.line}" for one in reasons[1:3])
    rest = f"\nand {len(reasons) - 3:,} more" if len(reasons) > 3 else ""
    return reasons[0].reason + more + rest
