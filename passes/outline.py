"""Takes planned conversions out of Triton's hands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from triton_linear.dialect import ll
from triton_linear.dialect.linear_layout import LinearLayout
from triton_linear.dialect.mlir_adapter import (
    Attribute,
    FlatSymbolRefAttr,
    InsertionPoint,
    Location,
    Module,
    Operation,
    StringAttr,
    Type,
    operations,
)
from triton_linear.lowering.element import element_type
from triton_linear.lowering.plan import Plan
from triton_linear.lowering.select import select
from triton_linear.lowering.targets import Target
from triton_linear.passes import diagnostics
from triton_linear.passes.layouts import LayoutTable, Unknown
from triton_linear.passes.verifiers import (
    CONVERT,
    Verifier,
    every_conversion_is_decided,
    no_convert_layout_left,
)

PREFIX = "__ll_cvt_"


@dataclass(frozen=True)
class OutlineConversions:
    """Takes planned conversions out of Triton's hands.

    Each conversion that moves data becomes a call of a private function, the stub, one for each pair of types
    and plan, behind all other functions. Triton sees its scratch as an allocation and a store in the stub,
    and so counts it and guards the call with barriers; the stub's result is a placeholder. The attributes
    `ll.source`, `ll.destination`, `ll.element` and `ll.plan` say what the body is to be. A no-op stays a
    conversion, which Triton lowers to nothing.

    Requires: every conversion is planned or left to Triton.
    Ensures: only no-ops and conversions left to Triton are left.

        %1 = ttg.convert_layout %0 {ll.plan = ...} : A -> B
        %1 = tt.call @__ll_cvt_0(%0) : (A) -> B
    """

    name: ClassVar[str] = "linear-outline-conversions"
    summary: ClassVar[str] = "replace planned conversions by calls of stubs"
    requires: ClassVar[tuple[Verifier, ...]] = (every_conversion_is_decided,)
    ensures: ClassVar[tuple[Verifier, ...]] = (no_convert_layout_left,)

    def __call__(self, op: Operation, pass_: Any) -> None:
        ops = operations(op)
        names = {inner.attributes["sym_name"].value for inner in ops if inner.name == "tt.func"}
        table = LayoutTable()
        stubs: dict[tuple[Type, Type, str], str] = {}
        for conversion in [inner for inner in ops if inner.name == CONVERT]:
            if ll.STOCK in conversion.attributes:
                continue
            if ll.PLAN not in conversion.attributes:
                diagnostics.error(
                    conversion, f"{self.name}: conversion has no plan; run linear-select-lowering"
                )
                pass_.signal_pass_failure()
                return
            plan = ll.plan_from_attribute(conversion.attributes[ll.PLAN])
            if plan.kind == "noop":
                continue
            source, result = conversion.operands[0], conversion.results[0]
            key = (source.type, result.type, str(conversion.attributes[ll.PLAN]))
            if key not in stubs:
                stubs[key] = next(n for i in range(len(names) + 1) if (n := f"{PREFIX}{i}") not in names)
                names.add(stubs[key])
                _Stub(op, conversion, table, int(dict(plan.figures)["scratch_bytes"])).build(stubs[key])
            attributes = {"callee": FlatSymbolRefAttr.get(stubs[key], op.context)}
            if ll.RESULTS in conversion.attributes:
                attributes[ll.RESULTS] = conversion.attributes[ll.RESULTS]
            call = Operation.create(
                "tt.call",
                results=[result.type],
                operands=[source],
                attributes=attributes,
                loc=conversion.location,
                ip=InsertionPoint(conversion),
            )
            result.replace_all_uses_with(call.results[0])
            conversion.erase()


@dataclass(frozen=True)
class _Stub:
    """The stub of `conversion`, at the end of `module`."""

    module: Operation
    conversion: Operation
    table: LayoutTable
    scratch_bytes: int

    def build(self, name: str) -> None:
        source, result = self.conversion.operands[0].type, self.conversion.results[0].type
        context = self.module.context
        layouts: list[LinearLayout] = []
        for type_ in (source, result):
            layout = self.table.of(type_)
            if layout is None or isinstance(layout, Unknown):
                raise ValueError(f"planned conversion has no layout for '{type_}'")
            layouts.append(layout)
        text = StringAttr.get
        attributes = {
            "sym_name": text(name, context),
            "sym_visibility": text("private", context),
            "function_type": self.attribute(f"({source}) -> {result}"),
            "noinline": self.attribute("true"),
            ll.SOURCE: ll.layout_attribute(layouts[0], context),
            ll.DESTINATION: ll.layout_attribute(layouts[1], context),
            ll.ELEMENT: text(str(source.element_type), context),
            ll.PLAN: self.conversion.attributes[ll.PLAN],
        }
        if ll.SCRATCH_LIMIT in self.conversion.attributes:
            attributes[ll.SCRATCH_LIMIT] = self.conversion.attributes[ll.SCRATCH_LIMIT]
        body = self.module.regions[0].blocks[0]
        loc = self.conversion.location
        function = Operation.create(
            "tt.func", attributes=attributes, regions=1, loc=loc, ip=InsertionPoint(body)
        )
        block = function.regions[0].blocks.append(source, arg_locs=[loc])
        make = _Builder(InsertionPoint(block), loc)
        if self.scratch_bytes:
            self.claim_scratch(make)
        make("tt.return", operands=[self.placeholder(make, result)])

    def attribute(self, text: str) -> Attribute:
        return Attribute.parse(text, self.module.context)

    def type(self, text: str) -> Type:
        return Type.parse(text, self.module.context)

    def claim_scratch(self, make: _Builder) -> None:
        """Allocate and store as many bytes as the plan uses; tensors have a power of two of them."""
        unit = self.scratch_bytes & -self.scratch_bytes
        count = self.scratch_bytes // unit
        warps = self.module.attributes["ttg.num-warps"].value
        lanes = self.module.attributes["ttg.threads-per-warp"].value
        blocked = (
            f"#ttg.blocked<{{sizePerThread = [16], threadsPerWarp = [{lanes}], warpsPerCTA = [{warps}], "
            "order = [0]}>"
        )
        shared = "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>"
        tail = f"{unit}xi8, {shared}, #ttg.shared_memory, mutable>"
        tensor = self.type(f"tensor<{unit}xi8, {blocked}>")
        zero = make("arith.constant", tensor, attributes={"value": self.attribute(f"dense<0> : {tensor}")})
        buffers = "" if count == 1 else f"{count}x"
        scratch = make("ttg.local_alloc", self.type(f"!ttg.memdesc<{buffers}{tail}"))
        for i in range(count if count > 1 else 0):
            index = make("arith.constant", self.type("i32"), attributes={"value": self.attribute(f"{i} : i32")})
            buffer = make("ttg.memdesc_index", self.type(f"!ttg.memdesc<{tail}"), operands=[scratch, index])
            make("ttg.local_store", operands=[zero, buffer])
        if count == 1:
            make("ttg.local_store", operands=[zero, scratch])

    def placeholder(self, make: _Builder, result: Type) -> Any:
        """Some value of type `result`; pointers have no constants."""
        element = str(result.element_type)
        if not element.startswith("!"):
            value = "dense<0.0>" if _is_float(element) else "dense<0>" if element != "i1" else "dense<false>"
            return make("arith.constant", result, attributes={"value": self.attribute(f"{value} : {result}")})
        zero = make("arith.constant", self.type("i64"), attributes={"value": self.attribute("0 : i64")})
        pointer = make("tt.int_to_ptr", result.element_type, operands=[zero])
        return make("tt.splat", result, operands=[pointer])


def _is_float(element: str) -> bool:
    return element.startswith(("f", "bf"))


@dataclass(frozen=True)
class _Builder:
    """Creates operations one after the other at one place and location; gives the result, if it has one."""

    place: InsertionPoint
    location: Location

    def __call__(
        self,
        name: str,
        result: Type | None = None,
        operands: list[Any] | None = None,
        attributes: dict[str, Attribute] | None = None,
    ) -> Any:
        op = Operation.create(
            name,
            results=[] if result is None else [result],
            operands=operands or [],
            attributes=attributes or {},
            loc=self.location,
            ip=self.place,
        )
        return None if result is None else op.results[0]


def stub_plans(module: Module, target: Target) -> dict[str, Plan]:
    """The plan of each stub in `module`, by the stub's name, as the passes chose it for `target`."""
    plans: dict[str, Plan] = {}
    for op in operations(module.operation):
        if op.name != "tt.func" or ll.PLAN not in op.attributes:
            continue
        attributes = op.attributes
        limit = attributes[ll.SCRATCH_LIMIT].value if ll.SCRATCH_LIMIT in attributes else None
        name = attributes["sym_name"].value
        source = ll.layout_from_attribute(attributes[ll.SOURCE])
        destination = ll.layout_from_attribute(attributes[ll.DESTINATION])
        plan = select(source, destination, element_type(attributes[ll.ELEMENT].value), target, limit).plan
        recorded = ll.plan_from_attribute(attributes[ll.PLAN]).kind
        if plan is None or plan.kind != recorded:
            found = "none" if plan is None else f"'{plan.kind}'"
            raise ValueError(f"stub_plans: @{name} was planned as '{recorded}', {target.name} gives {found}")
        plans[name] = plan
    return plans
