"""A program's pointers: where a NULL may flow to, and which variables may point to the same place.

Both analyses are Graspan's, of statements `a = b`, and `p = *a` as edges. They stay right while
statements are edited.
"""

from __future__ import annotations

from random import Random

import sqlview
from examples import verify

NULLS = """
CREATE MATERIALIZED VIEW may_be_null AS
WITH RECURSIVE nulls(source, variable) AS (
    SELECT variable, variable FROM null_assignments
    UNION
    SELECT source, target FROM nulls JOIN assignments ON value = variable
)
SELECT source, variable FROM nulls
"""
#: What a variable flows to, which two hold what one flowed to, and which places in memory are
#: therefore the same: each reads the others.
ALIASES = """
CREATE MATERIALIZED VIEW may_be_same AS
WITH RECURSIVE flows(x, y) AS (
    SELECT variable, variable FROM variables
    UNION
    SELECT x, target FROM flows JOIN assignments ON value = y
    UNION
    SELECT x, target FROM flows JOIN places ON p = y JOIN assignments ON value = q
),
same(x, y) AS (
    SELECT f.y, g.y FROM flows f JOIN flows g ON f.x = g.x
    UNION
    SELECT f.y, g.y FROM flows f JOIN places ON p = f.x JOIN flows g ON g.x = q
),
places(p, q) AS (
    SELECT DISTINCT s.place, t.place FROM dereferences s
    JOIN same ON x = s.pointer JOIN dereferences t ON t.pointer = y
)
SELECT x, y FROM same WHERE x < y
"""


def main(variables: int = 300) -> None:
    random = Random(6)
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE variables (variable INT)")
        db.sql("CREATE TABLE null_assignments (variable INT)")
        db.sql("CREATE TABLE assignments (value INT, target INT)")
        db.sql("CREATE TABLE dereferences (pointer INT, place INT)")
        db.sql(NULLS)
        db.sql(ALIASES)

        def near() -> tuple[int, int]:
            value = random.randrange(variables)
            return value, (value + random.randint(1, 9)) % variables

        assignments = [near() for _ in range(variables // 2)]
        with db.transaction() as tx:
            tx.insert("variables", [(v,) for v in range(variables)])
            tx.insert("null_assignments", [(v,) for v in range(0, variables, 10)])
            tx.insert("assignments", assignments)
            tx.insert("dereferences", [near() for _ in range(variables // 3)])
        for view in ("may_be_null", "may_be_same"):
            print(f"{view}: {len(db.view(view).rows())} pairs")
        for edited in random.sample(assignments, 3):
            with db.transaction() as tx:
                tx.delete("assignments", [edited])
                tx.insert("assignments", [near()])
            step = db.metrics().steps[-1]
            print(f"edited a statement: {step.keys} rows changed in {step.rounds} rounds")
        verify(db, "may_be_null")
        verify(db, "may_be_same")


if __name__ == "__main__":
    main()
