"""A training from its recipe to an exported model. It resumes from its checkpoint."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch

from engines.network import policy_checkpoint
from engines.train.batched import policy as batched_policy
from engines.train.batched import training as batched
from engines.train.config import TrainConfig, described, rules_of
from engines.train.drives.places import check_place
from engines.train.training_log import Journal
from hil.drive.episode_sets import building_of, split_of
from onboard.config.pretrained import MODEL_SUFFIX, model_path
from onboard.policy.manifest import load_manifest
from onboard.values.errors import ConfigError, InputError, naming

MODEL = f"policy{MODEL_SUFFIX}"
SHOWN = ("floors", "goals", "decisions_s", "reward", "reached", "contact", "spl")
"""Numbers next to the progress bar."""


def train(config: TrainConfig, folder: Path, device: torch.device, init: str | None = None) -> Path:
    """Train in the batched world and return the exported model. init: name of the initial policy, None for none

    Raises OnboardError, also while another training writes the folder. The last checkpoint stays, and the same call
    resumes.
    """
    section = config.batched
    check(config, known=init is not None)
    begins = None if init is None else model_path(init)
    began = {} if begins is None else load_manifest(begins).extra.get("training", {})
    teacher = section.teacher.policy
    for model in (begins, model_path(teacher) if teacher else None):
        if model is not None:
            batched_policy.policy_of(model)
    with alone_in(folder):
        task = batched.Task(section, rules_of(config), config.seed, config.digest(), begins)
        with Journal(folder, batched.STAGE, round(section.within_s), None) as journal:

            def report(spent_s: float, numbers: Mapping[str, float]) -> None:
                shown = {name: numbers[name] for name in SHOWN if name in numbers}
                journal.show(round(spent_s), round(section.within_s), shown)
                if "iteration" in numbers:
                    journal.note(round(numbers["iteration"]), numbers)

            trained = batched.train(task, folder, device, report)
        made = {"decisions": trained.decisions, "seconds": round(trained.spent_s, 1), "device": trained.device}
        training = {**described(config, init, began), **made}
        origin = {"origin": f"{batched.STAGE} training, seed {config.seed}"}
        own = {field: training.pop(field) for field in policy_checkpoint.MANIFEST_FIELDS}
        batched_policy.export(
            trained.policy, folder / MODEL, config.name, {**origin, "training": training, **own}, section.goal
        )
    return folder / MODEL


def check(config: TrainConfig, *, known: bool = False) -> None:
    """Raise InputError or ConfigError for a training that cannot work.

    known: the training begins with a policy, so it may use a building of the test split
    """
    robot = rules_of(config).robot
    if robot.config.limits_scan is not None:
        raise ConfigError("limits_scan: a robot of the training has one scan, for both policy and limits: omit it")
    for place in config.places.maps:
        if split_of(place) == "test" and not known:
            raise InputError(
                f"places.maps: {place} belongs to the test split: by its name it is in {building_of(place)}; only a "
                "training with --init may have it (rename the file if it is another building)"
            )
        check_place(config.places, place, robot)


LOCK_FILE = "lock"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Lock a folder within the context. The kernel frees the lock when the process ends.

    Raises InputError if another process holds the lock, or the folder cannot be written.
    """
    with naming(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK_FILE).open("a", encoding="utf-8")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{folder}: another training is writing it: wait for it, or use another --out") from error
        except OSError as error:
            raise InputError(f"{folder}: cannot be locked: {error.strerror}") from error
        yield
