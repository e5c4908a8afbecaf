"""The overview of a zoo fits the width of the terminal."""

from graph_metanetworks.zoo.overview import Overview

KNOWN = Overview(
    folder="zoo",
    recipe="diverse",
    networks=4,
    wanted=9,
    diverged=1,
    dropped=0,
    shards=1,
    bytes=10,
    fewest_weights=1,
    most_weights=2,
    seed=0,
    half=False,
    options={"data": {"checksum": "0123456789ab" + 52 * "0", "classes": [f"class {n}" for n in range(40)]}},
    versions={},
)


def test_long_lines_go_on_below_themselves() -> None:
    text = KNOWN.text(60)
    assert max(map(len, text.splitlines())) <= 60
    assert '\n                 "class' in text and '"class 39"]' in text


def test_checksums_are_short_in_text_only() -> None:
    assert "data.checksum  0123456789ab…\n" in KNOWN.text()
    assert KNOWN.as_json()["settings"] == KNOWN.options
