"""Linear layouts for Triton: layout conversions planned and lowered by MLIR passes in Python.

    import triton_linear

    triton_linear.install()                      # every kernel compiled from here on
    with triton_linear.enabled() as reports:     # or only those compiled in here
        kernel[grid](...)
    print(reports[-1])

Importing this package imports neither Triton nor MLIR; MLIR is imported when the first kernel that has
something to convert is compiled.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which takes milliseconds to import
if TYPE_CHECKING:
    from triton_linear.decisions import DecisionWarning
    from triton_linear.environment import EnvironmentWarning
    from triton_linear.hook import enabled, install, uninstall
    from triton_linear.overview import Status, status
    from triton_linear.passes.user_passes import PassError, ttgir_pass
    from triton_linear.report import FallbackWarning, LimitWarning, Report, ReportWarning, last_report

__version__ = "0.2.0"

_NAMES = {
    "decisions": ("DecisionWarning",),
    "environment": ("EnvironmentWarning",),
    "hook": ("enabled", "install", "uninstall"),
    "report": ("FallbackWarning", "LimitWarning", "Report", "ReportWarning", "last_report"),
    "overview": ("Status", "status"),
    "passes.user_passes": ("PassError", "ttgir_pass"),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "DecisionWarning",
    "EnvironmentWarning",
    "FallbackWarning",
    "LimitWarning",
    "PassError",
    "Report",
    "ReportWarning",
    "Status",
    "__version__",
    "enabled",
    "install",
    "last_report",
    "status",
    "ttgir_pass",
    "uninstall",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
