"""TPC-H views kept fresh from a stream, as a job for spark-submit:

    spark-submit tpch/jobs/stream_views.py --sf 0.1 --queries q03,q05

The job uses the Spark session that spark-submit configures, whatever its master. The first share
(`--load`) of every table is read by Spark and placed on Spark; the rest streams in.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys

from pyspark.sql import SparkSession
from rich.console import Console

import sqlview
from tpch import cli, runner
from tpch.generate import GenerateError


def main() -> int:
    parser = argparse.ArgumentParser(prog="stream_views.py", description=__doc__.split("\n")[0])
    cli.add_stream_options(parser)
    parser.set_defaults(load=0.5, deletes=0.1, verify="final")
    given = parser.parse_args()
    options = dataclasses.replace(cli.options_from(parser, given), load_on_spark=True)
    console = Console(stderr=True)
    spark = SparkSession.builder.appName("stream_views").getOrCreate()
    try:
        outcome = runner.run(options, console=console, spark=spark)
    except (sqlview.SqlViewError, GenerateError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        spark.stop()
    return cli.present(outcome, given, console)


if __name__ == "__main__":
    raise SystemExit(main())
