"""Inference of the policy: in its own thread on the robot, inline under the simulated clock.

A CUDA context belongs to the thread that made it, and a thread cannot be cancelled. So one thread creates, warms and
runs the policy. No second inference starts before the first has returned.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol, TypeVar

import numpy as np
import structlog

from onboard.policy.contract import NO_ACTION
from onboard.system.threads import INFERENCE_BELOW, step_down
from onboard.values.errors import EngineError
from onboard.values.interfaces import Policy
from onboard.values.messages import BINS, STOP, Decision, Memory, Motion, Observation, Pose, Scan

START_TIMEOUT_S = 60.0
"""Enough to load a model and a cached TensorRT engine; a first build takes longer, see `start`."""
CLOSE_TIMEOUT_S = 2.0

T = TypeVar("T")
log = structlog.get_logger("inference")


@dataclass(frozen=True, slots=True)
class InferenceResult:
    """Result of one submitted observation.

    decision, memory: None when the policy failed
    elapsed_ns:       compute time of the policy, without waiting [ns]
    error:            one line when the policy failed, else ""
    sensed_ns:        the observation's stamp
    submitted_ns, started_ns, finished_ns: times by the given clock [ns]
    """

    number: int
    decision: Decision | None
    memory: Memory | None
    elapsed_ns: int
    error: str = ""
    sensed_ns: int = 0
    submitted_ns: int = 0
    started_ns: int = 0
    finished_ns: int = 0


class Inference(Protocol):
    """Takes one observation at a time and returns its decision later; neither call waits for the network."""

    def submit(self, number: int, observation: Observation, memory: Memory) -> bool:
        """Begin a decision. Return False and do nothing while the previous decision is not finished."""

    def poll(self) -> InferenceResult | None:
        """Return the newest finished result once, or None. A newer result replaces an older one."""

    def close(self) -> None:
        """Release the policy. Safe to call twice."""


@dataclass(frozen=True, slots=True)
class _Job:
    number: int
    observation: Observation
    memory: Memory
    submitted_ns: int


class InlineInference:
    """Computes at `submit`, in the caller's thread: deterministic, for the simulated clock."""

    def __init__(self, policy: Policy, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._policy = policy
        self._now_ns = now_ns
        self._result: InferenceResult | None = None

    def submit(self, number: int, observation: Observation, memory: Memory) -> bool:
        """Compute the decision now; always True."""
        job = _Job(number, observation, memory, self._now_ns())
        self._result = _compute(self._policy, job, self._now_ns)
        return True

    def poll(self) -> InferenceResult | None:
        """Return the result of the last `submit` once."""
        result, self._result = self._result, None
        return result

    def close(self) -> None:
        """Close the policy."""
        self._policy.close()


class InferenceThread:
    """One thread that creates, warms and runs the policy."""

    def __init__(self, make_policy: Callable[[], Policy], now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._make_policy = make_policy
        self._now_ns = now_ns
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = threading.Event()
        self._idle.set()
        self._closed = False
        self._result: InferenceResult | None = None
        self._ready = threading.Event()
        self._failure = ""
        self._policy: Policy | None = None
        # A daemon thread: an inference that hangs in the driver must not block the end of the process.
        self._thread = threading.Thread(target=self._run, name="inference", daemon=True)

    def begin(self) -> None:
        """Begin to create and warm the policy, without waiting; `start` waits for it. Safe to call twice."""
        if self._thread.ident is None:
            self._thread.start()

    def start(self, timeout_s: float = START_TIMEOUT_S) -> Policy:
        """Create and warm the policy; return it for its name and `initial_memory`, which any thread may use.

        Raises EngineError when the policy fails or is not ready in time. A first TensorRT build takes minutes: run
        `onboard-engines build` before.
        """
        self.begin()
        if not self._ready.wait(timeout_s):
            self.close(timeout_s=0.0)
            raise EngineError(f"the policy was not ready within {timeout_s:g} s")
        if self._policy is None:
            raise EngineError(self._failure)
        return self._policy

    def submit(self, number: int, observation: Observation, memory: Memory) -> bool:
        """Pass one observation to the thread; False while the thread is busy or has ended."""
        with self._lock:
            if not self._idle.is_set() or self._closed or self._policy is None:
                return False
            self._idle.clear()
        self._jobs.put(_Job(number, observation, memory, self._now_ns()))
        return True

    def poll(self) -> InferenceResult | None:
        """Return the newest finished result once, or None."""
        with self._lock:
            result, self._result = self._result, None
        return result

    def wait(self, timeout_s: float) -> bool:
        """Wait until the thread is idle; return False on timeout. Not for the control loop."""
        return self._idle.wait(timeout_s)

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Let the thread close its policy and end; a hanging thread is abandoned and logged. Safe to call twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._jobs.put(None)
        if self._thread.ident is None:
            return
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            log.warning("inference_left_behind", waited_s=timeout_s)

    def _run(self) -> None:
        step_down(INFERENCE_BELOW)  # before the policy is made: the engine's own threads inherit it
        policy, self._failure = _outcome(self._made_and_warm)
        self._policy = policy
        self._ready.set()
        if policy is None:
            return
        while (job := self._jobs.get()) is not None:
            result = _compute(policy, job, self._now_ns)
            with self._lock:
                self._result = result
                self._idle.set()
        _, failure = _outcome(policy.close)
        if failure:
            log.warning("policy_close_failed", error=failure)

    def _made_and_warm(self) -> Policy:
        policy = self._make_policy()
        policy.decide(blank_observation(), policy.initial_memory())
        return policy


def _compute(policy: Policy, job: _Job, now_ns: Callable[[], int]) -> InferenceResult:
    """Return the result of one job; `error` holds a failure of the policy."""
    started_ns = now_ns()
    decided, error = _outcome(lambda: policy.decide(job.observation, job.memory))
    finished_ns = now_ns()
    decision, memory = decided if decided is not None else (None, None)
    return InferenceResult(
        job.number,
        decision,
        memory,
        finished_ns - started_ns,
        error,
        job.observation.stamp_ns,
        job.submitted_ns,
        started_ns,
        finished_ns,
    )


def _outcome(call: Callable[[], T]) -> tuple[T | None, str]:
    """Return (value, "") or (None, error line): here an exception becomes a value that the tick judges."""
    try:
        return call(), ""
    except Exception as error:  # noqa: BLE001 - any error of a vendor's library must reach the tick, which stops
        lines = str(error).splitlines()
        return None, lines[0] if lines else type(error).__name__


def blank_observation() -> Observation:
    """Return an observation of free space, a metre before the goal, to warm a policy."""
    rest = Motion(Pose(0.0, 0.0, 0.0), STOP)
    nothing = Scan(0, np.full(BINS, np.inf, np.float32), np.ones(BINS, np.bool_))
    return Observation(
        stamp_ns=0,
        color=None,
        scan=nothing,
        odometry=rest,
        localization=None,
        localization_age_ns=None,
        filtered=rest,
        goal_xy_m=(1.0, 0.0),
        previous_action=NO_ACTION,
    )
