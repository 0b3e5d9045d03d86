"""Encodings of tensor memory against Triton's own layouts, which its bindings give since 3.8."""

from __future__ import annotations

import inspect
import random
from typing import Any

import pytest

from triton_linear.dialect import encodings
from triton_linear.dialect.linear_layout import LinearLayout

pytest.importorskip("triton._C.libtriton")

from triton_linear.tools.doctor.encodings import Oracle

pytestmark = pytest.mark.skipif(
    encodings.installed_release() < (3, 8), reason="Triton gives no layouts of tensor memory"
)

CASES = 600
SEED = 3
Basis = list[int]


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle()


def clusters(rng: random.Random, two_ctas: bool) -> list[Basis]:
    """No CTAs beside the own, or two or four, along either dimension; two that share a dot lie along M."""
    if not two_ctas and rng.random() < 0.6:
        return []
    first = [1, 0] if two_ctas or rng.random() < 0.6 else [0, 1]
    return [first] if rng.random() < 0.7 else [first, [1 - first[0], 1 - first[1]]]


def of_triton(oracle: Oracle, layout: Any, shape: tuple[int, int]) -> dict[str, list[Basis]]:
    answer = oracle.builder.to_linear_layout(layout._to_ir(oracle.builder), list(shape))
    return {"row": answer.rows, "col": answer.cols}


def own(layout: LinearLayout) -> dict[str, list[Basis]]:
    bases = dict(layout.bases)
    return {name: [list(basis) for basis in bases[name]] for name in ("row", "col")}


def test_blocks_against_triton(oracle: Oracle) -> None:
    from triton.experimental.gluon.language.nvidia.blackwell import TensorMemoryLayout

    has_fp4 = "fp4_padded" in inspect.signature(TensorMemoryLayout).parameters
    rng = random.Random(SEED)
    seen = set()
    for _ in range(CASES):
        block_m, stride = rng.choice((64, 128)), rng.choice((1, 1, 2, 4))
        two_ctas = rng.random() < 0.3
        cga = clusters(rng, two_ctas)
        along = [2 if [1, 0] in cga else 1, 2 if [0, 1] in cga else 1]
        block_n = 1 << rng.randint(1, 8)
        shape = (block_m * along[0] << rng.randint(0, 1), max(2, block_n >> rng.randint(0, 1)) * along[1])
        shape = (shape[0], shape[1] << rng.randint(0, 2))
        text = f"#ttng.tensor_memory_encoding<blockM = {block_m}, blockN = {block_n}, colStride = {stride}"
        text += f", CGALayout = {cga}" if cga else ""
        text += ", twoCTAs = true" if two_ctas else ""
        given: dict[str, Any] = {"cga_layout": cga, "two_ctas": two_ctas}
        if has_fp4 and stride == 1 and rng.random() < 0.3:
            given["fp4_padded"] = True
            text += ", fp4Padded = true"
        expected = of_triton(oracle, TensorMemoryLayout((block_m, block_n), stride, **given), shape)
        assert own(encodings.layout_of(f"{text}>", shape)) == expected, (text, shape)
        seen.add((block_m, stride, two_ctas, "fp4_padded" in given))
    assert len(seen) > (15 if has_fp4 else 10)


def test_scales_against_triton(oracle: Oracle) -> None:
    from triton.experimental.gluon.language.nvidia.blackwell import TensorMemoryScalesLayout

    rng = random.Random(SEED)
    for _ in range(CASES // 4):
        cga = clusters(rng, False)
        along = [2 if [1, 0] in cga else 1, 2 if [0, 1] in cga else 1]
        shape = ((32 << rng.randint(0, 3)) * along[0], (1 << rng.randint(0, 4)) * along[1])
        text = f"#ttng.tensor_memory_scales_encoding<{f'CGALayout = {cga}' if cga else ''}>"
        expected = of_triton(oracle, TensorMemoryScalesLayout(cga), shape)
        assert own(encodings.layout_of(text, shape)) == expected, (text, shape)


def test_two_ctas_need_two_columns() -> None:
    block = "blockM = 64, blockN = 1, colStride = 1, CGALayout = [[1, 0]], twoCTAs = true"
    with pytest.raises(ValueError, match="need 2 columns of a block, not 1"):
        encodings.layout_of(f"#ttng.tensor_memory_encoding<{block}>", (128, 4))
