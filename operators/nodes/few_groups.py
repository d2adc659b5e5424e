"""Groups of few rows at one time, by two kernels (kernels.few_groups).

Which groups: those whose accumulators are counts and sums of numbers, as is known when they are
installed. Steps of many rows or of several times, and of keys that are hashed, whose values would
have to be compared, are for `ReduceOperator`, of which this is a part.

Invariant: rows, their ids and what comes out are those of `ReduceOperator.apply`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from operators.flight import delta as deltas
from operators.flight.column import Bools, Column, Ints, counting
from operators.flight.delta import Delta, Pairs
from operators.kernels import few_groups as k
from operators.nodes.programs import FEW_ROWS
from operators.nodes.runs import normal_key
from operators.state.arrangement import FEW_KEYS, ArrangementState
from operators.state.order import sort_keys
from operators.state.relation import Relation
from operators.state.spine import keys_at
from planner import dataflow as ir

if TYPE_CHECKING:
    from operators.nodes.reduce import Slot

_ADDS = {"count_rows": k.COUNT_ROWS, "count": k.COUNT, "sum": k.SUM}
_ONE = counting(1)


class FewGroups:
    """The accumulators of a group operator as its kernels take them. `relation`, `index`, `keys`,
    `mode`: the operator's."""

    def __init__(
        self,
        node: ir.Reduce,
        slots: Sequence[Slot],
        mode: Ints,
        keys: Sequence[int],
        relation: Relation,
        index: ArrangementState,
    ) -> None:
        self.node = node
        self.relation = relation
        self.index = index
        self._keys = keys
        self._mode = mode
        #: Of each argument its column, its first register and whether its values are read.
        self._args: list[tuple[int, int, bool]] = []
        self._registers = 0
        registers: dict[int, int] = {}
        summed = {s.arg for s in slots if s.kind == "sum"}
        adds: list[tuple[int, int, int]] = []
        for slot in slots:
            if slot.arg is not None and slot.arg not in registers:
                registers[slot.arg] = self._registers
                self._args.append((slot.arg, self._registers, slot.arg in summed))
                self._registers += 2
            if slot.kind in _ADDS:
                register = 0 if slot.arg is None else registers[slot.arg]
                adds.append((_ADDS[slot.kind], register, slot.word))
        self._adds = np.array(adds, np.int64)
        self._texts = np.array([word for _, word in index.hashed], np.int64)
        fields = node.schema[len(keys) :]
        self._columns = tuple((s.word, s.width, f.type) for s, f in zip(slots, fields, strict=True))
        self._slots = relation.word_slots([(s.column, s.word) for s in slots if s.width])

    @classmethod
    def of(
        cls,
        node: ir.Reduce,
        slots: Sequence[Slot],
        mode: Ints,
        keys: Sequence[int],
        relation: Relation,
        index: ArrangementState,
    ) -> FewGroups | None:
        """None if an accumulator is no count and no sum of numbers."""
        if any(s.kind not in (*_ADDS, "sum_top") for s in slots):
            return None
        return cls(node, slots, mode, keys, relation, index)

    def step(self, delta: Delta) -> Delta | None:
        """`ReduceOperator.step`; None if the delta is for that itself."""
        n, index, relation = len(delta), self.index, self.relation
        if n > FEW_ROWS or not delta.one_time:
            return None
        words = index.probe_words([delta.key(c) for c in self._keys], n)
        args, none, known = self._arguments(delta, n)
        first, change = np.empty(n, np.int64), np.empty((len(self._mode), n), np.int64)
        groups, keys = k.add_up(
            words, self._texts, delta.diff, args, none, known, self._adds, self._mode, first, change
        )
        if groups == k.GIVE_UP:
            return None
        order = _ONE if groups == 1 else sort_keys(keys)
        stored, sought = np.empty(groups, np.int64), groups > FEW_KEYS
        if sought:
            stored.fill(-1)
            found = index.living(keys, np.ones(groups, np.int64), order)
            stored[found.probe] = found.row
        born, pairs = np.empty(groups, np.int64), np.empty((2, groups), np.int64)
        totals = np.empty((len(self._mode), groups), np.int64)
        sizes, work = np.empty(3, np.int64), np.zeros(2, np.int64)
        bad = k.replace(
            keys, order, change, self._mode, not self._keys, stored, sought, index.spine.table,
            *relation.places(self._slots), self._slots, born, totals, pairs, sizes, work,
        )  # fmt: skip
        if bad >= 0:
            raise AssertionError("a group lost more rows than it had: its input is not a multiset")
        if not sought:
            index.looked_up(work)
        deaths, births, paired = sizes.tolist()
        if deaths + births == 0:
            return deltas.empty(self.node.schema)
        relation.work.rows += deaths
        killed, born = stored[:deaths], born[:births]
        if births:
            relation.append(self._rows(delta, first[born], totals[:, :births]), delta.time[:births])
        relation.kill(killed, delta.time[:deaths])
        rows = relation.appended if births else born
        # Births are in order of their keys already.
        index.insert(rows, keys_at(keys, born), counting(births))
        changed = deltas.replacing(relation, killed, rows, int(delta.time[0]))
        if paired:
            changed.pairs = Pairs(pairs[0, :paired], pairs[1, :paired] + deaths, False)
        return changed

    def _arguments(self, delta: Delta, n: int) -> tuple[Ints, Bools, Ints]:
        shape = self._registers, n
        args, none = np.empty(shape, np.int64), np.empty(shape, np.bool_)
        known = np.zeros(self._registers, np.int64)
        for index, register, is_read in self._args:
            column = delta.column(index)
            if is_read:
                if column.wide:
                    known[register] = k.TWO_WORDS
                    args[register], args[register + 1] = column.values.T
                else:
                    args[register] = column.values
            if column.valid is None:
                none[register] = False
            else:
                known[register] |= k.MAY_BE_NULL
                np.logical_not(column.valid, out=none[register])
        return args, none, known

    def _rows(self, delta: Delta, source: Ints, totals: Ints) -> list[Column]:
        """The new rows, of groups with these input rows and words."""
        rows = [normal_key(delta.peek(key, source)) for key in self._keys]
        for word, width, kind in self._columns:
            values = totals[word] if width == 1 else np.ascontiguousarray(totals[word : word + 2].T)
            rows.append(Column(kind, values))
        return rows
