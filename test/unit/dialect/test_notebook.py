"""Layouts as values that notebooks show, doctests print, processes exchange and sets hold."""

from __future__ import annotations

import base64
import copy
import os
import pickle
import re
import subprocess
import sys
from typing import Any
from xml.etree import ElementTree

import pytest
from plugin_processes import printed
from triton.experimental.gluon import language as gl

from triton_linear import gluon
from triton_linear.dialect.encodings import layout_of
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.tools.view.places import holders

ENCODING = gluon.encoding_text(gl.NVMMADistributedLayout([2, 0], [1, 1], [16, 8]), (16, 16))
MMA = layout_of(ENCODING, (16, 16))
ROWS = gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0])
COLUMNS = gl.BlockedLayout([8, 1], [4, 8], [1, 4], [0, 1])
SHAPE = (64, 64)
ONE = 'fill="#ffffff" font-weight="bold">1<'
"""An entry of a matrix in a picture."""

RESULTS: dict[str, Any] = {
    "bank conflicts": gluon.bank_conflicts(gl.SwizzledSharedLayout(1, 1, 1, [1, 0]), COLUMNS, SHAPE, "f16"),
    "shared layout": gluon.suggest_shared_layout([ROWS], [COLUMNS], SHAPE, "f16"),
    "load layout": gluon.suggest_load_layout(SHAPE, "f16", [1, 0], 4, consumer=COLUMNS),
    "cost": gluon.conversion_cost(ROWS, COLUMNS, SHAPE, "f16"),
    "bridge": gluon.best_bridge(ROWS, COLUMNS, SHAPE, "f16"),
}


def drawn(layout: LinearLayout) -> str:
    """The picture, which has to be there."""
    found = layout._repr_svg_()
    assert found is not None
    return found


def words(svg: str) -> list[str]:
    """What is written in a picture."""
    return [text for text in ElementTree.fromstring(svg).itertext() if text.strip()]


def test_a_layout_is_drawn_with_the_holder_of_every_element() -> None:
    written = words(drawn(MMA))
    shown = [re.fullmatch(r"T(\d+):(\d+)-(\d+)", word) for word in written]
    found = {(int(m[1]), register) for m in shown if m for register in range(int(m[2]), int(m[3]) + 1)}
    assert found == {(lane, register) for ((register, lane, _, _),) in holders(MMA).values()}
    assert drawn(MMA).count(ONE) == sum(column.bit_count() for column in MMA.matrix())


def test_a_large_layout_is_drawn_as_its_matrix() -> None:
    for layout in (gluon.linear_layout(ROWS, SHAPE), LinearLayout.identity_1d(1 << 40, "lane", "dim0")):
        written = words(drawn(layout))
        assert "matrix over F2" in written
        assert not any(word.startswith("T0:") for word in written)
        assert drawn(layout).count(ONE) == sum(column.bit_count() for column in layout.matrix())


def test_layouts_of_one_and_three_dimensions_are_drawn() -> None:
    line = LinearLayout.identity_1d(4, "offset", "dim0")
    assert "who holds each element" in words(drawn(line))
    cube = line * LinearLayout.identity_1d(2, "offset", "dim1") * LinearLayout.identity_1d(2, "block", "dim2")
    assert "who holds each element" not in words(drawn(cube))


def test_nothing_is_drawn_of_a_point() -> None:
    assert LinearLayout.empty()._repr_svg_() is None
    assert LinearLayout.identity_1d(1, "lane", "dim0")._repr_svg_() is None
    assert LinearLayout.zeros_1d(4, "lane", "dim0")._repr_svg_() is None


def test_nothing_is_loaded_before_a_picture_is_asked_for() -> None:
    script = (
        "import sys\n"
        "from triton_linear.dialect.linear_layout import LinearLayout\n"
        "repr(LinearLayout.identity_1d(2, 'lane', 'dim0'))\n"
        "print([n for n in sys.modules if n.startswith(('triton_linear.tools', 'numpy'))])\n"
    )
    assert printed("-c", script) == "[]\n"


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_values_that_explain_themselves(name: str) -> None:
    result = RESULTS[name]
    for other in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert (other == result, hash(other) == hash(result), str(other) == str(result)) == (True, True, True)
    html = result._repr_html_()
    root = ElementTree.fromstring(f"<body>{html}</body>")
    assert root.findtext("pre") == str(result)
    image, layout = root.find("img"), getattr(result, "linear", None)
    assert (image is not None) == (layout is not None)
    if image is not None and layout is not None:
        head, _, data = image.attrib["src"].partition(",")
        assert head == "data:image/svg+xml;base64"
        assert base64.b64decode(data).decode() == drawn(layout)


# Text, equality and pickles


@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_layout_of_another_process_is_equal_and_found_in_a_set(seed: str) -> None:
    """Strings hash otherwise there; nothing of that may travel."""
    script = (
        "import pickle, sys\n"
        "from triton_linear.dialect.encodings import layout_of\n"
        "layout = layout_of(sys.argv[1], (16, 16))\n"
        "hash(layout)\n"
        "sys.stdout.buffer.write(pickle.dumps((layout, repr(layout), str(layout))))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, ENCODING],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )
    layout, shown, listed = pickle.loads(done.stdout)
    assert layout == MMA
    assert layout in {MMA}
    assert (shown, listed) == (repr(MMA), str(MMA))
