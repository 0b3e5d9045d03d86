"""Every operation of the interpreter against an oracle on Python integers, and its undefined bits."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import numpy as np
import pytest
from simulate_cases import random_registers, run, threads, width

from triton_linear.lowering.interpreter.memory import SimulationError
from triton_linear.lowering.interpreter.ops import float_pattern
from triton_linear.lowering.interpreter.program import Aggregate, Scalar, byte_size, parse_type


def signed(value: int, bits: int) -> int:
    """The two's complement reading of a pattern."""
    return value - (1 << bits) if value >> (bits - 1) else value


def low(value: int, bits: int) -> int:
    """The low bits of a Python integer."""
    return value & ((1 << bits) - 1)


def check(
    body: str, arguments: list[str], results: list[str], oracle: Callable[..., tuple[int, ...]], seed: int = 0
) -> None:
    """Compare every thread and trial; everything must be defined."""
    registers = random_registers(seed, arguments, threads())
    outcome = run(arguments, body, results, registers)
    assert not outcome.undefined.any()
    for trial in range(3):
        for thread in range(threads()):
            expected = oracle(*(int(register[trial, thread]) for register in registers))
            assert tuple(int(x) for x in outcome.values[:, trial, thread]) == expected


BINARY: dict[str, Callable[[int, int, int], int]] = {
    "and": lambda a, b, n: a & b,
    "or": lambda a, b, n: a | b,
    "xor": lambda a, b, n: a ^ b,
    "add": lambda a, b, n: a + b,
    "sub": lambda a, b, n: a - b,
    "mul": lambda a, b, n: a * b,
}
SHIFTS: dict[str, Callable[[int, int, int], int]] = {
    "shl": lambda a, b, n: a << b,
    "lshr": lambda a, b, n: a >> b,
    "ashr": lambda a, b, n: signed(a, n) >> b,
}
COMPARE: dict[str, Callable[[int, int, int], bool]] = {
    "eq": lambda a, b, n: a == b,
    "ne": lambda a, b, n: a != b,
    "slt": lambda a, b, n: signed(a, n) < signed(b, n),
    "sle": lambda a, b, n: signed(a, n) <= signed(b, n),
    "sgt": lambda a, b, n: signed(a, n) > signed(b, n),
    "sge": lambda a, b, n: signed(a, n) >= signed(b, n),
    "ult": lambda a, b, n: a < b,
    "ule": lambda a, b, n: a <= b,
    "ugt": lambda a, b, n: a > b,
    "uge": lambda a, b, n: a >= b,
}


@pytest.mark.parametrize("type_", ["i1", "i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, type_: str) -> None:
    n = width(type_)
    check(
        f"%r0 = llvm.{name} %a0, %a1 : {type_}",
        [type_] * 2,
        [type_],
        lambda a, b: (low(BINARY[name](a, b, n), n),),
    )


@pytest.mark.parametrize("type_", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("name", SHIFTS)
def test_shift(name: str, type_: str) -> None:
    n = width(type_)
    body = f"""%last = llvm.mlir.constant({n - 1} : {type_}) : {type_}
    %amount = llvm.and %a1, %last : {type_}
    %three = llvm.mlir.constant(3 : {type_}) : {type_}
    %r0 = llvm.{name} %a0, %amount : {type_}
    %r1 = llvm.{name} %a0, %three : {type_}"""
    shift = SHIFTS[name]
    check(body, [type_] * 2, [type_] * 2, lambda a, b: (low(shift(a, b % n, n), n), low(shift(a, 3, n), n)))


@pytest.mark.parametrize("type_", ["i1", "i8", "i32", "i64"])
@pytest.mark.parametrize("name", COMPARE)
def test_icmp_and_select(name: str, type_: str) -> None:
    n = width(type_)
    body = f"""%r0 = llvm.icmp "{name}" %a0, %a1 : {type_}
    %r1 = llvm.select %r0, %a0, %a1 : i1, {type_}"""

    def oracle(a: int, b: int) -> tuple[int, ...]:
        chosen = COMPARE[name](a, b, n)
        return int(chosen), a if chosen else b

    check(body, [type_] * 2, ["i1", type_], oracle)


@pytest.mark.parametrize("type_", ["i32", "i64"])
def test_count_ones(type_: str) -> None:
    check(f"%r0 = llvm.intr.ctpop(%a0) : ({type_}) -> {type_}", [type_], [type_], lambda a: (a.bit_count(),))


@pytest.mark.parametrize(("narrow", "wide"), [("i1", "i8"), ("i8", "i32"), ("i16", "i64"), ("i32", "i64")])
def test_extend_and_truncate(narrow: str, wide: str) -> None:
    n, w = width(narrow), width(wide)
    body = f"""%r0 = llvm.zext %a0 : {narrow} to {wide}
    %r1 = llvm.sext %a0 : {narrow} to {wide}
    %r2 = llvm.trunc %a1 : {wide} to {narrow}"""
    check(body, [narrow, wide], [wide, wide, narrow], lambda a, b: (a, low(signed(a, n), w), low(b, n)))


def test_pointers_and_integers() -> None:
    body = """%r0 = llvm.ptrtoint %a0 : !llvm.ptr<1> to i64
    %r1 = llvm.ptrtoint %a0 : !llvm.ptr<1> to i32
    %r2 = llvm.inttoptr %a1 : i64 to !llvm.ptr<1>
    %p = llvm.getelementptr %a0[%a2, 3] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, !llvm.array<4 x vector<2xi16>>
    %r3 = llvm.ptrtoint %p : !llvm.ptr<1> to i64"""
    check(
        body,
        ["ptr<1>", "i64", "i32"],
        ["i64", "i32", "ptr<1>", "i64"],
        lambda p, i, k: (p, low(p, 32), i, low(p + 16 * signed(k, 32) + 12, 64)),
    )


@pytest.mark.parametrize(
    ("scalar", "vector"),
    [
        ("i32", "vector<4xi8>"),
        ("i32", "vector<2xf16>"),
        ("i64", "vector<2xf32>"),
        ("f64", "vector<4xbf16>"),
        ("f32", "vector<1xi32>"),
    ],
)
def test_bitcast_both_ways(scalar: str, vector: str) -> None:
    parts = parse_type(vector)
    assert isinstance(parts, Aggregate)
    count = len(parts.fields)
    element = vector[:-1].split("x", 1)[1]
    bits = width(element)
    body = "\n".join(
        [
            "%zero = llvm.mlir.constant(0 : i32) : i32",
            f"%v = llvm.bitcast %a0 : {scalar} to {vector}",
            f"%index = llvm.mlir.constant({count - 1} : i32) : i32",
            f"%r0 = llvm.extractelement %v[%zero : i32] : {vector}",
            f"%r1 = llvm.extractelement %v[%index : i32] : {vector}",
            f"%w = llvm.insertelement %r1, %v[%zero : i32] : {vector}",
            f"%r2 = llvm.bitcast %w : {vector} to {scalar}",
        ]
    )

    def oracle(a: int) -> tuple[int, ...]:
        last = a >> (bits * (count - 1))
        return low(a, bits), last, (a >> bits << bits) | last

    check(body, [scalar], [element, element, scalar], oracle)


def test_vector_to_vector_bitcast_and_shuffle() -> None:
    body = """%v = llvm.bitcast %a0 : i64 to vector<2xi32>
    %w = llvm.bitcast %v : vector<2xi32> to vector<8xi8>
    %x = llvm.shufflevector %w, %w [7, 6, 5, 4, 11, 10, 9, 8] : vector<8xi8>
    %r0 = llvm.bitcast %x : vector<8xi8> to i64"""
    check(body, ["i64"], ["i64"], lambda a: (int.from_bytes(a.to_bytes(8, "little"), "big"),))


def test_vector_arithmetic_and_dense_constants() -> None:
    body = """%v = llvm.bitcast %a0 : i32 to vector<2xi16>
    %k = llvm.mlir.constant(dense<[5, -1]> : vector<2xi16>) : vector<2xi16>
    %s = llvm.add %v, %k : vector<2xi16>
    %f = llvm.mlir.constant(dense<1.0> : vector<2xf16>) : vector<2xf16>
    %r0 = llvm.bitcast %s : vector<2xi16> to i32
    %r1 = llvm.bitcast %f : vector<2xf16> to i32"""
    check(body, ["i32"], ["i32", "i32"], lambda a: (low(a + 5, 16) | low((a >> 16) - 1, 16) << 16, 0x3C003C00))


@pytest.mark.parametrize(
    ("type_", "text", "pattern"),
    [
        ("i1", "true", 1),
        ("i8", "-1 : i8", 0xFF),
        ("i64", "-2 : i64", 2**64 - 2),
        ("f16", "1.5 : f16", 0x3E00),
        ("bf16", "-2.0 : bf16", 0xC000),
        ("f32", "0x7FC12345 : f32", 0x7FC12345),
        ("f64", "1.0 : f64", struct.unpack("<Q", struct.pack("<d", 1.0))[0]),
    ],
)
def test_constant(type_: str, text: str, pattern: int) -> None:
    suffix = f"llvm.mlir.constant({text}) : {type_}"
    check(f"%r0 = {suffix}", ["i32"], [type_], lambda a: (pattern,))


def test_float_pattern_of_nan_and_infinity() -> None:
    assert float_pattern(math.inf, 32, False) == 0x7F800000
    assert float_pattern(math.inf, 16, True) == 0x7F80


def test_disjoint_or() -> None:
    body = """%one = llvm.mlir.constant(1 : i32) : i32
    %even = llvm.shl %a0, %one : i32
    %r0 = llvm.or disjoint %even, %one : i32"""
    check(body, ["i32"], ["i32"], lambda a: (low(2 * a, 32) | 1,))


def test_prmt_from_assembly_and_intrinsic() -> None:
    body = """%s = llvm.mlir.constant(0x7062 : i32) : i32
    %r0 = llvm.inline_asm "prmt.b32 $0, $1, $2, $3;", "=r,r,r,r" %a0, %a1, %s : (i32, i32, i32) -> i32
    %r1 = llvm.inline_asm "prmt.b32 $0, $1, $2, 0x5410;", "=r,r,r" %a0, %a1 : (i32, i32) -> i32
    %r2 = llvm.call_intrinsic "llvm.nvvm.prmt"(%a0, %a1, %a2) : (i32, i32, i32) -> i32"""

    def oracle(a: int, b: int, selector: int) -> tuple[int, ...]:
        octets = [*a.to_bytes(4, "little"), *b.to_bytes(4, "little")]

        def permuted(selector: int) -> int:
            result = 0
            for k in range(4):
                nibble = selector >> (4 * k) & 15
                octet = octets[nibble & 7]
                if nibble & 8:
                    octet = 0xFF if octet & 0x80 else 0
                result |= octet << (8 * k)
            return result

        return permuted(0x7062), permuted(0x5410), permuted(selector)

    check(body, ["i32", "i32", "i32"], ["i32", "i32", "i32"], oracle)


# Undefined bits


def undefined_of(body: str, results: list[str], arguments: list[str] | None = None) -> list[int]:
    """The undefined bits of every result, which must be the same in all threads."""
    arguments = arguments or ["i32"]
    outcome = run(arguments, body, results, random_registers(1, arguments, threads()))
    assert (outcome.undefined == outcome.undefined[:, :1, :1]).all()
    return [
        int(mask) & ((1 << width(t)) - 1) for mask, t in zip(outcome.undefined[:, 0, 0], results, strict=True)
    ]


def test_undefined_bits_are_tracked_through_bitwise_operations() -> None:
    body = """%u = llvm.mlir.undef : i32
    %mask = llvm.mlir.constant(0xFF00 : i32) : i32
    %four = llvm.mlir.constant(4 : i32) : i32
    %r0 = llvm.and %u, %mask : i32
    %r1 = llvm.or %u, %mask : i32
    %r2 = llvm.xor %r0, %a0 : i32
    %r3 = llvm.shl %r0, %four : i32
    %r4 = llvm.lshr %r0, %four : i32
    %r5 = llvm.trunc %r0 : i32 to i8
    %r6 = llvm.add %r0, %a0 : i32
    %r7 = llvm.zext %r5 : i8 to i32"""
    found = undefined_of(body, ["i32"] * 5 + ["i8", "i32", "i32"])
    assert found == [0xFF00, 0xFFFF00FF, 0xFF00, 0xFF000, 0xFF0, 0, 0xFFFFFFFF, 0]


@pytest.mark.parametrize(("what", "left"), [("undef", [0xFFFFFF00, 0, 0]), ("poison", [0xFFFFFFFF, 0xFF, 0])])
def test_an_undefined_field_is_dropped_and_poison_spoils_the_whole_word(what: str, left: list[int]) -> None:
    body = f"""%u = llvm.mlir.{what} : vector<4xi8>
    %zero = llvm.mlir.constant(0 : i32) : i32
    %b = llvm.trunc %a0 : i32 to i8
    %v = llvm.insertelement %b, %u[%zero : i32] : vector<4xi8>
    %r0 = llvm.bitcast %v : vector<4xi8> to i32
    %r1 = llvm.trunc %r0 : i32 to i8
    %r2 = llvm.extractelement %v[%zero : i32] : vector<4xi8>"""
    assert undefined_of(body, ["i32", "i8", "i8"]) == left


def test_select_between_undefined_and_defined() -> None:
    body = """%u = llvm.mlir.undef : i32
    %yes = llvm.mlir.constant(true) : i1
    %no = llvm.mlir.constant(false) : i1
    %maybe = llvm.mlir.undef : i1
    %r0 = llvm.select %yes, %a0, %u : i1, i32
    %r1 = llvm.select %no, %a0, %u : i1, i32
    %r2 = llvm.select %maybe, %a0, %r0 : i1, i32"""
    assert undefined_of(body, ["i32"] * 3) == [0, 0xFFFFFFFF, 0xFFFFFFFF]


def test_shift_beyond_the_width_is_undefined() -> None:
    body = """%k = llvm.mlir.constant(32 : i32) : i32
    %big = llvm.or %a0, %k : i32
    %r0 = llvm.shl %a0, %big : i32
    %r1 = llvm.shl %a0, %k : i32"""
    assert undefined_of(body, ["i32", "i32"]) == [0xFFFFFFFF, 0xFFFFFFFF]


def test_overlapping_disjoint_or_is_undefined() -> None:
    body = """%k = llvm.mlir.constant(1 : i32) : i32
    %odd = llvm.or %a0, %k : i32
    %r0 = llvm.or disjoint %odd, %k : i32"""
    assert undefined_of(body, ["i32"]) == [0xFFFFFFFF]


@pytest.mark.parametrize(
    ("flags", "value", "undefined"),
    [
        ("nuw", 0xFF, 0),
        ("nuw", 0x100, 0xFF),
        ("nuw", 0xFFFFFFFF, 0xFF),
        ("nsw", 0x7F, 0),
        ("nsw", 0x80, 0xFF),
        ("nsw", 0xFFFFFF80, 0),
        ("nsw, nuw", 0x7F, 0),
        ("nsw, nuw", 0xFFFFFF80, 0xFF),
    ],
)
def test_a_truncation_that_promises_too_much_is_undefined(flags: str, value: int, undefined: int) -> None:
    body = f"""%k = llvm.mlir.constant({value} : i32) : i32
    %r0 = llvm.trunc %k overflow<{flags}> : i32 to i8"""
    assert undefined_of(body, ["i8"]) == [undefined]


# Refusals


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "%r0 = llvm.intr.bitreverse(%a0) : (i32) -> i32",
            "3:7: llvm.intr.bitreverse: the operation is not interpreted",
        ),
        ("%r0 = llvm.add %a0, %a0 overflow<nsw> : i32", "3:7: llvm.add: overflow flags are not interpreted"),
        (
            '%r0 = llvm.inline_asm "mov.b32 $0, $1;", "=r,r" %a0 : (i32) -> i32',
            "3:7: llvm.inline_asm: inline assembly 'mov.b32 $0, $1;' is not interpreted",
        ),
        (
            '%r0 = llvm.call_intrinsic "llvm.nvvm.foo"(%a0) : (i32) -> i32',
            "3:7: llvm.call_intrinsic: intrinsic 'llvm.nvvm.foo' is not interpreted",
        ),
        (
            "%v = llvm.mlir.undef : vector<2xi32>\n%r0 = llvm.extractelement %v[%a0 : i32] : vector<2xi32>",
            "4:7: llvm.extractelement: a vector index that is not a constant is not interpreted",
        ),
    ],
)
def test_refusal_names_operation_and_place(body: str, message: str) -> None:
    with pytest.raises(SimulationError) as error:
        run(["i32"], body, ["i32"], random_registers(0, ["i32"], threads()))
    assert str(error.value) == message


def test_text_that_does_not_parse_is_refused() -> None:
    with pytest.raises(SimulationError, match="the function does not parse"):
        run(["i32"], "%r0 = llvm.add %nothing, %a0 : i32", ["i32"], random_registers(0, ["i32"], threads()))


def test_sizes_in_memory() -> None:
    assert byte_size(Scalar(1)) == 1
    assert byte_size(parse_type("vector<3xi32>")) == 16
    assert byte_size(parse_type("!llvm.array<3 x i32>")) == 12
    with pytest.raises(SimulationError, match="type 'index' is not interpreted"):
        parse_type("index")


def test_runs_are_deterministic() -> None:
    registers = random_registers(0, ["i32"], threads())
    first, second = (run(["i32"], "%r0 = llvm.mul %a0, %a0 : i32", ["i32"], registers) for _ in range(2))
    assert np.array_equal(first.values, second.values)
    assert first.counts == second.counts
