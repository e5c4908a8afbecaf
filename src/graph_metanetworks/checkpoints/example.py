"""Example inputs of networks: described in a few characters, given as tensors, or stored as JSON."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from graph_metanetworks.errors import TraceError

SHAPE = re.compile(r"(?P<sizes>\d+(x\d+)*)?(:(?P<dtype>\w+))?")
DTYPES = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}


class UnclearExample(TraceError):
    """The input is not given and cannot be guessed, or its description is not understood."""


@dataclass(frozen=True)
class Example:
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    is_guess: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        named = [f"{name}={_describe(value)}" for name, value in self.kwargs.items()]
        return ", ".join([*map(_describe, self.args), *named])

    def as_json(self) -> dict[str, Any]:
        """Return plain values from which `from_json` makes an example with the same structure.

        Integers and masks keep their values. Other numbers are drawn again: a graph does not depend on them.
        """
        return {
            "args": [_plain(value) for value in self.args],
            "kwargs": {name: _plain(value) for name, value in self.kwargs.items()},
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Example:
        """Return an example with the structure of `as_json`.

        >>> str(Example.from_json(Example((torch.zeros(1, 3), torch.ones(2, 7).bool())).as_json()))
        '1x3:float32, 2x7:bool'
        """
        kwargs = {name: _from_plain(value) for name, value in content["kwargs"].items()}
        return cls(tuple(map(_from_plain, content["args"])), kwargs)

    @classmethod
    def of(cls, value: Any) -> Example:
        """Return an example given as a tensor, a tuple of arguments, or a dictionary of keyword arguments."""
        if isinstance(value, Example):
            return value
        if isinstance(value, Mapping):
            return cls(kwargs=dict(value))
        return cls(tuple(value) if isinstance(value, tuple | list) else (value,))


def parse_example(specs: Iterable[str], *, high: int = 10) -> Example:
    """Draw inputs from their descriptions; integers lie between 0 and `high - 1`.

    >>> str(parse_example(["1x3", "mask=2x7:bool", "use_cache=False"]))
    '1x3:float32, mask=2x7:bool, use_cache=False'
    """
    args, kwargs = [], {}
    for spec in specs:
        name, equals, value = spec.rpartition("=")
        if not equals:
            args.append(_draw(value, high))
        elif name.isidentifier():
            kwargs[name] = _draw(value, high) if SHAPE.fullmatch(value) else parse_literal(value)
        else:
            raise UnclearExample(f"--input {spec}: '{name}' cannot be the name of an argument.")
    return Example(tuple(args), kwargs)


def parse_literal(text: str) -> Any:
    """Parse a Python literal; anything else is a string.

    >>> [parse_literal(text) for text in ("3", "(1, 2)", "None", "gelu")]
    [3, (1, 2), None, 'gelu']
    """
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _draw(spec: str, high: int) -> Tensor:
    match = SHAPE.fullmatch(spec)
    if not match or not spec:
        raise UnclearExample(
            f"--input {spec} is not a shape: write sizes with x between them, such as 1x3x32x32, and "
            "a dtype after a colon, such as 2x7:int64."
        )
    dtype = DTYPES.get(match["dtype"] or "float32")
    if dtype is None:
        raise UnclearExample(
            f"--input {spec}: torch has no dtype '{match['dtype']}'; try int64, float32 or bool."
        )
    shape = [int(size) for size in match["sizes"].split("x")] if match["sizes"] else []
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, dtype=dtype)
    return torch.randint(0, 2 if dtype == torch.bool else high, shape).to(dtype)


def _describe(value: Any) -> str:
    if not isinstance(value, Tensor):
        return repr(value)
    return f"{'x'.join(map(str, value.shape))}:{str(value.dtype).removeprefix('torch.')}"


def _plain(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return {"literal": repr(value)}
    known = {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
    draws = value.dtype.is_floating_point or value.dtype.is_complex
    return known if draws else known | {"values": value.tolist()}


def _from_plain(content: Mapping[str, Any]) -> Any:
    if "literal" in content:
        return parse_literal(content["literal"])
    dtype = DTYPES[content["dtype"]]
    if "values" in content:
        return torch.tensor(content["values"], dtype=dtype)
    return torch.randn(content["shape"], dtype=dtype, generator=torch.Generator().manual_seed(0))
