"""The command line: `python -m tpch stream`, `refresh`, `demo` and `generate`.

Exit codes: 0, all is well and what was verified is equal; 1, a view differed from its recompute or
the run failed; 2, the command line is wrong.

Invariant: a mistake of the user's, in options or in data, ends in a message, not in a traceback.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

import sqlview
from tpch import demo, refresh, refresh_run, report, runner
from tpch.generate import GenerateError, generate
from tpch.lively import LIVELY_EVEN, LIVELY_SKEW
from tpch.queries import PARAMETERS
from tpch.runner import RunOptions

_OPTION_NAMES = frozenset(RunOptions.__dataclass_fields__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    parser = _parser()
    given = parser.parse_args(arguments)
    console = Console(stderr=True)
    try:
        match given.command:
            case "stream":
                return _stream(parser, given, console)
            case "refresh":
                return _refresh(parser, given, console)
            case "demo":
                return demo.main(console, given.data)
            case _:
                print(generate(given.sf, given.data))
                return 0
    except (sqlview.SqlViewError, GenerateError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 1


def add_stream_options(parser: argparse.ArgumentParser) -> None:
    """The options of a run that the runner and the spark-submit job have in common."""
    default = RunOptions()
    parser.add_argument("--sf", type=float, default=default.sf, help="scale factor (%(default)s)")
    parser.add_argument(
        "--queries", default=default.queries, help="all, or a list such as q01,q03 (%(default)s)"
    )
    parser.add_argument(
        "--params",
        choices=PARAMETERS,
        default=default.params,
        help="the specification's parameters, or some with which each view changes often even at "
        "a small scale factor (%(default)s)",
    )
    parser.add_argument(
        "--batch-rows",
        type=int,
        default=default.batch_rows,
        metavar="N",
        help="changed rows per transaction (%(default)s)",
    )
    parser.add_argument(
        "--deletes",
        type=float,
        default=default.deletes,
        metavar="FRACTION",
        help="share of a batch that deletes or updates earlier rows (%(default)s)",
    )
    parser.add_argument(
        "--even",
        type=float,
        metavar="FRACTION",
        help="share of the deletes and updates that goes to all tables alike, whatever their size "
        f"(0; with --params lively {LIVELY_EVEN:g})",
    )
    parser.add_argument(
        "--skew",
        type=float,
        metavar="FRACTION",
        help="share of the updates that make a row a copy of one hot row "
        f"(0; with --params lively {LIVELY_SKEW:g})",
    )
    parser.add_argument("--changes", type=int, metavar="N", help="stop after N changed rows")
    parser.add_argument(
        "--load",
        type=float,
        default=default.load,
        metavar="FRACTION",
        help="share of each table to load in one step before the timed part (%(default)s)",
    )
    parser.add_argument(
        "--placement",
        choices=runner.PLACEMENTS,
        default=default.placement,
        help="where steps run (%(default)s)",
    )
    parser.add_argument(
        "--path",
        type=Path,
        metavar="DIRECTORY",
        help="a directory that Spark's executors see, where they are on other machines",
    )
    parser.add_argument(
        "--store",
        type=Path,
        metavar="DIRECTORY",
        help="keep the session there, a store that all executors see; a run with the same options "
        "goes on from where one stopped",
    )
    parser.add_argument(
        "--private", action="store_true", help="no sharing of arrangements between views"
    )
    parser.add_argument(
        "--verify",
        choices=runner.VERIFY,
        default=default.verify,
        help="compare each view with a recompute: never, at the end, after every transaction "
        "(%(default)s)",
    )
    parser.add_argument(
        "--assert-lively",
        type=int,
        metavar="N",
        help="fail if any view changes in fewer than N transactions of the timed part",
    )
    parser.add_argument("--seed", type=int, default=default.seed, help="(%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="draw the rates there, as PNG")
    _add_data_option(parser)


def options_from(parser: argparse.ArgumentParser, given: argparse.Namespace) -> RunOptions:
    """The options of a run; a value out of range ends the program with exit code 2."""
    for path in (given.json, given.chart):
        if path is not None and not path.parent.is_dir():
            parser.error(f"no such directory: {path.parent}")
    fields = {name: value for name, value in vars(given).items() if name in _OPTION_NAMES}
    try:
        return RunOptions(**fields)
    except ValueError as error:
        parser.error(str(error))


def present(outcome: runner.Outcome, given: argparse.Namespace, console: Console) -> int:
    """Write and print what a run found; the exit code."""
    if given.json is not None:
        given.json.write_text(outcome.report.to_json(), encoding="utf-8")
    if given.chart is not None:
        report.write_chart(outcome.report, given.chart)
    output = report.output_console()
    report.print_report(outcome.report, output)
    report.print_arrangements(outcome.report, output)
    report.print_changed_epochs(outcome.report, output)
    for difference in outcome.differences:
        report.print_difference(difference, console)
    for query in outcome.still:
        console.print(
            f'view "{query.query}" changed in {query.changed_epochs} epochs only',
            style="bold red",
        )
    return 1 if outcome.differences or outcome.still else 0


def _stream(parser: argparse.ArgumentParser, given: argparse.Namespace, console: Console) -> int:
    return present(runner.run(options_from(parser, given), console=console), given, console)


def _refresh(parser: argparse.ArgumentParser, given: argparse.Namespace, console: Console) -> int:
    if not 1 <= given.pairs <= refresh.PAIRS:
        parser.error(f"there are 1 to {refresh.PAIRS} pairs, not {given.pairs}")
    outcome = refresh_run.run(options_from(parser, given), given.pairs, console=console)
    if given.json is not None:
        given.json.write_text(outcome.report.to_json(), encoding="utf-8")
    refresh_run.print_report(outcome.report, report.output_console())
    for difference in outcome.differences:
        report.print_difference(difference, console)
    return 1 if outcome.differences else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tpch", description="TPC-H as a stream of changes, through sqlview."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    stream = commands.add_parser("stream", help="stream the tables through the views and measure")
    add_stream_options(stream)
    stream.add_argument(
        "--mode",
        choices=runner.MODES,
        default=RunOptions().mode,
        help="all views in one session, or a session for each (%(default)s)",
    )
    stream.add_argument("--master", help="Spark master, such as local[2,4] (all cores here)")
    stream.add_argument(
        "--order",
        choices=runner.ORDERS,
        default=RunOptions().order,
        help="arrival of the rows within each table (%(default)s)",
    )
    again = commands.add_parser(
        "refresh", help="load the tables, then run the specification's refresh functions"
    )
    _add_refresh_options(again)
    show = commands.add_parser("demo", help="the main job from end to end, in a few minutes")
    _add_data_option(show)
    make = commands.add_parser("generate", help="generate the data and print where it is")
    make.add_argument("--sf", type=float, default=RunOptions().sf, help="scale factor")
    _add_data_option(make)
    return parser


def _add_refresh_options(parser: argparse.ArgumentParser) -> None:
    default = RunOptions()
    parser.add_argument("--sf", type=float, default=default.sf, help="scale factor (%(default)s)")
    parser.add_argument(
        "--queries", default=default.queries, help="all, or a list such as q01,q03 (%(default)s)"
    )
    parser.add_argument(
        "--params", choices=PARAMETERS, default=default.params, help="see stream (%(default)s)"
    )
    parser.add_argument(
        "--pairs", type=int, default=1, metavar="N", help="pairs of RF1 and RF2 (%(default)s)"
    )
    parser.add_argument(
        "--mode",
        choices=runner.MODES,
        default="each",
        help="all views in one session, or a session and so a time for each (%(default)s)",
    )
    parser.add_argument("--placement", choices=runner.PLACEMENTS, default=default.placement)
    parser.add_argument("--verify", choices=runner.VERIFY, default=default.verify)
    parser.add_argument("--master", help="Spark master, such as local[2,4] (all cores here)")
    parser.add_argument("--seed", type=int, default=default.seed, help="(%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.set_defaults(chart=None)
    _add_data_option(parser)


def _add_data_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIRECTORY",
        help="where generated data is kept ($SQLVIEW_TPCH_DIR, or the user's cache directory)",
    )
