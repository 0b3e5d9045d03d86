"""Inputs of the tools with something wrong in them, at random: modules, passes, targets and command lines."""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from input_words import (
    ATTRIBUTES,
    CHOSEN,
    CONDITIONS,
    ENCODINGS,
    GOOD,
    LAYOUTS,
    LINES,
    NUMBERS,
    OPTIONS,
    PASSES,
    SHAPES,
    SNIPPETS,
    STAGES,
    TARGETS,
    TOKEN,
    TYPES,
    UPSTREAM,
)

TEST = Path(__file__).resolve().parents[2]
FILE = "@FILE@"
"""Stands in a command line for the path of the input."""


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


_FLAGS_OF_SEEDS = (
    ("--linear-pipeline",),
    ("--linear-assign-layouts",),
    ("--linear-defer-reductions", "--linear-assign-layouts", "--linear-pipeline"),
    ("--linear-pipeline", "--emit=ttgir"),
    ("--linear-pipeline", "--emit=llvm"),
    ("--linear-select-lowering", "--verify-diagnostics"),
    ("--linear-outline-conversions", "--emit=llvm"),
    ("--linear-select-lowering", "--linear-outline-conversions"),
    ("--linear-widen-accesses", "--no-verify-each"),
    ("--emit=ptx",),
    (),
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
        found.append(Seed(path.name, path.read_text(), _FLAGS_OF_SEEDS))
    for path in sorted((TEST / "lit").rglob("*.mlir")):
        text = path.read_text()
        flags = tuple(_flags(line) for line in re.findall(r"RUN: triton-linear-opt %s (.*)", text))
        found.append(Seed(path.name, text, flags or _FLAGS_OF_SEEDS))
        parts = text.split("// -----\n")
        if len(parts) > 1:
            every = (*flags, *_FLAGS_OF_SEEDS)
            found += [Seed(f"{path.name}, part {n}", part, every) for n, part in enumerate(parts)]
    kept = [seed for seed in found if len(seed.text) <= most_bytes and "module" in seed.text]
    return (*kept, *(seed for plain in kept[::2] for seed in _decided(plain)))


def _decided(plain: Seed) -> Iterator[Seed]:
    """The module in generic form, as it is and as passes leave it with attributes of their own."""
    from triton_linear.dialect import bridge
    from triton_linear.dialect.mlir_adapter import text_of
    from triton_linear.passes.framework.run import run_passes
    from triton_linear.passes.pipeline import pipeline
    from triton_linear.tools.support.compile import LOWERING, read_module
    from triton_linear.tools.support.errors import ToolError

    passes = pipeline(LOWERING, None)
    select = next(n for n, one in enumerate(passes) if one.name == "linear-select-lowering")
    try:
        module = read_module(plain.text, bridge.upstream_context(), plain.name)
        for what, steps in (("generic", ()), ("planned", passes[:select]), ("outlined", passes[select:])):
            run_passes(module, steps)
            text = text_of(module.operation, print_generic_op_form=True)
            yield Seed(f"{plain.name}, {what}", text, _FLAGS_OF_SEEDS)
    except ToolError:
        return


_STRINGS = tuple(f'"{word}"' for word in (*TARGETS, *CHOSEN, "", "\\00"))
_OPENED = tuple(f"{{{attribute}, " for attribute in ATTRIBUTES)
_KINDS: tuple[tuple[str, Sequence[str]], ...] = (
    (r"\d.*", NUMBERS),
    (r"x?(?:[bt]?f\d+\w*|i\d+)|index", (*TYPES, *(f"x{each}" for each in TYPES))),
    (r"#(?:ttg|ll|ttng)\..*", ENCODINGS),
    (r'".*"', _STRINGS),
    (r"\{", _OPENED),
    (r"\S+", SNIPPETS),
)
"""Kinds of words of a module, each with what may stand in the place of one."""


def mutate(rng: random.Random, text: str, other: str, lines: float = 0.25) -> str:
    """One change among the words of a module, or among its lines; `other` is a module to take some from."""
    by_lines = rng.random() < lines
    found, theirs = (each.splitlines(True) if by_lines else TOKEN.findall(each) for each in (text, other))
    kind, instead = (".*", [f"{line}\n" for line in LINES]) if by_lines else rng.choice(_KINDS)
    places = [place for place, token in enumerate(found) if re.fullmatch(kind, token, re.DOTALL)]
    if not places:
        return text + rng.choice(SNIPPETS)
    at, place = rng.choice(places), rng.choice(places)
    way = rng.randrange(8)
    if way < 4:
        found[at] = rng.choice(instead)
    elif way == 4:
        found[at], found[place] = found[place], found[at]
    elif way == 5:
        del found[at : at + rng.randrange(1, 30)]
    else:
        words = theirs if way == 6 else found
        start = rng.randrange(len(words))
        found[at:at] = words[start : start + rng.randrange(1, 12)]
    return "".join(found)


_MARKS = (
    *b"\xef\xbb\xbf \xff\xfe \0 \x7fELF BC\xc0\xde ML\xefR \xff \xc3 \xed\xa0\x80 \xf4\x90\x80\x80".split(),
    *(b"\x1b[0m", b"\r", b"\n" * 999, b"// -----"),
)
_NESTED = b"( [ { < #a< - tensor<4x !t<".split()
_WHOLE = (b"", b"\n", b"\0", b" " * 99, b"module", b"module {}", b'"builtin.module"() ({}) : () -> ()', b"//")


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """One change to a file as a whole, whatever is in it."""
    at = rng.randrange(len(data) + 1)
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: data[:at],
        lambda: data[at:],
        lambda: data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"", b" "))),
        lambda: rng.choice(_MARKS) + data,
        lambda: data[:at] + rng.choice(_MARKS) + data[at:],
        lambda: data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :],
        lambda: data[:at] + rng.choice(_NESTED) * rng.choice((50, 500, 5000, 60000)) + data[at:],
        lambda: rng.choice(_WHOLE),
        lambda: data.decode(errors="replace").encode(rng.choice(("utf-16", "utf-32", "utf-7", "utf-8-sig"))),
    )
    return rng.choice(ways)()


def file_case(rng: random.Random, most_bytes: int) -> Case:
    """A run of a tool on a mutated module, its flags right."""
    chosen, other = rng.choice(seeds(most_bytes)), rng.choice(seeds(most_bytes)).text
    text = chosen.text
    for _ in range(rng.choice((1, 1, 1, 1, 2, 3))):
        text = mutate(rng, text, other)
    data = text.encode(errors="surrogatepass")
    if rng.random() < 0.12:
        data = mutate_bytes(rng, data)
    if rng.random() < 0.2:
        lines = [number for number, one in enumerate(text.split("\n"), 1) if "#" in one] or [1]
        words = rng.choice((("verify", FILE), ("explain", FILE), ("view", f"{FILE}:{rng.choice(lines)}")))
        return Case("cli", words, data, True, chosen.name)
    return Case("opt", (FILE, *rng.choice(chosen.flags)), data, True, chosen.name)


def _garbled(rng: random.Random, text: str) -> str:
    """`text` with some characters changed."""
    for _ in range(rng.randrange(3)):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice("{}(),=- \né\udcff") + text[at + rng.randrange(2) :]
    return text


def pipeline(rng: random.Random) -> str:
    """The text of passes, most of it wrong."""

    def one() -> str:
        name = rng.choice((*PASSES, *UPSTREAM))
        return name + (f"{{{rng.choice(OPTIONS)}}}" if rng.random() < 0.4 else "")

    text = ",".join(one() for _ in range(rng.randrange(4)))
    if rng.random() < 0.5:
        text = f"{rng.choice(('builtin.module', 'any', 'func.func', 'tt.func', ''))}({text})"
    return _garbled(rng, text) if rng.random() < 0.5 else text


_FLAGS = """
--pass-pipeline={pipeline} --{pass}={option} --{pass} --target={target} --emit={stage}
{--split-input-file|--verify-diagnostics|--verify-diagnostics=all|--verify-diagnostics=x}
{--mlir-print-ir-after-all|--mlir-print-ir-diff|--mlir-print-debuginfo|--mlir-timing|--no-verify-each|--mlir-print-op-generic}
--mlir-print-ir-before={pass} --{upstream}{|=x|=max-iterations=1}
--pass-plugin={/no/such.py|/||..|no.module|::x|@FILE@}
{--linear-pipeline|--linear-pipeline=x|--linear|--frob|-x|--||-o}
{/no/such/file|/|second|@file|--help=3|--version=1}
"""
_COMMANDS = """
verify @FILE@ --target={target}
verify @FILE@ {--lowering=x|--frob|-|--json=1|--targ=cuda:90|/no/such}
verify {/||/no/such|/dev/null|/proc/self/mem}
tune {script}
tune --seconds={number} --grids={number} {script}
tune -m {no.such.module||..|triton_linear.nothing}
explain @FILE@ --target={target}
explain @FILE@ --fail-on {condition}
explain {|/no/such|/no/such.py|/dev/null|/proc/self/mem}
explain @FILE@ --html {/|/no/such/folder/x|/proc/x}
view @FILE@:{number}
view {encoding} --shape={shape}
view {layout} --to={layout} --shape={shape}
view {good-layout} --shape=64 --type={f32|f99||i0|x|*f32}
view {good-layout} --shape=64 {--view=x|-o x.gif}
view {good-layout} --shape=64 -o {/|/no/such/x.svg|/proc/x.png}
status {x|--frob|/}
{|nothing|--frob|-h=1|--version=2|verif}
"""
"""What commands are drawn from: in braces stand the words of one name, or alternatives."""


def _filled(rng: random.Random, word: str) -> str:
    """A word of those templates with what its braces stand for."""
    made: dict[str, Callable[[], str]] = {
        "pipeline": lambda: pipeline(rng),
        "condition": lambda: _garbled(rng, rng.choice(CONDITIONS)),
        "encoding": lambda: mutate(rng, rng.choice(ENCODINGS), GOOD, lines=0)[:200],
    }
    words: dict[str, Sequence[str]] = {
        **{"pass": PASSES, "option": OPTIONS, "target": TARGETS, "wrong-target": TARGETS[9:]},
        **{"upstream": UPSTREAM, "stage": (*STAGES, "sass", "", "PTX"), "shape": SHAPES, "layout": LAYOUTS},
        **{"good-layout": LAYOUTS[:1], "number": (*NUMBERS, "", "x", "NaN", "inf", "٣")},
        "script": ("/no/such/script.py", "/", FILE, "", "/dev/null"),
    }

    def drawn(found: re.Match[str]) -> str:
        name = found[1]
        return made[name]() if name in made else rng.choice(words.get(name) or name.split("|"))

    return re.sub(r"\{([^{}]*)\}", drawn, word)


def flag_case(rng: random.Random) -> Case:
    """A run of a tool with something wrong on its command line, on a module that is right."""
    if rng.random() < 0.7:
        words = [FILE, *(_filled(rng, rng.choice(_FLAGS.split())) for _ in range(rng.randrange(1, 4)))]
        if "-o" not in words:
            words += ["-o", "/dev/null"]
        return Case("opt", tuple(words), GOOD.encode())
    template = rng.choice(_COMMANDS.split("\n")[1:])
    return Case("cli", tuple(_filled(rng, word) for word in template.split()), GOOD.encode())


def case(rng: random.Random, flags: float = 0.15, most_bytes: int = 9000) -> Case:
    """A run of a tool; a part of them has wrong flags, the others a wrong input made of a short module."""
    return flag_case(rng) if rng.random() < flags else file_case(rng, most_bytes)
