"""Pre-training of the colour encoder: it learns to predict distances from rendered images.

A head on the encoder predicts the logarithms of the forward ranges and of the free distance; the policy takes only the
encoder. The first phases use smaller images, which the fully convolutional network allows, to save time.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from engines.encoder.cache import Views, identity_of, render_views
from engines.encoder.config import EncoderSection
from engines.encoder.schedule import Batch, batch_of, images_of, learning_rate, steps_of
from engines.encoder.views import FORWARD_BINS, LABELS, Labels
from engines.network.encoder_features import memory_format_of, save_encoder
from engines.network.network import PAPER, Widths, untrained
from engines.runs.locks import alone_in
from engines.runs.resume import require_finite_step, take_steps, take_weights, taken_count
from engines.runs.torch_file import read_torch, write_torch
from onboard.values.errors import InputError, OnboardError

# ---- The checkpoint of the encoder's training


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A training after `step` steps. Batches are functions of seed and step, so it keeps no generator.

    identity: `training_identity`
    model, optimizer: their state dicts
    """

    identity: str
    step: int
    model: dict[str, Any]
    optimizer: dict[str, Any]


def save_checkpoint(file: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically. Raises InputError."""
    table = {"identity": checkpoint.identity, "step": checkpoint.step}
    write_torch(file, table | {"model": checkpoint.model, "optimizer": checkpoint.optimizer})


def load_checkpoint(file: Path, identity: str) -> Checkpoint | None:
    """Return this training's checkpoint, None if missing. Raises InputError for another training's checkpoint."""
    if not file.exists():
        return None
    table = read_torch(file)
    if set(table) != {"identity", "step", "model", "optimizer"}:
        raise InputError(f"{file}: not a checkpoint of the encoder's training")
    if table["identity"] != identity:
        raise InputError(
            f"{file}: a checkpoint of another configuration ({short(table['identity'])}, this one is "
            f"{short(identity)}): name another folder, or delete it to begin again"
        )
    return Checkpoint(**table)


def short(identity: str) -> str:
    """Return a short digest of a configuration."""
    return hashlib.sha256(identity.encode()).hexdigest()[:12]


VIEWS_FOLDER, CHECKPOINT_FILE, ENCODER_FILE, HEAD_FILE = "views", "checkpoint.pt", "encoder.pt", "head.pt"

NO_CHECKPOINT = "there is no checkpoint yet"

Metrics = Mapping[str, float]
Report = Callable[[int, int, Metrics], None]
"""Called with (steps so far, all steps, figures by name)."""


class LossError(OnboardError):
    """A loss or a gradient is not finite; the message names the batch and the last good checkpoint."""


def _silent(step: int, total: int, metrics: Metrics) -> None:
    pass


class Predictor(nn.Module):
    """The encoder with its head: (N, 3, H, W) -> (N, 45) logarithms of forward ranges and free distance [m]."""

    def __init__(self, widths: Widths, seed: int, usual: Labels) -> None:
        """Initialise the head's bias with the mean logarithms `usual` (45,)."""
        super().__init__()
        self.rgb = untrained(seed, widths).get_submodule("rgb")
        self.head = nn.Linear(widths.rgb, LABELS)
        with torch.no_grad():
            self.head.weight.zero_()
            self.head.bias.copy_(torch.from_numpy(usual))

    def forward(self, image: Tensor) -> Tensor:
        """Predict."""
        layout = memory_format_of(self.rgb)
        logarithms: Tensor = self.head(torch.relu(self.rgb(image.contiguous(memory_format=layout))))
        return logarithms


def train_encoder(
    section: EncoderSection,
    seed: int,
    folder: Path,
    widths: Widths = PAPER,
    *,
    device: str = "cpu",
    jobs: int = 1,
    report: Report = _silent,
) -> Path:
    """Train, or resume an earlier call, and return the file of the encoder's weights, `rgb.*`.

    folder: gets views, checkpoint, `encoder.pt` and `head.pt`; only the weights are needed later
    jobs:   processes that render; PyTorch's threads stay as they are
    report: called after each rendered building and each step

    On a CPU with one thread the same call gives the same bytes, also after interruptions. On a GPU it may not.
    Raises InputError for the folder of another or a running training, LossError if loss or gradient are not finite.
    """
    with alone_in(folder):
        return _train(section, seed, folder, widths, device, jobs, report)


def _train(
    section: EncoderSection, seed: int, folder: Path, widths: Widths, device: str, jobs: int, report: Report
) -> Path:
    total, identity = steps_of(section), training_identity(section, seed, widths)
    found = load_checkpoint(folder / CHECKPOINT_FILE, identity)
    if found is not None and found.step == total and (folder / ENCODER_FILE).exists():
        return folder / ENCODER_FILE
    views = render_views(
        section.views, "train", seed, folder / VIEWS_FOLDER, jobs,
        lambda done, count: report(0, total, {"views": done, "views_wanted": count}),
    )  # fmt: skip
    predictor = Predictor(widths, seed, np.log(views.labels).mean(axis=0))
    training = _Training(section, seed, folder / CHECKPOINT_FILE, identity, predictor.to(device), views, found)
    while training.step < total:
        metrics = training.advance()
        report(training.step, total, metrics)
        if training.step % section.checkpoint_every == 0 or training.step == total:
            training.save()
    save_predictor(folder, predictor, views.labels)
    return folder / ENCODER_FILE


def save_predictor(folder: Path, predictor: Predictor, labels: Labels) -> None:
    """Write the encoder, and the head with mean and median labels, for the report."""
    plain = {"mean_m": labels.mean(axis=0), "median_m": np.median(labels, axis=0).astype(np.float32)}
    table = {name: torch.from_numpy(values) for name, values in plain.items()}
    head = {name: value.cpu() for name, value in predictor.head.state_dict().items()}
    write_torch(folder / HEAD_FILE, head | table)
    save_encoder(folder / ENCODER_FILE, predictor.rgb)


def loss_of(section: EncoderSection, predicted: Tensor, labels_m: Tensor) -> tuple[Tensor, Tensor]:
    """Return the losses of the ranges and of the free distance: smooth L1 of the logarithms."""
    errors = functional.smooth_l1_loss(predicted, labels_m.log(), beta=section.huber, reduction="none")
    return errors[:, :FORWARD_BINS].mean(), errors[:, FORWARD_BINS:].mean()


class _Training:
    """The model, its optimiser and the next step."""

    def __init__(
        self, section: EncoderSection, seed: int, file: Path, identity: str, predictor: Predictor, views: Views,
        found: Checkpoint | None,
    ) -> None:  # fmt: skip
        self.section, self.seed, self.file, self.identity, self.views = section, seed, file, identity, views
        layout = memory_format_of(predictor.rgb)
        self.predictor = predictor.to(memory_format=layout)  # type: ignore[call-overload]  # missing in PyTorch's types
        parameters = self.predictor.parameters()
        self.optimizer = torch.optim.AdamW(parameters, section.learning_rate, weight_decay=section.weight_decay)
        self.step, self.saved = 0, 0
        if found is not None:
            self._resume(found)

    def _resume(self, found: Checkpoint) -> None:
        """Resume from a checkpoint. Raises InputError for a damaged checkpoint."""
        take_weights(self.file, "model", self.predictor, self.predictor.state_dict(), found.model)
        take_steps(self.file, "optimizer", self.optimizer, found.optimizer)
        self.step = self.saved = taken_count(self.file, "step", found.step)

    def advance(self) -> Metrics:
        """Make a step and return its figures. Raises LossError before any weight has changed."""
        batch = batch_of(self.section, self.seed, self.step)
        images, labels = images_of(self.views, batch, self.predictor.head.weight.device)
        self.predictor.train()
        of_ranges, of_way = loss_of(self.section, self.predictor(images), labels)
        loss = of_ranges + self.section.way_weight * of_way
        self.optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.predictor.parameters(), self.section.gradient_norm)
        if not (math.isfinite(loss.item()) and math.isfinite(norm.item())):
            raise LossError(self._not_finite(batch, loss.item(), norm.item()))
        rate = learning_rate(self.section, self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.step += 1
        losses = {"loss": loss, "loss_ranges": of_ranges, "loss_way": of_way}
        figures = {"learning_rate": rate, "gradient_norm": norm.item(), "shrink": batch.shrink}
        return {name: value.item() for name, value in losses.items()} | figures

    def save(self) -> None:
        """Write a checkpoint. Raises InputError, and keeps the old file, for numbers that are not finite."""
        require_finite_step(f"encoder: after batch {self.step - 1}", self.predictor, self.optimizer, self._kept())
        model, optimizer = self.predictor.state_dict(), self.optimizer.state_dict()
        save_checkpoint(self.file, Checkpoint(self.identity, self.step, model, optimizer))
        self.saved = self.step

    def _not_finite(self, batch: Batch, loss: float, norm: float) -> str:
        views = ", ".join(str(index) for index in batch.indices)
        return f"encoder: loss {loss:g}, gradient {norm:g} in batch {self.step} (views {views}); {self._kept()}"

    def _kept(self) -> str:
        return f"the last good checkpoint is {self.file} of step {self.saved}" if self.saved else NO_CHECKPOINT


def training_identity(section: EncoderSection, seed: int, widths: Widths) -> str:
    """Return the training's identity as JSON, without settings of the report and of saving."""
    own = section.model_dump(mode="json", exclude={"views", "checkpoint_every", "test_maps", "test_count"})
    views = json.loads(identity_of(section.views, "train", seed))
    return json.dumps({"training": own, "views": views, "widths": asdict(widths)}, sort_keys=True)
