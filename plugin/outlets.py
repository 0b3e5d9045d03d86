"""Deliver the report of a kernel to listeners, logs and the files that the options name."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

from triton_linear.dialect.records import dataclass
from triton_linear.report import Outcome, Report, ReportWarning, publish
from triton_linear.setting import Setting

_log = logging.getLogger("triton_linear")
_LONGEST = 150
"""Characters of a kernel's name in a file name; file systems take 255 bytes."""


@dataclass(frozen=True, slots=True)
class Outlets:
    """The listeners, logs and files of a setting, for kernels of a target."""

    setting: Setting
    target: str

    def tell(self, report: Report) -> list[Exception]:
        """Deliver a report; return the exceptions of listeners. The log warns of other processes' failures."""
        publish(report)
        self._append(report)
        told = self.setting.options.strict or (report.kernel, self.target) in self.setting.warned
        _log.log(
            logging.WARNING if report.outcome is Outcome.FAILED and not told else logging.DEBUG, "%s", report
        )
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
        try:
            _dump(Path(folder), kernel, self.target, before, after)
        except OSError as error:
            if self.setting.options.strict:
                raise
            _warn(f"kernel '{kernel}' cannot be written to {folder}: {error.strerror or error}")

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
                _warn(f"reports cannot be written to {path}: {error.strerror or error}")


def _warn(text: str) -> None:
    warnings.warn(f"triton_linear: {text}", ReportWarning, stacklevel=4)


def _dump(folder: Path, kernel: str, target: str, before: str, after: str) -> None:
    """Write `KERNEL-DIGEST.before.ttgir` and `KERNEL-DIGEST.after.ttgir` to a folder.

    The digest is that of the module before the passes and of the target. So each specialisation has its own
    files, and processes that compile the same kernel write the same files. Each file appears whole, as other
    threads and processes may read or write it.
    """
    import hashlib

    from triton_linear.dialect.whole_files import write_whole

    digest = hashlib.sha256(f"{target}\0{before}".encode()).hexdigest()[:12]
    for side, text in (("before", before), ("after", after)):
        write_whole(folder / f"{kernel[:_LONGEST]}-{digest}.{side}.ttgir", text.encode())
