"""The site's references name all that the code has, links are put right, and what CI and README show is there."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import yaml
from PIL import Image

import onboard.__main__
from onboard.config.config import Config
from onboard.drivers.dds.topics import TOPICS
from tests.rigs.machine.processes import ROOT
from tests.rigs.runtime_bench import Bench, Tape, plain_config


def script(name: str) -> ModuleType:
    """Return a script of .ci as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


site, moving_picture = script("site_pages"), script("moving_picture")
PAGES = {"README.md", "docs/robot.md", "SAFETY.md", "systemd/install.md", "docs/demo.png"}


def test_the_page_of_keys_has_every_key_and_no_path_of_this_machine() -> None:
    page = site.keys()
    for name, section in Config.model_fields.items():
        assert f"## {name}\n" in page, section
    assert "`limits.v_max_mps`" in page
    assert str(ROOT) not in page


def test_the_page_of_topics_has_every_topic() -> None:
    page = site.topics()
    assert all(f"`{row.name}`" in page for row in TOPICS)


def test_the_page_of_commands_has_every_command_with_its_options() -> None:
    page = site.commands()
    assert all(f"### onboard {name}\n" in page for name in onboard.__main__.COMMANDS)
    assert "`--allow-control`" in page


def test_every_page_of_the_menu_is_a_document() -> None:
    text = (ROOT / "mkdocs.yml").read_text().replace("!!python/object/apply:pymdownx.slugs.slugify", "")
    named = re.findall(r"\S+\.md", str(yaml.safe_load(text)["nav"]))
    made = {f"reference/{name}" for name in site.REFERENCES}
    for page in {re.sub(r"[^\w./-]", "", one) for one in named} - made:
        source = "README.md" if page == "index.md" else page
        assert (ROOT / "docs" / source).exists() or (ROOT / source).exists(), page


def test_ci_runs_the_same_as_anybody() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    steps = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    assert ".ci/run" in steps
    assert "make site" in steps


def test_a_recording_becomes_a_moving_picture(tmp_path: Path) -> None:
    tape = Tape(tmp_path, plain_config())
    bench = Bench(listeners=[tape])
    bench.ticks(5)
    bench.ask()
    bench.seconds(3.0)
    bench.cancel()
    bench.ticks(5)
    picture = tmp_path / "drive.webp"
    count = moving_picture.make(tape.close(), picture)
    with Image.open(picture) as made:
        assert (made.n_frames, made.size) == (count, (640, 400))
    assert count >= 12


def test_the_picture_of_readme_is_small() -> None:
    picture = ROOT / "docs" / "drive.webp"
    assert "docs/drive.webp" in (ROOT / "README.md").read_text()
    assert picture.stat().st_size < 3_000_000
    with Image.open(picture) as made:
        assert made.n_frames > 20
