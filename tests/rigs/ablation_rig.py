"""A table of tiny agents that are trained and driven within a second or two, for the tests of the ablations."""

from __future__ import annotations

from pathlib import Path

RECIPE = """
name = "tiny"
[network]
size = "tiny"
rgb = false
[places]
maps = ["depot"]
furniture = 0.0
most_m = 3.0
sharing = 8
[domain]
plant_spread = 0.0
delay_ticks = [3, 3]
drift_scale = [1.0, 1.0]
drift_paper = 1.0
no_localization = 0.0
often_localized = 0.0
late_localization = 0.0
camera_gone = 0.0
scan_noise = 0.0
scan_holes = 0.0
pedestrians = 0.0
[driving]
lanes = 2
decisions = 4
max_s = 3.0
[imitation]
chapters = 1
rounds = 2
updates = 1
batch = 4
colour = 0.0
coloured = 0.0
collectors = 0
validate_drives = 0
"""

AGENTS = """
recipe = "recipe.toml"
set = "validation"
maps = ["depot"]
episodes = 1
conditions = ["paper"]
{more}
[agents.plain]
what = "plain"
paper = [97.4, 82.2, 51.0]

[agents.other]
what = "otherwise"
changes = {{ "network.goal_from" = "start", "domain.delay_ticks" = [1, 1], "driving.memory_reset_s" = "never" }}
paper_own = [1.0, 2.0, 3.0]
"""


def write_agents(folder: Path, more: str = "", after: str = "") -> Path:
    """Write the table and its recipe and return the former."""
    (folder / "recipe.toml").write_text(RECIPE)
    file = folder / "agents.toml"
    file.write_text(AGENTS.format(more=more) + after)
    return file
