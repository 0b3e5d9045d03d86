"""The names of operations that passes look for or create one by one."""

from __future__ import annotations

from typing import Final

MODULE: Final = "builtin.module"
FUNCTION: Final = "tt.func"
CALL: Final = "tt.call"
RETURN: Final = "tt.return"
FOR: Final = "scf.for"
IF: Final = "scf.if"
WHILE: Final = "scf.while"
YIELD: Final = "scf.yield"
CONDITION: Final = "scf.condition"
LOOPS: Final = frozenset({FOR, WHILE})

CONSTANT: Final = "arith.constant"
RANGE: Final = "tt.make_range"
ADD: Final = "arith.addi"
SUBTRACT: Final = "arith.subi"
SHIFT_LEFT: Final = "arith.shli"
AND: Final = "arith.andi"
SELECT: Final = "arith.select"
COMPARE: Final = "arith.cmpi"
COMPARE_FLOATS: Final = "arith.cmpf"
BITCAST: Final = "tt.bitcast"
BITCASTS: Final = frozenset({"arith.bitcast", BITCAST})
ADD_POINTER: Final = "tt.addptr"
ASSEMBLY: Final = "tt.elementwise_inline_asm"

CONVERT: Final = "ttg.convert_layout"
SPLAT: Final = "tt.splat"
BROADCAST: Final = "tt.broadcast"
EXPAND: Final = "tt.expand_dims"
RESHAPE: Final = "tt.reshape"
TRANS: Final = "tt.trans"
JOIN: Final = "tt.join"
SPLIT: Final = "tt.split"
GATHER: Final = "tt.gather"

REDUCE: Final = "tt.reduce"
SCAN: Final = "tt.scan"
COMBINING: Final = frozenset({REDUCE, SCAN})
"""Operations whose regions combine two elements."""
DOTS: Final = frozenset({"tt.dot", "tt.dot_scaled", "ttng.warp_group_dot"})
"""Operations that multiply their first two operands and sum over a common axis."""
WARP_GROUP_DOT: Final = "ttng.warp_group_dot"
WARP_GROUP_WAIT: Final = "ttng.warp_group_dot_wait"
IN_FLIGHT: Final = frozenset({WARP_GROUP_DOT, WARP_GROUP_WAIT})
"""Operations whose results `wgmma` may still be at work on."""

LOAD: Final = "tt.load"
STORE: Final = "tt.store"
DESCRIPTOR_LOAD: Final = "tt.descriptor_load"
ATOMIC: Final = "tt.atomic_rmw"
BUFFER_LOAD: Final = "amdg.buffer_load"
BUFFER_STORE: Final = "amdg.buffer_store"
GLOBAL_ACCESSES: Final = frozenset({LOAD, STORE, BUFFER_LOAD, BUFFER_STORE})
"""Accesses of tensors to global memory with a pointer or offset for each element."""
COPY: Final = "ttg.async_copy_global_to_local"
LOCAL_ALLOC: Final = "ttg.local_alloc"
LOCAL_LOAD: Final = "ttg.local_load"
LOCAL_STORE: Final = "ttg.local_store"
LOCAL_ACCESSES: Final = frozenset({LOCAL_ALLOC, LOCAL_LOAD, LOCAL_STORE})
"""Accesses to shared memory, which Triton puts barriers between."""
