"""By which recipes a policy that was driven was trained, as far as manifests tell."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from engines.network.lineage import Step, lineage, steps_to_make
from engines.report.results.result_files import Evaluated, Gathered
from engines.report.results.section import NOT_STATED, OURS
from engines.report.results.training_history import Made
from engines.report.sections.differences import beside_words, paired
from hil.commands.evaluate import load_robot
from hil.evaluate.episode import Run
from hil.evaluate.evaluation import Plan
from hil.jobs.code_digest import file_digest
from onboard.config.config import model_path, pretrained_names
from onboard.policy.manifest import load_manifest, manifest_path
from onboard.values.errors import InputError, MissingExtraError

# ---- Which base was driven: an evaluation tells a digest of its robot, and a plant's file may lie beside it

ANY_RUN = Run("reactive")
"""A robot's digest is the same for whatever drives."""


def base_of(one: Evaluated) -> str:
    """Return the name of the plant's file beside an evaluation that its robot had; "" where none agrees.

    Raises ConfigError for a file there that is no plant's.
    """
    return _robots_of(one.file.parent).get(str(one.configuration.get("robot")), "")


def _robots_of(folder: Path) -> Mapping[str, str]:
    """Return the digests of the default robot on the bases whose plants lie in a folder, with the files' names."""
    return {
        str(Plan(ANY_RUN, load_robot(None, file), (), 0).configuration()["robot"]): file.name
        for file in sorted(folder.glob("*.toml"))
    }


Training = Mapping[str, Any]
MANIFEST = "manifest"
"""In an evaluation's configuration: the digest of its policy's manifest, of which older results tell nothing."""


class Began(NamedTuple):
    """What a training began with. made: its manifest beside the results, None where none is there."""

    name: str
    made: Made | None

    def words_for(self, one: Evaluated) -> str | None:
        """Return what an evaluation that it drove is called; None of one that another drove.

        It drove what tells the digest of its manifest; where either is not known its name decides, as the words say.
        """
        if self.made is not None and MANIFEST in one.configuration:
            return f"{one.name}, which it began with" if self.made.is_manifest_of(one.configuration) else None
        return f"{one.name}, which it began with by its name" if one.driver == self.name else None


class Recipe(NamedTuple):
    """A recipe that ships, and what a training had in place of its values.

    name:  of the file; seed: the training's
    maps:  by name or file, without folders; nothing where they are the recipe's. plant: the same, a file's name
    """

    name: str
    seed: int
    maps: tuple[str, ...] = ()
    plant: str = ""

    @property
    def options(self) -> list[str]:
        """Return what `onboard-engines train` is told of it beside its file and seed."""
        maps = ["--maps", *self.maps] if self.maps else []
        return [*maps, *(["--plant", self.plant] if self.plant else [])]

    def __str__(self) -> str:
        maps = f", maps {' '.join(self.maps)}" if self.maps else ""
        return f"`{self.name}`, seed {self.seed}{maps}" + (f", base `{self.plant}`" if self.plant else "")


def recipe_of(training: Training) -> Recipe | None:
    """Return the recipe of a training; None where none that ships has its values, but for seed, maps and plant.

    Raises MissingExtraError without the trainer.
    """
    try:
        from engines.train.command import RECIPES
        from engines.train.config import described, load_train_config
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "train") from error
    if not {"seed", "stages", "config"} <= training.keys():
        return None
    config = training["config"]
    maps, plant = config.get("places", {}).get("maps"), config.get("robot", {}).get("plant")
    for file in RECIPES:
        plain = described(load_train_config(file, {"seed": training["seed"]}), training["stages"])["config"]
        given = {**plain, "places": {**plain["places"], "maps": maps}, "robot": {**plain["robot"], "plant": plant}}
        if given == config:
            own = () if maps == plain["places"]["maps"] else tuple(Path(one).name for one in maps)
            return Recipe(file.name, int(training["seed"]), own, Path(plant).name if plant else "")
    return None


def way_words(training: Training | None) -> str:
    """Return the recipes of the trainings that made a policy, the first one first, since one that ships."""
    if not training:
        return NOT_STATED
    steps = steps_to_make(training)
    began = [f"`{steps[0].init}`"] if steps[0].init else []
    return ", then ".join([*began, *map(_words, steps)])


def _words(step: Step) -> str:
    told = str(recipe_of(step.training) or f"a recipe of its own, seed {step.training.get('seed', NOT_STATED)}")
    return told + (", the colour encoder of another training" if has_foreign_encoder(step.training) else "")


def has_foreign_encoder(training: Training) -> bool:
    """Return whether the colour encoder came from another training than this one and what it began with."""
    return "encoder_sha256" in training


def training_of(one: Evaluated, found: Gathered) -> Training | None:
    """Return the training of the policy that an evaluation drove; None where no manifest tells.

    That is the one beside the results, that of a policy that ships, or, by the name alone, one that either began with.
    """
    known = [made.training for made in found.made if _drove(made, one)]
    known += [training for digest, training in _shipped() if digest == one.configuration.get(MANIFEST)]
    return next(iter(known), None) or _before(one, found)


def _drove(made: Made, one: Evaluated) -> bool:
    """Return whether a policy drove: by its manifest's digest; in older results, which do not tell it, by its name."""
    if MANIFEST in one.configuration:
        return made.is_manifest_of(one.configuration)
    return (made.model, made.file.parent) == (one.driver, one.file.parent)


def began_with(training: Training | None, made: Sequence[Made]) -> Began | None:
    """Return what a training began with, found among the manifests beside the results; None where it began anew.

    The model's digest decides; of an older training, which does not state it, the name. Raises InputError where a
    manifest of that name is of another model.
    """
    last = lineage(training)[-1] if training else None
    if last is None or not last.init:
        return None
    named = next((one for one in made if one.model == last.init_file), None)
    expected = last.training.get("init_sha256")
    if expected is None:
        return Began(last.init, named)
    same = next((one for one in made if one.manifest.sha256 == expected), None)
    if same is None and named is not None:
        raise InputError(f"{named.file}: is not that of the {last.init} with which the training began "
                         f"(sha256 {named.manifest.sha256}, expected {expected})")  # fmt: skip
    return Began(last.init, same)


def gains(one: Evaluated, others: Sequence[Evaluated], found: Gathered) -> list[str]:
    """Return by how much a policy is better than what its training began with, where that is among the others."""
    began = began_with(training_of(one, found), found.made)
    if began is None:
        return []
    told = [(began.words_for(other), other) for other in others]
    pairs = [(words, other, paired(one, other)) for words, other in told if words is not None]
    return [beside_words((OURS, one), (words, other), differences) for words, other, differences in pairs
            if differences]  # fmt: skip


def _before(one: Evaluated, found: Gathered) -> Training | None:
    known = [made.training for made in found.made]
    told = {} if found.headline is None else found.headline.configuration
    known += [training for digest, training in _shipped() if digest == told.get("manifest")]
    for training in known:
        for step, then in itertools.pairwise(lineage(training)):
            if then.init == one.driver:
                return step.training
    return None


def _shipped() -> Iterator[tuple[str, Training]]:
    """Give the digest of every manifest that ships, as evaluations tell it, and what it says of the training."""
    for name in pretrained_names():
        model = model_path(name)
        yield file_digest(manifest_path(model)), load_manifest(model).extra.get("training", {})
