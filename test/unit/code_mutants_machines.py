"""Mistakes in what vendors' instructions do: exchanges by lane instructions, and the machines."""

from __future__ import annotations

from code_mutants import FUZZ, PLANS, RUN, CodeMutant, emitted, planned

LANES = "test/unit/test_lanes.py"
GATHERED = "test/unit/test_gather.py::test_code_of_random_gathers_takes_what_numpy_does"

MUTANTS: tuple[CodeMutant, ...] = (
    planned(
        "shuffle",
        "other_word = words[first ^ high]",
        "other_word = words[second]",
        "word that changes places with a lane bit",
        PLANS.replace("cuda:90", "hip:gfx950"),
    ),
    planned(
        "shuffle",
        "(other_word, slot ^ low) for slot",
        "(other_word, slot) for slot",
        "slots of a word that changes places with a lane bit",
        PLANS.replace("cuda:90", "hip:gfx950"),
    ),
    planned(
        "shuffle",
        "units[bit], units[other] = units[other], combination",
        "units[bit], units[other] = units[other], units[bit]",
        "register bit inside words that is to number them",
        PLANS.replace("cuda:90", "hip:gfx950"),
    ),
    emitted("lanes", "lane << 2 * place", "lane << 2 * lane", "lanes of a quad", *RUN[1:], *FUZZ[1:]),
    emitted("lanes", "{8: 0x128}", "{8: 0x124}", "lanes by which a row is turned", LANES),
    emitted("lanes", "{7: 0x141}", "{7: 0x140}", "half of a row that is mirrored", LANES),
    emitted("lanes", "xor << 10 | 0x1F", "xor << 10 | 0xF", "lanes ds_swizzle keeps", *RUN[1:], *FUZZ[1:]),
    emitted("lanes", "& 1 != side)", "& 1 == side)", "banks that a shift writes", *RUN[1:], *FUZZ[1:]),
    emitted(
        "lanes",
        "(_ROW_SHIFT_LEFT if side else _ROW_SHIFT_RIGHT)",
        "(_ROW_SHIFT_RIGHT if side else _ROW_SHIFT_LEFT)",
        "direction of a shift",
        *RUN[1:],
        *FUZZ[1:],
    ),
    emitted(
        "machines", "{is_odd}, {even}, {odd}", "{is_odd}, {odd}, {even}", "arms of a swap", RUN[2], FUZZ[2]
    ),
    planned(
        "shared",
        "_renamed(b, named), element",
        "_renamed(a, named), element",
        "where an exchange before memory leads",
    ),
    planned(
        "shared",
        "added = tuple(theirs ^ ours for",
        "added = tuple(theirs for",
        "broadcast over a warp's own data",
    ),
    emitted("machines", "byte << 4 * k for", "byte << 4 * (3 - k) for", "prmt selector"),
    emitted(
        "machines",
        '", ".join((high, low, selector))',
        '", ".join((low, high, selector))',
        "words of v_perm_b32",
        RUN[1],
        FUZZ[1],
    ),
    emitted("machines", "byte << 8 * k for", "byte << 4 * k for", "v_perm_b32 selector", RUN[1], FUZZ[1]),
    emitted(
        "machines",
        "self.thread(writer), writer.constant(self._lanes - 1))",
        "self.thread(writer), writer.constant(self._lanes // 2 - 1))",
        "own lane of 64",
        RUN[1],
        FUZZ[1],
    ),
    emitted(
        "machines",
        "rocdl.permlanex16 {old}, {word}, {low}, {high}",
        "rocdl.permlanex16 {old}, {word}, {high}, {low}",
        "selects of v_permlanex16",
        RUN[3],
        FUZZ[3],
    ),
    emitted(
        "machines",
        "(old, word, low, high, yes, no)",
        "(old, word, high, low, yes, no)",
        "selects of v_permlane16",
        RUN[3],
        FUZZ[3],
    ),
    emitted(
        "machines",
        '"shl", lane, writer.constant(2))',
        '"shl", lane, writer.constant(3))',
        "byte address of ds_bpermute",
        RUN[1],
        FUZZ[1],
    ),
    emitted(
        "machines",
        "rocdl.ds_bpermute {address}, {word}",
        "rocdl.ds_bpermute {word}, {address}",
        "operands of ds_bpermute",
        RUN[1],
        FUZZ[1],
    ),
    emitted(
        "machines",
        "_narrow(writer, PERMUTE_BACKWARD, (address, word), bits)",
        "_narrow(writer, PERMUTE_BACKWARD, (word, address), bits)",
        "operands of ds_bpermute in a gather of narrow elements",
        f"{GATHERED}[hip:gfx942]",
    ),
    emitted(
        "machines",
        'i32", (everyone, word, where, clamp), bits)',
        'i32", (everyone, where, word, clamp), bits)',
        "operands of a shuffle in a gather of narrow elements",
        f"{GATHERED}[cuda:90]",
    ),
    emitted(
        "machines", "text = GUARDED[inverted]", "text = GUARDED[not inverted]", "predicate of a replacement"
    ),
    emitted(
        "machines",
        "writer.constant(-1), writer.constant(kept << 8 | 31)",
        "writer.constant(-1), writer.constant(kept << 8 | 15)",
        "clamp of a shuffle",
    ),
    emitted(
        "machines",
        '            writer.effect(f"nvvm.bar.warp.sync {writer.constant(-1)} : {I32}")\n',
        "            pass\n",
        "no barrier inside a warp",
    ),
    emitted(
        "machines",
        """            writer.effect('llvm.fence syncscope("wavefront") acq_rel')\n""",
        "            pass\n",
        "no fence inside a wave",
        RUN[1],
        FUZZ[1],
    ),
)
