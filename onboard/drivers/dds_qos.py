"""The QoS of a topic's two ends as Cyclone DDS is told it; `dds_topics.Quality` says what it means."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cyclonedds.core import Policy, Qos

if TYPE_CHECKING:
    from onboard.drivers.dds_topics import Quality

NS_PER_S = 1_000_000_000


def writer_qos(quality: Quality) -> Qos:
    """Return what a writer offers: always reliable, and it never waits for a slow reader."""
    return Qos(Policy.Reliability.Reliable(0), *_shared_qos(quality))


def reader_qos(quality: Quality) -> list[Qos]:
    """Return what each reader of a topic asks for, the one that asks for most first."""
    kinds = []
    if quality.read_latched:
        kinds.append((Policy.Reliability.Reliable(0), replace(quality, latched=True)))
    if quality.read_reliable:
        kinds.append((Policy.Reliability.Reliable(0), quality))
    if quality.read_best_effort:
        kinds.append((Policy.Reliability.BestEffort, quality))
    return [Qos(kind, *_shared_qos(asked)) for kind, asked in kinds]


def _shared_qos(quality: Quality) -> list[Any]:
    """Return the policies that a writer offers and a reader asks for alike."""
    durability = Policy.Durability.TransientLocal if quality.latched else Policy.Durability.Volatile
    policies = [durability, Policy.History.KeepLast(quality.depth)]
    if quality.deadline_s is not None:
        policies.append(Policy.Deadline(round(quality.deadline_s * NS_PER_S)))
    if quality.lease_s is not None:
        policies.append(Policy.Liveliness.ManualByTopic(round(quality.lease_s * NS_PER_S)))
    return policies
