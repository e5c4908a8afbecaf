"""Declare PyTorch's recurrent layers as a whole, because their steps are all the same."""

from __future__ import annotations

from torch import nn

from graph_metanetworks.trace.interpret.declare import Declaration, declare

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def recurrent(module: nn.RNNBase) -> Declaration:
    """Declare hidden axes `f0, ...` per layer (`b0, ...` backwards), or projections `p0, ...` (`q0, ...`)."""
    gates = GATES[module.mode]
    directions = ("", "_reverse") if module.bidirectional else ("",)
    parameters: dict[str, str] = {}
    before = "i"
    states, cells = [], []
    for layer in range(module.num_layers):
        results = []
        for suffix in directions:
            hidden = f"{'b' if suffix else 'f'}{layer}"
            result = f"{'q' if suffix else 'p'}{layer}" if module.proj_size else hidden
            name = f"l{layer}{suffix}"
            parameters[f"weight_ih_{name}"] = f"({gates} {hidden}) {before}"
            parameters[f"weight_hh_{name}"] = f"({gates} {hidden}) {result} : {result} -> {hidden}"
            parameters[f"bias_ih_{name}"] = f"({gates} {hidden})"
            parameters[f"bias_hh_{name}"] = f"({gates} {hidden})"
            parameters[f"weight_hr_{name}"] = f"{result} {hidden}"
            results.append(result)
            cells.append(hidden)
        states += results
        before = "+".join(results)
    kinds = {
        name: ("recurrent weight" if "hh" in name else "gate weight")
        if name.startswith("weight")
        else ("recurrent bias" if "hh" in name else "gate bias")
        for name in parameters
    }
    last = f"N ... {'|'.join(states)}", f"N ... {'|'.join(cells)}"
    outputs = [f"... {before}", *last[: 2 if module.mode == "LSTM" else 1]]
    return Declaration(["... i"], parameters, outputs, kinds)


for _class in (nn.LSTM, nn.GRU, nn.RNN):
    declare(_class, recurrent)
