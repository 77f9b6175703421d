"""Schedule of the encoder's training: functions of (section, seed, step), so it can resume at any step."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from engines.encoder.cache import Views
from engines.encoder.config import EncoderSection, PhaseSection
from engines.encoder.views import FORWARD_BINS
from engines.network.encoder_features import planes_of
from onboard.policy.encode import RgbScale

ORDER_STREAM, MIRROR_STREAM = 3, 4
MIRRORED = 0.5


@dataclass(frozen=True, slots=True)
class Batch:
    """The views of one step. mirrored: (k,) bool, flip left to right; shrink: factor of the image size."""

    indices: npt.NDArray[np.int64]
    mirrored: npt.NDArray[np.bool_]
    shrink: int


def steps_of(section: EncoderSection) -> int:
    """Return the number of steps of the training."""
    return sum(_phase_steps(section))


def batch_of(section: EncoderSection, seed: int, step: int) -> Batch:
    """Return the batch of a step. Within an epoch each view comes once."""
    epochs, places = np.divmod(np.arange(step * section.batch, (step + 1) * section.batch), section.views.count)
    indices = np.concatenate(
        [_order(section, seed, int(epoch))[places[epochs == epoch]] for epoch in np.unique(epochs)]
    )
    mirrored = np.random.default_rng([seed, MIRROR_STREAM, step]).random(section.batch) < MIRRORED
    return Batch(indices, mirrored, _phase_of(section, step)[0].shrink)


def learning_rate(section: EncoderSection, step: int) -> float:
    """Return the learning rate of a step: in each phase a linear warm-up, then a cosine decay."""
    phase, place, steps = _phase_of(section, step)
    highest, warm_up = phase.rate * section.learning_rate, section.warm_up * steps
    if place < warm_up:
        return highest * (place + 1) / (warm_up + 1)
    share = (place - warm_up) / max(steps - warm_up, 1)
    return highest * (section.final + (1.0 - section.final) * 0.5 * (1.0 + math.cos(math.pi * share)))


def images_of(views: Views, batch: Batch, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return (k, 3, H, W) normalised images, mirrored and shrunk, and (k, 45) labels [m]."""
    images = torch.from_numpy(views.images(batch.indices)).to(device)
    labels = torch.from_numpy(views.labels[batch.indices]).to(device)
    mirrored = torch.from_numpy(batch.mirrored).to(device)
    images = torch.where(mirrored[:, None, None, None], images.flip(2), images)
    ranges = torch.where(mirrored[:, None], labels[:, :FORWARD_BINS].flip(1), labels[:, :FORWARD_BINS])
    planes = planes_of(images, RgbScale())
    if batch.shrink > 1:
        planes = functional.avg_pool2d(planes, batch.shrink)
    return planes, torch.cat([ranges, labels[:, FORWARD_BINS:]], dim=1)


def _phase_steps(section: EncoderSection) -> list[int]:
    return [max(1, round(phase.epochs * section.views.count / section.batch)) for phase in section.phases]


def _phase_of(section: EncoderSection, step: int) -> tuple[PhaseSection, int, int]:
    """Return the phase of a step, the step's index in the phase, and the number of steps of the phase."""
    steps = _phase_steps(section)
    ends = np.cumsum(steps)
    number = int(np.searchsorted(ends, step, side="right"))
    return section.phases[number], step - int(ends[number]) + steps[number], steps[number]


def _order(section: EncoderSection, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    return np.random.default_rng([seed, ORDER_STREAM, epoch]).permutation(section.views.count)
