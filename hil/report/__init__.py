"""One self-contained HTML page of a run or of its replay."""

from hil.report.page import write_report

__all__ = ["write_report"]
