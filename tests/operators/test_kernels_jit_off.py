"""Kernels as plain Python, over relations whose blocks have sixteen rows.

In a process of its own, since both are settled when modules are imported. Blocks this small fill,
die and are compacted in every test, which those of 65,536 rows do in a few only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_MAIN = """
import sys
import operators.kernels.memory as memory

memory.BLOCK_BITS, memory.BLOCK_ROWS, memory.BLOCK_MASK = 4, 16, 15
import pytest

class Few:
    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self):
        from hypothesis import settings

        settings.register_profile("few", derandomize=True, max_examples=3, deadline=None)

sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[Few()]))
"""
_TESTS = {
    "state": [
        "tests/operators/test_relation.py::test_lockstep",
        "tests/operators/test_relation.py::test_nulls_may_come_late",
        "tests/operators/test_relation.py::test_slices_of_arrow_arrays_are_copied_from_their_offset",
        "tests/operators/test_arrangement.py::test_lockstep",
        "tests/operators/test_spine.py::test_lockstep",
        "tests/operators/test_spine.py::test_merging_a_bit_at_a_time_is_merging_at_once",
        "tests/operators/test_store.py::test_lockstep",
    ],
    "kernels": [
        "tests/operators/test_lookup.py::test_pairs",
        "tests/operators/test_sorting.py::test_argsort",
        "tests/operators/test_sorting.py::test_run_starts",
        "tests/operators/test_sorting.py::test_argsort_around_thresholds[300-300]",
        "tests/operators/test_encode.py",
        "tests/operators/test_changes.py::test_normalise",
        "tests/operators/test_programs.py::test_programs_agree_with_the_evaluators[0]",
        "tests/operators/test_wide_decimals.py",
        "tests/operators/test_reduce.py::test_sums",
        "tests/operators/test_reduce.py::test_wide_sums",
        "tests/operators/test_reduce.py::test_add_runs",
        "tests/operators/test_reduce.py::test_group_rows",
        "tests/operators/test_exact_sum.py::test_states_are_those_of_the_twin",
        "tests/operators/test_exact_sum.py::test_successive_versions",
        "tests/operators/test_exact_sum.py::test_reading_states",
        "tests/operators/test_reduce.py::test_sweep_groups",
        "tests/operators/test_topk.py::test_follow",
        "tests/operators/test_extremes.py",
        "tests/recursion/test_fused.py::test_the_state_is_that_of_the_operators[components]",
        "tests/operators/test_bags.py",
    ],
    "dataflows": [
        "tests/operators/test_physical_batching.py::test_all_views_together_share_what_they_can",
        "tests/operators/test_dataflow.py::test_state_stays_bounded_under_churn[2]",
        "tests/operators/test_topk.py::test_ties_are_broken_by_all_columns",
    ],
}


@pytest.mark.parametrize("part", list(_TESTS))
def test_without_jit(part: str) -> None:
    deselected = ["--deselect=tests/operators/test_encode.py::test_words_spread"]
    done = subprocess.run(
        [sys.executable, "-c", _MAIN, *_TESTS[part], *deselected],
        cwd=_ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "HYPOTHESIS_PROFILE": "few"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
