"""Deliver the report of a kernel to listeners, logs and the files that the options name."""

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
    """The listeners, logs and files of a setting, for kernels of a target."""

    setting: Setting
    target: str

    def tell(self, report: Report) -> list[Exception]:
        """Deliver a report; return the exceptions of listeners."""
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
        """Write the module before and after the passes, if the option `dump` is on."""
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
        """Append the report to the file of the option `report`; if that fails, warn once for the setting."""
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
