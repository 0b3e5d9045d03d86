"""What runs passes: what it checks, reports and measures, diagnostics, and the verifiers between passes."""

from __future__ import annotations

import threading
from dataclasses import FrozenInstanceError, dataclass, fields, is_dataclass
from typing import Any, ClassVar

import pytest
from pass_modules import CONVERSION, module, named

from triton_linear.dialect import ll
from triton_linear.dialect.mlir_adapter import Attribute, Operation, operations
from triton_linear.passes.conversions.select import SelectLowering
from triton_linear.passes.framework import base, diagnostics, verifiers
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.pipeline import pipeline
from triton_linear.passes.registry import PASSES
from triton_linear.tools.support.compile import LOWERING

# --- passes as objects ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Remarks:
    """Reports every conversion."""

    text: str
    name: ClassVar[str] = "remarks"
    summary: ClassVar[str] = "report conversions"
    requires: ClassVar[tuple[verifiers.Verifier, ...]] = ()
    ensures: ClassVar[tuple[verifiers.Verifier, ...]] = ()

    def __call__(self, op: Operation, pass_: Any) -> None:
        for inner in operations(op):
            if inner.name == "ttg.convert_layout":
                diagnostics.remark(inner, f"{self.text} {inner.name}")


@dataclass(frozen=True)
class _Raises(_Remarks):
    def __call__(self, op: Operation, pass_: Any) -> None:
        raise KeyError("of no interest")


@dataclass(frozen=True)
class _NeedsPlans(_Remarks):
    requires: ClassVar[tuple[verifiers.Verifier, ...]] = (verifiers.every_conversion_is_decided,)


@dataclass(frozen=True)
class _PromisesPlans(_Remarks):
    ensures: ClassVar[tuple[verifiers.Verifier, ...]] = (verifiers.every_conversion_is_decided,)


@pytest.mark.parametrize(("name", "kind"), PASSES.items())
def test_passes_are_frozen_dataclasses_that_explain_themselves(name: str, kind: Any) -> None:
    assert kind.name == name
    assert is_dataclass(kind)
    with pytest.raises(FrozenInstanceError):
        kind().summary = ""
    assert kind() == kind()
    assert hash(kind()) == hash(kind())
    assert kind.summary
    assert all(part in kind.__doc__ for part in ("Requires: ", "Ensures: "))
    assert all(field.metadata["help"] for field in fields(kind))


def test_an_exception_becomes_an_error_and_ends_the_run() -> None:
    root = module(CONVERSION)
    outcome = run_passes(root, [_Remarks("first"), _Raises("second"), _Remarks("third")])
    assert not outcome.succeeded
    remark, error = outcome.diagnostics
    assert (remark.severity, remark.message) == ("remark", "first ttg.convert_layout")
    assert error.severity == "error"
    assert error.message == (
        "remarks: internal error: KeyError: 'of no interest'; this is a bug, please report it with the module "
        "that shows it"
    )
    assert [name for name, _ in outcome.seconds] == ["remarks"]


def test_what_passes_require_and_ensure_is_checked_on_request() -> None:
    for pass_ in (_NeedsPlans("x"), _PromisesPlans("x")):
        assert run_passes(module(CONVERSION), [pass_]).succeeded
        outcome = run_passes(module(CONVERSION), [pass_], verify=True)
        assert not outcome.succeeded
        messages = [d.message for d in outcome.diagnostics if d.severity == "error"]
        assert messages == ["conversion has no plan and is not left to Triton"]
    assert run_passes(module(CONVERSION), [SelectLowering(), _NeedsPlans("x")], verify=True).succeeded


@dataclass(frozen=True)
class _Looks(_Remarks):
    """Looks at the operations, erases what prints if it is told to, and says whether it does."""

    erases: bool = False
    says: bool | None = None

    def __call__(self, op: Operation, pass_: Any) -> bool | None:
        for inner in pass_.operations(op):
            if inner.name == "tt.print" and self.erases:
                inner.erase()
        return self.says


def test_operations_are_found_again_where_a_pass_may_have_changed_them(monkeypatch: pytest.MonkeyPatch) -> None:
    walks: list[Operation] = []
    monkeypatch.setattr(base, "operations", lambda root: walks.append(root) or operations(root))
    kept, changed = _Looks("kept", says=False), _Looks("changed")
    assert run_passes(module(CONVERSION), [kept, kept, changed, kept]).succeeded
    assert len(walks) == 2
    assert run_passes(module(CONVERSION), [kept, "cse", kept]).succeeded
    assert len(walks) == 4


def test_a_pass_that_hides_a_change_is_found_out_on_request() -> None:
    outcome = run_passes(module(CONVERSION), [_Looks("x", erases=True, says=False)], verify=True)
    (error,) = outcome.diagnostics
    assert error.message == "operations came or went, and the pass says that none did"
    assert run_passes(module(CONVERSION), [_Looks("x", erases=True)], verify=True).succeeded


def test_an_unknown_target_is_an_error_at_the_module() -> None:
    outcome = run_passes(module(CONVERSION), [SelectLowering("cuda:x")])
    (error,) = outcome.diagnostics
    assert "linear-select-lowering: " in error.message
    assert "cuda:x" in error.message
    assert 'loc("f.ttgir":3:1)' in error.location


def test_times_and_modules_around_each_pass_can_be_had() -> None:
    told: list[tuple[str, bool, str]] = []
    passes = pipeline(LOWERING, None)
    names = [pass_.name for pass_ in passes]
    outcome = run_passes(
        module(CONVERSION), passes, watch=lambda name, done, op: told.append((name, done, str(op)))
    )
    assert [name for name, _ in outcome.seconds] == names
    assert all(0 < seconds < 1 for _, seconds in outcome.seconds)
    assert [(name, done) for name, done, _ in told] == [
        (name, done) for name in names for done in (False, True)
    ]
    texts = [text for _, _, text in told]
    assert texts[1:-1:2] == texts[2::2]
    assert texts[0] != texts[-1]


# --- diagnostics ------------------------------------------------------------------------------------------


def test_notes_and_severities_are_kept() -> None:
    root = module(CONVERSION)
    (conversion,) = named(root, "ttg.convert_layout")
    with diagnostics.capture(root.context) as found:
        diagnostics.remark(conversion, "look", [(conversion, "here"), (root.operation, "there")])
        Attribute.parse('"x"', root.context)
        conversion.location.emit_error("from MLIR itself")
    remark, error = found
    assert str(remark).splitlines() == [
        'loc("f.ttgir":5:6): remark: look',
        'loc("f.ttgir":5:6): note: here',
        'loc("f.ttgir":3:1): note: there',
    ]
    assert (error.severity, error.message) == ("error", "from MLIR itself")


def test_where_nobody_listens_only_errors_are_heard(capfd: pytest.CaptureFixture[str]) -> None:
    root = module(CONVERSION)
    (conversion,) = named(root, "ttg.convert_layout")
    diagnostics.remark(conversion, "a remark")
    diagnostics.error(conversion, "an error")
    heard = capfd.readouterr().err
    assert "an error" in heard
    assert "a remark" not in heard


def test_threads_do_not_share_what_is_reported() -> None:
    failures: list[str] = []

    def work(name: str) -> None:
        body = CONVERSION.replace("%0", f"%{name}")
        for _ in range(5):
            root = module(body)
            found = run_passes(root, [_Remarks(name)]).diagnostics
            if [d.message for d in found] != [f"{name} ttg.convert_layout"]:
                failures.append(f"{name}: {found}")

    threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# --- verifiers --------------------------------------------------------------------------------------------


def errors_of(verifier: verifiers.Verifier, root: Any) -> list[str]:
    with diagnostics.capture(root.context) as found:
        good = verifier(root.operation)
    assert good == (not found)
    return [d.message for d in found]


def test_conversions_that_are_left_are_found() -> None:
    root = module(CONVERSION)
    left = ["conversion is neither outlined, nor a no-op, nor left to Triton"]
    assert errors_of(verifiers.no_convert_layout_left, root) == left
    run_passes(root, [SelectLowering()])
    assert errors_of(verifiers.no_convert_layout_left, root) == left
    (conversion,) = named(root, "ttg.convert_layout")
    conversion.attributes[ll.STOCK] = Attribute.parse('"why"', root.context)
    assert errors_of(verifiers.no_convert_layout_left, root) == []
