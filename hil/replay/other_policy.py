"""Decisions of another policy on recorded observations: agreement, and the largest disagreements.

The other policy keeps its own memory. The recorded actions stay active.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from onboard.policy.contract import ACTIONS, apart, twist_of
from onboard.recording.tick_message import action_of
from onboard.state import TickRecord

MOMENTS = 10
"""Number of largest disagreements that are kept."""


class Moment(NamedTuple):
    """A differing decision.

    margin: logit of the other policy's action above the logit of the recorded action; for own actions the distance of
            the velocities (`contract.apart`)
    """

    margin: float
    tick: int
    t_s: float
    recorded: int
    decided: int


@dataclass(slots=True)
class PolicyComparison:
    """Compared decisions: counts of action pairs, and the largest disagreements.

    source:  path or URL of the file; sessions: their names
    pairs:   count of each (recorded action, action of the other policy)
    cut_off: a repaired copy was read
    """

    source: str
    policy: str
    sessions: tuple[str, ...] = ()
    decisions: int = 0
    same: int = 0
    pairs: Counter[tuple[int, int]] = field(default_factory=Counter)
    moments: list[Moment] = field(default_factory=list)
    cut_off: bool = False

    def add(self, tick: TickRecord, replayed: TickRecord, t_s: float) -> None:
        """Add a recorded tick if a decision was due in its replay."""
        if replayed.acted is None or replayed.acted.decision is None:
            return
        decided, recorded = replayed.acted.decision, action_of(tick)
        self.decisions += 1
        self.pairs[recorded, decided.action] += 1
        if decided.action == recorded:
            self.same += 1
            return
        margin = 0.0
        if decided.own is None:
            margin = float(decided.logits[decided.action] - decided.logits[recorded])
        elif recorded >= 0:
            margin = apart(twist_of(decided), ACTIONS[recorded])
        moment = Moment(margin, tick.slot.number, t_s, recorded, decided.action)
        keep = heapq.heappush if len(self.moments) < MOMENTS else heapq.heappushpop
        keep(self.moments, moment)

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON, the largest disagreement first."""
        return {
            "file": self.source,
            "sessions": list(self.sessions),
            "policy": self.policy,
            "decisions": self.decisions,
            "same_actions": self.same,
            "agreement": self.same / self.decisions if self.decisions else None,
            "confusion": [
                {"recorded": _named(recorded), "now": _named(decided), "decisions": count}
                for (recorded, decided), count in self.pairs.most_common()
            ],
            "moments": [
                {"tick": moment.tick, "t_s": round(moment.t_s, 3), "recorded": _named(moment.recorded),
                 "now": _named(moment.decided), "margin": moment.margin}
                for moment in sorted(self.moments, reverse=True)
            ],
        }  # fmt: skip


def _named(action: int) -> dict[str, float]:
    twist = ACTIONS[action]
    return {"action": action, "v_mps": twist.v_mps, "w_radps": twist.w_radps}
