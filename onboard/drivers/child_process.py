"""One run of a camera's program: its process, what it says on its pipe, and whether its frames move on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from onboard.drivers.realsense import parse_line

PIPE_BYTES = 65536


class ChildProcess:
    """The child while it runs, and how it ended.

    progress_ns:    when its start or newest frame was noted; first_frame_ns: likewise its first, None before
    info:           what it said of its stream
    fault:          "" or an error that another try would meet again; complete: it came to a recording's end
    killed:         from here; it may still be dying
    """

    def __init__(self, command: Sequence[str], fd: int, number: int, now_ns: int) -> None:
        """Start it, with the shared memory's descriptor; `number` is the newest frame's there. Raises OSError."""
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
        """Take what it said since the last call, without waiting."""
        try:
            while chunk := os.read(self._pipe, PIPE_BYTES):
                self._rest += chunk
        except BlockingIOError:
            pass
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            self._note(line.decode(errors="replace"))

    def saw(self, number: int, now_ns: int) -> float:
        """Note the newest frame's number; return for how long this child has given frames [s]."""
        if number != self._number:
            self._number, self.progress_ns = number, now_ns
            self.first_frame_ns = now_ns if self.first_frame_ns is None else self.first_frame_ns
        return 0.0 if self.first_frame_ns is None else (self.progress_ns - self.first_frame_ns) / 1e9

    def kill(self, cause: str) -> None:
        """Kill it without waiting for its end."""
        self.killed, self._cause = True, cause
        self.process.kill()

    def cause(self) -> str:
        """Return why it ended."""
        code = self.process.returncode
        how = f"killed by signal {-code}" if code < 0 else f"ended with code {code}"
        return self._cause or (f"{how}: {self._last_words}" if self._last_words else how)

    def end(self, limit_s: float) -> None:
        """Ask it to stop, kill it after `limit_s`, and release what it held here."""
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
