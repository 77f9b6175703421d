"""The colour encoder's errors in unseen buildings, compared with constant predictors."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from engines.encoder.cache import Views, check_split, render_views
from engines.encoder.config import EncoderSection, ViewsSection
from engines.encoder.training import ENCODER_FILE, HEAD_FILE, Predictor
from engines.encoder.views import FARTHEST_M, FORWARD_BINS, LABELS, Labels, Split, check_place
from engines.network.encoder_features import BATCH, load_encoder, planes_of
from engines.network.network import PAPER, Widths
from engines.runs.torch_file import read_torch
from onboard.policy.encode import RgbScale
from onboard.values.errors import InputError

BUCKETS_M = (0.0, 1.0, 2.0, 4.0, 7.0, FARTHEST_M)
"""Edges of the classes of true distance; distances clipped at the last edge have their own class."""
DIGITS = 4

Sorts = dict[str, tuple[ViewsSection, Split, int]]


@dataclass(frozen=True, slots=True)
class Plain:
    """Constant predictors. mean_m, median_m: (45,) over the training's views."""

    mean_m: Labels
    median_m: Labels


def evaluate_encoder(
    section: EncoderSection, seed: int, folder: Path, widths: Widths = PAPER, *, device: str = "cpu", jobs: int = 1
) -> dict[str, Any]:
    """Return the errors of the encoder that `train_encoder` left in a folder, for JSON; lengths in m.

    None of the three sorts of views was trained with:
    unseen:       test buildings, with materials, camera errors and blur as in training
    unseen_plain: test buildings in plain colours, without camera errors and blur
    known:        training buildings with other furniture
    Raises InputError without a trained encoder.
    """
    predictor, plain = load_predictor(folder, seed, widths)
    predictor.to(device)
    result: dict[str, Any] = {}
    for sort, views in report_views(section, seed, folder, jobs).items():
        predicted = predict(predictor, views)
        result[sort] = {
            "views": len(views),
            "encoder": errors_of(predicted, views.labels),
            "mean_of_bin": errors_of(np.broadcast_to(plain.mean_m, views.labels.shape), views.labels),
            "median_of_bin": errors_of(np.broadcast_to(plain.median_m, views.labels.shape), views.labels),
        }
    return result


def check_test_maps(section: EncoderSection) -> None:
    """Raise InputError for a building of the report that cannot be rendered."""
    check_split("encoder.test_maps", section.test_maps, "test")
    for place in section.test_maps:
        try:
            check_place(section.views, place)
        except InputError as error:
            raise InputError(f"encoder.test_maps: {error}") from error


def load_predictor(folder: Path, seed: int, widths: Widths) -> tuple[Predictor, Plain]:
    """Return the trained encoder with its head, and the constant predictors. Raises InputError."""
    predictor = Predictor(widths, seed, np.zeros(LABELS, np.float32))
    load_encoder(predictor.rgb, folder / ENCODER_FILE)
    head = read_torch(folder / HEAD_FILE)
    try:
        plain = Plain(head.pop("mean_m").numpy(), head.pop("median_m").numpy())
        predictor.head.load_state_dict(head)
    except (KeyError, RuntimeError, AttributeError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise InputError(f"{folder / HEAD_FILE}: not the head of this encoder: {reason}") from error
    return predictor.eval(), plain


def report_views(section: EncoderSection, seed: int, folder: Path, jobs: int = 1) -> dict[str, Views]:
    """Return the views of each sort; render missing views into the folder."""
    few = {"count": section.test_count, "per_building": math.ceil(section.test_count / len(section.test_maps))}
    unseen = section.views.model_copy(update={**few, "maps": section.test_maps})
    exact = {"plain": 1.0, "people": 0.0, "tilt_deg": 0.0, "turn_deg": 0.0, "height_m": 0.0, "zoom": 0.0, "blur": None}
    sorts: Sorts = {
        "unseen": (unseen, "test", seed),
        "unseen_plain": (unseen.model_copy(update=exact), "test", seed),
        "known": (section.views.model_copy(update=few), "train", seed + 1),
    }
    return {name: render_views(*sort, folder / f"views-{name}", jobs) for name, sort in sorts.items()}


def predict(predictor: Predictor, views: Views) -> Labels:
    """Return (views, 45) predicted forward ranges and free distance [m]."""
    device, parts = predictor.head.weight.device, []
    with torch.no_grad():
        for first in range(0, len(views), BATCH):
            images = views.images(range(first, min(first + BATCH, len(views))))
            parts.append(predictor(planes_of(torch.from_numpy(images).to(device), RgbScale())).exp().cpu())
    return np.asarray(np.minimum(torch.cat(parts).numpy(), np.float32(FARTHEST_M)))


def errors_of(predicted_m: npt.NDArray[np.floating[Any]], true_m: Labels) -> dict[str, Any]:
    """Return the errors of all ranges, of ranges by true distance, and of the free distance."""
    predicted, true = predicted_m[:, :FORWARD_BINS].ravel(), true_m[:, :FORWARD_BINS].ravel()
    result: dict[str, Any] = {
        "ranges": _figures(predicted, true),
        "free_way": _figures(predicted_m[:, -1], true_m[:, -1]),
    }
    for low_m, high_m in itertools.pairwise(BUCKETS_M):
        within = (true >= low_m) & (true < high_m)
        result[f"ranges_{low_m:g}_to_{high_m:g}_m"] = _figures(predicted[within], true[within])
    open_ahead = true >= FARTHEST_M
    result[f"ranges_beyond_{FARTHEST_M:g}_m"] = _figures(predicted[open_ahead], true[open_ahead])
    return result


def _figures(predicted_m: npt.NDArray[np.floating[Any]], true_m: Labels) -> dict[str, float | int | None]:
    """Return the count, median and mean of the absolute relative error, and the mean absolute error [m]."""
    if not len(true_m):
        return {"count": 0, "median_relative": None, "mean_relative": None, "mean_m": None}
    error_m = np.abs(predicted_m - true_m)
    relative = error_m / true_m
    figures = {"median_relative": np.median(relative), "mean_relative": relative.mean(), "mean_m": error_m.mean()}
    return {"count": len(true_m)} | {name: round(float(value), DIGITS) for name, value in figures.items()}
