"""Programs as TTGIR: a kernel that takes a tensor in registers, and returns the registers of its result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from bench.fuzz.encodings import reshaped, transposed
from bench.fuzz.program import (
    HEADER,
    Add,
    Branch,
    Convert,
    Loop,
    Park,
    Program,
    Reduce,
    Reshaped,
    Scan,
    Shared,
    Step,
    Steps,
    Transposed,
    as_json,
)
from triton_linear.lowering.plan.element import element_type
from triton_linear.lowering.target.targets import target as target_called
from triton_linear.tools.verify.stock import sink

SINK = "result"


@dataclass(frozen=True)
class ProgramValue:
    """An SSA value with a tensor type."""

    name: str
    shape: tuple[int, ...]
    element: str
    encoding: str

    def tensor(self, encoding: str | None = None) -> str:
        """Its type, with another encoding if one is given."""
        return f"tensor<{self._sizes}x{self.element}, {encoding or self.encoding}>"

    def buffer(self, memory: str) -> str:
        """The type of a shared buffer for it."""
        return f"!ttg.memdesc<{self._sizes}x{self.element}, {memory}, #ttg.shared_memory, mutable>"

    @property
    def _sizes(self) -> str:
        return "x".join(map(str, self.shape))


class ProgramWriter:
    """Writes the lines of a function; `names` begins the names of its values."""

    def __init__(self, names: str = "v") -> None:
        self.begin = f"%{names}"
        self.lines: list[str] = []
        self.top: list[str] = []
        self.conversions = 0
        self._names = 0
        self._indent = 2

    def line(self, text: str) -> None:
        """Add a line."""
        self.lines.append("  " * self._indent + text)

    def name(self) -> str:
        """A new name."""
        self._names += 1
        return f"{self.begin}{self._names}"

    def op(self, text: str) -> str:
        """Add a line `name = text` with a new name; return the name."""
        name = self.name()
        self.line(f"{name} = {text}")
        return name

    @contextmanager
    def region(self) -> Iterator[None]:
        """Indent the lines that are added inside."""
        self._indent += 1
        yield
        self._indent -= 1

    def convert(self, x: ProgramValue, encoding: str, always: bool = False) -> ProgramValue:
        """Convert a tensor to another layout. If it has that layout, nothing is added unless
        `always` is set.
        """
        if x.encoding == encoding and not always:
            return x
        self.conversions += 1
        name = self.op(f"ttg.convert_layout {x.name} : {x.tensor()} -> {x.tensor(encoding)}")
        return replace(x, name=name, encoding=encoding)

    def integers(self, x: ProgramValue) -> ProgramValue:
        """The tensor's bits as integers."""
        element = f"i{element_type(x.element).bits}"
        return self._cast(x, element, "tt.ptr_to_int" if x.element.startswith("!tt.ptr") else "tt.bitcast")

    def elements(self, x: ProgramValue, element: str) -> ProgramValue:
        """Integers as elements of a type."""
        return self._cast(x, element, "tt.int_to_ptr" if element.startswith("!tt.ptr") else "tt.bitcast")

    def _cast(self, x: ProgramValue, element: str, operation: str) -> ProgramValue:
        if x.element == element:
            return x
        y = replace(x, element=element)
        return replace(y, name=self.op(f"{operation} {x.name} : {x.tensor()} -> {y.tensor()}"))

    def arithmetic(self, operation: str, x: ProgramValue, y: ProgramValue) -> ProgramValue:
        """An operation of two integer tensors in one layout."""
        return replace(x, name=self.op(f"arith.{operation} {x.name}, {y.name} : {x.tensor()}"))

    def constant(self, like: ProgramValue, number: int) -> ProgramValue:
        """A tensor of one number, of the type of `like`."""
        number &= (1 << element_type(like.element).bits) - 1
        text = str(number) if like.element != "i1" else ("false", "true")[number]
        return replace(like, name=self.op(f"arith.constant dense<{text}> : {like.tensor()}"))

    def plus_twice(self, y: ProgramValue, x: ProgramValue) -> ProgramValue:
        """y + 2 * x, as integers."""
        x, integers = self.integers(x), self.integers(y)
        twice = self.arithmetic("shli", x, self.constant(x, 1))
        return self.elements(self.arithmetic("addi", integers, twice), y.element)

    def store(self, x: ProgramValue, memory: str, hoisted: bool) -> str:
        """Store a tensor to a new shared buffer; return the buffer."""
        type_ = x.buffer(memory)
        if hoisted:
            name = self.name()
            self.top.append(f"    {name} = ttg.local_alloc : () -> {type_}")
        else:
            name = self.op(f"ttg.local_alloc : () -> {type_}")
        self.line(f"ttg.local_store {x.name}, {name} : {x.tensor()} -> {type_}")
        return name

    def load(self, like: ProgramValue, memory: str, buffer: str, encoding: str) -> ProgramValue:
        """Load a tensor with the shape of `like` from a shared buffer."""
        y = replace(like, encoding=encoding)
        return replace(y, name=self.op(f"ttg.local_load {buffer} : {like.buffer(memory)} -> {y.tensor()}"))

    def combined(self, kind: str, operation: str, options: str, x: ProgramValue, result: str) -> str:
        """`tt.reduce` or `tt.scan` of integers."""
        e = x.element
        name = self.op(f'"tt.{kind}"({x.name}) <{{{options}}}> ({{')
        with self.region():
            a, b, c = self.name(), self.name(), self.name()
            self.line(f"^bb0({a}: {e}, {b}: {e}):")
            self.line(f"{c} = arith.{operation} {a}, {b} : {e}")
            self.line(f"tt.{kind}.return {c} : {e}")
        self.line(f"}}) : ({x.tensor()}) -> {result}")
        return name

    def steps(self, steps: Steps, x: ProgramValue, induction: str | None) -> ProgramValue:
        """Add steps; return the resulting tensor. `induction` is the number of the innermost loop's
        iteration.
        """
        for step in steps:
            x = self.step(step, x, induction)
        return x

    def step(self, step: Step, x: ProgramValue, induction: str | None) -> ProgramValue:
        """Add a step; return the resulting tensor."""
        match step:
            case Convert(encoding):
                return self.convert(x, encoding, always=True)
            case Shared():
                x = self.convert(x, step.source)
                buffer = self.store(x, step.memory, step.hoisted)
                return self.load(x, step.memory, buffer, step.encoding)
            case Reduce():
                return self.reduce(step, x, induction)
            case Scan():
                x = self.convert(x, step.encoding)
                y = self.integers(x)
                options = f"axis = {step.axis} : i32, reverse = {'true' if step.reverse else 'false'}"
                name = self.combined("scan", "addi", options, y, y.tensor())
                return self.elements(replace(y, name=name), x.element)
            case Add(by):
                y = self.integers(x)
                return self.elements(self.arithmetic("addi", y, self.constant(y, by)), x.element)
            case Transposed():
                return self.reshape(step, x, induction)
            case Reshaped():
                return self.reshape(step, x, induction)
            case Loop():
                return self.loop(step, x)
            case Branch():
                return self.branch(step, x, induction)
            case Park():
                return self.park(step, x, induction)

    def reduce(self, step: Reduce, x: ProgramValue, induction: str | None) -> ProgramValue:
        """See Reduce."""
        x = self.convert(x, step.encoding)
        integers = self.integers(x)
        options = f"axis = {step.axis} : i32"
        if len(x.shape) == 1:
            name = self.combined("reduce", step.operation, options, integers, integers.element)
            name = self.op(f"tt.splat {name} : {integers.element} -> {integers.tensor()}")
            return self.plus_twice(x, replace(integers, name=name))
        shape = x.shape[: step.axis] + x.shape[step.axis + 1 :]
        slice_ = f"#ttg.slice<{{dim = {step.axis}, parent = {step.encoding}}}>"
        y = replace(integers, shape=shape, encoding=slice_)
        y = replace(y, name=self.combined("reduce", step.operation, options, integers, y.tensor()))
        y = self.convert(self.steps(step.inner, y, induction), slice_)
        one = replace(y, shape=(*x.shape[: step.axis], 1, *x.shape[step.axis + 1 :]), encoding=step.encoding)
        head = f"tt.expand_dims {y.name} {{axis = {step.axis} : i32}}"
        one = replace(one, name=self.op(f"{head} : {y.tensor()} -> {one.tensor()}"))
        all_ = replace(one, shape=x.shape)
        name = self.op(f"tt.broadcast {one.name} : {one.tensor()} -> {all_.tensor()}")
        return self.plus_twice(x, replace(all_, name=name))

    def reshape(self, step: Transposed | Reshaped, x: ProgramValue, induction: str | None) -> ProgramValue:
        """See Transposed and Reshaped."""
        x = self.convert(x, step.encoding)
        if isinstance(step, Transposed):
            shape = tuple(x.shape[d] for d in step.order)
            forward = f"tt.trans {{}} {{{{order = array<i32: {', '.join(map(str, step.order))}>}}}}"
            inverse = tuple(step.order.index(d) for d in range(len(step.order)))
            back = f"tt.trans {{}} {{{{order = array<i32: {', '.join(map(str, inverse))}>}}}}"
            inside = transposed(step.encoding, step.order)
            outside = transposed(step.inner_encoding, inverse)
        else:
            shape = step.shape
            forward = back = "tt.reshape {}"
            inside = reshaped(step.encoding, x.shape, shape)
            outside = reshaped(step.inner_encoding, shape, x.shape)
        y = replace(x, shape=shape, encoding=inside)
        y = replace(y, name=self.op(f"{forward.format(x.name)} : {x.tensor()} -> {y.tensor()}"))
        y = self.convert(self.steps(step.inner, y, induction), step.inner_encoding)
        z = replace(x, encoding=outside)
        return replace(z, name=self.op(f"{back.format(y.name)} : {y.tensor()} -> {z.tensor()}"))

    def loop(self, step: Loop, x: ProgramValue) -> ProgramValue:
        """See Loop."""
        x = self.convert(x, step.encoding)
        zero, one, trips = (self.op(f"arith.constant {n} : i32") for n in (0, 1, step.trips))
        number, inside, result = self.name(), replace(x, name=self.name()), self.name()
        type_ = x.tensor()
        if step.kind == "for":
            carried = f"iter_args({inside.name} = {x.name}) -> ({type_}) : i32 {{"
            self.line(f"{result} = scf.for {number} = {zero} to {trips} step {one} {carried}")
            with self.region():
                y = self.convert(self.steps(step.inner, inside, number), step.encoding)
                self.line(f"scf.yield {y.name} : {type_}")
            self.line("}")
            return replace(x, name=result)
        before, count = self.name(), self.name()
        carried = f"({before} = {x.name}, {count} = {zero}) : ({type_}, i32) -> ({type_}, i32) {{"
        self.line(f"{result}:2 = scf.while {carried}")
        with self.region():
            more = self.op(f"arith.cmpi slt, {count}, {trips} : i32")
            self.line(f"scf.condition({more}) {before}, {count} : {type_}, i32")
        self.line("} do {")
        with self.region():
            self.line(f"^bb0({inside.name}: {type_}, {number}: i32):")
            y = self.convert(self.steps(step.inner, inside, number), step.encoding)
            next_ = self.op(f"arith.addi {number}, {one} : i32")
            self.line(f"scf.yield {y.name}, {next_} : {type_}, i32")
        self.line("}")
        return replace(x, name=f"{result}#0")

    def branch(self, step: Branch, x: ProgramValue, induction: str | None) -> ProgramValue:
        """See Branch."""
        if induction is None:
            even = self.op("arith.constant true")
        else:
            zero, one = (self.op(f"arith.constant {n} : i32") for n in (0, 1))
            bit = self.op(f"arith.andi {induction}, {one} : i32")
            even = self.op(f"arith.cmpi eq, {bit}, {zero} : i32")
        result = self.name()
        type_ = x.tensor(step.encoding)
        self.line(f"{result} = scf.if {even} -> ({type_}) {{")
        for number, steps in enumerate((step.inner, step.other)):
            with self.region():
                y = self.convert(self.steps(steps, x, induction), step.encoding)
                self.line(f"scf.yield {y.name} : {type_}")
            self.line("}" if number else "} else {")
        return replace(x, name=result, encoding=step.encoding)

    def park(self, step: Park, x: ProgramValue, induction: str | None) -> ProgramValue:
        """See Park."""
        buffer = ""
        if step.memory:
            x = self.convert(x, step.source)
            buffer = self.store(x, step.memory, hoisted=False)
        y = self.convert(self.steps(step.inner, x, induction), step.encoding)
        if step.memory:
            kept = self.load(x, step.memory, buffer, step.encoding)
        else:
            kept = self.convert(x, step.encoding)
        return self.plus_twice(y, kept)


@dataclass(frozen=True)
class Written:
    """A program's module, the encoding of its result, and the number of conversions in it."""

    text: str
    result: str
    conversions: int


def write(program: Program) -> Written:
    """The TTGIR of a program, with a header for `program_in`."""
    target = target_called(program.target)
    writer = ProgramWriter()
    argument = ProgramValue("%x", program.shape, program.element, program.source)
    result = writer.steps(program.steps, argument, None)
    bits = writer.integers(result)
    writer.line(sink(bits.name, bits.tensor(), SINK))
    lines = "\n".join((*writer.top, *writer.lines))
    text = (
        f"{HEADER}{as_json(program)}\n"
        f'module attributes {{"ttg.num-ctas" = {program.ctas} : i32, "ttg.num-warps" = {program.warps} : i32, '
        f'ttg.target = "{program.target}", "ttg.threads-per-warp" = {target.lanes} : i32}} {{\n'
        f"  tt.func public @program(%x: {argument.tensor()}) {{\n{lines}\n    tt.return\n  }}\n}}\n"
    )
    return Written(text, result.encoding, writer.conversions)
