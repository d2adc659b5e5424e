"""Same generation: who are cousins of whom, of any degree, in a family tree that grows."""

from __future__ import annotations

from random import Random

import sqlview
from examples import verify

VIEW = """
CREATE MATERIALIZED VIEW cousins AS
WITH RECURSIVE same(x, y) AS (
    SELECT a.child, b.child FROM parents a JOIN parents b
    ON a.parent = b.parent AND a.child <> b.child
    UNION
    SELECT a.child, b.child
    FROM same JOIN parents a ON a.parent = same.x JOIN parents b ON b.parent = same.y
)
SELECT x, y FROM same
"""


def main(people: int = 150) -> None:
    random = Random(4)
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE parents (child INT, parent INT)")
        db.sql(VIEW)
        tree = [(child, random.randrange(max(0, child - 40), child)) for child in range(1, people)]
        with db.transaction() as tx:
            tx.insert("parents", tree)
        print(f"{len(db.view('cousins').rows())} pairs")
        for child, parent in random.sample(tree, 3):  # found to be another's child
            other = random.randrange(child)
            db.sql(
                f"UPDATE parents SET parent = {other} WHERE child = {child} AND parent = {parent}"
            )
            step = db.metrics().steps[-1]
            print(f"moved {child}: {step.keys} rows changed in {step.rounds} rounds")
        verify(db, "cousins")


if __name__ == "__main__":
    main()
