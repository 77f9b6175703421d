"""An IMU over DDS: turned by its frame or the stated rotation; two publishers; what is no rate."""

from __future__ import annotations

import math

import pytest

from onboard.config.config import OdometrySection
from onboard.drivers.dds.participant import Wire, wait_until
from onboard.drivers.dds.robot_link import ImuInput
from onboard.drivers.dds.ros_convert import header, imu_from_ros, ros_imu
from onboard.drivers.dds.ros_types import Quaternion, TFMessage, Transform, TransformStamped, Vector3
from onboard.drivers.dds.topics import imu_source
from onboard.values.geometry import quaternion_from_rpy
from onboard.values.messages import ImuSample
from tests.rigs.network.loopback import SECTION

MS = 1_000_000


def heard(imu: ImuInput, now_ns: int = MS) -> tuple[ImuSample, ...]:
    taken: list[ImuSample] = []
    before = imu.unusable

    def take() -> bool:
        taken.extend(imu.take(now_ns))
        return bool(taken) or imu.unusable > before

    assert wait_until(take, 2.0)
    return tuple(taken)


@pytest.mark.parametrize(
    ("rpy_deg", "frame", "rate"),
    [(None, "base_link", 0.4), ((180.0, 0.0, 90.0), "base_link", -0.4), ((90.0, 0.0, 0.0), "imu", 0.0)],
    ids=["base frame", "upside down", "on its side"],
)
def test_the_rate_is_about_the_bases_axis(wires, rpy_deg, frame, rate):
    imu = ImuInput(wires[0], OdometrySection(imu="/imu", imu_rpy_deg=rpy_deg))
    wires[1].writer(imu_source("/imu")).write(ros_imu(5, frame, 0.4))
    (sample,) = heard(imu)
    assert (sample.stamp_ns, sample.arrival_ns, sample.variance) == (5, MS, None)
    assert sample.yaw_radps == pytest.approx(rate, abs=1e-12)


def test_its_frame_turns_it_once_tf_has_it(wires):
    imu = ImuInput(wires[0], OdometrySection(imu="/imu"))
    writer = wires[1].writer(imu_source("/imu"))
    writer.write(ros_imu(5, "imu_link", 0.4))
    assert heard(imu) == ()
    assert imu.unusable == 1
    over = Transform(Vector3(0.1, 0.0, 0.2), Quaternion(*quaternion_from_rpy(math.pi, 0.0, 0.0)))
    wires[1].writer("tf_static").write(TFMessage([TransformStamped(header(1, "base_link"), "imu_link", over)]))

    def turned() -> bool:
        writer.write(ros_imu(5, "imu_link", 0.4))
        return any(sample.yaw_radps == pytest.approx(-0.4) for sample in imu.take(MS))

    assert wait_until(turned, 2.0)


def test_two_imus_on_one_topic_are_second_publishers(wires):
    imu, third = ImuInput(wires[0], OdometrySection(imu="/imu", imu_rpy_deg=(0.0, 0.0, 0.0))), Wire(SECTION)
    writers = [wire.writer(imu_source("/imu")) for wire in (wires[1], third)]

    def both() -> bool:
        for number, writer in enumerate(writers):
            writer.write(ros_imu(5, f"imu{number}", 0.4))
        imu.take(MS)
        return len(imu.reader.rivals) == 2

    assert wait_until(both, 2.0)
    third.close()


@pytest.mark.parametrize(
    ("rate", "covariance", "variance"),
    [(math.nan, 0.0, None), (math.inf, 0.0, None), (40.0, 0.0, None), (0.4, -1.0, None)],
    ids=["nan", "inf", "too fast", "no gyroscope"],
)
def test_what_is_no_rate_is_left_out(rate, covariance, variance):
    sample = ros_imu(5, "imu", rate)
    sample.angular_velocity_covariance = [covariance] + [0.0] * 8
    assert imu_from_ros(sample, (0.0, 0.0, 1.0), MS) is variance


def test_a_stated_variance_is_that_of_the_axis():
    sample = ros_imu(5, "imu", 0.4)
    sample.angular_velocity_covariance = [1e-4, 0.0, 0.0, 0.0, 2e-4, 0.0, 0.0, 0.0, 3e-4]
    assert imu_from_ros(sample, (0.0, 0.0, -1.0), MS) == ImuSample(5, MS, -0.4, 3e-4)
