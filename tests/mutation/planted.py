"""Thirty mistakes of the kind that engines for incremental views make: one edit of one file each.

`old` is in the file exactly once; the file with `new` in its place is still one that runs. Each
stands for a law of the engine (see the DESIGN.md of operators and planner), and `what` says what is
then wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

#: The sources' root.
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Planted:
    name: str
    what: str
    file: str
    old: str
    new: str

    def plant(self, root: Path) -> None:
        """Write the mistake into the copy of the sources at `root`.

        Raises: ValueError if `old` is not there exactly once.
        """
        path = root / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.file} has {text.count(self.old)} places for it")
        path.write_text(text.replace(self.old, self.new))


PLANTED = (
    Planted(
        "join_sees_later",
        "a path sees every other occurrence as of the time: what changes at once comes out twice",
        "operators/nodes/half_join.py",
        "return snapshot or self.node.as_of",
        "return True",
    ),
    Planted(
        "join_sees_earlier",
        "a path sees every other occurrence as of just before: what changes at once is lost",
        "operators/nodes/half_join.py",
        "return snapshot or self.node.as_of",
        "return snapshot",
    ),
    Planted(
        "dead_at_its_death",
        "a row is visible as of the time at which it dies",
        "operators/kernels/lookup.py",
        "        if birth <= first and death > last:",
        "        if birth <= first and death >= last:",
    ),
    Planted(
        "negation_forgotten",
        "a negated input of a union is added",
        "operators/nodes/union.py",
        "part.negated() if minus else part",
        "part if minus else part",
    ),
    Planted(
        "diffs_are_ones",
        "a factor of copies does not multiply the diffs",
        "operators/flight/delta.py",
        "        diff = self.diff * factor",
        "        diff = self.diff * np.minimum(factor, 1)",
    ),
    Planted(
        "and_of_null",
        "NULL AND FALSE is NULL",
        "operators/scalar/logic.py",
        "valid = _known(a, a_valid, not conjunction) | _known(b, b_valid, not conjunction)",
        "valid = _known(a, a_valid, conjunction) & _known(b, b_valid, conjunction)",
    ),
    Planted(
        "coalesce_stops",
        "coalesce takes NULL from its last argument but not its value",
        "operators/scalar/logic.py",
        "            valid = None if other_valid is None else valid | other_valid",
        "            valid = valid.copy() if other_valid is None else valid | other_valid",
    ),
    Planted(
        "failures_behind_and",
        "the right side of AND fails where the left side has settled it",
        "operators/scalar/logic.py",
        "            errors = first_of(a_errors, only_where(b_errors, ~settled))",
        "            errors = first_of(a_errors, b_errors)",
    ),
    Planted(
        "null_joins_null",
        "a NULL in a probe is looked up",
        "operators/nodes/half_join.py",
        "zip(columns, self.finds_null, strict=True) if not finds]",
        "zip(columns, self.finds_null, strict=True) if finds]",
    ),
    Planted(
        "padding_pushed",
        "a predicate on the padded side of an outer join moves to the other side's rows",
        "planner/rewrite/rules/simplify_outer_joins.py",
        "            return _is_null_then(arg, columns)\n        case Literal():\n"
        "            return expr.value is not True",
        "            return _is_null_then(arg, columns)\n        case Call(function='is_null'):\n"
        "            return True\n        case Literal():\n"
        "            return expr.value is not True",
    ),
    Planted(
        "full_is_left",
        "a FULL JOIN whose left side is tested loses its other padding",
        "planner/rewrite/rules/simplify_outer_joins.py",
        "            if right and (left or not plan.full):",
        "            if right:",
    ),
    Planted(
        "pushed_past_outer_join",
        "a filter above a left join that reads its right side is lost",
        "planner/rewrite/rules/push_filters.py",
        "            own_columns = frozenset(range(len(inner.left.schema)))",
        "            own_columns = frozenset(range(len(inner.left.schema)))\n"
        "            if isinstance(inner, OuterJoin):\n"
        "                own = tuple(p for p in parts if columns_used(p) <= own_columns)\n"
        "                return replace(inner, left=_below(inner.left, own))",
    ),
    Planted(
        "condition_pushed_left",
        "a condition of an anti join on its left side filters the left side",
        "planner/rewrite/rules/push_filters.py",
        "isinstance(plan, SemiJoin) and not plan.anti:",
        "isinstance(plan, SemiJoin):",
    ),
    Planted(
        "distinct_forgotten",
        "sum, count and avg of distinct values take every copy",
        "planner/rewrite/rules/split_distinct_aggregates.py",
        "    return call.arg if call.distinct and call.function not in _WHATEVER_COPIES else None",
        "    return None",
    ),
    Planted(
        "distinct_removed",
        "DISTINCT is removed where a part of a key is selected",
        "planner/rewrite/rules/remove_distinct.py",
        "    if any(set(key) <= kept for key in plan_keys(plan.input)):",
        "    if any(set(key[:1]) <= kept for key in plan_keys(plan.input)):",
    ),
    Planted(
        "front_without_the_dying",
        "a row that dies in the step is not among the first rows before it",
        "operators/kernels/fronts.py",
        "            if died_at(row, dead, died_row, died_time) >= since:\n"
        "                if found >= wanted[g] and (",
        "            if died_at(row, dead, died_row, died_time) > since:\n"
        "                if found >= wanted[g] and (",
    ),
    Planted(
        "max_is_min",
        "MAX stands in front of the ascending order",
        "planner/lower/reduces.py",
        '_ORDERED = {"min": False, "max": True, "any_value": False}',
        '_ORDERED = {"min": False, "max": False, "any_value": False}',
    ),
    Planted(
        "rank_off_by_one",
        "top-k keeps one row too few",
        "operators/kernels/fronts.py",
        "            member[p] = alive[p] and low <= rank < high",
        "            member[p] = alive[p] and low <= rank < high - 1",
    ),
    Planted(
        "offset_ignored",
        "the present first rows of an ORDER BY … LIMIT … OFFSET begin at the first",
        "operators/nodes/top_k.py",
        "        return rows[(rank >= self.node.offset) & (rank < self._high)]",
        "        return rows[(rank >= 0) & (rank < self._high)]",
    ),
    Planted(
        "threshold_lets_none_in",
        "a scalar that moves throws rows out but takes none in",
        "operators/nodes/threshold.py",
        "        flips = np.flatnonzero(before != after)",
        "        flips = np.flatnonzero(before & ~after)",
    ),
    Planted(
        "threshold_of_old_rows",
        "moves of a scalar see the rows as of the time, beside the rows' own changes",
        "operators/nodes/threshold.py",
        "        probe, row = between(self.index, partition, start, end, times, False)",
        "        probe, row = between(self.index, partition, start, end, times, True)",
    ),
    Planted(
        "decimal_scales",
        "decimals of different scales are added without bringing them to one scale",
        "operators/scalar/arithmetic.py",
        "        y = decimals.scaled_up(b, b_places)\n        if x is None or y is None or drop:",
        "        y = decimals.scaled_up(b, 0)\n        if x is None or y is None or drop:",
    ),
    Planted(
        "month_ends",
        "a month after 31 January is 28 February in leap years too",
        "operators/kernels/scalar.py",
        "            last = 29 if _is_leap(year) else 28\n        elif month in (4, 6, 9, 11):\n"
        "            last = 30\n        else:\n            last = 31\n        out[i] = days_of",
        "            last = 28\n        elif month in (4, 6, 9, 11):\n"
        "            last = 30\n        else:\n            last = 31\n        out[i] = days_of",
    ),
    Planted(
        "count_of_nothing",
        "a correlated COUNT over nothing is NULL",
        "planner/rewrite/unnest.py",
        '        if call.function in ("count", "count_rows"):',
        '        if call.function in ("count",) and call.distinct:',
    ),
    Planted(
        "upsert_keeps_old",
        "an upsert of a row that came in the same transaction leaves that one, too",
        "operators/kernels/changes.py",
        "                    birth_row[-1 - copy] = -1  # never visible",
        "                    birth_row[-1 - copy] = birth_row[-1 - copy]",
    ),
    Planted(
        "compaction_loses_a_row",
        "a block that is rewritten loses the first of its living rows",
        "operators/state/relation.py",
        "with_died(self._living(first, first + BLOCK_ROWS), told)",
        "with_died(self._living(first, first + BLOCK_ROWS)[1:], told)",
    ),
    Planted(
        "index_misses_a_row",
        "an index takes in all rows that were appended since it was last read but the first",
        "operators/state/arrangement.py",
        "        return self.insert(self.relation.rows_from(self._next_row))",
        "        return self.insert(self.relation.rows_from(self._next_row)[1:])",
    ),
    Planted(
        "partial_index_whole",
        "a filter's bitmap counts NULL as passing",
        "operators/state/filters.py",
        "        passing = value.values if value.valid is None else value.values & value.valid",
        "        passing = value.values if value.valid is None else value.values | ~value.valid",
    ),
    Planted(
        "group_not_recomputed",
        "a recomputed group is told of the members as of just before the last change",
        "operators/nodes/recompute.py",
        "        there = (members.born[row] <= time) & (time < members.died[row])",
        "        there = (members.born[row] < time) & (time < members.died[row])",
    ),
    Planted(
        "events_at_one_time",
        "all events of a step happen at its first time",
        "operators/stream.py",
        "    return Delta(schema, time, np.ones(len(time), np.int64), list(columns))",
        "    return Delta(schema, np.full_like(time, time.min()), np.ones(len(time), np.int64),"
        " list(columns))",
    ),
)
