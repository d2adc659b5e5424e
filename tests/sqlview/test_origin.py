"""The check that `planner`, `operators` and `sqlview` come from one place, on trees made here."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sqlview import _origin

_CHECK = "import sqlview; print('one place')"


def _make_packages(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).mkdir(parents=True)
        (root / name / "__init__.py").touch()
    return root


def _make_distribution(root: Path, *names: str) -> Path:
    _make_packages(root, *names)
    shutil.copy(_origin.__file__, root / "sqlview")
    (root / "sqlview" / "__init__.py").write_text(
        "from sqlview._origin import check_single_origin\ncheck_single_origin()\n"
    )
    return root


def _check(*search_path: Path, code: str = _CHECK) -> str:
    """What importing sqlview says in a new Python with `search_path` first: stdout or stderr."""
    setup = f"import sys; sys.path[:0] = {[str(path) for path in search_path]!r}\n"
    command = [sys.executable, "-I", "-S", "-B", "-c", setup + code]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stderr if done.returncode else done.stdout.strip()


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    return _make_distribution(tmp_path / "ours", "planner", "operators", "sqlview")


def test_one_place(ours: Path) -> None:
    assert _check(ours) == "one place"


def test_one_place_through_a_link(tmp_path: Path, ours: Path) -> None:
    (tmp_path / "link").symlink_to(ours)
    assert _check(tmp_path / "link", ours) == "one place"
    assert _check(ours, tmp_path / "link") == "one place"


def test_one_zip_archive(tmp_path: Path, ours: Path) -> None:
    # spark-submit --py-files hands packages to executors like this.
    archive = tmp_path / "sqlview.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in ours.rglob("*.py"):
            file.write(path, path.relative_to(ours))
    assert _check(archive) == "one place"


def test_packages_are_not_imported(ours: Path) -> None:
    (ours / "planner" / "__init__.py").write_text("raise SystemExit('planner was imported')")
    assert _check(ours) == "one place"


@pytest.mark.parametrize("name", ["planner", "operators"])
def test_package_of_somebody_else(tmp_path: Path, ours: Path, name: str) -> None:
    theirs = _make_packages(tmp_path / "theirs", name)
    message = _check(theirs, ours)
    assert "ImportError: the packages of sqlview-spark come from different places\n" in message
    assert f'"sqlview" is in {ours}, but "{name}" is found in {theirs}.\n' in message
    assert "Hint: Rename or move your own files of these names" in message


def test_module_of_somebody_else(tmp_path: Path, ours: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "planner.py").touch()
    assert f'"planner" is found in {theirs}.' in _check(theirs, ours)


def test_missing_package(tmp_path: Path) -> None:
    ours = _make_distribution(tmp_path, "planner", "sqlview")
    assert '"operators" is not found.' in _check(ours)


def test_directory_without_init(tmp_path: Path) -> None:
    ours = _make_distribution(tmp_path / "ours", "planner", "sqlview")
    (tmp_path / "theirs" / "operators").mkdir(parents=True)
    assert f'"operators" is found in {tmp_path}/theirs.' in _check(tmp_path / "theirs", ours)


def test_a_tpch_elsewhere_matters_only_to_those_who_ask(tmp_path: Path, ours: Path) -> None:
    theirs = _make_packages(tmp_path / "theirs", "tpch")
    assert _check(theirs, ours) == "one place"
    asking = "from sqlview._origin import check_single_origin as c; c(['planner', 'tpch'])"
    assert f'"tpch" is found in {theirs}.' in _check(theirs, ours, code=asking)


def test_this_very_checkout() -> None:
    _origin.check_single_origin(["planner", "operators", "sqlview", "tpch"])
