"""Optional packages: zoos are imported without them, and each is named where it is needed."""

import json

from support.processes import run_python

USES = {
    "load('digits')": "zoo",
    "load('huggingface:name')": "datasets",
    "connected('local').__enter__()": "ray",
    "histogram(pyarrow.table({'loss': [1.0]})).draw('histogram.png')": "plot",
    "graph_metanetworks.zoo.inr.save_sheet('sheet.png', [], [], None)": "plot",
}
SCRIPT = f"""
import json
import sys

for name in ("matplotlib", "sklearn", "ray", "datasets"):
    sys.modules[name] = None

import graph_metanetworks.cli.zoo
import graph_metanetworks.zoo.inr
from graph_metanetworks.extras import MissingExtra
from graph_metanetworks.zoo.cluster import connected
from graph_metanetworks.zoo.data import load
from graph_metanetworks.zoo.histogram import histogram
import pyarrow

messages = {{}}
for use in {list(USES)}:
    try:
        eval(use)
    except MissingExtra as error:
        messages[use] = str(error)
print(json.dumps(messages))
"""


def test_a_missing_package_is_named_where_it_is_needed() -> None:
    """One process shows all of them: to start it costs more than everything that it does."""
    done = run_python("-c", SCRIPT)
    assert done.returncode == 0, done.stderr
    messages = json.loads(done.stdout)
    for use, extra in USES.items():
        assert f"pip install 'graph_metanetworks[{extra}]'" in messages[use], use
