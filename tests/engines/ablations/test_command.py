"""The ablations: agents of a table, trained and driven alike, resumed anywhere, in one table."""

from __future__ import annotations

import json
import re
import shutil
import threading
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from engines.__main__ import main
from engines.ablations import command as command_module
from engines.ablations import trial as trials_module
from engines.ablations.agents import AGENTS_FILE, OWN, load_agents
from engines.ablations.command import board
from engines.ablations.trial import is_made, trials
from engines.network.encoder_features import save_encoder
from engines.network.network import untrained
from engines.network.policy_checkpoint import load_policy
from engines.report.ablation_table import ablation_table
from onboard.config.plant_model import MotionState, load_plant, step
from onboard.policy.manifest import load_manifest, sha256_of
from onboard.values.errors import ConfigError, InputError
from onboard.values.messages import Pose, Twist
from tests.rigs.ablation_rig import write_agents

DT_S = 1.0 / 30.0
SHIPPED = load_agents()


def run(*arguments: str | Path):
    return CliRunner().invoke(main, ["ablations", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Return a folder with a table of two tiny agents and their results in `out`."""
    folder = tmp_path_factory.mktemp("ablations")
    done = run("--out", folder / "out", "--agents", write_agents(folder))
    assert done.exit_code == 0, done.output
    return folder


def test_every_agent_is_trained_and_driven_where_it_is_to_be(made):
    board = json.loads((made / "out" / "ablations.json").read_text())
    places = [(row["agent"], row["where"], row["same_domain"]) for row in board["rows"]]
    assert places == [("plain", "paper", True), ("other", "paper", False), ("other", OWN, False)]
    assert all(row["summary"]["episodes"] == 1 for row in board["rows"])
    training = board["training"]["plain"]["imitation"]
    assert (training["decisions"], training["updates"]) == (2 * 4 * 2, 2 * 1)
    (row,) = (line for line in ablation_table(board).splitlines() if line.startswith("| `plain` | paper"))
    assert row.split(" | ")[-3:-1] == ["16", "2"]
    manifests = {name: load_manifest(made / "out" / name / "policy.onnx") for name in ("plain", "other")}
    assert manifests["plain"].training_delay_ticks == 3
    assert manifests["other"].training_delay_ticks == 1
    assert "pose" in [entry.name for entry in manifests["plain"].inputs]
    assert "pose" not in [entry.name for entry in manifests["other"].inputs]


def test_what_is_done_is_not_done_again_and_what_is_missing_is(made, monkeypatch):
    files = {file: file.stat().st_mtime_ns for file in (made / "out").glob("*/*.json")}
    (made / "out" / "other" / "own.json").unlink()
    driven = []
    real = trials_module.evaluate

    def counted(plan, *rest):
        driven.append(plan.robot.config.rates.delay_ticks)
        return real(plan, *rest)

    monkeypatch.setattr(trials_module, "evaluate", counted)
    monkeypatch.setattr(trials_module.stages, "train", None)
    assert run("--out", made / "out", "--agents", made / "agents.toml").exit_code == 0
    assert driven == [1]
    kept = {file: file.stat().st_mtime_ns for file in files if file.name != "own.json"}
    assert kept == {file: time for file, time in files.items() if file.name != "own.json"}


def test_a_result_of_another_model_is_driven_again(made):
    agents = load_agents(made / "agents.toml")
    trial = trials(agents, agents.agents["plain"], made / "out" / "plain")[0]
    result = trial.done()
    assert result is not None
    for key, value, done in (
        ("model", "0" * 16, False),
        ("seed", 2, False),
        ("condition_values", {"drift_scale": 2.0}, False),
        ("code", "0" * 16, True),
    ):
        other = {**result, "configuration": {**result["configuration"], key: value}}
        trial.file.write_text(json.dumps(other))
        assert (trial.done() is not None) is done
    older = {name: value for name, value in result["configuration"].items() if name != "condition_values"}
    trial.file.write_text(json.dumps({**result, "configuration": older}))
    assert trial.done() is not None
    trial.file.write_text(json.dumps({**result, "complete": False}))
    assert trial.done() is None
    trial.file.write_text(json.dumps(result))


def test_a_training_that_changed_is_made_again(made, tmp_path):
    write_agents(tmp_path, after="\n")
    (tmp_path / "recipe.toml").write_text((tmp_path / "recipe.toml").read_text().replace("updates = 1", "updates = 2"))
    before, after = load_agents(made / "agents.toml"), load_agents(tmp_path / "agents.toml")
    assert is_made(before.agents["plain"], made / "out" / "plain")
    assert not is_made(after.agents["plain"], made / "out" / "plain")


def test_a_model_of_another_encoder_is_made_again(made, tmp_path, monkeypatch):
    agent, encoder = load_agents(made / "agents.toml").agents["plain"], tmp_path / "encoder.pt"
    encoder.write_bytes(b"one")
    assert is_made(agent, made / "out" / "plain", encoder)
    monkeypatch.setattr(type(agent), "sees_colour", True)
    assert not is_made(agent, made / "out" / "plain", encoder)


def test_only_some_and_the_table_alone(made):
    shown = run("--out", made / "out", "--agents", made / "agents.toml", "--only", "plain", "--show")
    assert shown.exit_code == 0
    assert "`plain`" in shown.stdout
    assert "`other`" not in shown.stdout
    assert "97.4 / 82.2 / 51" in shown.stdout
    assert {row["agent"] for row in json.loads((made / "out" / "ablations.json").read_text())["rows"]} == {
        "plain",
        "other",
    }


def test_a_table_without_results_has_no_figures(made, tmp_path):
    agents = load_agents(made / "agents.toml")
    table = ablation_table(board(agents, agents.only([]), tmp_path))
    assert "| `plain` | paper (and its own domain) | 3 | - | - | - | - | 97.4 / 82.2 / 51 | - | - | - |" in table
    assert "no episodes" in table


def test_agents_that_see_colour_need_an_encoder(tmp_path):
    colour = '\n[agents.colour]\nwhat = "colour"\nchanges = { "network.rgb" = true }\n'
    file = write_agents(tmp_path, after=colour)
    shown = run("--out", tmp_path / "out", "--agents", file, "--only", "colour")
    assert shown.exit_code == 0
    assert "skipped, because they need colour and --encoder is missing: colour" in shown.output
    refused = run("--out", tmp_path / "out", "--agents", file, "--encoder", tmp_path / "none.pt")
    assert refused.exit_code == 2
    assert refused.stderr == f"error: --encoder {tmp_path / 'none.pt'}: no such file\n"


COLOURED = '"network.rgb" = true, "imitation.colour" = 1.0, "imitation.coloured" = 1.0'


def test_a_model_says_that_its_encoder_came_from_elsewhere(tmp_path):
    colour = f'\n[agents.colour]\nwhat = "colour"\nchanges = {{ {COLOURED} }}\n'
    table, encoder = load_agents(write_agents(tmp_path, after=colour)), tmp_path / "encoder.pt"
    agent = table.agents["colour"]
    assert board(table, [agent], tmp_path)["encoders"] == {"colour": None}
    given = untrained(99, agent.config.network.widths).rgb
    save_encoder(encoder, given)
    stated = load_manifest(trials_module.make_agent(agent, tmp_path / "colour", encoder)).extra
    assert stated["encoder_sha256"] == stated["training"]["encoder_sha256"] == sha256_of(encoder)
    assert (stated["training"]["stages"], stated["training"]["init"]) == (["imitation"], None)
    network, _ = load_policy(tmp_path / "colour" / "training" / "policy.pt")
    assert all(torch.equal(a, b) for a, b in zip(network.rgb.parameters(), given.parameters(), strict=True))
    assert is_made(agent, tmp_path / "colour", encoder)
    assert board(table, [agent], tmp_path)["encoders"] == {"colour": sha256_of(encoder)}


@pytest.mark.parametrize("changes", [COLOURED, '"driving.lanes" = 2'])
def test_no_agent_is_trained_where_policies_are_tested(tmp_path, changes):
    test = f'\n[agents.tested]\nwhat = "x"\nchanges = {{ {changes}, "places.maps" = ["ahg2"] }}\n'
    (tmp_path / "encoder.pt").touch()
    refused = run(
        "--out", tmp_path / "out", "--agents", write_agents(tmp_path, after=test), "--encoder", tmp_path / "encoder.pt"
    )
    assert refused.exit_code == 2
    assert re.match(r"error: agent tested: places\.maps: ahg2 belongs to the test split: [^\n]*\n$", refused.stderr)
    assert not (tmp_path / "out").exists()


#    more of the file                                     what is said
WRONG = [
    ('[agents.x]\nwhat = ""\n', "agents.x.what"),
    ('[agents.x]\nwhat = "x"\nconditions = ["none"]\n', "x: conditions: there is no none in hil/drive/conditions.toml"),
    ('[agents.x]\nwhat = "x"\nchanges = { "network.sizes" = 1 }\n', "x: .*network.sizes"),
    ('[agents.x]\nwhat = "x"\nkind = "position"\n', "agents.x.kind"),
    (
        '[agents.x]\nwhat = "x"\nchanges = { "domain.no_localization" = 1.0, "driving.memory_reset_s" = "never" }\n',
        "x: at least one condition must be its own domain, without fixes and without resets of the memory",
    ),
]


#    what is in the file          what stands there instead       what is said
OTHER_SETS = [
    ('set = "validation"', 'set = "nosuch"', "set: .*must be one of committed, unseen, validation, .*found 'nosuch'"),
    ('maps = ["depot"]', 'maps = ["nomap"]', r"agents\.toml: map nomap: not in the set validation, which has "),
    ("episodes = 1", "episodes = 1000", r"agents\.toml: episodes 1000: the set depot has 20"),
    ("[agents.other]", '[agents."../../evil"]', r"agents: .*must be letters, digits, _ and -, found '\.\./\.\./evil'"),
    ("[agents.other]", '[agents."other\\n"]', r"agents: .*must be letters, digits, _ and -, found 'other\\n'"),
    ("[agents.other]", '[agents.""]', "agents: .*must be letters, digits, _ and -, found ''"),
]


@pytest.mark.parametrize(("before", "after", "expected"), OTHER_SETS)
def test_a_table_of_what_there_is_not_is_refused_before_anything_is_trained(tmp_path, before, after, expected):
    file = write_agents(tmp_path)
    assert file.read_text().count(before) == 1
    file.write_text(file.read_text().replace(before, after))
    refused = run("--out", tmp_path / "out", "--agents", file, "--show")
    (line,) = refused.stderr.splitlines()
    assert refused.exit_code == 2
    assert re.search(expected, line), line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("after", "expected"), WRONG)
def test_a_wrong_table_is_refused_in_one_line(tmp_path, after, expected):
    with pytest.raises(ConfigError, match=expected) as refused:
        load_agents(write_agents(tmp_path, after="\n" + after))
    assert "\n" not in str(refused.value)


def test_an_agent_that_is_not_in_the_table_is_refused():
    with pytest.raises(InputError, match="--only nobody: must be one of reference, "):
        SHIPPED.only(["nobody"])


#    agent              where        control ticks, as the table says them
PLACES = [
    ("reference", "no_limits", "3"),
    ("no_motion_model", OWN, "1"),
    ("delay_10", "paper", "3"),
    ("delay_10", OWN, "10"),
    ("randomised", OWN, "2 to 4"),
]


@pytest.mark.parametrize(("name", "where", "ticks"), PLACES)
def test_every_place_has_its_delay(name, where, ticks):
    agent = SHIPPED.agents[name]
    assert [agent.delay_in(place) for place in agent.places() if place.where == where] == [ticks]


def test_the_paper_is_quoted_only_where_it_drove():
    reference = SHIPPED.agents["reference"]
    quoted = {place.where: reference.quoted_in(place) for place in reference.places()}
    assert [where for where, figures in quoted.items() if figures is not None] == ["paper"]


@pytest.mark.parametrize("began", [0.0, 0.6, 1.0, -0.3])
@pytest.mark.parametrize("wanted", [-0.3, 0.0, 0.3, 1.0])
def test_without_the_motion_model_the_base_has_every_speed_at_once(began, wanted):
    plant = load_plant(AGENTS_FILE.parent / "instant.toml")
    state = MotionState(Pose(0.0, 0.0, 0.0))
    for v, w in ((began, -3.0), (wanted, 3.0), (wanted, 3.0), (0.0, 0.0)):
        state = step(state, Twist(v, w), plant, DT_S)
        assert (state.twist.v_mps, state.twist.w_radps) == pytest.approx((v, w), abs=1e-9)


def test_what_other_code_drove_is_driven_again_where_that_is_asked_for(made):
    file = made / "out" / "plain" / "paper.json"
    result = json.loads(file.read_text())
    older = {**result, "configuration": {**result["configuration"], "code": "0" * 16}}
    for options, code in (([], "0" * 16), (["--again"], result["configuration"]["code"])):
        file.write_text(json.dumps(older))
        shown = run("--out", made / "out", "--agents", made / "agents.toml", "--only", "plain", *options)
        assert shown.exit_code == 0
        assert ("`plain` in paper. `onboard-engines ablations --again`" in shown.stdout) is (not options)
        assert json.loads(file.read_text())["configuration"]["code"] == code
    file.write_text(json.dumps(result))


def test_what_another_call_writes_meanwhile_is_kept(made, tmp_path, monkeypatch):
    whole, file = json.loads((made / "out" / "ablations.json").read_text()), tmp_path / "ablations.json"
    shutil.copytree(made / "out" / "plain", tmp_path / "plain")
    begun, stop_requested, real = threading.Event(), threading.Event(), command_module.in_turn

    def other_call():
        with real(file):
            begun.set()
            stop_requested.wait(60.0)
            file.write_text(json.dumps({**whole, "rows": whole["rows"][1:]}))

    monkeypatch.setattr(command_module, "in_turn", lambda wanted: stop_requested.set() or real(wanted))
    other = threading.Thread(target=other_call)
    other.start()
    assert begun.wait(60.0)
    assert run("--out", tmp_path, "--agents", made / "agents.toml", "--only", "plain").exit_code == 0
    other.join(60.0)
    assert [row["agent"] for row in json.loads(file.read_text())["rows"]] == ["plain", "other", "other"]


def test_a_table_keeps_the_rows_of_other_agents_unless_they_drove_another_set(made, tmp_path):
    whole = json.loads((made / "out" / "ablations.json").read_text())
    shutil.copytree(made / "out" / "plain", tmp_path / "plain")
    for another_set, kept in ((False, ["plain", "other", "other"]), (True, ["plain"])):
        stated = {**whole, "set": "committed"} if another_set else whole
        (tmp_path / "ablations.json").write_text(json.dumps(stated))
        run("--out", tmp_path, "--agents", made / "agents.toml", "--only", "plain")
        rows = json.loads((tmp_path / "ablations.json").read_text())["rows"]
        assert [row["agent"] for row in rows] == kept
        assert rows[0]["summary"] == whole["rows"][0]["summary"]
