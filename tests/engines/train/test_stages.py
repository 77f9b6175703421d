"""The stages of a training follow each other, and none is made twice."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engines.export.export import export
from engines.network.encoder_features import encode_images, save_encoder
from engines.network.network import TINY, Variant, untrained
from engines.network.policy_checkpoint import PolicyFile, load_policy, save_policy
from engines.runs.input_files import encoder_file
from engines.runs.locks import alone_in
from engines.runs.torch_file import write_torch
from engines.train import ppo, stages
from hil.maps.load import MAPS_FOLDER
from onboard.policy.manifest import sha256_of
from onboard.values.errors import ConfigError, InputError
from tests.rigs.train_rig import small

CPU = torch.device("cpu")
COLOURED = {"imitation__chapters": 1, "imitation__colour": 0.5, "imitation__coloured": 1.0}


@pytest.fixture
def encoder(monkeypatch):
    """In place of the training of the encoder, which has tests of its own: its file, and how often it was asked for."""
    calls = []

    def made(section, seed, folder, widths, **_):
        calls.append(seed)
        folder.mkdir(parents=True, exist_ok=True)
        save_encoder(folder / "encoder.pt", untrained(99, widths).rgb)
        return folder / "encoder.pt"

    monkeypatch.setattr(stages, "train_encoder", made)
    return calls


def test_the_policy_holds_the_encoder_as_it_was_trained(tmp_path, encoder):
    config = small(**COLOURED)
    network, meta = load_policy(stages.train(config, tmp_path, CPU, "imitation"))
    expected = untrained(99, config.network.widths).rgb
    assert all(torch.equal(a, b) for a, b in zip(network.rgb.parameters(), expected.parameters(), strict=True))
    assert (meta["stages"], encoder) == (["encoder", "imitation"], [0])
    # What the encoder says has been learned from.
    assert network.gru.weight_ih_l0[:, : network.widths.rgb].abs().max() > 0.0


def test_an_encoder_that_is_given_is_taken_and_named(tmp_path, encoder):
    given = tmp_path / "other.pt"
    config = small(**COLOURED)
    expected = untrained(7, config.network.widths).rgb
    save_encoder(given, expected)
    network, meta = load_policy(stages.train(config, tmp_path, CPU, "imitation", encoder=given))
    assert all(torch.equal(a, b) for a, b in zip(network.rgb.parameters(), expected.parameters(), strict=True))
    assert (meta["stages"], meta["encoder_sha256"], encoder) == (["imitation"], sha256_of(given), [])
    for refused, until in ((small(), "imitation"), (config, "encoder")):
        with pytest.raises(InputError, match=r"encoder.*: this training has no"):
            stages.train(refused, tmp_path / "refused", CPU, until, encoder=given)


def test_the_encoder_of_a_policy_may_be_given(tmp_path, encoder):
    config, model = small(**COLOURED), tmp_path / "before.onnx"
    before = untrained(7, config.network.widths)
    export(model, before, "before", {})
    network, meta = load_policy(stages.train(config, tmp_path, CPU, "imitation", encoder=model))
    images = np.random.default_rng(0).integers(0, 256, (3, 144, 256, 3), dtype=np.uint8)
    seen, expected = (encode_images(one.rgb, images) for one in (network, before))
    torch.testing.assert_close(seen, expected, rtol=1e-4, atol=1e-5)
    assert (meta["encoder_sha256"], encoder) == (sha256_of(model), [])


def test_a_policy_without_colour_or_of_other_sizes_gives_no_encoder(tmp_path, encoder):
    config, model = small(**COLOURED), tmp_path / "before.onnx"
    export(model, untrained(7, config.network.widths, Variant(rgb=False)), "before", {})
    with pytest.raises(InputError, match=r"--encoder .*before\.onnx: this policy sees no colour"):
        stages.train(config, tmp_path / "a", CPU, "imitation", encoder=model)
    with pytest.raises(InputError, match=r"--encoder .*onboard-v1\.onnx: its encoder is of other sizes"):
        stages.train(config, tmp_path / "b", CPU, "imitation", encoder=encoder_file("onboard-v1"))
    with pytest.raises(InputError, match="no shipped policy has this name"):
        encoder_file("onboard-v0")


def test_without_colour_no_encoder_is_trained(tmp_path, encoder):
    stages.train(small(imitation__chapters=1), tmp_path, CPU, "imitation")
    assert encoder == []


def test_an_encoder_that_nobody_would_see_is_not_trained_nor_are_its_images_rendered(tmp_path, encoder, monkeypatch):
    colours, real = [], ppo.rules_of
    monkeypatch.setattr(ppo, "rules_of", lambda config, colour: colours.append(colour) or real(config, colour))
    short = {"imitation__chapters": 2, "imitation__colour": 0.5, "imitation__coloured": 0.34}
    changes = {"reinforce__chapters": 1, "reinforce__rounds": 1, "reinforce__decisions": 4, "reinforce__collectors": 0}
    checks = {"reinforce__validate_drives": 0, "reinforce__choose_drives": 0, "reinforce__colour": 1.0}
    stages.train(small(**short, **changes, **checks), tmp_path, CPU, "reinforce")
    assert (encoder, {*colours}) == ([], {0.0})


def test_a_network_begins_without_weight_on_colour():
    network = stages.beginning(small())
    assert network.gru.weight_ih_l0[:, : network.widths.rgb].abs().max() == 0.0
    assert network.gru.weight_ih_l0[:, network.widths.rgb :].abs().min() > 0.0


def test_an_initial_network_is_gone_on_with(tmp_path, encoder):
    config = small(**COLOURED, imitation__rate=1e-12)
    first = untrained(5, config.network.widths, config.network.variant)
    network, meta = load_policy(stages.train(config, tmp_path, CPU, "imitation", lambda wanted: PolicyFile(first, "")))
    torch.testing.assert_close(network.actor.weight, untrained(5, config.network.widths).actor.weight)
    assert (encoder, meta["init"], {"init_sha256", "began"} & {*meta}) == ([], None, set())


def test_what_a_training_began_with_is_known_by_its_digest_at_that_time(tmp_path, monkeypatch):
    config = small(imitation__chapters=1)
    first = untrained(5, config.network.widths, config.network.variant)
    init, learn = tmp_path / "first.pt", stages._learn
    save_policy(init, first, {})
    before = sha256_of(init)

    def changed_meanwhile(*arguments):
        init.write_bytes(b"another")
        return learn(*arguments)

    monkeypatch.setattr(stages, "_learn", changed_meanwhile)
    policy = stages.train(
        config, tmp_path / "t", CPU, "imitation", lambda wanted: PolicyFile(first, "", {"seed": 3}), str(init)
    )
    _, meta = load_policy(policy)
    assert (meta["init"], meta["init_sha256"], meta["began"]) == (str(init), before, {"seed": 3})


def test_up_to_the_encoder_no_policy_is_written(tmp_path, encoder):
    assert stages.train(small(**COLOURED), tmp_path, CPU, "encoder") == tmp_path / "encoder" / "encoder.pt"
    assert not (tmp_path / "policy.pt").exists()
    with pytest.raises(InputError, match="--until encoder: this training has no such stage"):
        stages.train(small(), tmp_path, CPU, "encoder")


def test_a_policy_of_more_stages_is_not_overwritten(tmp_path):
    file = tmp_path / "policy.pt"
    save_policy(file, untrained(0, TINY), {"stages": ["imitation", "reinforce"]})
    before = file.read_bytes()
    with pytest.raises(InputError, match=r"--until imitation: .*policy\.pt holds the policy after reinforce"):
        stages.train(small(), tmp_path, CPU, "imitation")
    assert file.read_bytes() == before


@pytest.mark.parametrize(("meta", "found"), [(None, "none"), (3, "int")])
def test_a_file_in_the_place_of_the_policy_is_looked_at_before_anything_is_trained(tmp_path, meta, found):
    file = tmp_path / "policy.pt"
    write_torch(file, {"format": "onboard-policy", "version": 1, **({} if meta is None else {"meta": meta})})
    with pytest.raises(InputError, match=rf"policy\.pt: meta: expected a table of how it was trained, found {found}$"):
        stages.train(small(), tmp_path, CPU, "imitation")
    assert [path.name for path in tmp_path.iterdir()] == ["policy.pt"]


def test_maps_are_looked_at_before_anything_is_trained(tmp_path, encoder):
    with pytest.raises(InputError, match="atlantis"):
        stages.train(small(**COLOURED, places__maps=["depot", "atlantis"]), tmp_path, CPU, "imitation")
    assert encoder == []


#   onboard.toml of the robot            lengths of the recipe                 what is said
IMPOSSIBLE = [
    ("[rates]\ncontrol_hz = 60.0\n",     {},                                   r"^rates\.control_hz is 60, .* at 30"),
    ("[limits_scan]\n",                  {},                                   "^limits_scan: .*: omit it$"),
    ("[limits]\nscan_stale_ms = 20.0\n", {},                                   r"\(limits\.scan_stale_ms\)$"),
    ("",                                 {"least_m": 90.0, "most_m": 95.0},    "^map depot: no goal .* 90 to 95 m"),
]  # fmt: skip


@pytest.mark.parametrize(("robot", "lengths", "message"), IMPOSSIBLE)
def test_what_can_never_be_driven_is_refused_before_anything_is_trained(tmp_path, encoder, robot, lengths, message):
    (tmp_path / "robot.toml").write_text(robot)
    places = {f"places__{name}": length for name, length in lengths.items()}
    config = small(**COLOURED, **places, robot__config=str(tmp_path / "robot.toml"))
    with pytest.raises((ConfigError, InputError), match=message):
        stages.train(config, tmp_path / "out", CPU, "imitation")
    assert (encoder, (tmp_path / "out").exists()) == ([], False)


@pytest.mark.parametrize("place", ["apartment", "ahg1", str(MAPS_FOLDER / "willow.yaml")])
def test_a_building_of_the_test_split_is_only_for_a_policy_that_exists(place):
    config = small(places__maps=[place])
    with pytest.raises(InputError, match=rf"places\.maps: {place} belongs to the test split: by its name it is in "):
        stages.check(config)
    stages.check(config, known=True)


def test_another_floor_of_a_building_of_the_training_is_for_everyone():
    stages.check(small(places__maps=["gdc4", "home"]))


def test_an_unknown_stage_is_refused(tmp_path):
    with pytest.raises(InputError, match="--until never: must be one of encoder, imitation, reinforce"):
        stages.train(small(), tmp_path, CPU, "never")
    assert not list(tmp_path.iterdir())


#   what the reinforcement finds better    stages that the policy names
KEPT = [("after", ["imitation", "reinforce"]), ("before", ["imitation"])]


@pytest.mark.parametrize(("kept", "named"), KEPT)
def test_the_policy_names_the_reinforcement_where_it_was_kept(tmp_path, monkeypatch, kept, named):
    monkeypatch.setattr(ppo, "better", lambda before, after: kept)
    changes = {"reinforce__chapters": 1, "reinforce__rounds": 1, "reinforce__decisions": 4, "reinforce__collectors": 0}
    checks = {"reinforce__validate_drives": 0, "reinforce__choose_drives": 1, "driving__max_s": 5.0}
    file = stages.train(small(imitation__chapters=1, **changes, **checks), tmp_path, CPU, "reinforce")
    assert load_policy(file)[1]["stages"] == named


def test_a_folder_is_one_trainings_at_a_time(tmp_path):
    config = small(imitation__chapters=1)
    with alone_in(tmp_path), pytest.raises(InputError, match=f"^{tmp_path}: another training is writing it: wait"):
        stages.train(config, tmp_path, CPU, "imitation")
    assert not (tmp_path / "imitation.ckpt").exists()
    assert stages.train(config, tmp_path, CPU, "imitation") == tmp_path / "policy.pt"


def test_a_folder_that_cannot_be_written_is_said_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file: cannot be written: File exists"):
        stages.train(small(), tmp_path / "file", CPU, "imitation")
