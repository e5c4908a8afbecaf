"""Extract and run the code and the commands of the pages.

Blocks of one page run in order and share a namespace. A ```text block right after a ```python block is the
output that the code must print. A block below the comment `<!-- not run: reason -->` is not run. Lines
`$ gmn ...` are commands.
"""

from __future__ import annotations

import re
import shlex
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import torch

BLOCK = re.compile(
    r"(?P<skip><!-- not run: [^>]+-->\s*)?"
    r"^```python\n(?P<code>.*?)^```$"
    r"(?:\s*^```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    code: str
    line: int  # where the code starts in its page
    output: str | None  # what it must print, if the page says so


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page that are run."""
    text = page.read_text()
    return [
        Block(found["code"], text.count("\n", 0, found.start("code")), found["output"])
        for found in BLOCK.finditer(text)
        if not found["skip"]
    ]


def commands(page: Path) -> list[str]:
    """Return the arguments of every `$ gmn` command on a page."""
    return re.findall(r"^\$ gmn (.*)$", page.read_text(), re.MULTILINE)


def shell_commands(page: Path) -> list[list[str]]:
    """Return the arguments of `gmn` in the shell blocks of a page."""
    found = re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [shlex.split(line, comments=True)[1:] for block in found for line in block.splitlines()]


def run(page: Path, folder: Path) -> None:
    """Run the code of a page with `folder` as the working directory."""
    names = {"__name__": page.stem}
    torch.manual_seed(0)
    with chdir(folder):
        for block in blocks(page):
            printed = StringIO()
            # leading empty lines, so that a traceback shows the line number of the page
            code = compile("\n" * block.line + block.code, str(page), "exec", dont_inherit=True)
            with redirect_stdout(printed):
                exec(code, names)
            if block.output is not None and _lines(printed.getvalue()) != _lines(block.output):
                raise AssertionError(
                    f"{page.name}, line {block.line + 1}, says that this code prints\n\n{block.output}\n"
                    f"but it prints\n\n{printed.getvalue()}"
                )


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]
