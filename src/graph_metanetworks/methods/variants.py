"""Variants of methods: `mlp+permuted` is the method `mlp` behind a preparation of the networks it sees.

Any number of modifiers may follow a name. Networks are prepared in the order in which they are written:
`mlp+signs+aligned` aligns networks in canonical form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import nn

from graph_metanetworks.errors import TaskError
from graph_metanetworks.methods.method import Method, Output
from graph_metanetworks.nn.aligned import Aligned
from graph_metanetworks.nn.canonical import Canonical
from graph_metanetworks.nn.prepared import prepared
from graph_metanetworks.nn.reordering import Permuted


@dataclass(frozen=True)
class Modifier:
    """A change of what a method sees.

    Args:
        name: what follows the plus sign.
        title: what is added to the title of the method.
        about: what the networks become.
        make: makes the preparation.
        by_gradient: whether it needs a method that is trained by gradient descent.
    """

    name: str
    title: str
    about: str
    make: Callable[[], nn.Module]
    by_gradient: bool = False


MODIFIERS = {
    modifier.name: modifier
    for modifier in (
        Modifier(
            "scales",
            "canonical scales",
            "networks in canonical form: scales, signs and phases of their units do not matter",
            lambda: Canonical("scales"),
        ),
        Modifier(
            "signs",
            "canonical signs",
            "networks in canonical form: signs and phases of their units do not matter",
            lambda: Canonical("signs"),
        ),
        Modifier(
            "permuted",
            "permuted",
            "in training, a random copy of each network, with its neurons in another order",
            Permuted,
            by_gradient=True,
        ),
        Modifier(
            "aligned",
            "aligned",
            "each network permuted to match a reference, the first training network of its architecture",
            Aligned,
        ),
    )
}
MODIFIERS_HELP = f"each also with {', '.join(f'+{name}' for name in MODIFIERS)}"


def split_name(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the name of a method and its modifiers.

    >>> split_name("mlp+signs+permuted")
    ('mlp', ('signs', 'permuted'))
    >>> split_name("c++/my_methods.py:NORMS+signs")
    ('c++/my_methods.py:NORMS', ('signs',))
    """
    place, colon, last = name.rpartition(":")
    first, *modifiers = last.split("+")
    return place + colon + first, tuple(modifiers)


def variant(method: Method, modifiers: Sequence[str]) -> Method:
    """Return a method with modifiers, which are applied to networks in this order."""
    for name in modifiers:
        if name not in MODIFIERS:
            raise TaskError(
                f"{method.name}+{'+'.join(modifiers)}: there is no modifier '{name}'; choose from "
                f"{', '.join(f'+{known}' for known in MODIFIERS)}."
            )
        if modifiers.count(name) > 1:
            raise TaskError(f"{method.name}+{'+'.join(modifiers)} has +{name} twice: write it once.")
        if MODIFIERS[name].by_gradient and not method.by_gradient:
            raise TaskError(
                f"{method.name} learns from all networks in one call, and +{name} changes them from step to "
                f"step: choose a method that is trained by gradient descent."
            )
    chosen = [MODIFIERS[name] for name in modifiers]
    return replace(
        method,
        name="+".join([method.name, *modifiers]),
        title=", ".join([method.title, *(modifier.title for modifier in chosen)]),
        about="; ".join([method.about, *(modifier.about for modifier in chosen)]),
        sizes={size: _behind(chosen, make) for size, make in method.sizes.items()},
    )


def _behind(
    modifiers: Sequence[Modifier], make: Callable[[Output], nn.Module]
) -> Callable[[Output], nn.Module]:
    def made(output: Output) -> nn.Module:
        model = make(output)
        for modifier in reversed(modifiers):  # the first is the outermost
            model = prepared(modifier.make(), model, output.level)
        return model

    return made
