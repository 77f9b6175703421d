"""One inference at a time, in the thread that made the policy; failures arrive as results. Events, never sleeps."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from structlog.testing import capture_logs

from onboard.policy.inference import InferenceResult, InferenceThread, InlineInference
from onboard.values.errors import EngineError
from onboard.values.messages import Decision, Memory, Observation
from tests.rigs.devices.small_model import observation

WAIT_S = 10.0
"""How long a test waits for an event that comes at once unless something is wrong."""
MEMORY = np.zeros((2, 3), np.float32)


class GatedPolicy:
    """Decides when the test lets it; the action is the number of decisions before, the memory counts them.

    It fails when the observation's goal is farther than a kilometre.
    """

    name = "gated"

    def __init__(self) -> None:
        self.made_in = threading.get_ident()
        self.decided_in: list[int] = []
        self.closed_in = 0
        self.entered = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)

    def initial_memory(self) -> Memory:
        return MEMORY

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        self.decided_in.append(threading.get_ident())
        self.entered.release()
        if not self.gate.acquire(timeout=WAIT_S):
            raise TimeoutError("the test forgot to open the gate")
        if observation.goal_xy_m[0] > 1000.0:
            raise ZeroDivisionError("first line\nsecond line")
        return Decision(len(self.decided_in) - 1, np.zeros(28, np.float32)), memory + 1.0

    def close(self) -> None:
        self.closed_in = threading.get_ident()


class Made:
    """A started thread and the policy that it made, warmed."""

    def __init__(self) -> None:
        self.policies: list[GatedPolicy] = []
        self.inference = InferenceThread(self._make)
        self.inference.start(WAIT_S)
        self.policy = self.policies[0]
        assert self.policy.entered.acquire(timeout=WAIT_S)

    def _make(self) -> GatedPolicy:
        policy = GatedPolicy()
        policy.gate.release()  # for the warm-up
        self.policies.append(policy)
        return policy

    def finish_one(self) -> InferenceResult:
        """Let the running decision end and return its result."""
        assert self.policy.entered.acquire(timeout=WAIT_S)
        self.policy.gate.release()
        return await_result(self.inference)


def await_result(inference: InferenceThread) -> InferenceResult:
    """Return the result of the running decision."""
    assert inference.wait(WAIT_S)
    result = inference.poll()
    assert result is not None
    return result


@pytest.fixture
def made():
    made = Made()
    yield made
    made.policy.gate.release(10)
    made.inference.close()


def test_one_thread_makes_warms_runs_and_closes_the_policy(made):
    made.inference.submit(1, observation(), MEMORY)
    made.finish_one()
    made.inference.close()
    threads = {made.policy.made_in, made.policy.closed_in, *made.policy.decided_in}
    assert len(threads) == 1
    assert threads != {threading.get_ident()}


def test_no_second_inference_starts_before_the_first_returned(made):
    assert made.inference.submit(1, observation(), MEMORY)
    assert made.policy.entered.acquire(timeout=WAIT_S)
    assert not made.inference.submit(2, observation(), MEMORY)
    assert made.inference.poll() is None
    made.policy.gate.release()
    assert await_result(made.inference).number == 1
    assert made.inference.poll() is None
    assert len(made.policy.decided_in) == 2  # the warm-up and the first


def test_a_late_result_is_replaced_by_the_next(made):
    for number in (1, 2):
        assert made.inference.submit(number, observation(), MEMORY)
        assert made.policy.entered.acquire(timeout=WAIT_S)
        made.policy.gate.release()
        assert made.inference.wait(WAIT_S)
    result = made.inference.poll()
    assert result is not None
    assert result.number == 2
    assert made.inference.poll() is None


def test_a_result_holds_decision_memory_and_times(made):
    made.inference.submit(7, replace(observation(), stamp_ns=123), MEMORY)
    result = made.finish_one()
    assert (result.number, result.error, result.sensed_ns) == (7, "", 123)
    assert result.decision is not None
    assert result.decision.action == 1
    np.testing.assert_array_equal(result.memory, MEMORY + 1.0)
    assert result.submitted_ns <= result.started_ns <= result.finished_ns
    assert result.elapsed_ns == result.finished_ns - result.started_ns


def test_a_failure_arrives_as_one_line_and_the_thread_goes_on(made):
    made.inference.submit(1, replace(observation(), goal_xy_m=(2000.0, 0.0)), MEMORY)
    failed = made.finish_one()
    assert (failed.decision, failed.memory, failed.error) == (None, None, "first line")
    made.inference.submit(2, observation(), MEMORY)
    assert made.finish_one().error == ""


def test_closing_twice_is_safe_and_nothing_is_taken_afterwards(made):
    made.inference.close()
    made.inference.close()
    assert not made.inference.submit(1, observation(), MEMORY)


def test_closing_does_not_wait_for_an_inference_that_hangs(made):
    made.inference.submit(1, observation(), MEMORY)
    assert made.policy.entered.acquire(timeout=WAIT_S)
    made.inference.close(timeout_s=0.0)
    assert made.policy.closed_in == 0


def test_a_policy_is_made_while_the_caller_does_something_else():
    making = threading.Event()

    def make() -> GatedPolicy:
        making.set()
        raise EngineError("made")

    inference = InferenceThread(make)
    inference.begin()
    assert making.wait(WAIT_S), "before anybody waits for it"
    inference.begin()
    with pytest.raises(EngineError, match="made"):
        inference.start(WAIT_S)


def test_a_policy_that_cannot_be_made_fails_at_start():
    def make() -> GatedPolicy:
        raise EngineError("model.onnx: no such file")

    with pytest.raises(EngineError, match=r"model\.onnx: no such file"):
        InferenceThread(make).start(WAIT_S)


def test_a_policy_that_is_not_ready_in_time_fails_at_start():
    release = threading.Event()

    def make() -> GatedPolicy:
        release.wait(WAIT_S)
        raise EngineError("too late to matter")

    with pytest.raises(EngineError, match=r"not ready within 0\.01 s"):
        InferenceThread(make).start(0.01)
    release.set()


def test_inline_computes_at_submit_by_the_clock_given():
    policy = GatedPolicy()
    policy.gate.release(2)
    inline = InlineInference(policy, now_ns=lambda: 5)
    assert inline.poll() is None
    assert inline.submit(1, observation(), MEMORY)
    result = inline.poll()
    assert result is not None
    assert (result.number, result.elapsed_ns, result.started_ns) == (1, 0, 5)
    assert inline.poll() is None
    inline.submit(2, replace(observation(), goal_xy_m=(2000.0, 0.0)), MEMORY)
    failed = inline.poll()
    assert failed is not None
    assert failed.error == "first line"
    inline.close()
    assert policy.closed_in == threading.get_ident()


def test_a_policy_that_fails_to_close_is_logged(made):
    def fail() -> None:
        raise RuntimeError("the device is gone")

    made.policy.close = fail
    with capture_logs() as events:
        made.inference.close()
    assert [(event["event"], event["error"]) for event in events] == [("policy_close_failed", "the device is gone")]
