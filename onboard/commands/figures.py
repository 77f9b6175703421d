"""Static pictures of reports, drawn by matplotlib."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from onboard.values.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PX_PER_INCH = 100.0


def new_figure(width_px: float, height_px: float) -> Figure:
    """Return an empty figure. Raises MissingExtraError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "plots") from error
    return Figure(figsize=(width_px / PX_PER_INCH, height_px / PX_PER_INCH), dpi=PX_PER_INCH, layout="constrained")


def check_figures() -> None:
    """Raise MissingExtraError without matplotlib, before a command takes hours for what it could not draw."""
    new_figure(1.0, 1.0)


def svg_text(figure: Figure) -> str:
    """Return a figure as an SVG element with its words as text, the same bytes for the same figure."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "onboard", "font.family": "sans-serif"}):
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    return drawn.getvalue()[drawn.getvalue().index("<svg") :]
