"""The suite of conversions for AMD GPUs: how AMDGCN is counted, the model, and its page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.static import amdgcn, compiled, job, model
from bench.static.amdgcn import Loop
from triton_linear.lowering.target.targets import target as target_called

TEXT = """
kernel:                                 ; @kernel
.Lfunc_begin0:
	s_load_dwordx2 s[2:3], s[0:1], 0x0
	v_and_b32_e32 v1, 0xc0, v0
	v_lshlrev_b32_e32 v4, 4, v0
	ds_write_b8 v0, v1
.LBB0_1:
	;;#ASMSTART
	; the tensor enters
	;;#ASMEND
	.loc	1 58 17                         ; kernels.py:58:17
	ds_write_b128 v0, v[20:23]              ; 16-byte Folded Spill
	s_cbranch_vccnz .LBB0_2
	ds_read2st64_b32 v[8:9], v2 offset1:4
.LBB0_2:                                ;   in Loop: Header=BB0_1 Depth=1
	s_waitcnt lgkmcnt(0)
	;;#ASMSTART
	; the tensor crosses
	;;#ASMEND
	s_nop 1
	v_mov_b32_dpp v1, v2 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf
	v_cndmask_b32_e64 v1, v2, v3, s[0:1]
	s_barrier
	;;#ASMSTART
	; the tensor leaves
	;;#ASMEND
	;;#ASMSTART
	; the tensor enters
	;;#ASMEND
	ds_write_b128 v0, v[20:23]
	ds_read2st64_b32 v[8:9], v2 offset1:4
	;;#ASMSTART
	; the tensor crosses
	;;#ASMEND
	v_cndmask_b32_e32 v1, v2, v3, vcc
	;;#ASMSTART
	; the tensor leaves
	;;#ASMEND
	s_cbranch_scc1 .LBB0_1
	v_mov_b32_e32 v9, v8
	s_endpgm
.LBB0_9:
	s_branch .LBB0_9
"""


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("ds_read_u8 v1, v2 offset:3", "ds_read_b8"),
        ("ds_read_u16_d16_hi v1, v2", "ds_read_b16"),
        ("ds_read_i8 v1, v2", "ds_read_b8"),
        ("ds_read_b96 v[0:2], v4", "ds_read_b96"),
        ("ds_read2_b64 v[0:3], v4 offset1:8", "ds_read2_b64"),
        ("ds_write2st64_b64 v0, v[2:3], v[4:5] offset1:1", "ds_write2_b64"),
        ("ds_write_b8_d16_hi v0, v1", "ds_write_b8"),
        ("ds_write_b16 v0, v1", "ds_write_b16"),
        ("ds_read_b64_tr_b8 v[0:1], v2", "ds_read_tr_b64"),
        ("ds_bpermute_b32 v0, v1, v2", "ds_bpermute"),
        ("ds_swizzle_b32 v0, v1 offset:swizzle(SWAP,16)", "ds_swizzle"),
        ("v_mov_b32_dpp v4, v5 row_half_mirror row_mask:0xf bank_mask:0xf", "dpp"),
        ("v_or_b32_dpp v4, v5, v6 row_shr:4 row_mask:0xf bank_mask:0xa", "dpp"),
        ("v_permlane16_swap_b32_e32 v0, v1", "v_permlane"),
        ("v_perm_b32 v0, v1, v2, s4", "v_perm_b32"),
        ("v_readfirstlane_b32 s4, v0", "v_readlane"),
        ("v_cndmask_b32_e32 v0, v1, v2, vcc", "valu"),
        ("v_accvgpr_read_b32 v0, a1", "valu"),
        ("s_barrier", "s_barrier"),
        ("s_waitcnt lgkmcnt(0)", "s_waitcnt"),
        ("s_nop 1", "s_nop"),
        ("s_cbranch_scc1 .LBB0_1", "salu"),
    ],
)
def test_kinds(line: str, kind: str) -> None:
    assert amdgcn.kind_of(line) == kind


@pytest.mark.parametrize("line", ["scratch_load_dword v1, off, s32", "global_store_dword v[0:1], v2, off"])
def test_memory_in_the_loop_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match="the loop accesses memory"):
        amdgcn.kind_of(line)


def test_an_unknown_instruction_of_lds_is_an_error() -> None:
    with pytest.raises(ValueError, match="not counted: 'ds_add_u32"):
        amdgcn.kind_of("ds_add_u32 v0, v1")


def test_the_loop_is_counted_by_round_trips() -> None:
    found = amdgcn.loop(TEXT)
    assert found.kinds == {
        "dpp": 0.5,
        "ds_read2_b32": 1.0,
        "ds_write_b128": 1.0,
        "s_barrier": 0.5,
        "s_nop": 0.5,
        "s_waitcnt": 0.5,
        "salu": 1.0,
        "valu": 1.0,
    }
    assert found.opcodes == {"s_cbranch_scc1": 0.5, "s_cbranch_vccnz": 0.5, "v_cndmask_b32": 1.0}
    assert (found.nop_states, found.setup, found.bytes_accessed) == (1.0, 2, 24.0)
    assert found.unrolled == 2


@pytest.mark.parametrize("unrolled", [1, 8])
def test_what_the_empty_loop_takes_is_taken_off(unrolled: int) -> None:
    """Two scalar instructions and two waits an iteration; the loop has two and one in that of its two trips."""
    once = {"salu": 2 / unrolled, "s_waitcnt": 2 / unrolled}
    base = Loop(once, {"s_cbranch_scc1": 1 / unrolled}, 0.0, 1, unrolled)
    found = amdgcn.loop(TEXT).less(base)
    assert "salu" not in found.kinds and found.kinds["s_waitcnt"] == -0.5
    assert "s_cbranch_scc1" not in found.opcodes
    assert found.setup == 1


def test_clocks_are_those_of_the_pipes_and_barriers() -> None:
    costs = target_called("hip:gfx942").costs
    found = model.Model(costs)
    assert found.clocks({}, 0) == 0
    assert found.clocks({"s_barrier": 2.0, "s_waitcnt": 9.0, "salu": 9.0}, 0) == 2 * costs.cta_barrier
    assert found.clocks({}, 32) == pytest.approx(32 * costs.wavefront)
    assert found.clocks({"ds_swizzle": 3.0, "ds_bpermute": 4.0}, 0) == pytest.approx(7 * costs.shuffle)
    vector = {"dpp": 1.0, "v_perm_b32": 2.0, "v_permlane": 3.0, "v_readlane": 4.0, "valu": 5.0}
    assert found.clocks(vector, 0) == pytest.approx(15 * costs.alu)
    assert found.clocks(vector, 32) == pytest.approx(costs.clocks(32 * costs.wavefront, 15))


def test_more_bytes_than_were_interpreted_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_another_load(*arguments: Any, **options: Any) -> compiled.Kernel:
        kernel = compiled.compile_case(*arguments, **options)
        return replace(kernel, loop=Loop(dict(kernel.loop.kinds) | {"ds_read_b128": 99.0}, {}))

    monkeypatch.setattr(job, "compile_case", with_another_load)
    found = job.work(job.Job("hip:gfx942", "transpose-8-32x32-1w", job.STOCK, Loop({}, {})))
    (problem,) = found["problems"]
    assert "bytes of LDS in the loop, 64 in the interpreter" in problem
