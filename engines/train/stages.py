"""The stages of a training: encoder, imitation, reinforcement. Each stage resumes from its checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import nn

from engines.encoder.training import train_encoder
from engines.export.restore import initial_weights
from engines.network import policy_checkpoint
from engines.network.encoder_features import load_encoder
from engines.network.network import PolicyNetwork, untrained
from engines.network.policy_checkpoint import PolicyFile
from engines.runs.locks import alone_in
from engines.train import dagger, ppo
from engines.train.batched import policy as batched_policy
from engines.train.batched import training as batched
from engines.train.batched.config import BatchedSection
from engines.train.config import DEPENDS, TrainConfig, described, rules_of
from engines.train.dagger import Imitation
from engines.train.ppo import Reinforce
from engines.train.rollout.places import check_place
from engines.train.training_log import Journal
from hil.drive.episode_sets import building_of, split_of
from onboard.config.pretrained import MODEL_SUFFIX, model_path
from onboard.policy.manifest import load_manifest, sha256_of
from onboard.values.errors import ConfigError, InputError

# ---- A trained colour encoder (`--encoder`): its file, or a policy


def put_encoder(rgb: nn.Module, file: Path) -> None:
    """Load the encoder's weights from a file of its training or from an exported policy into a network's encoder.

    Raises InputError for any other file, ConfigError or EngineError for a model that does not fit its manifest.
    """
    if file.suffix != MODEL_SUFFIX:
        load_encoder(rgb, file)
        return
    network = initial_weights(str(file)).network
    if not network.variant.rgb:
        raise InputError(f"--encoder {file}: this policy sees no colour")
    try:
        rgb.load_state_dict(network.get_submodule("rgb").state_dict())
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise InputError(f"--encoder {file}: its encoder is of other sizes: {reason}") from error


STAGES = ("encoder", "imitation", "reinforce")
ENCODER_FOLDER, POLICY, MODEL = "encoder", "policy.pt", f"policy{MODEL_SUFFIX}"

Initial = Callable[[TrainConfig], PolicyFile]


def train(
    config: TrainConfig,
    folder: Path,
    device: torch.device,
    until: str,
    initial: Initial | None = None,
    init: str | None = None,
    encoder: Path | None = None,
) -> Path:
    """Run all stages up to `until` and return the policy's file, for `onboard-engines export --checkpoint`.

    With `until` "encoder", return the encoder's weights and write no policy. With `[batched]`, train in the batched
    world instead, and return an exported model.

    initial: makes the initial policy, instead of `beginning`; init: its name, None if it is untrained
    encoder: file of a trained colour encoder, or of a policy that has one; None trains an encoder
    Raises OnboardError, also while another training writes the folder. Earlier results stay, and the same call resumes.
    """
    if config.batched is not None:
        last = None if until == STAGES[-1] else until
        _refuse_beside_batched({"--until": last, "--encoder": encoder})
        return _batched(config, config.batched, init, folder, device)
    needed = config.first_coloured is not None if initial is None else encoder is not None
    file, begins = folder / POLICY, needed and init is None
    _check_until(until, file, begins and encoder is None)
    if encoder is not None and not begins:
        raise InputError(
            f"--encoder {encoder}: this training has no encoder: no drive renders colour, or --init has one"
        )
    check(config, known=init is not None)
    with alone_in(folder):
        for stage in DEPENDS:
            config.digest(stage)
        torch.manual_seed(config.seed)
        if until == "encoder":
            return _encoder(config, folder, device)
        began = PolicyFile(beginning(config), "") if initial is None else initial(config)
        network, made = began.network, list[str]()
        if begins:
            put_encoder(network.get_submodule("rgb"), encoder or _encoder(config, folder, device))
            made += ["encoder"] if encoder is None else []
        given = {"until": until, **_digests(init, encoder)}
        made += _learn(config, network, folder, device, until)
        policy_checkpoint.save_policy(file, network, {**described(config, made, init, began.meta), **given})
    return file


def _digests(init: str | None, encoder: Path | None) -> dict[str, str]:
    """Return the digests of the files that a training begins with, for the manifest.

    Raises InputError for a policy that does not ship, ConfigError for a file that cannot be read.
    """
    files = {"init_sha256": None if init is None else model_path(init), "encoder_sha256": encoder}
    return {name: sha256_of(file) for name, file in files.items() if file is not None}


def _learn(config: TrainConfig, network: PolicyNetwork, folder: Path, device: torch.device, until: str) -> list[str]:
    """Run the stages after the encoder; return the stages that the result contains."""
    Imitation(config, network, folder, device).run()
    if until != ppo.STAGE or config.reinforce.chapters == 0:
        return [dagger.STAGE]
    reinforcing = Reinforce(config, network, folder, device)
    reinforcing.run()
    return [dagger.STAGE, *([ppo.STAGE] if reinforcing.kept != ppo.BEFORE else [])]


def _check_until(until: str, file: Path, begins: bool) -> None:
    """Raise InputError for an unknown stage, and for a folder whose policy has passed a later stage.

    Raises it also if the policy's file holds no policy.
    """
    if until not in STAGES:
        raise InputError(f"--until {until}: must be one of {', '.join(STAGES)}")
    if until == "encoder" and not begins:
        raise InputError(
            "--until encoder: this training has no such stage: no drive renders colour, or the encoder is given"
        )
    if until == dagger.STAGE and file.exists():
        stages = policy_checkpoint.policy_meta(file).get("stages", [])
        if isinstance(stages, list) and ppo.STAGE in stages:
            raise InputError(f"--until {until}: {file} holds the policy after {ppo.STAGE}; use another --out")


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


def beginning(config: TrainConfig) -> PolicyNetwork:
    """Return an untrained network whose recurrent layer has weights 0 for the colour features.

    Colour comes late in the training; until then the features are 0, and these weights would stay random.
    """
    network = untrained(config.seed, config.network.widths, config.network.variant)
    silent = network.widths.rgb if network.variant.rgb else 0
    with torch.no_grad():
        network.gru.get_parameter("weight_ih_l0")[:, :silent] = 0.0
    return network


def _encoder(config: TrainConfig, folder: Path, device: torch.device) -> Path:
    """Return the file of the colour encoder's weights; train the encoder if there is none."""
    with Journal(folder, ENCODER_FOLDER, 1, None) as journal:

        def show(step: int, total: int, metrics: Mapping[str, float]) -> None:
            journal.show(step, total, metrics)
            if step > 0:
                journal.note(step, metrics)

        return train_encoder(
            config.encoder,
            config.seed,
            folder / ENCODER_FOLDER,
            config.network.widths,
            device=str(device),
            jobs=max(1, config.imitation.collectors),
            report=show,
        )


# ---- A training in the batched world

SHOWN = ("floors", "goals", "decisions_s", "reward", "reached", "contact", "spl")
"""Numbers next to the progress bar."""


def _batched(
    config: TrainConfig, section: BatchedSection, init: str | None, folder: Path, device: torch.device
) -> Path:
    """Train in the batched world and return the exported model. Raises OnboardError."""
    check(config, known=init is not None)
    begins = None if init is None else model_path(init)
    began = {} if begins is None else load_manifest(begins).extra.get("training", {})
    if begins is not None:
        batched_policy.policy_of(begins)
    with alone_in(folder):
        task = batched.Task(section, rules_of(config), config.seed, config.digest(batched.STAGE), begins)
        with Journal(folder, batched.STAGE, round(section.within_s), None) as journal:

            def report(spent_s: float, numbers: Mapping[str, float]) -> None:
                shown = {name: numbers[name] for name in SHOWN if name in numbers}
                journal.show(round(spent_s), round(section.within_s), shown)
                if "iteration" in numbers:
                    journal.note(round(numbers["iteration"]), numbers)

            trained = batched.train(task, folder, device, report)
        made = {"decisions": trained.decisions, "seconds": round(trained.spent_s, 1), "device": trained.device}
        training = {**described(config, [batched.STAGE], init, began), **made}
        origin = {"origin": f"{batched.STAGE} training, seed {config.seed}"}
        own = {field: training.pop(field) for field in policy_checkpoint.MANIFEST_FIELDS}
        batched_policy.export(trained.policy, folder / MODEL, config.name, {**origin, "training": training, **own})
    return folder / MODEL


def _refuse_beside_batched(options: Mapping[str, object]) -> None:
    """Raise InputError for a given option that a training in the batched world does not have."""
    for option, value in options.items():
        if value is not None:
            raise InputError(f"{option} {value}: a training with [batched] has no such option: omit it")
