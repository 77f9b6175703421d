"""Starts, watches, kills and restarts the child process that captures one camera.

The child (`child.py`) writes frames into shared memory; `newest` takes the last frame and never waits. `supervise`
starts the child, and kills it if it hangs or gives no frames. The pause before a restart doubles with every attempt.
Until it receives frames again the camera is blind, and `reason` gives the cause.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

import structlog

from onboard.drivers.realsense.device import CHILD_COMMAND, Source, frame_form, parse_line
from onboard.drivers.realsense.shared_memory import FrameSlots, SharedFrame
from onboard.system.threads import CAMERAS_BELOW, lower
from onboard.values import reasons
from onboard.values.images import covered
from onboard.values.messages import CameraHealth, ColorFrame, DepthFrame
from onboard.values.reasons import NO_REASON

PIPE_BYTES = 65536


class ChildProcess:
    """One run of the child, and how it ended.

    progress_ns:    time of the start or of the newest frame
    first_frame_ns: time of the first frame, None before
    info:           the stream's properties
    fault:          "" or an error that a restart would not remove
    complete:       the recording ended
    killed:         killed by the supervisor; the process may still exist
    """

    def __init__(self, command: Sequence[str], fd: int, number: int, now_ns: int) -> None:
        """Start the child with the shared memory's descriptor; `number`: newest frame so far. Raises OSError."""
        self._pipe, child_end = os.pipe()
        os.set_blocking(self._pipe, False)
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=child_end,
                stderr=subprocess.STDOUT,
                pass_fds=(fd,),
                start_new_session=True,  # a Ctrl-C is for the parent, which stops the robot first
            )
        except OSError:
            os.close(self._pipe)
            raise
        finally:
            os.close(child_end)
        self.progress_ns = now_ns
        self.first_frame_ns: int | None = None
        self.info: dict[str, Any] = {}
        self.fault = ""
        self.complete = False
        self.killed = False
        self._number = number
        self._cause = ""
        self._last_words = ""
        self._rest = b""

    def hear(self) -> None:
        """Handle the child's output since the last call, without waiting."""
        try:
            while chunk := os.read(self._pipe, PIPE_BYTES):
                self._rest += chunk
        except BlockingIOError:
            pass
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            self._note(line.decode(errors="replace"))

    def saw(self, number: int, now_ns: int) -> float:
        """Note the newest frame's number; return how long this child has given frames [s]."""
        if number != self._number:
            self._number, self.progress_ns = number, now_ns
            self.first_frame_ns = now_ns if self.first_frame_ns is None else self.first_frame_ns
        return 0.0 if self.first_frame_ns is None else (self.progress_ns - self.first_frame_ns) / 1e9

    def kill(self, cause: str) -> None:
        """Kill the child without waiting for its end."""
        self.killed, self._cause = True, cause
        self.process.kill()

    def cause(self) -> str:
        """Return why the child ended."""
        code = self.process.returncode
        how = f"killed by signal {-code}" if code < 0 else f"ended with code {code}"
        return self._cause or (f"{how}: {self._last_words}" if self._last_words else how)

    def end(self, limit_s: float) -> None:
        """Ask the child to stop, kill it after `limit_s`, and close its pipe."""
        self.process.terminate()
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill("closed")
            with suppress(subprocess.TimeoutExpired):  # a process stuck within the kernel dies when that lets go
                self.process.wait(limit_s)
        self.release()

    def release(self) -> None:
        """Close the pipe."""
        os.close(self._pipe)

    def _note(self, line: str) -> None:
        event = parse_line(line)
        if event is None:
            self._last_words = line.strip() or self._last_words
        elif event["event"] == "started":
            self.info = event["info"]
        elif event["event"] == "ended":
            self.complete = True
        elif event.get("kind") in ("input", "missing"):
            self.fault = event["text"]
        elif event["event"] == "error":
            self._cause = event["text"]


START_LIMIT_S = 20.0
"""From the start of the child to its first frame: interpreter, bus, a reset of the camera."""
CLOSE_LIMIT_S = 2.0
"""Time for a child to stop its camera before it is killed."""
WATCH_PERIOD_S = 0.1
RESET_FROM_ATTEMPT = 3
"""From this attempt on, a live camera is reset first."""
DOUBLINGS = 30
"""Limit against overflow; the longest pause is reached earlier."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeouts of a camera [s].

    stale_s:   age beyond which a frame is not used
    stall_s:   time without a new frame after which the child is killed
    start_s:   the same before the first frame
    backoff_s: pause before the first restart, and the longest pause; frames for longer reset the attempts
    """

    stale_s: float
    stall_s: float
    backoff_s: tuple[float, float]
    start_s: float = START_LIMIT_S


class CameraProcess:
    """One camera's child process, its shared memory, and its state.

    `newest` may run in another thread than `supervise`; each of the two in one thread at a time.
    """

    def __init__(self, source: Source, patience: Patience, command: Sequence[str] = CHILD_COMMAND) -> None:
        """Prepare; the child starts with the first `supervise`. `command` replaces the child's program in tests."""
        self.source = source
        self.reason = reasons.CAMERA_NOT_STARTED.say()
        self.info: dict[str, Any] = {}
        self._patience = patience
        self._command = tuple(command)
        self._slots = FrameSlots.create(f"frames-{source.camera}", *frame_form(source))
        self._frame: SharedFrame | None = None
        self._child: ChildProcess | None = None
        self._frames_at_close = 0
        self._starts = 0
        self._attempt = 0
        self._retry_ns: int | None = None
        self._over = False
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def frames(self) -> int:
        """Frames captured so far by all children."""
        return self._frames_at_close if self._slots.fd < 0 else self._slots.newest_number()

    @property
    def restarts(self) -> int:
        """Starts after the first."""
        return max(0, self._starts - 1)

    @property
    def pid(self) -> int | None:
        """The child's process id; None while there is none."""
        child = self._child
        return None if child is None else child.process.pid

    def newest(self, now_ns: int) -> SharedFrame | None:
        """Return the newest frame, the same object until a newer comes; None if it is stale or the child is down."""
        child = self._child
        if self._done.is_set() or child is None or child.killed:
            return None
        if child.process.poll() is not None:
            if self._child is child:
                self.reason = reasons.CAMERA_ENDED.say()
            return None
        if self._frame is None or self._slots.newest_number() != self._frame.number:
            self._frame = self._slots.read() or self._frame
        if self._frame is None:
            return None
        age_s = (now_ns - self._frame.stamp_ns) / 1e9
        if age_s > self._patience.stale_s:
            self.reason = reasons.CAMERA_SILENT.say(silent_s=age_s)
            return None
        return self._frame

    def supervise(self, now_ns: int) -> None:
        """Start the child, read its output, kill it, or handle its end, whatever is due. Waits only for a fork."""
        if self._done.is_set() or self._over:
            return
        child = self._child
        if child is None:
            if self._retry_ns is None or now_ns >= self._retry_ns:
                self._start(now_ns)
            return
        ended = child.process.poll() is not None
        child.hear()
        self.info = child.info or self.info
        if ended:
            self._after(child, now_ns)
        elif not child.killed:
            self._judge(child, now_ns)

    def watch(self, clock: Callable[[], int] = time.monotonic_ns, period_s: float = WATCH_PERIOD_S) -> None:
        """Supervise from a thread until `close`; the child dies with that thread."""

        def run() -> None:
            try:
                while not self._done.is_set():
                    self.supervise(clock())
                    self._done.wait(period_s)
            finally:
                self._end_child()

        self._thread = threading.Thread(target=run, name=f"watch-{self.source.camera}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the child within CLOSE_LIMIT_S, or kill it, and free the memory. Safe to call twice."""
        if self._slots.fd < 0:
            return
        self._done.set()
        if self._thread is None:
            self._end_child()
        else:
            self._thread.join()
        self.reason = reasons.CAMERA_CLOSED.say()
        self._frames_at_close = self._slots.newest_number()
        self._slots.close()

    def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end(CLOSE_LIMIT_S)

    def _start(self, now_ns: int) -> None:
        self._starts += 1
        number = self._slots.newest_number()
        order = {
            "source": asdict(self.source),
            "fd": self._slots.fd,
            "first_number": number + 1,
            "reset": not self.source.recording and self._attempt >= RESET_FROM_ATTEMPT,
            "parent_pid": os.getpid(),
        }
        command = (*lower(CAMERAS_BELOW), *self._command, "capture", json.dumps(order))
        try:
            self._child = ChildProcess(command, self._slots.fd, number, now_ns)
        except OSError as error:
            self._back_off(f"process cannot be started: {error.strerror}", now_ns)
            return
        self.reason = (
            reasons.CAMERA_RESTARTING.say(attempt=self._attempt, cause="")
            if self._attempt
            else reasons.CAMERA_STARTING.say()
        )

    def _judge(self, child: ChildProcess, now_ns: int) -> None:
        """Kill a child without frames; reset the attempts after a long run with frames."""
        if child.saw(self._slots.newest_number(), now_ns) > self._patience.backoff_s[1]:
            self._attempt = 0
        silent_s = (now_ns - child.progress_ns) / 1e9
        limit_s = self._patience.start_s if child.first_frame_ns is None else self._patience.stall_s
        if silent_s > limit_s:
            child.kill(reasons.CAMERA_SILENT.say(silent_s=silent_s))
            self.reason = reasons.CAMERA_KILLED.say(silent_s=silent_s)

    def _after(self, child: ChildProcess, now_ns: int) -> None:
        """Handle a child's end. A recording's end and an input fault are final."""
        child.release()
        self._child = None
        if child.fault or child.complete:
            self.reason = (
                reasons.CAMERA_RECORDING_FAILED.say(why=child.fault)
                if child.fault
                else reasons.CAMERA_RECORDING_ENDED.say(frames=self.frames)
            )
            self._over = True
            log.warning("camera_ended", camera=self.source.camera, reason=self.reason)
        else:
            self._back_off(child.cause(), now_ns)

    def _back_off(self, cause: str, now_ns: int) -> None:
        first_s, longest_s = self._patience.backoff_s
        pause_s = min(first_s * 2 ** min(self._attempt, DOUBLINGS), longest_s)
        self._attempt += 1
        self._retry_ns = now_ns + round(pause_s * 1e9)
        self.reason = reasons.CAMERA_RESTARTING.say(attempt=self._attempt, cause=f": {cause}")
        log.warning("camera_down", camera=self.source.camera, cause=cause, attempt=self._attempt, pause_s=pause_s)


# ---- Cameras as the runtime sees them

FrameT = TypeVar("FrameT", DepthFrame, ColorFrame)


class _Capture(Generic[FrameT]):
    """A camera whose frames a process of its own captures."""

    def __init__(self, process: CameraProcess) -> None:
        """Take over `process`, which `close` closes."""
        self.process = process
        self._working = False
        self._newest: FrameT | None = None

    def latest(self, now_ns: int) -> FrameT | None:
        """Return the newest usable frame, or None while the camera is blind (see `health`). Never waits."""
        frame = self.process.newest(now_ns)
        self._working = frame is not None and self._is_usable(frame)
        if frame is None or not self._working:
            return None
        if self._newest is None or self._newest.number != frame.number:
            self._newest = self._frame(frame)
        return self._newest

    def health(self) -> CameraHealth:
        """Return the state at the last `latest`."""
        return CameraHealth(
            camera=self.process.source.camera,
            working=self._working,
            reason=NO_REASON if self._working else self.process.reason,
            frames=self.process.frames,
            restarts=self.process.restarts,
            detail=self.process.info,
        )

    def close(self) -> None:
        """Stop or kill the process. Safe to call twice."""
        self._working = False
        self.process.close()

    def _is_usable(self, frame: SharedFrame) -> bool:
        return True

    def _frame(self, frame: SharedFrame) -> FrameT:
        raise NotImplementedError


class CaptureCamera(_Capture[DepthFrame]):
    """`interfaces.DepthCamera` over a camera's process. A covered lens, with too few valid pixels, is blind."""

    def __init__(self, process: CameraProcess) -> None:
        """Take over `process`, which `close` closes."""
        super().__init__(process)
        self.name = process.source.camera

    def _is_usable(self, frame: SharedFrame) -> bool:
        reason = covered(frame.valid_pixels, frame.image.size)
        self.process.reason = reason or self.process.reason
        return not reason

    def _frame(self, frame: SharedFrame) -> DepthFrame:
        return DepthFrame(self.name, frame.number, frame.stamp_ns, frame.image)


class CaptureColorCamera(_Capture[ColorFrame]):
    """`interfaces.ColorCamera` over a camera's process, which scales each image to the policy's size."""

    def _frame(self, frame: SharedFrame) -> ColorFrame:
        return ColorFrame(frame.number, frame.stamp_ns, frame.image)
