"""Speed and memory of metanetworks, against message passing as PyG `MetaLayer` over an edge list.

    python benchmarks/engine.py                        # ratios, minutes
    python benchmarks/engine.py --stream 10,100,1000   # millions of parameters, weights mapped from a file
    python benchmarks/engine.py --train 100            # a training step that streams
    python benchmarks/engine.py --step                 # forward, backward and AdamW on 128 SIRENs, one core
    ... --blocks message-passing --hidden 64 --half    # for streams: the other blocks, width, half precision
    ... --markdown                                     # as Markdown, for docs/benchmarks.md

Ratios: hidden 64, 4 layers, float32, two threads; all models in one process, in turn, best of the repeats.
Memory is the growth of anonymous memory at its peak, in a process for each model.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from networks import BATCHES, sirens, wide_mlp
from safetensors.torch import load_file

import graph_metanetworks as gmn
from graph_metanetworks.allocator import keep_freed_memory

BLOCKS = ("message-passing", "matrix-product")
META_LAYER = ("message-passing", "edge_list")


# ------------------------------------------------------------------ measuring


def anonymous() -> float:
    """Memory that is not mapped from a file, of this process and of its children's own, in MB."""
    own = _numbers(Path("/proc/self/status"), "RssAnon")
    children = [c for task in Path("/proc/self/task").iterdir() for c in _text(task / "children").split()]
    private = [_numbers(Path(f"/proc/{child}/smaps_rollup"), "Private_Dirty") for child in children]
    return (own + sum(private)) / 1024


def _numbers(path: Path, name: str) -> int:
    """The sum of the entries of that name, in KB."""
    return sum(int(line.split()[1]) for line in _text(path).splitlines() if line.startswith(name))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):  # a thread or a process that has just ended
        return ""


@contextmanager
def peak_memory() -> Iterator[list[float]]:
    """The growth of anonymous memory at its peak, in MB, as the only entry of a list."""
    before, found, done = anonymous(), [0.0], threading.Event()

    def watch() -> None:
        pause = 0.01
        while not done.wait(pause):
            start = time.perf_counter()
            found[0] = max(found[0], anonymous() - before)
            pause = max(
                0.01, 20 * (time.perf_counter() - start)
            )  # looking must not slow down what it looks at

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        done.set()
        watcher.join()


def seconds(function: Callable[[], None]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def peak_flops() -> float:
    """Floating-point operations per second of a large matrix product."""
    a = torch.randn(2048, 2048)
    return 2 * 2048**3 / min(seconds(lambda: torch.mm(a, a)) for _ in range(5))


def forward_flops(batch: gmn.Batch, hidden: int, layers: int) -> float:
    """Of the products on edges: three of `hidden` by `hidden` in each layer."""
    return 2.0 * 3 * hidden**2 * layers * batch.num_edges


def runs(net: gmn.GraphMetanetwork, batch: gmn.Batch, engine: str) -> dict[str, Callable[[], None]]:
    def forward() -> None:
        with torch.no_grad():
            net(batch, engine)

    def both() -> None:
        net.zero_grad()
        net(batch, engine).sum().backward()

    return {"forward": forward, "forward and backward": both}


# ------------------------------------------------------------------ tables


def metanetwork(blocks: str, hidden: int = 64, layers: int = 4) -> gmn.GraphMetanetwork:
    torch.manual_seed(0)
    return gmn.GraphMetanetwork(hidden, layers, blocks=blocks)  # pyright: ignore[reportArgumentType]


def ratios(repeats: int) -> Iterator[list[str]]:
    peak = peak_flops()
    for name, make in BATCHES.items():
        batch = make()
        models = [META_LAYER, *((blocks, "blocks") for blocks in BLOCKS)]
        todo = {own: runs(metanetwork(own[0]), batch, own[1]) for own in models}
        found: dict[tuple[tuple[str, str], str], float] = {}
        for _ in range(repeats):
            for own, functions in todo.items():
                for what, run in functions.items():
                    found[own, what] = min(found.get((own, what), float("inf")), seconds(run))
        theirs = in_process("--memory", name, *META_LAYER)
        for blocks in BLOCKS:
            own = (blocks, "blocks")
            kept, streamed = (in_process("--memory", name, blocks, engine) for engine in ("blocks", "stream"))
            share = forward_flops(batch, 64, 4) / found[own, "forward"] / peak
            yield [
                f"{name}, {batch.num_edges / 1000:,.0f}k edges",
                blocks,
                f"{1000 * found[own, 'forward']:,.0f} ms",
                f"{found[META_LAYER, 'forward'] / found[own, 'forward']:.1f}x",
                f"{1000 * found[own, 'forward and backward']:,.0f} ms",
                f"{found[META_LAYER, 'forward and backward'] / found[own, 'forward and backward']:.1f}x",
                f"{kept:,.0f} MB",
                f"1/{theirs / kept:.1f}",
                f"1/{theirs / max(streamed, 1):.0f}",
                f"{share:.0%}" if blocks == "message-passing" else "-",
            ]


RATIOS = [
    *("batch", "blocks", "forward", "faster", "and backward", "faster", "memory", "of MetaLayer's"),
    *("stream's", "share of peak"),
]


def memory_of(name: str, blocks: str, engine: str) -> float:
    """A forward and backward pass."""
    batch, net = BATCHES[name](), metanetwork(blocks)
    runs(net, BATCHES["32 SIRENs"](), "blocks")["forward and backward"]()  # first-call costs
    with peak_memory() as found:
        runs(net, batch, engine)["forward and backward"]()
    return found[0]


def stream(millions: int, train: bool, blocks: str, hidden: int, half: bool) -> list[str]:
    """Build a network of this many million parameters, with weights mapped from a file."""
    net = metanetwork(blocks, hidden, 3)
    with torch.device("meta"):
        model, example = wide_mlp(millions)
    graph = gmn.trace(model, example)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.safetensors"
        write_weights(path, {p.name: p.shape for p in graph.parameters}, half)
        weights = load_file(path)
        batch = gmn.collate([(graph, weights)])
        with peak_memory() as memory, torch.set_grad_enabled(train):
            start = time.perf_counter()
            result = net(batch, "stream", progress=True)
            if train:
                result.sum().backward()
            taken = time.perf_counter() - start
    count = graph.num_parameters
    read = count * (2 if half else 4) * len(net.blocks)  # each weight once in each layer
    return [
        f"{count / 1e6:,.0f}M" + (", half" if half else "") + (", training step" if train else ""),
        f"{graph.num_nodes:,}",
        f"{taken:.1f} s",
        f"{taken / count * 1e9:.1f} ns",
        f"{memory[0]:,.0f} MB",
        "-" if train else f"{read / taken / 1e9:.1f} GB/s",
    ]


def write_weights(path: Path, shapes: Mapping[str, Sequence[int]], half: bool) -> None:
    """Write a safetensors file of random numbers piece by piece: it may be larger than the memory."""
    size, name = (2, "BF16") if half else (4, "F32")
    header, end = {}, 0
    for tensor, shape in shapes.items():
        start, end = end, end + math.prod(shape) * size
        header[tensor] = {"dtype": name, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    piece = (0.02 * torch.randn(1 << 24)).to(torch.bfloat16 if half else torch.float32)
    values = piece.view(torch.uint8).numpy().data
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for start in range(0, end, len(values)):
            file.write(values[: end - start])


STREAM = ["parameters", "nodes", "time", "time per parameter", "memory without the file", "weights read"]


def steps(repeats: int) -> Iterator[list[str]]:
    """Train on 128 SIRENs 2-32-32-1 at width 32, 3 layers: CPU time of a step, best of the repeats."""
    keep_freed_memory()
    torch.set_num_threads(1)
    batch, found = sirens(128, outputs=1), {}
    for blocks, engine in (META_LAYER, *((blocks, "blocks") for blocks in BLOCKS)):
        net = metanetwork(blocks, 32, 3)
        net.fit([batch])
        optimizer = torch.optim.AdamW(net.parameters(), fused=True)
        best = float("inf")
        for _ in range(repeats + 1):  # the first step has costs of its own
            start = time.process_time()
            optimizer.zero_grad()
            net(batch, engine).square().mean().backward()
            optimizer.step()
            best = min(best, time.process_time() - start)
        found[blocks, engine] = best
        yield [blocks, engine, f"{1000 * best:,.0f} ms", f"{found[META_LAYER] / best:.1f}x"]


STEPS = ["blocks", "engine", "training step", "faster"]


# ------------------------------------------------------------------ the command


def in_process(*arguments: str):
    """What this script prints as JSON when it runs with these arguments in a process of its own."""
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def show(header: list[str], rows: Iterator[list[str]], markdown: bool) -> None:
    if markdown:
        print("| " + " | ".join(header) + " |\n|" + " --- |" * len(header))
        for cells in rows:
            print("| " + " | ".join(cells) + " |", flush=True)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(*header)
    for cells in rows:
        table.add_row(*cells)
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--stream", metavar="MILLIONS", help="stream networks of these sizes")
    parser.add_argument("--train", metavar="MILLIONS", help="the same with gradients")
    parser.add_argument("--step", action="store_true", help="a training step on 128 SIRENs")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    parser.add_argument("--blocks", choices=BLOCKS, default="matrix-product", help="of streams")
    parser.add_argument("--hidden", type=int, default=16, help="width of streams")
    parser.add_argument("--half", action="store_true", help="stream a file in bfloat16")
    parser.add_argument("--memory", nargs=3, metavar=("BATCH", "BLOCKS", "ENGINE"), help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=2, metavar=("MILLIONS", "TRAIN"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(2)
    if options.memory:
        print(json.dumps(memory_of(*options.memory)))
    elif options.one:
        train = options.one[1] == "train"
        print(json.dumps(stream(int(options.one[0]), train, options.blocks, options.hidden, options.half)))
    elif options.step:
        show(STEPS, steps(options.repeats), options.markdown)
    elif options.stream or options.train:
        sizes = [(n, "infer") for n in (options.stream or "").split(",") if n]
        sizes += [(n, "train") for n in (options.train or "").split(",") if n]
        model = ["--blocks", options.blocks, "--hidden", str(options.hidden), *["--half"] * options.half]
        show(STREAM, (in_process("--one", n, mode, *model) for n, mode in sizes), options.markdown)
    else:
        show(RATIOS, ratios(options.repeats), options.markdown)


if __name__ == "__main__":
    main()
