"""`python -m tests.spark.deployed [--job DIRECTORY]`: the job of the README's "On a cluster", of an
environment that is packed as it says, on a standalone Spark with two workers on this machine, which
see nothing else of the project; then another application that reads a view of its store.

It takes minutes, and a gigabyte, to install the environment. `--job`: one that is there, with
`environment.tar.gz` and the link `environment` beside it. Exit code 1 if anything fails.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from sqlview.java import ensure_java
from tests.spark.bombs import processes

ROOT = Path(__file__).parents[2]
_HOST = "127.0.0.1"
_SECONDS = 900.0

#: Reads a view, and says by which Python, and which copy of the package, tasks did.
READER = """
import json, sys
from pyspark.sql import SparkSession
from sqlview.datasource import SqlViewDataSource

spark = SparkSession.builder.getOrCreate()
spark.dataSource.register(SqlViewDataSource)
rows = spark.read.format("sqlview").option("store", sys.argv[1]).load("q03").collect()

def where(batches):
    import os, sqlview, sys
    import pyarrow as pa
    for batch in batches:
        found = [json.dumps([sys.executable, sqlview.__file__])] * batch.num_rows
        yield pa.RecordBatch.from_arrays([pa.array(found)], ["found"])

found = spark.range(0, 8, 1, 8).mapInArrow(where, "found string").distinct().collect()
spark.stop()
print(json.dumps({"rows": len(rows), "found": [json.loads(row.found) for row in found]}))
"""


def install(directory: Path) -> Path:
    """The environment of the README, and its archive beside it."""
    job = directory / "job"
    for command in (
        [sys.executable, "-m", "venv", "job"],
        ["job/bin/pip", "install", "--quiet", f"{ROOT}[tpch]", "venv-pack"],
        ["job/bin/python", "-I", "-m", "operators.kernels", "--portable"],
        ["job/bin/venv-pack", "--quiet", "-p", "job", "-o", "environment.tar.gz"],
        ["ln", "-s", "job", "environment"],
    ):
        subprocess.run(command, cwd=directory, check=True)
    return job


@contextmanager
def cluster(job: Path, directory: Path) -> Iterator[str]:
    """The URL of a standalone master with two workers, which know nothing of the project."""
    with socket.socket() as free:
        free.bind((_HOST, 0))
        port = free.getsockname()[1]
    url = f"spark://{_HOST}:{port}"
    kept = ("HOME", "LANG", "JAVA_HOME")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment |= {"PATH": "/usr/bin:/bin", "SPARK_LOCAL_IP": _HOST}
    spark = next(job.glob("lib/python*/site-packages/pyspark"))
    start = [str(spark / "bin" / "spark-class")]
    deploy = "org.apache.spark.deploy"
    commands = [
        [
            *start,
            f"{deploy}.master.Master",
            "--host",
            _HOST,
            "--port",
            str(port),
            "--webui-port",
            "0",
        ]
    ]
    commands += [
        [
            *start,
            f"{deploy}.worker.Worker",
            "--host",
            _HOST,
            "--cores",
            "1",
            "--memory",
            "1g",
            "--webui-port",
            "0",
            "--work-dir",
            str(directory / f"worker-{i}"),
            url,
        ]
        for i in range(2)
    ]
    with ExitStack() as started:
        log = started.enter_context((directory / "cluster.log").open("w"))
        for command in commands:
            process = subprocess.Popen(
                command, cwd=directory, env=environment, stderr=log, start_new_session=True
            )
            started.callback(end, process)
        until = time.monotonic() + _SECONDS
        while (directory / "cluster.log").read_text().count("Successfully registered with") < 2:
            assert time.monotonic() < until, (directory / "cluster.log").read_text()[-4000:]
            time.sleep(0.2)
        yield url


def end(process: subprocess.Popen[bytes]) -> None:
    """End it, with the executors that it started."""
    for left in processes(process.pid):
        with suppress(ProcessLookupError):
            os.kill(left, signal.SIGKILL)
    process.wait()


def submit(job: Path, url: str, *arguments: str) -> str:
    """What an application printed that was submitted as the README says."""
    environment = os.environ | {
        "PATH": os.pathsep.join([str(job / "bin"), os.environ["PATH"]]),
        "PYSPARK_DRIVER_PYTHON": "python",
        "PYSPARK_PYTHON": "./environment/bin/python",
        "SPARK_LOCAL_IP": _HOST,
    }
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [
            "spark-submit", "--master", url, "--archives", "environment.tar.gz#environment",
            "--conf", "spark.ui.enabled=false", *arguments,
        ],
        cwd=job.parent, env=environment, stdout=subprocess.PIPE, text=True, check=False,
        timeout=_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, f"{arguments[0]} ended with {done.returncode}: {done.stdout}"
    return done.stdout


def main(job: Path | None) -> None:
    ensure_java()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        job = install(directory) if job is None else job.absolute()
        with cluster(job, directory) as url:
            store, figures = directory / "views", directory / "figures.json"
            submit(
                job, url, str(ROOT / "tpch/jobs/stream_views.py"), "--sf", "0.01",
                "--queries", "q03,q05", "--changes", "9000", "--batch-rows", "3000",
                "--placement", "spark", "--store", str(store), "--json", str(figures),
                "--data", str(directory / "data"),
            )  # fmt: skip
            report = json.loads(figures.read_text())
            verified = {query["query"]: query["verified"] for query in report["queries"]}
            assert verified == {"q03": True, "q05": True}, verified
            print(f"the job: {report['totals']['rows']:,} rows streamed, {verified} verified")
            reader = directory / "reader.py"
            reader.write_text(READER)
            said = json.loads(submit(job, url, str(reader), str(store)).splitlines()[-1])
            assert said["rows"] > 0, said
            for python, package in said["found"]:
                assert "/environment/" in package and "environment/bin" in python, said
            print(
                f"another application: {said['rows']} rows of q03, by {len(said['found'])} workers"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.spark.deployed", description=__doc__)
    parser.add_argument("--job", type=Path, help="an environment, with archive and link")
    main(parser.parse_args().job)
