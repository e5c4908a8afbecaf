"""Options that several commands share: the network and its example input."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Target = Annotated[
    str | None,
    typer.Argument(
        help="The network: module:name or path/to/file.py:name of a class, of a function that "
        "returns a network, or of a network. For example torch.nn:Linear. Not needed for a folder of Hugging "
        "Face, whose config.json describes it."
    ),
]
Args = Annotated[
    list[str] | None, typer.Option(help="Argument of the class or function, a Python literal; repeat.")
]
Kwargs = Annotated[list[str] | None, typer.Option(help="Keyword argument, name=value; repeat.")]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        help="An input of forward: 1x3x32x32, 2x7:int64, name=2x7 or name=literal; repeat. Guessed for "
        "well-known modules."
    ),
]
High = Annotated[int, typer.Option(min=1, help="Integer inputs are drawn from 0 to HIGH - 1.")]
Unknown = Annotated[
    Literal["raise", "pin"],
    typer.Option(help="Operations without a rule: raise, or pin what they touch."),
]
Unused = Annotated[
    Literal["raise", "keep"], typer.Option(help="Parameters the example never reached: raise, or keep.")
]
Meta = Annotated[bool, typer.Option("--meta", help="Build on the meta device, without memory.")]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        help="Weights of the network: a file of safetensors, PyTorch, Lightning or GGUF, or a folder of "
        "Hugging Face."
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        help="Where the weights are inside a checkpoint, as ema or model.encoder; found by default."
    ),
]
IgnoreExtra = Annotated[
    bool, typer.Option("--ignore-extra", help="Drop entries of a checkpoint that the network does not have.")
]
Json = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write JSON; - prints it and nothing else.")
]
Ray = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Share the files out over a Ray cluster, whose machines see them at the same paths; `local` "
        "starts one on this machine.",
    ),
]
Paths = Annotated[list[Path], typer.Argument(help="Checkpoints, zoos, or folders of them; several.")]
Network = Annotated[
    str | None,
    typer.Option(
        help="Builder of the checkpoints' networks: file.py:name or module:name. Not for zoos or folders of "
        "Hugging Face."
    ),
]
NetworkArgs = Annotated[list[str] | None, typer.Option(help="Argument of the network; repeat.")]
NetworkKwargs = Annotated[list[str] | None, typer.Option(help="Keyword argument, name=value; repeat.")]
NetworkInputs = Annotated[
    list[str] | None, typer.Option(help="An input of forward, as for gmn trace; repeat.")
]
Labels = Annotated[
    Path | None, typer.Option(help="Table with a row per checkpoint, if the builder needs it.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Hide progress.")]
Embedder = Annotated[
    str,
    typer.Argument(
        help="What embeds: the folder of a run of gmn train, one that save_pretrained wrote, or the word "
        "untrained for a metanetwork with random weights."
    ),
]
