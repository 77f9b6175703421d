"""The faults of what people send and what comes long after they sent it. `table.py` has the others."""

from __future__ import annotations

from hil.faults import checks
from hil.faults.fault import Fault
from hil.faults.musts import During, Must

LATE: tuple[Fault, ...] = (
    Fault(
        "teleop_late", "an operator's commands come a second after they were written",
        Must(During.STANDS, reasons=("teleop",), checks=(checks.late_operator_holds, checks.no_contact)),
        "drivers/dds_teleop.py: too late to drive by, it holds the robot; then R3 of limits.py",
        lasts_s=4.0, process="late operator",
    ),
    Fault(
        "goal_late", "a goal comes that was written when the one that is driven to was",
        Must(During.DRIVES, checks=(checks.goal_refused, checks.no_contact)),
        "goals.py: one that was long under way is refused", lasts_s=6.0, process="late goal",
    ),
)  # fmt: skip
