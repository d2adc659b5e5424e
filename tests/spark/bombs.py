"""What kills a process in the middle of its work, once. Tasks get it by value: executors have the
package, but not the tests."""

from __future__ import annotations

import functools
import os
import signal
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

VICTIMS = ("task", "executor", "driver", "driver and Spark")


@dataclass(frozen=True, slots=True)
class Bomb:
    """Kills `victim` in the call number `nth`, from 1 on, of `target`, "module:name", in whatever
    process that is: before it, or `after` it. `counter`: a file that is there, whose bytes count
    the calls; without it nothing happens. `driver`: the driver's process. `spark`: the JVM that it
    works with, whose session of the operating system has the executors.

    Of a call in a task, the task is its own process, and the executor the JVM that began that; of
    one in the driver, the executor is any. A driver alone dies as one does that somebody else's
    Spark runs jobs for, which go on.
    """

    counter: str
    target: str
    after: bool
    nth: int
    victim: str
    driver: int
    spark: int

    def arm(self) -> None:
        """See to it in this process, instead of one before. Raises: AttributeError if there is no
        such target."""
        self.disarm()
        call = self.find()

        @functools.wraps(call)
        def armed(*given: Any, **named: Any) -> Any:
            if not self.after:
                self.tick()
            result = call(*given, **named)
            if self.after:
                self.tick()
            return result

        armed.unarmed = call  # type: ignore[attr-defined]
        setattr(*self._place(), armed)

    def disarm(self) -> None:
        """Have the target as it is in the package."""
        found = self.find()
        setattr(*self._place(), getattr(found, "unarmed", found))

    def find(self) -> Any:
        """The target, as it is now."""
        return getattr(*self._place())

    def _place(self) -> tuple[Any, str]:
        module, _, name = self.target.partition(":")
        *path, last = name.split(".")
        return functools.reduce(getattr, path, import_module(module)), last

    def tick(self) -> None:
        """One call more."""
        try:
            file = os.open(self.counter, os.O_WRONLY | os.O_APPEND)
        except FileNotFoundError:
            return
        try:
            os.write(file, b".")
            calls = os.lseek(file, 0, os.SEEK_CUR)
        finally:
            os.close(file)
        if calls == self.nth:
            self._kill()

    def _kill(self) -> None:
        in_driver = os.getpid() == self.driver
        if self.victim.startswith("driver"):
            if self.victim != "driver":
                os.kill(self.spark, signal.SIGKILL)
            os.kill(self.driver, signal.SIGKILL)
        elif self.victim == "executor":
            os.kill(self._an_executor() if in_driver else _parent(os.getppid()), signal.SIGKILL)
        else:
            assert not in_driver, "there is no task"
            os._exit(1)

    def _an_executor(self) -> int:
        for process in processes(self.spark):
            if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{process}/cmdline").read_bytes():
                return process
        raise AssertionError("there is no executor")


def processes(session: int) -> list[int]:
    """Those of a session of the operating system."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = Path(f"/proc/{name}/stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            state, _, _, its = stat.rsplit(")", 1)[1].split()[:4]
            if int(its) == session and state != "Z":
                found.append(int(name))
    return found


def _parent(process: int) -> int:
    """A task's process is a child of the daemon, which is a child of the executor."""
    return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
