"""The card of a model that `onboard-engines train` made, filled from its manifest and its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from engines.report.differences import differences_table, main_differences
from engines.report.files import shaped
from engines.report.results import ResultFolder
from engines.report.tables import EVALUATIONS, has_main_rows, main_rows, tables_text, weak_conditions
from hil.drive.episode_sets import building_of
from hil.evaluate.evaluation import STATED
from hil.jobs.code_digest import file_digest
from hil.maps.made_floor import is_made
from onboard.commands.cli import markdown_table
from onboard.config.config import Config
from onboard.config.pretrained import model_path, pretrained_names
from onboard.policy.encode import (
    ActionFeed,
    ColorFeed,
    DeviationFeed,
    GoalFeed,
    MotionFeed,
    OneFeed,
    PartsFeed,
    parts_of,
)
from onboard.policy.manifest import ModelManifest, OwnManifest, load_manifest, manifest_path
from onboard.values.errors import InputError

TEMPLATE = "card.md.j2"
MEGA = 1e6
NOT_STATED = "not stated"
MADE_FLOORS = "floors drawn by a seed"


class CardTexts(NamedTuple):
    """The texts of a card and of its file of tables."""

    card: str
    tables: str


def tables_file(card: Path) -> Path:
    """Return the file of a card's tables."""
    return card.with_name(f"{card.stem}-tables.md")


def make_card(found: ResultFolder, model: Path, tables: str) -> CardTexts:
    """Return the card. tables: name of the file next to it.

    Raises ConfigError for a model without its manifest, InputError for results of another model or one of version 1.
    """
    manifest = manifest_for(found, model)
    if not isinstance(manifest, OwnManifest):
        raise InputError(
            f"{model}: a card is of a policy that `onboard-engines train` made: its manifest has version 2"
        )
    with shaped(manifest_path(model), "extra.training: not what an export states"):
        card = _rendered(found, model, manifest, tables)
    head = f"# Tables of {manifest.policy}\n\n`onboard-engines report` printed these tables from result files.\n\n"
    return CardTexts(card, head + tables_text(found))


def manifest_for(found: ResultFolder, model: Path) -> ModelManifest:
    """Return the manifest of the results' model. Raises as `make_card`."""
    manifest = load_manifest(model)
    for name, file in (("model", model), ("manifest", manifest_path(model))):
        digest = file_digest(file)
        for evaluation in found.evaluations:
            stated = evaluation.configuration.get(name, digest)  # older results do not state the manifest
            if stated != digest:
                raise InputError(f"{evaluation.file}: is not of {file} (digest {stated}, expected {digest})")
    return manifest


def _rendered(found: ResultFolder, model: Path, manifest: OwnManifest, tables: str) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown
    )
    training = manifest.extra.get("training", {})
    steps = lineage(training) if training else []
    trained = sorted({building for step in steps for building in _trained(step)})
    driven = sorted({_building(row.building) for evaluation in found.evaluations for row in evaluation.rows})
    configs = [step.get("config", {}) for step in steps]
    return environment.get_template(TEMPLATE).render(
        model=model,
        megabytes=model.stat().st_size / MEGA,
        manifest=manifest,
        inputs=markdown_table(("input", "shape", "meaning"), _inputs(manifest), words=3),
        results=markdown_table(EVALUATIONS, main_rows(found), words=2) if has_main_rows(found) else "",
        differences=differences_table(differences) if (differences := main_differences(found)) else "",
        fallback=_with_fallback(found),
        weak=weak_conditions(found),
        steps=[(Path(str(step.get("init") or "")).name, step) for step in steps],
        color=manifest.extra.get("color"),
        teacher=configs[-1].get("batched", {}).get("teacher", {}).get("policy") if configs else None,
        taught=any(config.get("batched", {}).get("teacher", {}).get("weight", 0.0) for config in configs),
        lost=any(config.get("domain", {}).get("no_localization", 0.0) for config in configs),
        trained=trained,
        driven=driven,
        both=[one for one in driven if one in trained],
        hardware=found.hardware,
        tables=tables,
        rules=_rules(found),
        codes=sorted({str(evaluation.configuration.get("code", NOT_STATED)) for evaluation in found.evaluations}),
    )


def _rules(found: ResultFolder) -> list[str]:
    """Return the rules of all drives that are not today's defaults, as lines of TOML without their table's name."""
    if not found.evaluations:
        return []
    stated, today = found.evaluations[0].configuration, Config()
    rules = [(table, key, stated.get(key, former)) for key, (table, former) in STATED.items()]
    others = [rule for rule in rules if rule[2] != getattr(getattr(today, rule[0]), rule[1])]
    return [f"[{table}] {key} = {str(value).lower()}" for table, key, value in others]


def _inputs(manifest: OwnManifest) -> list[list[str]]:
    """Return name, shape and meaning of each input."""
    rows = [_input(feed.name, feed.shape, "; ".join(map(_feed_text, parts_of(feed)))) for feed in manifest.feeds]
    return rows + [
        _input(one.input, one.shape, "recurrent state as the last decision returned it") for one in manifest.memory
    ]


def _with_fallback(found: ResultFolder) -> str:
    """Return the name of the policy with a fallback, if its results are among the others; else ""."""
    of_model = [other for other in found.others if found.evaluations and other.is_of_model(found.evaluations[0])]
    return next((one.driver for one in of_model if one.fallback != "none"), "")


def _input(name: str, shape: Iterable[int], meaning: str) -> list[str]:
    return [f"`{name}`", " x ".join(map(str, shape)), meaning]


def _feed_text(feed: OneFeed) -> str:
    """Return what a feed gives, by the words of docs/policies.md."""
    if isinstance(feed, GoalFeed | MotionFeed | DeviationFeed | ActionFeed):
        return f"{feed.feed.replace('_', ' ')}: {', '.join(feed.fields)}"
    if isinstance(feed, ColorFeed):
        return "forward colour image; zeros without one"
    return feed.feed if isinstance(feed, PartsFeed) else f"{feed.feed}, {feed.width} values"


def lineage(training: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return `extra.training` of this policy and of the policies that it began with, as far as known, the oldest first.

    A training states the training of its initial policy, or else the sha256 of a policy that ships.
    Raises ConfigError for a damaged manifest.
    """
    steps = [training]
    while steps[0].get("init"):
        before = steps[0].get("began") or _shipped(steps[0].get("init_sha256"))
        if not before:
            break
        steps.insert(0, before)
    return steps


def _shipped(sha256: object) -> Mapping[str, Any]:
    """Return `extra.training` of the policy that ships with this digest; empty if none has it."""
    manifests = (load_manifest(model_path(name)) for name in pretrained_names())
    return next((manifest.extra.get("training", {}) for manifest in manifests if manifest.sha256 == sha256), {})


def _trained(training: Mapping[str, Any]) -> list[str]:
    """Return the buildings of a training and of its encoder's views; a user's map counts as a building.

    Made floors are not real buildings, so they count as one.
    """
    config = training.get("config", {})
    maps = [*config.get("places", {}).get("maps", ()), *config.get("encoder", {}).get("views", {}).get("maps", ())]
    return [_building(building_of(str(name)) or Path(str(name)).stem) for name in maps]


def _building(name: str) -> str:
    return MADE_FLOORS if is_made(name) else name
