"""Draw the pictures of the README and the pages, with the code on the pages.

python docs/make_images.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pages import run, shell_commands

DOCS = Path(__file__).resolve().parent
MERGE = DOCS.parent / "examples" / "merge.py"
PRUNE = DOCS.parent / "examples" / "prune.py"
OWN = DOCS / "checkpoints.md"


def main() -> None:
    for page in ("parameter-graph.md", "symmetry.md", "theory.md"):
        run(DOCS / page, DOCS)  # writes to images/
    subprocess.run([sys.executable, MERGE, "--plot", DOCS / "images" / "merge.svg"], check=True)
    subprocess.run([sys.executable, PRUNE, "--plot", DOCS / "images" / "prune.svg"], check=True)
    with TemporaryDirectory() as folder:
        make_map(Path(folder))
    with TemporaryDirectory() as folder:
        run(DOCS.parent / "README.md", Path(folder))
        shutil.copy(Path(folder) / "graph.svg", DOCS / "images" / "quick-start.svg")
    for image in sorted((DOCS / "images").iterdir()):
        print(f"{image.relative_to(DOCS.parent)}  {image.stat().st_size / 1000:.0f} kB")


def make_map(folder: Path) -> None:
    """Run the three commands of the page about checkpoints."""
    (folder / "examples").symlink_to(DOCS.parent / "examples")
    subprocess.run([sys.executable, "examples/own_checkpoints.py", "mine"], cwd=folder, check=True)
    for words in shell_commands(OWN)[:3]:
        subprocess.run([sys.executable, "-m", "graph_metanetworks", *words], cwd=folder, check=True)
    shutil.copy(folder / "map.svg", DOCS / "images" / "own-map.svg")


if __name__ == "__main__":
    main()
