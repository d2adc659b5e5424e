"""Who wins: a position is won if some move leads to one that is lost, and lost if none does.

The recursion is below a negation: a position that is won makes others lost, so that rounds take
rows back. A game that can go on for ever has positions that are neither; here counters only leave.
"""

from __future__ import annotations

from random import Random

import sqlview
from examples import verify

VIEW = """
CREATE MATERIALIZED VIEW won AS
WITH RECURSIVE wins(position) MAX RECURSION LEVEL 1000 AS (
    SELECT DISTINCT position FROM moves
    WHERE NOT EXISTS (SELECT 1 FROM wins WHERE wins.position = moves.leads_to)
)
SELECT position FROM wins
"""


def main(counters: int = 60) -> None:
    random = Random(7)
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE moves (position INT, leads_to INT)")
        db.sql(VIEW)
        moves = [(n, n - k) for n in range(1, counters + 1) for k in (1, 3, 4) if k <= n]
        with db.transaction() as tx:
            tx.insert("moves", moves)
        won = {position for (position,) in db.view("won").rows()}
        print("lost with so many counters:", [n for n in range(counters + 1) if n not in won])
        # Who takes 1, 3 or 4 loses with 0 or 2 left, modulo 7.
        assert won == {n for n in range(counters + 1) if n % 7 not in (0, 2)}
        for forbidden in random.sample(moves, 4):
            with db.transaction() as tx:
                tx.delete("moves", [forbidden])
            step = db.metrics().steps[-1]
            print(f"forbade {forbidden}: {step.keys} rows changed in {step.rounds} rounds")
        won = {position for (position,) in db.view("won").rows()}
        print("lost with so many counters:", [n for n in range(counters + 1) if n not in won])
        verify(db, "won")


if __name__ == "__main__":
    main()
