"""Validation during a training: greedy drives of the configured robot in the training's buildings.

Only for choosing and watching. Reported figures come from `onboard-hil evaluate`.
"""

from __future__ import annotations

import numpy as np
import torch

from engines.network.network import PolicyNetwork
from engines.train.rollout.collector import Rules, make_buildings
from engines.train.rollout.student import Student
from engines.train.rollout.vector_env import FinishedDrive, Lane

LANES = 24
FURNITURE, DRIVES = 8, 9
"""Random streams of a seed: furniture that no chapter has, and the drives in it."""


def validated(rules: Rules, network: PolicyNetwork, drives: int, seed: int) -> dict[str, float]:
    """Return SR, SPL [%] and contacts per drive, over the first drives of each lane; empty for 0 drives."""
    if drives == 0:
        return {}
    device = next(network.parameters()).device
    lane_rules = rules.lanes(expert=False)
    buildings = make_buildings(rules, [seed, FURNITURE])
    count = min(LANES, drives)
    lanes = [Lane(lane_rules, buildings, np.random.default_rng([seed, DRIVES, lane])) for lane in range(count)]
    student, each = Student(network, count, device), -(-drives // count)
    ended: list[list[FinishedDrive]] = [[] for _ in lanes]
    with torch.no_grad():
        while min(len(one) for one in ended) < each:
            requests = [lane.wait() for lane in lanes]
            student.refresh(requests)
            logits, _ = student.decide(student.rows(requests))
            for lane, request in enumerate(requests):
                if request.ended is not None:
                    ended[lane].append(request.ended)
                lanes[lane].answer(int(np.argmax(logits[lane])))
    first = [one for some in ended for one in some[:each]]
    return _figures(first)


def _figures(ended: list[FinishedDrive]) -> dict[str, float]:
    reached = np.array([one.outcome.reached for one in ended], float)
    best_m, path_m = (np.array(row) for row in zip(*[(one.best_m, one.outcome.path_m) for one in ended], strict=True))
    return {
        "SR": 100.0 * float(reached.mean()),
        "SPL": 100.0 * float((reached * best_m / np.maximum(best_m, path_m)).mean()),
        "contacts": float(np.mean([one.outcome.contacts for one in ended])),
        "false_stops": float(np.mean([one.outcome.ended == "stop" and not one.outcome.reached for one in ended])),
    }
