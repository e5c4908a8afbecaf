"""Options that `gmn train accuracy` and `gmn experiment accuracy` share."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Size = Annotated[Literal["small", "paper"], typer.Option(help="About 50,000 or 750,000 parameters.")]
Label = Annotated[str, typer.Option(help="Column of the zoo that is predicted.")]
Loss = Annotated[Literal["bce", "mse"], typer.Option(help="Cross-entropy, or squared error.")]
Steps = Annotated[int, typer.Option(min=1, help="Batches that a run trains on.")]
Rounds = Annotated[int, typer.Option(min=1, help="Times to validate and to write a checkpoint.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Networks of a batch.")]
Patience = Annotated[
    int, typer.Option(min=0, help="Stop after so many rounds without a better score; 0: never.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
