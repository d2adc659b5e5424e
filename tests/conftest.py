"""What all tests share: goldens (`--bless`), one Spark session, engines, hypothesis profiles."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.collisions import colliding
from tests.harness import Checked

if "SQLVIEW_CACHE" not in os.environ:  # before Spark starts, whose tasks have it too
    os.environ["SQLVIEW_CACHE"] = tempfile.mkdtemp(prefix="sqlview-cache-")
    atexit.register(shutil.rmtree, os.environ["SQLVIEW_CACHE"], ignore_errors=True)

settings.register_profile(
    "ci",
    derandomize=True,
    max_examples=25,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", max_examples=50, deadline=None, print_blob=True)
settings.register_profile("fuzz", max_examples=5_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bless", action="store_true", help="rewrite goldens from this run")
    parser.addoption(
        "--hash-bits", type=int, help="run with keys that collide: see tests/collisions.py"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "spark: needs a Spark session (Java), slower")
    if config.getoption("--bless") and os.environ.get("CI"):
        raise pytest.UsageError("--bless is refused where CI is set: goldens are reviewed first")


def pytest_report_header() -> str:
    return f"hypothesis profile: {settings.get_current_profile_name()}"


@pytest.fixture(scope="session", autouse=True)
def _hash_bits(request: pytest.FixtureRequest) -> Iterator[None]:
    bits = request.config.getoption("--hash-bits")
    if bits is None:
        yield
        return
    with colliding(bits) as found:
        yield
    print(f"\nkeys of {bits} bits that collided: {dict(found)}")
    assert found, "nothing collided"


@pytest.fixture
def bless(request: pytest.FixtureRequest) -> bool:
    """Whether goldens are to be rewritten instead of compared."""
    return bool(request.config.getoption("--bless"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The one Spark session of the suite, started by the first test that asks for it.

    local[2,4]: two cores, and tasks are tried up to four times (plain local[2] never retries).
    """
    from sqlview import start_spark

    session = start_spark("local[2,4]")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    yield session
    session.stop()


@pytest.fixture(params=["inline", pytest.param("spark", marks=pytest.mark.spark)])
def placement(request: pytest.FixtureRequest) -> str:
    """Both executors: a behaviour test that asks for this runs on each."""
    return str(request.param)


Connect = Callable[..., Checked]


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """A factory of checked sessions, closed after the test.

    `connect(placement=…, share=…, form=…)`; placement inline unless told. The spark session is
    started only for placement spark.
    """
    made: list[Checked] = []

    def factory(placement: str = "inline", share: bool = True, form: str = "mixed") -> Checked:
        import sqlview

        spark = request.getfixturevalue("spark") if placement == "spark" else None
        db = sqlview.connect(spark=spark, placement=placement, share=share)
        made.append(Checked(db, form=form))
        return made[-1]

    yield factory
    disputes = [str(d) for checked in made for d in checked.disputes]
    for checked in made:
        checked.close()
    assert not disputes, "DuckDB contradicts itself: take another case\n" + "\n".join(disputes)
