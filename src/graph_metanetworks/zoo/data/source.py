"""Search the files of a data set, and explain how to get them if they are missing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from graph_metanetworks.zoo.data.images import DataError

VARIABLE = "GMN_DATA"


@dataclass(frozen=True)
class Source:
    """The files of a data set, and how to get them."""

    name: str
    files: tuple[str, ...]
    folders: tuple[str, ...]  # usual names of the folder that contains them
    system: tuple[Path, ...] = ()  # where operating systems install them
    instructions: tuple[str, ...] = ()  # how to get them

    def search_folders(self, data_dir: Path | None) -> list[Path]:
        """Return the folders to search, in order. If `data_dir` is given, only that is searched."""
        if data_dir is not None:
            return self._within(data_dir)
        roots = [Path(os.environ[VARIABLE])] if os.environ.get(VARIABLE) else []
        return [folder for root in [*roots, Path("data")] for folder in self._within(root)] + list(
            self.system
        )

    def _within(self, root: Path) -> list[Path]:
        return [*(root / folder for folder in self.folders), root]

    def find(self, data_dir: Path | None) -> dict[str, Path]:
        """Return the paths of all files, from one folder. Files may be compressed as `.gz`."""
        folders = self.search_folders(data_dir)
        for folder in folders:
            found = {name: path for name in self.files if (path := _existing(folder / name))}
            if len(found) == len(self.files):
                return found
            if found:
                missing = ", ".join(name for name in self.files if name not in found)
                raise DataError(f"{self.name}: {folder} has only some of the files; missing are {missing}")
        raise DataError(self._missing(folders))

    def _missing(self, folders: list[Path]) -> str:
        where = f"or say where the files are, with --data-dir FOLDER or the environment variable {VARIABLE}"
        steps = enumerate([*self.instructions, where], start=1)
        listed = "\n".join(f"  {number}. {step}" for number, step in steps)
        searched = ", ".join(map(str, folders))
        return f"{self.name} was not found: no {self.files[0]} in {searched}. To get it:\n{listed}"


def _existing(path: Path) -> Path | None:
    compressed = path.with_name(path.name + ".gz")
    return next((candidate for candidate in (path, compressed) if candidate.is_file()), None)
