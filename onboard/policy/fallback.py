"""A policy with a fallback, which drives where the first makes no progress or has fewer inputs than usual.

Both decide from every observation, and each keeps its own memory. Each gets the current action as its previous
action, even if the other policy chose it. The fallback drives

* while there is no localisation fix (`LOCALIZATION_MAX_AGE_S` of `onboard/navigation/start_frame.py`),
* while more than `BLIND_DEG` of the front half are blind, as without one of the front cameras, and `BLIND_S`
  longer, since a remembered obstacle counts as seen,
* and from the time when the robot comes back to a place that it left longer than `AGAIN_S` ago, until the end of the
  sequence: it goes in circles, or out of a dead end. A recovery begins a new sequence, as for every policy's memory.

`onboard-s` was trained with fixes and all cameras (docs/evaluation.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import structlog

from onboard.config.config import RatesSection
from onboard.values import reasons
from onboard.values.errors import EngineError
from onboard.values.interfaces import Diagnostic, Policy
from onboard.values.messages import BIN_DEG, BINS, Decision, Memory, Observation, Scan

Places = npt.NDArray[np.float32]

PLACE_M = 1.0
"""Side of a place: a cell of a grid in the start frame."""
AGAIN_S = 30.0
"""Of 15, 22, 30 and 40 s, chosen on the open sets `hard` and `habitat` (docs/results/onboard-s/README.md)."""
CAPACITY = 400
"""Capacity in places; the one that was left first is dropped first."""
BLIND_DEG = 20.0
"""The default robot has no blind bin in the front half, and 54 deg or more without one of its front cameras."""
BLIND_S = 10.0
FRONT = slice(BINS // 4, BINS - BINS // 4)

EMPTY: Places = np.empty((0, 3), np.float32)

log = structlog.get_logger("policy")


@dataclass(frozen=True, slots=True)
class Trail:
    """What the change between the policies goes by, between two decisions.

    decisions: since the start of the sequence
    reset_at:  number of the decision before which the first policy's memory was last new
    blind_at:  number of the last decision when too much was blind; 0: none
    circling:  whether the robot has come back to a place, in this sequence
    places:    (k, 3) float32: cell (a, b) of a place, and the number of the last decision in it; the newest at the end
    """

    decisions: int = 0
    reset_at: int = 1
    blind_at: int = 0
    circling: bool = False
    places: Places = field(default_factory=lambda: EMPTY)

    def pack(self) -> Memory:
        """Return (HEADER + 3 * CAPACITY,) float32."""
        memory = np.zeros(HEADER + 3 * CAPACITY, np.float32)
        memory[:HEADER] = self.decisions, self.reset_at, self.blind_at, self.circling, len(self.places)
        memory[HEADER : HEADER + self.places.size] = self.places.ravel()
        return memory


HEADER = 5
TRAIL = HEADER + 3 * CAPACITY


def unpack(memory: Memory) -> Trail:
    """Return what `Trail.pack` packed."""
    decisions, reset_at, blind_at, circling, count = (int(value) for value in memory[:HEADER])
    places = memory[HEADER : HEADER + 3 * count].reshape(count, 3)
    return Trail(decisions, reset_at, blind_at, bool(circling), places)


def after(trail: Trail, observation: Observation, period_s: float) -> Trail:
    """Return the trail after one more decision."""
    now, pose = trail.decisions + 1, observation.filtered.pose
    a, b = math.floor(pose.x_m / PLACE_M), math.floor(pose.y_m / PLACE_M)
    here = (trail.places[:, 0] == a) & (trail.places[:, 1] == b)
    away_s = (now - trail.places[here, 2]) * period_s
    places = np.concatenate([trail.places[~here][-CAPACITY + 1 :], np.asarray([[a, b, now]], np.float32)])
    circling = trail.circling or bool((away_s > AGAIN_S).any())
    blind_at = now if is_blind(observation.scan) else trail.blind_at
    return Trail(now, trail.reset_at, blind_at, circling, places)


def reason(trail: Trail, observation: Observation, period_s: float) -> str:
    """Return why the fallback drives after this observation, or ""."""
    if observation.localization is None:
        return "no localisation fix"
    if trail.blind_at > 0 and (trail.decisions - trail.blind_at) * period_s <= BLIND_S:
        return "blind ahead"
    return "returned to a place" if trail.circling else ""


def is_blind(scan: Scan) -> bool:
    """Return whether more of the front half is blind than gaps between working cameras."""
    return blind_deg(scan.seen) > BLIND_DEG


def blind_deg(seen: npt.NDArray[np.bool_]) -> float:
    """Return how much of the front half is not seen [deg]. seen: (180,) bool."""
    return float(np.count_nonzero(~seen[FRONT])) * BIN_DEG


class WithFallback:
    """Implements `interfaces.Policy` with two others.

    memory_reset_s: None: the first policy's own period is kept here, as the fallback's memory needs no reset
    """

    memory_reset_s: float | None = None

    def __init__(self, first: Policy, fallback: Policy, rates: RatesSection) -> None:
        self.name = f"{first.name}+{fallback.name}"
        self.first, self._fallback = first, fallback
        self._size = self.initial_memory().size
        self._reported = ""  # the last reason in the log
        self._period_s = rates.ticks_per_decision / rates.control_hz

    def initial_memory(self) -> Memory:
        """Return the three memories in a row: the trail, the first policy's and the fallback's."""
        return _joined(Trail(), self.first.initial_memory(), self._fallback.initial_memory())

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the decision of the policy whose turn it is, and the new memories. Raises EngineError."""
        if memory.shape != (self._size,):
            raise EngineError(f"{self.name}: memory has shape {memory.shape}, not ({self._size},)")
        trail = after(unpack(memory), observation, self._period_s)
        fresh = self.first.initial_memory()
        mine, theirs = memory[TRAIL : TRAIL + fresh.size].reshape(fresh.shape), memory[TRAIL + fresh.size :]
        reset_s = self.first.memory_reset_s
        if reset_s is not None and trail.decisions - trail.reset_at >= round(reset_s / self._period_s):
            mine, trail = fresh, replace(trail, reset_at=trail.decisions)
        decided, mine = self.first.decide(observation, mine)
        instead, theirs = self._fallback.decide(observation, theirs)
        why = reason(trail, observation, self._period_s)
        if why != self._reported and observation.stamp_ns > 0:  # 0: the observation that warms a policy
            self._reported = why
            drives = self._fallback if why else self.first
            log.info("policy_changed", drives=drives.name, why=why or "as usual")
        return instead if why else decided, _joined(trail, mine, theirs)

    def diagnostic(self) -> Diagnostic:
        """Return the row of `/diagnostics`: who made the last decision; a warning if it was the fallback."""
        why, values = self._reported, {"policy": self.first.name, "fallback": self._fallback.name}
        if why:
            return ("fallback", 1, reasons.FALLBACK.say(fallback=self._fallback.name, why=why), values)
        return ("fallback", 0, f"{self.first.name} drives", values)

    def close(self) -> None:
        """Close both."""
        self.first.close()
        self._fallback.close()


def _joined(trail: Trail, mine: Memory, theirs: Memory) -> Memory:
    return np.concatenate([trail.pack(), mine.ravel(), theirs.ravel()])


def first_of(policy: Policy) -> Policy:
    """Return the policy without its fallback."""
    return policy.first if isinstance(policy, WithFallback) else policy
