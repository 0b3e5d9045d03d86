"""Inputs of the tools with something wrong in them, at random: modules, passes, targets and command lines."""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TEST = Path(__file__).resolve().parent.parent
FILE = "@FILE@"
"""Stands in a command line for the path of the input."""
_TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|[%#!@^]?[A-Za-z_][\w.$-]*|[%#^]\d+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|->|\s+|.'
)
_NUMBERS = (
    *(
        "0",
        "-1",
        "1",
        "2",
        "3",
        "5",
        "7",
        "8",
        "32",
        "33",
        "64",
        "100",
        "1024",
        "4096",
        "65536",
        "1048576",
        "2097152",
    ),
    *("2147483647", "2147483648", "4294967296", "9223372036854775807", "18446744073709551616", "1" + "0" * 40),
    *("-2147483648", "1.5", "1e400", "0x10", "00", "007"),
)
_TYPES = (
    *(
        "f32",
        "f16",
        "bf16",
        "f64",
        "f8E4M3FN",
        "f8E5M2",
        "i1",
        "i8",
        "i16",
        "i32",
        "i64",
        "i3",
        "i128",
        "index",
        "none",
    ),
    *(
        "tf32",
        "f80",
        "f128",
        "i4",
        "complex<f32>",
        "!tt.ptr<f32>",
        "!tt.ptr<tensor<4xf32>>",
        "vector<4xf32>",
        "()",
    ),
)
_ENCODINGS = (
    *(
        "#ttg.blocked",
        "#ttg.slice",
        "#ttg.linear",
        "#ttg.dot_op",
        "#ttg.nvidia_mma",
        "#ttg.amd_mfma",
        "#ttg.amd_wmma",
    ),
    *(
        "#ttg.swizzled_shared",
        "#ttg.padded_shared",
        "#ttg.nvmma_shared",
        "#ttg.shared_linear",
        "#ttg.none",
        "#ll.layout",
    ),
    *("#ttng.tensor_memory_encoding", "#ttg.generic_linear", "#ttg.amd_rotating_shared", "#ttg.shared_memory"),
)
_TARGETS = (
    *(
        "cuda:80",
        "cuda:86",
        "cuda:90",
        "cuda:100",
        "cuda:120",
        "hip:gfx90a",
        "hip:gfx942",
        "hip:gfx950",
        "hip:gfx1100",
    ),
    *(
        "cuda:90a",
        "cuda:",
        "cuda:9000",
        "cuda:-1",
        "cuda:٣",
        "hip:",
        "hip:gfx",
        "hip:gfx9",
        "hip:90",
        "gfx942",
        "",
        "cuda:sm_90",
    ),
    *(
        "rocm:gfx942",
        "cuda:90\n",
        "cuda:9" + "0" * 5000,
        "CUDA:90",
        " cuda:90",
        "hip:gfx942:sramecc+",
        "metal:3",
        "\u2603",
        "xpu:x",
    ),
)
_PASSES = (
    *("linear-assign-layouts", "linear-attach-layouts", "linear-fold-conversions", "linear-select-lowering"),
    *("linear-outline-conversions", "linear-free-conversions", "linear-permute-contraction"),
)
_UPSTREAM = (
    "cse",
    "canonicalize",
    "symbol-dce",
    "inline",
    "sccp",
    "no-such-pass",
    "strip-debuginfo",
    "print-ir",
)
_OPTIONS = (
    *(
        "target=cuda:80",
        "target=hip:gfx942",
        "scratch-limit=64",
        "scratch-limit=0",
        "scratch-limit=-1",
        "scratch-limit=",
    ),
    *(
        "scratch-limit=1" + "0" * 5000,
        "scratch-limit=٣",
        "scratch-limit=²",
        "scratch-limit=1.5",
        "target",
        "target=",
        "=",
        "x=1",
    ),
    *(
        "only=0",
        "only=-1",
        "only=99999999999",
        "target=cuda:80 target=cuda:90",
        "target={}",
        "scratch_limit=4",
        "\u2603=1",
    ),
)
_STAGES = ("mlir", "ttgir", "llvm", "llvmir", "ptx", "amdgcn", "cubin", "hsaco")
_LINES = (
    *(
        "// -----",
        "// expected-error {{x}}",
        "// expected-error-re@+1 {{a{{(}}b}}",
        "// expected-error@",
        "// expected-note {{",
    ),
    *(
        "// expected-error@-99999 {{x}}",
        "// expected-error@above {{x}}",
        "// expected-remark-re@below {{{{[}}}}",
        "}",
        "{",
        "module {",
    ),
    *(
        "// expected-error@+99999999999999999999 {{x}}",
        "tt.return",
        "#loc = loc(unknown)",
        "// -----\n// -----",
        "!a = !a",
        "#b = #b",
    ),
    *(
        "#q = #q<#q>",
        "tt.func private @kernel()",
        "tt.func @kernel() { tt.return }",
        "{-# dialect_resources: {} #-}",
        "^bb0:",
    ),
    '"ttg.convert_layout"() : () -> ()',
)
_ATTRIBUTES = (
    *(
        "ll.plan",
        "ll.plan = 1",
        'll.plan = #ll.plan<"x", {}, []>',
        'll.plan = #ll.plan<"shuffle", {clocks = "a"}, [1]>',
    ),
    *(
        "ll.stock",
        "ll.stock = 3",
        'll.stock = "because"',
        "ll.results = [1]",
        "ll.results = 5",
        "ll.arguments = []",
    ),
    *(
        "ll.layout = #ll.layout<{lane = [[1]]}, [2]>",
        "ll.source = #ll.layout<{lane = [[-1]]}, [3]>",
        "ll.scratch_limit = 1",
    ),
    *(
        "ll.assigned",
        "ll.permuted = 0",
        "foo.bar = 1",
        '"" = 1',
        "tt.divisibility = 16 : i32",
        "noinline = 1",
        "ttg.partition = array<i32: 9>",
    ),
    *(
        "allocation.offset = -1 : i32",
        "ll.element = 3",
        'll.element = "f31"',
        "ll.results = [#ll.layout<{}, []>]",
    ),
)
_SNIPPETS = (
    *(
        "\0",
        "\ufeff",
        "\r",
        "\r\n",
        "\t",
        "\v",
        "\u2028",
        "\x85",
        "é",
        "\U0001f600",
        "'",
        '"',
        "\\",
        "`",
        "$",
        "//",
        "/*",
    ),
    *(
        "<",
        ">",
        "(" * 9,
        "[" * 500,
        "{" * 500,
        "loc(",
        "%",
        "#",
        "!",
        "@",
        ":",
        "->",
        "=",
        ",",
        "x",
        "?",
        "*",
        "%0#1",
        "%0:2",
    ),
)
_CHOSEN = ("ttg.num-warps", "ttg.num-ctas", "ttg.threads-per-warp", "ttg.target", "ttg.shared", "ttg.maxnreg")


@dataclass(frozen=True)
class Case:
    """One run of a tool: its words, of which FILE stands for a file with these bytes, or none."""

    tool: str
    words: tuple[str, ...]
    content: bytes | None = None
    by_input: bool = False
    what: str = ""

    @property
    def shown(self) -> str:
        return shlex.join((f"triton-linear{'-opt' if self.tool == 'opt' else ''}", *self.words))


@dataclass(frozen=True)
class Seed:
    name: str
    text: str
    flags: tuple[tuple[str, ...], ...]


_PLAIN = (
    ("--linear-pipeline",),
    ("--linear-assign-layouts",),
    ("--linear-permute-contraction", "--linear-assign-layouts", "--linear-pipeline"),
    ("--linear-pipeline", "--emit=ttgir"),
    ("--linear-pipeline", "--emit=llvm"),
    ("--linear-free-conversions", "--linear-outline-conversions"),
    ("--emit=ttgir",),
    ("--linear-select-lowering", "--verify-diagnostics"),
    (),
)


_DECIDED = (
    *_PLAIN,
    ("--emit=llvm",),
    ("--emit=ptx",),
    ("--linear-outline-conversions", "--emit=llvm"),
    ("--linear-fold-conversions", "--linear-select-lowering"),
    ("--linear-attach-layouts", "--no-verify-each"),
    ("--linear-outline-conversions",),
    ("--linear-free-conversions", "--emit=ttgir"),
)


def _flags(line: str) -> tuple[str, ...]:
    """The flags of a tool in a line that runs it, without what is for the shell."""
    words = shlex.split(line)
    end = next((i for i, word in enumerate(words) if re.match(r"[|;]|2?>|-o$", word)), len(words))
    return tuple(word for word in words[:end] if word != "-")


@cache
def seeds(most_bytes: int) -> tuple[Seed, ...]:
    """Modules of the tests that are not longer, with command lines for them."""
    found = []
    for path in sorted((TEST / "data/ttgir").rglob("*.ttgir")):
        found.append(Seed(path.name, path.read_text(), _PLAIN))
    for path in sorted((TEST / "lit").rglob("*.mlir")):
        text = path.read_text()
        flags = tuple(_flags(line) for line in re.findall(r"RUN: triton-linear-opt %s (.*)", text))
        found.append(Seed(path.name, text, flags or _PLAIN))
        parts = text.split("// -----\n")
        if len(parts) > 1:
            found += [Seed(f"{path.name}, part {n}", part, (*flags, *_PLAIN)) for n, part in enumerate(parts)]
    kept = [seed for seed in found if len(seed.text) <= most_bytes and "module" in seed.text]
    return (*kept, *(seed for plain in kept[::2] for seed in _decided(plain)))


def _decided(plain: Seed) -> Iterator[Seed]:
    """The module in generic form, as it is and as passes leave it with attributes of their own."""
    from triton_linear.dialect import bridge
    from triton_linear.dialect.mlir_adapter import text_of
    from triton_linear.passes import driver
    from triton_linear.tools.compile import read_module
    from triton_linear.tools.errors import ToolError

    try:
        module = read_module(plain.text, bridge.upstream_context(), plain.name)
        yield Seed(f"{plain.name}, generic", text_of(module.operation, print_generic_op_form=True), _DECIDED)
        driver.run(module, driver.linear_pipeline()[:3])
        yield Seed(f"{plain.name}, planned", text_of(module.operation, print_generic_op_form=True), _DECIDED)
        driver.run(module, driver.linear_pipeline()[3:])
        yield Seed(f"{plain.name}, outlined", text_of(module.operation, print_generic_op_form=True), _DECIDED)
    except ToolError:
        return


def tokens(text: str) -> list[str]:
    """The words of a module, blanks between them included; joined they are the text."""
    return _TOKEN.findall(text)


def _places(found: Sequence[str], wanted: Callable[[str], bool]) -> list[int]:
    return [place for place, token in enumerate(found) if wanted(token)]


def _is_number(token: str) -> bool:
    return token[0].isdigit()


def _is_word(token: str) -> bool:
    return not token.isspace()


def mutate_tokens(rng: random.Random, text: str, other: str) -> str:
    """One change among the words of a module; `other` is a module to take words from."""
    found = tokens(text)
    words = _places(found, _is_word)
    if not words:
        return text + rng.choice(_SNIPPETS)
    at = rng.choice(words)
    way = rng.randrange(16)
    if way == 0:
        found[at] = ""
    elif way == 1:
        found.insert(at, found[at] + " ")
    elif way == 2:
        place = rng.choice(words)
        found[at], found[place] = found[place], found[at]
    elif way in (3, 4, 5):
        numbers = _places(found, _is_number)
        if numbers:
            at = rng.choice(numbers)
            own = found[at]
            near = (
                (str(int(own) * 2), str(int(own) + 1), str(int(own) // 2), f"-{own}") if own.isdigit() else ()
            )
            found[at] = rng.choice((*near, *near, *_NUMBERS))
    elif way == 6:
        kind = found[at][0]
        alike = _places(found, lambda token: token[0] == kind or (token[0].isalpha() and kind.isalpha()))
        found[at] = found[rng.choice(alike)]
    elif way == 7:
        types = _places(found, lambda token: re.fullmatch(r"x?(?:[bt]?f\d+\w*|i\d+)|index", token) is not None)
        if types:
            at = rng.choice(types)
            found[at] = ("x" if found[at][0] == "x" else "") + rng.choice(_TYPES)
    elif way == 8:
        kinds = _places(found, lambda token: token.startswith(("#ttg.", "#ll.", "#ttng.")))
        if kinds:
            found[rng.choice(kinds)] = rng.choice(_ENCODINGS)
    elif way == 9:
        braces = _places(found, lambda token: token == "{")
        if braces:
            found[rng.choice(braces)] = "{" + rng.choice(_ATTRIBUTES) + rng.choice((", ", "", " "))
    elif way == 10:
        opened = _places(found, lambda token: token == "ttg.convert_layout")
        if opened:
            at = rng.choice(opened)
            found[at] += rng.choice((" {%s}" % rng.choice(_ATTRIBUTES), "s", " {}", " %0,"))  # noqa: UP031
    elif way == 11:
        strings = _places(found, lambda token: token[0] == '"')
        if strings:
            at = rng.choice(strings)
            found[at] = rng.choice(
                (f'"{rng.choice(_TARGETS)}"', f'"{rng.choice(_CHOSEN)}"', '""', "5 : i32", '"\\00"')
            )
    elif way == 12:
        start, end = sorted((at, rng.choice(words)))
        del found[start : min(end, start + 30)]
    elif way == 13:
        start = rng.randrange(len(found))
        found[at:at] = found[start : start + rng.randrange(1, 30)]
    elif way == 14:
        theirs = tokens(other)
        start = rng.randrange(len(theirs))
        found[at : at + rng.randrange(3)] = theirs[start : start + rng.randrange(1, 12)]
    else:
        found[at] = rng.choice(_SNIPPETS)
    return "".join(found)


def mutate_lines(rng: random.Random, text: str, other: str) -> str:
    """One change among the lines of a module."""
    lines = text.split("\n")
    at, place = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(7)
    if way == 0:
        del lines[at]
    elif way == 1:
        lines.insert(place, lines[at])
    elif way == 2:
        lines[at], lines[place] = lines[place], lines[at]
    elif way == 3:
        lines.insert(at, rng.choice(_LINES))
    elif way == 4:
        theirs = other.split("\n")
        lines[at:at] = rng.sample(theirs, min(len(theirs), 2))
    elif way == 5:
        start, end = sorted((at, place))
        lines[end:end] = lines[start:end]
    else:
        return text + "\n" + rng.choice((text, other, "// -----\n" + other))
    return "\n".join(lines)


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """One change to a file as a whole, whatever is in it."""
    at = rng.randrange(len(data) + 1)
    way = rng.randrange(10)
    if way == 0:
        return data[:at]
    if way == 1:
        return data[at:]
    if way == 2:
        return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"", b" ")))
    if way == 3:
        return (
            rng.choice(
                (b"\xef\xbb\xbf", b"\xff\xfe", b"\0", b"#!/bin/sh\n", b"\x7fELF", b"BC\xc0\xde", b"ML\xefR")
            )
            + data
        )
    if way == 4:
        return (
            data[:at]
            + rng.choice((b"\xff", b"\xc3", b"\xed\xa0\x80", b"\0", b"\xf4\x90\x80\x80", b"\x1b[0m"))
            + data[at:]
        )
    if way == 5:
        return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
    if way == 6:
        depth, mark = (
            rng.choice((50, 500, 5000, 60000)),
            rng.choice((b"(", b"[", b"{", b"<", b"#a<", b"-", b"tensor<4x", b"!t<")),
        )
        return data[:at] + mark * depth + data[at:]
    if way == 7:
        return rng.choice(
            (
                b"",
                b"\n",
                b"\0",
                b" " * 99,
                b"module",
                b"module {}",
                b'"builtin.module"() ({}) : () -> ()',
                b"//",
            )
        )
    if way == 8:
        return data.decode(errors="replace").encode(rng.choice(("utf-16", "utf-32", "utf-7", "utf-8-sig")))
    return data + rng.choice((b"\0", b"\n" * 999, b"}", b"\xff", b"// -----", data[:at]))


def file_case(rng: random.Random, most_bytes: int) -> Case:
    """A run of a tool on a mutated module, its flags right."""
    chosen, other = rng.choice(seeds(most_bytes)), rng.choice(seeds(most_bytes)).text
    text = chosen.text
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        text = (mutate_tokens if rng.random() < 0.75 else mutate_lines)(rng, text, other)
    data = text.encode(errors="surrogatepass")
    if rng.random() < 0.12:
        data = mutate_bytes(rng, data)
    if rng.random() < 0.2:
        return Case("cli", ("verify", FILE), data, True, chosen.name)
    return Case("opt", (FILE, *rng.choice(chosen.flags)), data, True, chosen.name)


GOOD = """\
#near = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#far = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", \
"ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%x: tensor<64xf32, #near>, %p: tensor<64x!tt.ptr<f32>, #far>) {
    %y = ttg.convert_layout %x : tensor<64xf32, #near> -> tensor<64xf32, #far>
    tt.store %p, %y : tensor<64x!tt.ptr<f32>, #far>
    tt.return
  }
}
"""


def _garbled(rng: random.Random, text: str) -> str:
    """`text` with some characters changed."""
    for _ in range(rng.randrange(3)):
        at = rng.randrange(len(text) + 1)
        text = (
            text[:at]
            + rng.choice(("", "{", "}", "(", ")", ",", "=", " ", "-", "\n", "é", "\udcff"))
            + text[at + rng.randrange(2) :]
        )
    return text


def pipeline(rng: random.Random) -> str:
    """The text of passes, most of it wrong."""

    def one() -> str:
        name = rng.choice((*_PASSES, *_UPSTREAM))
        return name + (f"{{{rng.choice(_OPTIONS)}}}" if rng.random() < 0.4 else "")

    text = ",".join(one() for _ in range(rng.randrange(4)))
    if rng.random() < 0.5:
        text = f"{rng.choice(('builtin.module', 'any', 'func.func', 'tt.func', ''))}({text})"
    return _garbled(rng, text) if rng.random() < 0.5 else text


def _opt_words(rng: random.Random) -> list[str]:
    ways: tuple[Callable[[], str], ...] = (
        lambda: f"--pass-pipeline={pipeline(rng)}",
        lambda: f"--{rng.choice(_PASSES)}={rng.choice(_OPTIONS)}",
        lambda: f"--{rng.choice(_PASSES)}",
        lambda: f"--target={rng.choice(_TARGETS)}",
        lambda: f"--emit={rng.choice((*_STAGES, 'sass', '', 'PTX'))}",
        lambda: rng.choice(
            ("--split-input-file", "--verify-diagnostics", "--verify-diagnostics=all", "--verify-diagnostics=x")
        ),
        lambda: rng.choice(
            ("--mlir-print-ir-after-all", "--mlir-print-debuginfo", "--mlir-timing", "--no-verify-each")
        ),
        lambda: rng.choice(
            ("--linear-pipeline", "--linear-pipeline=x", "--linear", "--frob", "-x", "--", "", "-o")
        ),
        lambda: rng.choice(("/no/such/file", "/", "second", "@file", "--help=3", "--version=1")),
    )
    return [rng.choice(ways)() for _ in range(rng.randrange(1, 4))]


def flag_case(rng: random.Random) -> Case:
    """A run of a tool with something wrong on its command line, on a module that is right."""
    if rng.random() < 0.7:
        words = [FILE, *_opt_words(rng)]
        if "-o" not in words:
            words += ["-o", "/dev/null"]
        return Case("opt", tuple(words), GOOD.encode())
    number = lambda: rng.choice((*_NUMBERS, "", "x", "NaN", "inf", "٣"))  # noqa: E731
    small = rng.choice(("0", "-1", "x", "", "1.5", "1e3", "-0", "٠", "+0", " 0 ", "0_0"))
    script = rng.choice(("/no/such/script.py", "/", FILE, "", "/dev/null"))
    ways: tuple[Callable[[], list[str]], ...] = (
        lambda: ["verify", FILE, f"--target={rng.choice(_TARGETS)}"],
        lambda: [
            "verify",
            FILE,
            rng.choice(("--json", "--frob", "-", "--json=1", "--targ=cuda:90", "/no/such")),
        ],
        lambda: ["verify", rng.choice(("/", "", "/no/such", "/dev/null", "/proc/self/mem"))],
        lambda: ["fuzz", f"--count={small}", f"--seed={number()}", f"--target={rng.choice(_TARGETS)}"],
        lambda: [
            "fuzz",
            "--count=0",
            f"--assembly={number()}",
            f"--save={rng.choice(('/dev/null', '/proc/x', FILE))}",
        ],
        lambda: ["demo", "--targets", rng.choice(_TARGETS[9:])],
        lambda: ["demo", rng.choice(("--frob", "--output", "--targets", "x"))],
        lambda: ["demo", "--output", rng.choice(("/dev/null", "/proc/x", FILE)), "--targets", "cuda:90"],
        lambda: ["headroom", script],
        lambda: ["headroom", f"--seconds={number()}", f"--grids={number()}", script],
        lambda: ["headroom", "-m", rng.choice(("no.such.module", "", "..", "triton_linear.nothing"))],
        lambda: ["headroom", "--json", rng.choice(("/", "/no/such/folder/x", FILE)), script],
        lambda: ["version", rng.choice(("x", "--frob", "--json"))],
        lambda: [rng.choice(("", "nothing", "--frob", "-h=1", "--version=2", "verif"))],
        lambda: [],
    )
    return Case("cli", tuple(rng.choice(ways)()), GOOD.encode())


def case(rng: random.Random, flags: float = 0.15, most_bytes: int = 9000) -> Case:
    """A run of a tool; a part of them has wrong flags, the others a wrong input made of a short module."""
    return flag_case(rng) if rng.random() < flags else file_case(rng, most_bytes)
