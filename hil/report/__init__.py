"""One self-contained HTML page of a run or of its replay."""
