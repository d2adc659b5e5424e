"""The artifact of Spark's own SQL tests, which is fetched once and not kept in the repository: the
queries of TPC-DS, and what Spark answers to its test queries."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

#: The newest artifact that has been tried.
VERSION = "4.2.0"
_JAR = Path(__file__).parents[1] / "build" / "spark" / f"spark-sql_2.13-{VERSION}-tests.jar"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


class Missing(Exception):
    """The artifact cannot be had here."""


@cache
def jar() -> Path:
    """The artifact; fetched by Maven where it is not there yet. Raises: Missing."""
    if _JAR.exists():
        return _JAR
    if shutil.which("mvn") is None:
        raise Missing("there is no mvn here, which fetches the artifact of Spark's SQL tests")
    command = ["mvn", "-q", "-B", _COPY, f"-DoutputDirectory={_JAR.parent}"]
    command.append(f"-Dartifact=org.apache.spark:spark-sql_2.13:{VERSION}:jar:tests")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not _JAR.exists():
        raise Missing(f"mvn cannot fetch {_JAR.name}: {(done.stdout + done.stderr)[-300:]}")
    return _JAR
