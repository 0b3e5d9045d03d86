"""Where what became of a kernel goes: to who listens, to logs, and to the files that the options name."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

from triton_linear.dialect.records import dataclass
from triton_linear.report import Report, ReportWarning, publish
from triton_linear.setting import Setting

_log = logging.getLogger("triton_linear")


@dataclass(frozen=True, slots=True)
class Outlets:
    """Those of a setting, for kernels of a target."""

    setting: Setting
    target: str

    def tell(self, report: Report) -> list[Exception]:
        """Hand the report to everyone who listens; returns what listeners raised."""
        publish(report)
        self._append(report)
        _log.debug("%s", report)
        for conversion in report.left:
            _log.info("%s: %s: left to Triton: %s", report.kernel, conversion.location, conversion.detail)
        for remark in report.remarks:
            _log.info("%s: %s", report.kernel, remark)
        failures = []
        for listener in self.setting.listeners:
            try:
                listener(report)
            except Exception as error:
                _log.exception("%s: on_report failed", report.kernel)
                failures.append(error)
        return failures

    def dump(self, kernel: str, before: str, after: str) -> None:
        """Write the module as it came and as it was compiled, if that is asked for."""
        if not (folder := self.setting.options.dump):
            return
        from triton_linear.dump import Dump

        try:
            Dump(Path(folder)).write(kernel, self.target, before, after)
        except OSError as error:
            if self.setting.options.strict:
                raise
            text = f"kernel '{kernel}' cannot be written to {folder}: {error.strerror or error}"
            warnings.warn(f"triton_linear: {text}", ReportWarning, stacklevel=3)

    def _append(self, report: Report) -> None:
        """Write the report to the file that is asked for; where that cannot be, one warning for the setting."""
        if not (path := self.setting.options.report):
            return
        from triton_linear.report_file import append

        try:
            append(path, report)
        except OSError as error:
            if ("report", path) not in self.setting.warned:
                self.setting.warned.add(("report", path))
                text = f"reports cannot be written to {path}: {error.strerror or error}"
                warnings.warn(f"triton_linear: {text}", ReportWarning, stacklevel=3)
