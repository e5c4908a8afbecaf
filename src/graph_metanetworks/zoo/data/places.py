"""Where the files of data sets are looked for, and what is said when they are not there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from graph_metanetworks.zoo.data.images import DataError

VARIABLE = "GMN_DATA"


@dataclass(frozen=True)
class Source:
    """The files of a data set, and how one gets them."""

    name: str
    files: tuple[str, ...]
    folders: tuple[str, ...]  # names of the folder that they usually lie in
    system: tuple[Path, ...] = ()  # where packages of operating systems put them
    ways: tuple[str, ...] = ()  # to get them, beside saying where they are

    def places(self, data_dir: Path | None) -> list[Path]:
        """Folders to look in, best first. A folder that was named is the only one."""
        if data_dir is not None:
            return self._within(data_dir)
        roots = [Path(os.environ[VARIABLE])] if os.environ.get(VARIABLE) else []
        return [place for root in [*roots, Path("data")] for place in self._within(root)] + list(self.system)

    def _within(self, root: Path) -> list[Path]:
        return [*(root / folder for folder in self.folders), root]

    def find(self, data_dir: Path | None) -> dict[str, Path]:
        """The path of every file, all from one place; `.gz` beside a name is as good as the name."""
        places = self.places(data_dir)
        for place in places:
            found = {name: path for name in self.files if (path := _existing(place / name))}
            if len(found) == len(self.files):
                return found
            if found:
                missing = ", ".join(name for name in self.files if name not in found)
                raise DataError(f"{self.name}: {place} has only some of the files; {missing} not found there")
        raise DataError(self._missing(places))

    def _missing(self, places: list[Path]) -> str:
        where = f"or say where the files are: --data-dir FOLDER, or the environment variable {VARIABLE}"
        ways = [*self.ways, where]
        listed = "\n".join(f"  {number}. {way}" for number, way in enumerate(ways, start=1))
        looked = ", ".join(map(str, places))
        return f"{self.name} was not found; looked for {self.files[0]} in {looked}. To get it:\n{listed}"


def _existing(path: Path) -> Path | None:
    compressed = path.with_name(path.name + ".gz")
    return next((candidate for candidate in (path, compressed) if candidate.is_file()), None)
