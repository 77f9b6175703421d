"""Who else drives this robot: other writers of its command and of its state, as discovery tells.

DDS lets anybody on the domain write `/cmd_vel`, and a base obeys whoever spoke last. So the runtime looks in every
tick: another writer is told loudly, and with `dds.other_drivers = "refuse"` it counts as a pressed e-stop for as long
as it is there; by R2 of `limits.py` the robot then stands until it is gone *and* a new goal is given.

What it does not do: discovery is what others say of themselves. Who forges packets without joining the domain is not
seen here; SECURITY.md says what keeps them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog
from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsParticipant, BuiltinTopicDcpsPublication
from cyclonedds.core import DDSException, InstanceState

from onboard.drivers.dds_graph import member_of
from onboard.drivers.dds_topics import dds_topic, ros_topic
from onboard.drivers.wire import Wire
from onboard.errors import DriverError
from onboard.interfaces import Diagnostic, Inbox
from onboard.messages import Inputs
from onboard.scheduler import NS_PER_S

log = structlog.get_logger()

OURS = ("cmd_vel", "state")
"""Topics that one runtime writes, and nobody else: the command, and the state by which runtimes know each other."""

BATCH = 64
"""Endpoints looked at in one tick; more wait for the next, so that a flood of them does not hold it up."""

TOLD_EVERY_NS = 10 * NS_PER_S
OK, ERROR = 0, 2


@dataclass(frozen=True, slots=True)
class Rival:
    """Somebody else who writes a topic of ours.

    topic: as ROS names it; who: what its process says of itself, printable and short, or its key
    """

    topic: str
    who: str


class Peers:
    """Keeps who writes our topics beside us. `look` is asked in every tick and never waits."""

    def __init__(self, wire: Wire) -> None:
        """Begin to look. Raises DriverError when the wire is closed."""
        participant = wire.participant()
        self._own = participant.guid
        self._watched = {dds_topic(wire.section, name): ros_topic(wire.section, name) for name in OURS}
        self._rivals: dict[Any, Rival] = {}
        try:
            self._writers = BuiltinDataReader(participant, BuiltinTopicDcpsPublication)
            self._members = BuiltinDataReader(participant, BuiltinTopicDcpsParticipant)
        except DDSException as error:
            raise DriverError(f"dds: domain {wire.domain} cannot be looked at: {error}") from error

    def look(self) -> tuple[Rival, ...]:
        """Return who writes our topics now, beside us. Raises DriverError when the link is gone."""
        try:
            for endpoint in self._writers.take(BATCH):
                self._note(endpoint)
        except DDSException as error:
            raise DriverError(f"dds: who else writes cannot be seen: {error}") from error
        return tuple(self._rivals.values())

    def _note(self, endpoint: Any) -> None:
        if endpoint.sample_info.instance_state != InstanceState.Alive:
            self._rivals.pop(endpoint.key, None)
        elif endpoint.participant_key != self._own and endpoint.topic_name in self._watched:
            self._rivals[endpoint.key] = Rival(self._watched[endpoint.topic_name], self._name(endpoint.participant_key))

    def _name(self, key: Any) -> str:
        """Return what a participant says of itself, as far as its DDS tells."""
        for member in self._members.read(BATCH):
            if member.key == key and member.qos is not None:
                return str(member_of(member))
        return f"participant {key}"


class GuardedInbox:
    """`interfaces.Inbox` of a runtime that is not to be the second one: tells of rivals, and stands if `refuse`."""

    def __init__(self, inner: Inbox, peers: Peers, *, refuse: bool) -> None:
        self._inner, self._peers, self._refuse = inner, peers, refuse
        self._rivals: tuple[Rival, ...] = ()
        self._told_ns = 0

    def take(self, now_ns: int) -> Inputs:
        """Return what arrived since the last call. Raises DriverError if the link is gone."""
        inputs = self._inner.take(now_ns)
        self._tell(self._peers.look(), now_ns)
        return replace(inputs, e_stop=True) if self._rivals and self._refuse else inputs

    def close(self) -> None:
        """Release what it holds. Safe to call twice."""
        self._inner.close()

    def diagnostic(self) -> Diagnostic:
        """Return the row of `/diagnostics` about who else drives."""
        values = {f"{number} {rival.topic}": rival.who for number, rival in enumerate(self._rivals)}
        if not self._rivals:
            return ("other drivers", OK, "none", values)
        consequence = "the robot stands" if self._refuse else "a base obeys whoever spoke last"
        return ("other drivers", ERROR, f"somebody else drives this robot: {consequence}", values)

    def _tell(self, rivals: Sequence[Rival], now_ns: int) -> None:
        """Log who came and who went at once, and every so often who is still there."""
        again = now_ns - self._told_ns >= TOLD_EVERY_NS
        for rival in rivals:
            if again or rival not in self._rivals:
                log.error("other_driver", topic=rival.topic, who=rival.who, stands=self._refuse)
                self._told_ns = now_ns
        for rival in self._rivals:
            if rival not in rivals:
                log.info("other_driver_gone", topic=rival.topic, who=rival.who)
        self._rivals = tuple(rivals)
