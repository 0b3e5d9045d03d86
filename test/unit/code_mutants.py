"""Mistakes that someone could make in the code that decides whether a conversion is right, as textual changes.

`test/mutants.py` makes them one at a time and runs the tests that are to catch them.
"""

from __future__ import annotations

from dataclasses import dataclass

PLANS = "test/unit/test_plans.py::test_every_plan_of_random_pairs[cuda:90]"
FUZZ = tuple(
    f"test/unit/test_fuzz.py::test_random_pairs_are_lowered_right[{target}]"
    for target in ("cuda:90", "hip:gfx942", "hip:gfx950", "hip:gfx1100")
)
RUN = tuple(
    f"test/unit/test_verify.py::test_emitted_conversions[{kind}]" for kind in ("nvidia", "amd", "cdna4", "rdna")
)
TRANSPOSING = "test/unit/test_plans.py::test_loads_of_cdna4_transpose"
PROVE = "test/unit/test_prove.py"
WORDS = "test/unit/test_words.py"
SCRATCH = "test/unit/test_scratch.py"
PASSES = "test/unit/test_passes.py"
SAME = "test/unit/test_modules_compute_the_same.py"
VERIFY = "test/unit/test_verify.py"
LIT = "test/lit/"


@dataclass(frozen=True)
class CodeMutant:
    """`old`, which occurs once in `file`, becomes `new`. `tests` are to catch it, the fastest first.

    Where plans are what is wrong (`planned`), the proof of plans stands before all tests, which run without it.
    """

    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]
    planned: bool = False

    @property
    def name(self) -> str:
        return f"{self.file}: {self.breaks}"


def planned(file: str, old: str, new: str, breaks: str, *tests: str) -> CodeMutant:
    return CodeMutant(f"lowering/{file}.py", old, new, breaks, (*(tests or (PLANS,)), *FUZZ), planned=True)


def emitted(file: str, old: str, new: str, breaks: str, *tests: str) -> CodeMutant:
    return CodeMutant(f"lowering/{file}.py", old, new, breaks, tests or (*RUN, *FUZZ))


MUTANTS: tuple[CodeMutant, ...] = (
    # --- which registers and lanes, in shuffles
    planned(
        "shuffle",
        "            lane_xor = away[q]\n",
        "            lane_xor = away[q] and away[q] ^ 1\n",
        "lane xor of a round",
    ),
    planned("shuffle", "p3 = tuple(e ^ f2", "p3 = tuple(f2", "what a warp bit adds to the register sent"),
    planned(
        "shuffle",
        "lane_columns = (*lanes, *blocks.f)",
        "lane_columns = (*lanes, *(0 for _ in blocks.f))",
        "what a warp bit adds to the lane read",
    ),
    planned(
        "shuffle",
        "(self.twist[bit] if bit < lane_bits else 0)",
        "(self.twist[bit] if bit < lane_bits - 1 else 0)",
        "the last lane bit's twist",
    ),
    planned("shuffle", "found >> width & ((1", "found >> width + 1 & ((1", "round that a register came in"),
    planned("shuffle", "held(register ^ offset) for", "held(register) for", "what a sender's lane chooses"),
    # --- origins of destination bits
    planned(
        "conversion",
        "(1 << bit) if bit < len(stay) else 0",
        "(1 << bit) if bit + 1 < len(stay) else 0",
        "last bit of a dimension stays where it is",
    ),
    planned(
        "registers",
        "            if origin.register:\n",
        "            if origin.register and name == 'lane':\n",
        "renaming that differs between warps",
        "test/unit/test_plans.py::test_a_renaming_is_the_same_in_every_thread",
    ),
    CodeMutant(
        "lowering/registers.py",
        "    if conv.src == conv.dst:\n",
        "    if conv.src.lane == conv.dst.lane and len(conv.src.register) == len(conv.dst.register):\n",
        "a conversion is taken for a no-op that is none",
        (PLANS, *FUZZ),
    ),
    # --- words
    planned(
        "words",
        "(combination >> index & 1) << bit\n",
        "(combination >> index & 1) << (bit ^ 1)\n",
        "lane mask of a condition",
        WORDS,
        PLANS,
    ),
    planned(
        "words",
        "(_essential(rest, zero), _essential(rest, one))",
        "(_essential(rest, one), _essential(rest, zero))",
        "arms of a choice by condition",
        WORDS,
        PLANS,
    ),
    planned(
        "words",
        "self.slots * (slot in split.slots)",
        "self.slots * (slot not in split.slots)",
        "halves of a word",
        WORDS,
        PLANS,
    ),
    planned(
        "packing",
        "access * per_access + position // slots, position % slots)",
        "access * per_access, position % slots)",
        "second word of an access",
        *RUN,
    ),
    planned(
        "packing",
        "        given += count * per_access\n",
        "        given += count\n",
        "where the words of the next round begin",
        *RUN,
    ),
    planned(
        "packing",
        "registers[a + start : a + min(start + slots, width)]",
        "registers[start : min(start + slots, width)]",
        "alternatives of split stores",
        *RUN,
    ),
    # --- addresses and rounds
    planned("swizzle", "sums = tuple(e ^ f for", "sums = tuple(e for", "segments of both sides' lanes"),
    planned(
        "swizzle", "    return 1 << meet\n", "    return 1\n", "conflicts go unseen", "test/unit/test_plans.py"
    ),
    planned(
        "placement", "return found >> bits, offset", "return found >> bits + 1, offset", "round of an element"
    ),
    planned(
        "placement",
        "return f2.extend((*exchange.store_threads, *exchange.load_threads), common)",
        "return f2.extend(exchange.store_threads, common)",
        "a vector that a loading lane splits",
    ),
    planned("placement", "- slots)\n", "- 1)\n", "position within an access left in its address"),
    planned(
        "exchange",
        "slices = tuple(tile_bytes << bit for",
        "slices = tuple(tile_bytes >> 1 << bit for",
        "slices of warps overlap",
    ),
    planned(
        "exchange",
        'scratch_bytes=tile_bytes << (warps if self.scope == "warp" else 0)',
        "scratch_bytes=tile_bytes",
        "scratch for one warp only",
    ),
    planned(
        "exchange", "[1] ^ own for column, own in", "[1] for column, own in", "warps' own part of the address"
    ),
    planned("exchange", "holders[value ^ other]", "holders[value]", "registers that duplicate threads store"),
    planned(
        "exchange",
        "enumerate(threads[:sharers]) if not column]",
        "enumerate(threads) if not column]",
        "warps share stores of their own slices",
    ),
    planned(
        "exchange",
        "return round_, offset, found & (slots - 1)\n",
        "return round_, offset, found & (slots - 1) ^ 1\n",
        "halves of a matrix access",
    ),
    planned(
        "fragments",
        "lanes=tuple(by_source.get(source, 0) for source in form.lanes)",
        "lanes=tuple(by_source.get(source, 0) for source in sorted(form.lanes))",
        "rows that the lanes of a matrix access name",
    ),
    planned(
        "transposing",
        '("l2", "l3", "r0", "r1", "l4", "l5"), fewest=2',
        '("r0", "r1", "l2", "l3", "l4", "l5"), fewest=2',
        "whose rows a transposing load of half-words reads",
        TRANSPOSING,
    ),
    planned(
        "transposing",
        '("l3", "r0", "r1", "r2", "l4", "l5"), fewest=3',
        '("r0", "r1", "r2", "l3", "l4", "l5"), fewest=3',
        "whose rows a transposing load of bytes reads",
        TRANSPOSING,
    ),
    # --- emission of words
    emitted(
        "emit_words",
        '"shl" if shift > 0 else "lshr"',
        '"lshr" if shift > 0 else "shl"',
        "direction in which a thread bit moves",
    ),
    emitted(
        "emit_words",
        'selected = writer.binary("and", count, writer.constant(1))',
        'selected = writer.binary("and", count, writer.constant(3))',
        "parity of a mask",
    ),
    emitted(
        "emit_words",
        "self._lane(columns, step.lane_xor)",
        "self._lane(columns, 0)",
        "lane xor of an indexed shuffle",
    ),
    emitted(
        "emit_words",
        "llvm.select {condition}, {b}, {a} : i1",
        "llvm.select {condition}, {a}, {b} : i1",
        "arms of a select",
    ),
    emitted(
        "emit_words",
        "first = step.replaced == whole[0]",
        "first = step.replaced != whole[0]",
        "which word is replaced",
        "test/unit/test_words.py",
    ),
    emitted("emit_words", "{one}, {zero} : i1", "{zero}, {one} : i1", "arms of a chosen selector"),
    emitted(
        "emit_words", "high if half > 1 else low", "high if half > 2 else low", "half-word of the second source"
    ),
    emitted(
        "emit_words",
        "(slot if pick < 0 else pick) * size + byte",
        "(slot if pick < 0 else pick) * size",
        "bytes of a half-word in a permute",
    ),
    # --- emission of accesses
    emitted(
        "emit_shared",
        "        machine.barrier(writer, plan.scope)\n        for access in loads:\n",
        "        for access in loads:\n",
        "no barrier between stores and loads",
    ),
    emitted(
        "emit_shared", "        if index:\n", "        if index > 1:\n", "no barrier before the second round"
    ),
    emitted(
        "emit_shared",
        "row(offset & moving), offset & ~moving",
        "row(0), offset & ~moving",
        "bits of an offset that threads have too",
    ),
    emitted(
        "emit_shared",
        'writer.binary("xor", origin, writer.constant(flipped))',
        'writer.binary("add", origin, writer.constant(flipped))',
        "sum where thread and offset share bits",
    ),
    emitted(
        "emit_shared",
        'return f"i{8 * side.access_bytes}", True',
        'return f"i{16 * side.access_bytes}", True',
        "width of a narrow access",
    ),
    emitted("machines", "x{count}.trans.b16", "x{count}.b16", "matrix accesses do not transpose"),
    emitted(
        "emit_shared",
        "alignment = {side.access_bytes} : i64",
        "alignment = {4 * side.access_bytes} : i64",
        "alignment that an access does not have",
    ),
    emitted(
        "emit_shared",
        "pointers(writer, thread, plan.load.columns, base)",
        "pointers(writer, thread, plan.load.columns[:-1], base)",
        "last thread bit of load addresses",
    ),
    emitted(
        "emit_shared",
        "rest = padding.placed(rest)",
        "rest = padding.placed(rest) if rest > padding.row_bytes else rest",
        "a row of padded memory begins where the one before ends",
        "test/unit/test_legacy.py",
    ),
    emitted(
        "emit_padded",
        "        if index:\n",
        "        if index > 1:\n",
        "the second round stores what the first may not have loaded",
        "test/unit/test_legacy.py",
    ),
    emitted(
        "emit",
        "values = [register(index) for index in plan.sources]",
        "values = [register(index) for index in sorted(plan.sources)]",
        "renamed registers",
    ),
    emitted(
        "emit",
        "        start = number * slots\n",
        "        start = number * max(1, slots // 2)\n",
        "registers of a packed word",
    ),
    # --- what stands around the code
    emitted(
        "embed",
        '            f"{mark}"\n            f"    {p}place',
        '            f"    {p}place',
        "no barrier before stores to scratch that others read",
        f"{LIT}lowering/scratch-hazards.mlir",
    ),
    emitted(
        "embed",
        'after = mark if settles else ""',
        'after = ""',
        "no barrier between loads and the next user of the scratch",
        f"{LIT}lowering/scratch-hazards.mlir",
        f"{LIT}lowering/scratch-in-loop-nvidia.mlir",
    ),
    emitted(
        "embed",
        "max(1, -(-size // 8))}x1xi64",
        "max(1, -(-size // 16))}x1xi64",
        "half of the scratch is allocated",
        "test/unit/test_functions.py",
    ),
    emitted(
        "embed",
        "        if self._has_calls:\n",
        "        if not self._target:\n",
        "barriers in functions that are called hide what came before",
        f"{LIT}lowering/scratch-hazards.mlir",
    ),
    emitted(
        "embed",
        "            if home.waits and not (",
        "            if not home.waits and not (",
        "no barrier of the warp before its part is stored to again",
        SCRATCH,
        f"{LIT}lowering/scratch-of-warps-amd.mlir",
        f"{LIT}lowering/scratch-of-warps-nvidia.mlir",
    ),
    emitted(
        "scratch",
        "if any(column - column % part != part << bit for",
        "if any(column - column % part > part << bit for",
        "warps that do not keep to their parts",
        SCRATCH,
    ),
    emitted(
        "scratch",
        "(home.freed, -use.bytes)",
        "(use.end, -use.bytes)",
        "scratch that lives long is not counted",
        SCRATCH,
    ),
    # --- passes
    CodeMutant(
        "passes/fold.py",
        "        return same_map(first, second)\n",
        "        return first.out_dims == second.out_dims\n",
        "conversions that move data are folded",
        (PASSES, SAME, f"{LIT}passes/fold-conversions.mlir"),
    ),
    CodeMutant(
        "passes/fold.py",
        "key = (conversion.operands[0], conversion.results[0].type)",
        "key = (conversion.operands[0], conversion.operands[0].type)",
        "conversions of one value to two types are taken for one",
        (PASSES, SAME, f"{LIT}passes/fold-conversions.mlir"),
    ),
    CodeMutant(
        "passes/fold.py",
        "isinstance(value, DenseElementsAttr) and value.is_splat",
        "isinstance(value, DenseElementsAttr)",
        "a constant of several values is made a splat",
        (PASSES, SAME, f"{LIT}passes/fold-conversions.mlir"),
    ),
    CodeMutant(
        "passes/select.py",
        'if partial.present and selection.plan.kind in ("cta-shared", PADDED)',
        'if partial.present and selection.plan.kind in ("none", PADDED)',
        "a barrier of all warps where some do not come",
        (PASSES, f"{LIT}passes/select-lowering-remarks.mlir"),
    ),
    CodeMutant(
        "passes/outline.py",
        "key = (source.type, result.type, plan, kind)",
        "key = (source.type, source.type, plan, kind)",
        "two conversions share a stub",
        (PASSES, f"{LIT}passes/outline-conversions.mlir"),
    ),
    CodeMutant(
        "passes/outline.py",
        "        if reason := refuted(plan,",
        "        if reason := element.bits and not plan and refuted(plan,",
        "plans go unproved",
        ("test/unit/test_plugin_compiles.py::test_a_plan_that_is_not_proved_leaves_the_stock_kernel",),
    ),
    # --- the proof and the interpreter
    CodeMutant(
        "lowering/prove.py",
        "    if arrived != wanted:\n",
        "    if len(arrived) != len(wanted):\n",
        "what arrives is not compared",
        (PROVE,),
    ),
    CodeMutant(
        "lowering/prove_exchange.py",
        "    if reached + covered > plan.scratch_bytes:\n",
        "    if reached > plan.scratch_bytes:\n",
        "the end of the scratch is not seen",
        (PROVE,),
    ),
    CodeMutant(
        "lowering/prove_exchange.py",
        "            if other := _add(pivots, pair, width):\n",
        "            if (other := _add(pivots, pair, width)) < 0:\n",
        "warps that reach each other's bytes are not seen",
        (PROVE,),
    ),
    CodeMutant(
        "lowering/verify.py",
        "    wrong = undefined | different\n",
        "    wrong = undefined & different\n",
        "wrong values that are defined count as right",
        (VERIFY,),
    ),
    CodeMutant(
        "lowering/verify.py",
        "((0xA7 + 0x1D * k) & 0xFF) << (8 * k)",
        "((0xA7 + 0x1D * k) & 0xFF) << 0",
        "bytes of an element are alike",
        (VERIFY,),
    ),
)
