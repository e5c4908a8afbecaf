"""Run metanetworks on a BERT from transformers: predict from its weights, and edit them.

python examples/bert.py [--checkpoint FOLDER]     # config.json and model.safetensors; nothing is downloaded
"""

import argparse

import torch
from transformers import BertConfig, BertModel

import graph_metanetworks as gmn

TINY = BertConfig(
    vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4
)

parser = argparse.ArgumentParser(description="Run metanetworks on a BERT.")
parser.add_argument("--checkpoint", metavar="FOLDER", help="a local BERT; by default, create a tiny one")
folder = parser.parse_args().checkpoint
torch.manual_seed(0)
if folder:
    bert = BertModel.from_pretrained(folder, local_files_only=True, use_safetensors=True)
else:
    bert = BertModel(TINY)
bert.eval()  # no dropout
tokens = torch.arange(5)[None]
graph = gmn.trace(bert, tokens)
print(f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges, {graph.num_parameters:,} parameters")

batch = gmn.collate([(graph, bert.state_dict())])
predictor = gmn.GraphMetanetwork(hidden=16, layers=2, out=1, engine="stream")
editor = gmn.GraphMetanetwork(hidden=16, layers=2, level="edge", readout="edit", engine="stream")
with torch.no_grad():
    print(f"prediction, before any training: {predictor(batch).item():.4f}")
    before = bert(tokens).last_hidden_state
    (edited,) = batch.state_dicts(editor(batch))
    bert.load_state_dict(edited)
    change = (bert(tokens).last_hidden_state - before).abs().mean()
print(f"edited: the output of BERT changes by {change:.4f} on average")
