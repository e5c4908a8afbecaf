"""Build small zoos, and compare the files in their folders."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from graph_metanetworks.zoo import build
from support.zoo_recipes import Regressors

COUNT, SHARD = 60, 8
make = partial(build, Regressors(), COUNT, workers=1, shard_size=SHARD, quiet=True)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a finished zoo, without the lock and the date."""
    files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != ".lock"}
    description = json.loads(files["zoo.json"])
    rest = {name: value for name, value in description.items() if name not in ("created", "checksum")}
    return files | {"zoo.json": json.dumps(rest).encode()}
