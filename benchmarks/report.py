"""BENCHMARKS.md from the result files: python -m benchmarks.report

Between `<!-- begin NAME -->` and `<!-- end NAME -->` stand the tables of one benchmark, the
machine, the versions and the chart, as its last result file has them; `targets` collects the goals
of all.
What stands outside the markers is written by hand and stays.

Invariant: what is between the markers is a function of the result files alone; a benchmark without
a result file keeps what it has.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import (
    arrangements,
    clusters,
    commits,
    common,
    compare,
    cycles,
    durability,
    flatness,
    installation,
    loads,
    lookups,
    placement,
    rates,
    recompute,
    recursion,
    scale,
    startup,
    stores,
    together,
)
from benchmarks.peers import differential_peer

#: In the order in which they run and are shown.
BENCHMARKS: dict[str, Any] = {
    "startup": startup,
    "rates": rates,
    "together": together,
    "installation": installation,
    "arrangements": arrangements,
    "durability": durability,
    "commits": commits,
    "stores": stores,
    "flatness": flatness,
    "scale": scale,
    "recompute": recompute,
    "recursion": recursion,
    "cycles": cycles,
    "lookups": lookups,
    "placement": placement,
    "loads": loads,
    "clusters": clusters,
    "compare": compare,
    "differential": differential_peer,
}
RESULTS = Path(__file__).parent / "results"
DOCUMENT = Path(__file__).parent.parent / "BENCHMARKS.md"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--results", type=Path, default=RESULTS, metavar="DIRECTORY", help="(benchmarks/results)"
    )
    parser.add_argument(
        "--document", type=Path, default=DOCUMENT, metavar="FILE", help="(BENCHMARKS.md)"
    )
    given = parser.parse_args(arguments)
    return common.guarded(lambda: write(given.results, given.document))


def write(results: Path, document: Path) -> None:
    """Renew the sections of the benchmarks that have result files.

    Raises: common.BenchmarkError if the document lacks a section's markers.
    """
    found = read(results)
    text = document.read_text(encoding="utf-8")
    charts = os.path.relpath(results, document.parent)
    for name, result in found.items():
        text = _replaced(text, name, section(name, result, charts))
    if found:
        text = _replaced(text, "targets", targets(found))
    document.write_text(text, encoding="utf-8")
    print(f"written: {document}, {len(found)} of {len(BENCHMARKS)} sections", file=sys.stderr)


def read(results: Path) -> dict[str, dict[str, Any]]:
    """The result files that there are, by benchmark."""
    paths = {name: results / f"{name}.json" for name in BENCHMARKS}
    return {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name, path in paths.items()
        if path.is_file()
    }


def section(name: str, result: Mapping[str, Any], charts: str) -> str:
    """The Markdown of one benchmark; `charts` is the directory of its chart, for the link."""
    figures: Callable[[Mapping[str, Any]], list[common.Figures]] = BENCHMARKS[name].tables
    parts = [_provenance(result)]
    parts += [each.markdown() for each in figures(result)]
    parts.append(f"![{name}]({Path(charts).as_posix()}/{name}.png)\n")
    return "\n".join(parts)


def targets(found: Mapping[str, Mapping[str, Any]]) -> str:
    """All goals in one table."""
    rows = [
        (each.goal, each.measured, common.verdict(each), name)
        for name, result in found.items()
        for each in BENCHMARKS[name].targets(result)
    ]
    return common.Figures("", ("goal", "measured", "met", "benchmark"), tuple(rows)).markdown()


def _provenance(result: Mapping[str, Any]) -> str:
    there = result["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in there["versions"].items())
    before, after = (there[f"load_average_{when}"][0] for when in ("before", "after"))
    quick = "**A quick run: its figures mean nothing.** " if result["settings"].get("quick") else ""
    machine = f"{there['cores']} cores of {there['processor']}"
    memory = f"{there['memory_bytes'] / 2**30:.0f} GiB, {there['system'].split('-')[0]}"
    return (
        f"{quick}Measured on {result['measured_on']}: {machine}, {memory}; {versions}; "
        f"load average {before:.1f} before, {after:.1f} after.\n"
    )


def _replaced(text: str, name: str, content: str) -> str:
    marked = re.compile(f"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
    if not marked.search(text):
        raise common.BenchmarkError(
            f"the document has no section between <!-- begin {name} --> and <!-- end {name} -->"
        )
    return marked.sub(lambda found: f"{found[1]}\n{content}\n{found[2]}", text)


if __name__ == "__main__":
    raise SystemExit(main())
