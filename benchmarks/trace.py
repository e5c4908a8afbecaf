"""Measure time and memory of tracing, against those of the explicit edge list for the same network.

    python benchmarks/trace.py                 # a table
    python benchmarks/trace.py --markdown      # the same for docs/benchmarks.md

Every row runs in a process of its own: memory is the growth of its peak resident size. Times are the best of
three, since other work on a machine only adds to them. Two threads.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import graph_metanetworks as gmn

TOKENS = torch.arange(8).view(1, 8)
MOST_EDGES = 400_000_000  # beyond this the explicit list would not fit into memory


def resnet50() -> tuple[nn.Module, dict]:
    from transformers import ResNetConfig, ResNetForImageClassification

    model = ResNetForImageClassification(ResNetConfig(num_labels=1000))
    return model, {"pixel_values": torch.randn(1, 3, 224, 224)}


def gpt2() -> tuple[nn.Module, dict]:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config()), {"input_ids": TOKENS, "use_cache": False}


def llama(hidden: int, inner: int, layers: int, *, tied: bool) -> tuple[nn.Module, dict]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128256,
        tie_word_embeddings=tied,
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    return model, {"input_ids": TOKENS, "use_cache": False}


def chain(operations: int) -> tuple[nn.Module, dict]:
    """Build a deep residual network of about this many recorded operations."""

    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(operations // 4))

        def forward(self, x):
            for layer in self.layers:  # transpose, addmm, tanh, add
                x = x + torch.tanh(layer(x))
            return x

    return Chain(), {"x": torch.randn(1, 8)}


CASES: dict[str, Callable[[], tuple[nn.Module, dict]]] = {
    "ResNet-50": resnet50,
    "GPT-2, 124M": gpt2,
    "Llama 1.2B, meta": lambda: llama(2048, 8192, 16, tied=True),
    "Llama 8B, meta": lambda: llama(4096, 14336, 32, tied=False),
    "chain of 2,500 operations": lambda: chain(2_500),
    "chain of 5,000 operations": lambda: chain(5_000),
    "chain of 10,000 operations": lambda: chain(10_000),
}


def peak() -> float:
    """Peak resident size of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def measure(name: str) -> dict[str, float]:
    torch.set_num_threads(2)
    model, inputs = CASES[name]()
    gmn.trace(nn.Linear(2, 2), torch.randn(1, 2))  # imports and first-call costs are not the network's
    graph, seconds, memory = best_of_three(lambda: gmn.trace(model, **inputs))
    result = {
        "parameters": graph.num_parameters,
        "edges": graph.num_edges,
        "trace_seconds": seconds,
        "trace_mb": memory,
    }
    if graph.num_edges <= MOST_EDGES:
        _, seconds, memory = best_of_three(lambda: graph.edge_index)
        result |= {"list_seconds": seconds, "list_mb": memory}
    return result


def best_of_three(function: Callable[[], Any]) -> tuple[Any, float, float]:
    """What the function gives, its shortest time in seconds, and the memory of the first call in MB."""
    times, memory = [], peak()
    for attempt in range(3):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
        memory = peak() - memory if attempt == 0 else memory
    return result, min(times), memory


def row(name: str, found: dict[str, float]) -> list[str]:
    cells = [
        name,
        f"{found['parameters'] / 1e6:,.1f}M",
        f"{found['trace_seconds']:.2f} s",
        f"{found['trace_mb']:,.0f} MB",
    ]
    if "list_seconds" not in found:
        return [*cells, "-", f"needs {found['edges'] * 16 / 1e9:,.0f} GB", "-"]
    more = found["list_seconds"] / found["trace_seconds"]
    return [*cells, f"{found['list_seconds']:.2f} s", f"{found['list_mb']:,.0f} MB", f"{more:.2f}"]


HEADER = ["network", "parameters", "trace", "memory", "edge list", "memory", "list / trace, time"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--only", help="measure one network in this process and print JSON")
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.only)))
        return
    rows = []
    for name in CASES:
        print(f"measuring {name} ...", file=sys.stderr)
        command = [sys.executable, __file__, "--only", name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        rows.append(row(name, json.loads(done.stdout.splitlines()[-1])))
    if options.markdown:
        print("| " + " | ".join(HEADER) + " |\n|" + " --- |" * len(HEADER))
        for cells in rows:
            print("| " + " | ".join(cells) + " |")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(*HEADER)
    for cells in rows:
        table.add_row(*cells)
    Console().print(table)


if __name__ == "__main__":
    main()
