"""Optional packages: zoos are imported without them, and each is named where it is needed."""

import subprocess
import sys

import pytest

ABSENT = """
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

try:
    {use}
except MissingExtra as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("use", "extra"),
    [
        ("load('digits')", "zoo"),
        ("load('huggingface:name')", "datasets"),
        ("connected('local').__enter__()", "ray"),
        ("histogram(pyarrow.table({'loss': [1.0]})).draw('histogram.png')", "plot"),
        ("graph_metanetworks.zoo.inr.save_sheet('sheet.png', [], [], None)", "plot"),
    ],
)
def test_a_missing_package_is_named_where_it_is_needed(use: str, extra: str) -> None:
    code = ABSENT.format(use=use)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert f"pip install 'graph_metanetworks[{extra}]'" in done.stdout, done.stderr
