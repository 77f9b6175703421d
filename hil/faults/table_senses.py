"""The faults of what the robot sees with: cameras, and scans that come ready-made. `table.py` has the others."""

from __future__ import annotations

import math
from dataclasses import replace

from hil.faults import checks, image_faults, scan_faults, stream_faults
from hil.faults.fault import Fault, Need
from hil.faults.image_faults import ahead
from hil.faults.monitor import GRACE_TICKS
from hil.faults.musts import During, Must
from hil.faults.scan_faults import topics
from hil.faults.schedule import Scene
from onboard.scheduler import NS_PER_S


def _all(scene: Scene) -> frozenset[str]:
    return frozenset(scene.mounts.depth)


def _front(scene: Scene) -> frozenset[str]:
    return ahead(scene.mounts)


def _topics(scene: Scene) -> frozenset[str]:
    return topics(scene.config)


CAMERA, SCAN = "cameras.stale_ms", "limits.scan_stale_ms"
HELD_BACK = ("blind_ahead", "zone_stop", "stale_scan")
BLIND = Must(During.NOT_FORWARD, timeouts=(CAMERA,), reasons=HELD_BACK, checks=(checks.no_contact,), ahead=True)
SIGHTLESS = Must(During.STANDS, timeouts=(SCAN,), reasons=("stale_scan", "blind_ahead"), checks=(checks.no_contact,))
ON = Must(During.DRIVES, checks=(checks.no_contact,))
IMAGES, SCANS = (Need.IMAGES,), (Need.SCANS,)
NEXT_SCAN_TICKS = 2
"""A ready-made scan comes in every second tick here."""
AT_NEXT_SCAN = Must(
    During.NOT_FORWARD, ticks=GRACE_TICKS + NEXT_SCAN_TICKS, reasons=(*HELD_BACK, "remembered"),
    checks=(checks.no_contact,), ahead=True,
)  # fmt: skip
NO_SCAN = Must(During.STANDS, timeouts=(SCAN,), reasons=("stale_scan",), checks=(checks.no_contact,))

SOON = {"recovery": {"blocked_s": 2.2, "backward_s": 1.0, "cool_down_s": 0.1}}
"""So that a robot before something too near to be seen has backed off within the time in which it must go on: what was
there for as long as this fault holds it for seconds (`nearby.BRIEF_NS`)."""

FORGETFUL = {"limits": {"remember_s": 1.0}}
"""So that places which noise has put again and again where no camera looks are forgotten within that time."""

SENSES: tuple[Fault, ...] = (
    # ---- cameras
    Fault(
        "camera_gone", "the cameras ahead send nothing", BLIND, "R12 of limits.py: no way into a blind sector",
        lambda scene: stream_faults.Gone(_front(scene)), IMAGES,
    ),
    Fault(
        "cameras_gone", "all depth cameras send nothing", SIGHTLESS, "R5 of limits.py: a scan that is too old",
        lambda scene: stream_faults.Gone(_all(scene)), IMAGES,
    ),
    Fault(
        "image_frozen", "the cameras ahead send one frame again and again", BLIND,
        "drivers/dds_camera.py: a frame that is not stamped later is no new one; then R12",
        lambda scene: stream_faults.Frozen(_front(scene)), IMAGES,
    ),
    Fault(
        "image_stuck", "the cameras ahead send one picture with stamps that go on",
        Must(
            During.NOT_FORWARD, timeouts=(CAMERA, SCAN), reasons=HELD_BACK, checks=(checks.no_contact,), ahead=True
        ),
        "unchanged.py: a picture that stays the same over a way is none; then R12",
        lambda scene: stream_faults.Frozen(_front(scene), stamped=True), (Need.IMAGES, Need.ALL_IMAGES),
    ),
    Fault(
        "image_late", "the pictures of the cameras ahead are under way for half a second longer, at their pace", BLIND,
        "drivers/sender_clock.py: as old as its stamp says; then R12",
        lambda scene: stream_faults.Late(_front(scene)), IMAGES,
    ),
    Fault(
        "depth_zero", "every pixel ahead is 0, as before a covered lens", BLIND, "images.py, covered(); then R12",
        lambda scene: image_faults.Painted(_front(scene), scene.mounts, 0.0), IMAGES,
    ),
    Fault(
        "depth_zero_all", "every pixel of all cameras is 0", SIGHTLESS, "images.py, covered(); then R5",
        lambda scene: image_faults.Painted(_all(scene), scene.mounts, 0.0), IMAGES,
    ),
    Fault(
        "depth_near", "every pixel ahead is at 0.11 m", BLIND,
        "R9 of limits.py: the stop zone; then R20, until it has backed off",
        lambda scene: image_faults.Painted(_front(scene), scene.mounts, image_faults.NEAR_M), IMAGES,
        sections=SOON,
    ),
    Fault(
        "depth_noise", "every pixel of all cameras is drawn from all that it can be",
        Must(
            During.SLOWS, timeouts=(CAMERA,), reasons=("zone_stop", "zone_slow", "time_to_contact", "remembered"),
            checks=(checks.mostly_stands, checks.no_contact), ahead=True,
        ),
        "R9 to R11 of limits.py: it stands before what is near, and creeps where noise leaves a gap",
        lambda scene: image_faults.Noise(_all(scene), scene.seed), IMAGES, sections=FORGETFUL,
    ),
    Fault(
        "image_wrong_size", "the cameras ahead send images of half the size", BLIND,
        "drivers/dds_camera.py: an image that is not the mount's is none; then R12",
        lambda scene: image_faults.WrongSize(_front(scene)), IMAGES,
    ),
    Fault(
        "image_torn", "half of each image's bytes ahead are missing", BLIND, "drivers/dds_camera.py; then R12",
        lambda scene: image_faults.Torn(_front(scene)), IMAGES,
    ),
    Fault(
        "depth_nan", "every pixel ahead is NaN, in metres", BLIND, "images.py, covered(); then R12",
        lambda scene: image_faults.NotNumbers(_front(scene)), IMAGES,
    ),
    Fault(
        "color_gone", "the colour camera sends nothing", ON, "contract.py: no image is an input that is not there",
        lambda scene: image_faults.color_gone(), (Need.COLOR,),
    ),
    # ---- scans that come ready-made
    Fault(
        "scan_gone", "no ready-made scan comes", NO_SCAN, "R5 of limits.py: a scan that is too old",
        lambda scene: stream_faults.Gone(_topics(scene)), SCANS,
    ),
    Fault(
        "scan_frozen", "one scan comes again and again", NO_SCAN,
        "drivers/dds_scan.py: a scan that is not stamped later is no new one; then R5",
        lambda scene: stream_faults.Frozen(_topics(scene)), SCANS,
    ),
    Fault(
        "scan_stuck", "one scan comes again and again, with stamps that go on",
        replace(NO_SCAN, timeouts=(SCAN, SCAN)),
        "unchanged.py: a scan that stays the same over a way is none; then R5",
        lambda scene: stream_faults.Frozen(_topics(scene), stamped=True), SCANS,
    ),
    Fault(
        "scan_late", "scans are under way for half a second longer, at their pace", NO_SCAN,
        "drivers/dds_scan.py: one that is as late as this is none; then R5",
        lambda scene: stream_faults.Late(_topics(scene)), SCANS,
    ),
    Fault(
        "scan_late_and_rare", "scans come three times a second, a quarter of a second late",
        Must(During.HOLDS, checks=(checks.stands_in_between, checks.no_contact)),
        "drivers/dds_scan.py: as old as it is late; then R5 of limits.py, until the next",
        lambda scene: stream_faults.Late(_topics(scene), NS_PER_S // 4, NS_PER_S // 3), SCANS,
    ),
    Fault(
        "scan_zero", "every ray is 0", AT_NEXT_SCAN,
        "laser.py: 0 is no return, not a thing in the robot's middle; then R12",
        lambda scene: scan_faults.Same(_topics(scene), 0.0), SCANS,
    ),
    Fault(
        "scan_near", "every ray is at 0.11 m", AT_NEXT_SCAN, "R9 of limits.py: the stop zone",
        lambda scene: scan_faults.Same(_topics(scene), scan_faults.NEAR_M), SCANS,
    ),
    Fault(
        "scan_noise", "every ray is drawn from all that it can be",
        Must(
            During.SLOWS, ticks=GRACE_TICKS + NEXT_SCAN_TICKS, reasons=("zone_stop", "zone_slow", "time_to_contact"),
            checks=(checks.mostly_stands, checks.no_contact), ahead=True,
        ),
        "R9 to R11 of limits.py: it stands before what is near, and creeps where noise leaves a gap",
        lambda scene: scan_faults.Noise(_topics(scene), scene.seed), SCANS,
    ),
    Fault(
        "scan_wrong_length", "half of each scan's ranges are missing", NO_SCAN,
        "laser.py: ranges that do not end where the scan does are none; then R5",
        lambda scene: scan_faults.WrongLength(_topics(scene)), SCANS,
    ),
    Fault(
        "scan_nan", "every ray is NaN", AT_NEXT_SCAN, "laser.py: NaN is no ray; then R12 of limits.py",
        lambda scene: scan_faults.Same(_topics(scene), math.nan), SCANS,
    ),
    Fault(
        "scan_blind_ahead", "the rays ahead are NaN", AT_NEXT_SCAN, "laser.py; then R12 and R20 of limits.py",
        lambda scene: scan_faults.BlindAhead(_topics(scene)), SCANS,
    ),
)  # fmt: skip
