"""Shortest paths: the least length of a way to each place, kept up while roads open and close."""

from __future__ import annotations

from random import Random

import sqlview
from examples import verify

VIEW = """
CREATE MATERIALIZED VIEW distances AS
WITH RECURSIVE distance(place, length) MAX RECURSION LEVEL 1000 AS (
    SELECT place, min(length) FROM (
        SELECT place, 0 AS length FROM depots
        UNION ALL
        SELECT there, distance.length + roads.length
        FROM distance JOIN roads ON roads.here = distance.place
    ) GROUP BY place
)
SELECT place, length FROM distance
"""


def main(side: int = 12) -> None:
    random = Random(3)
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE depots (place INT)")
        db.sql("CREATE TABLE roads (here INT, there INT, length INT)")
        db.sql(VIEW)
        roads = []
        for x in range(side):
            for y in range(side):
                for dx, dy in ((0, 1), (1, 0)):
                    if x + dx < side and y + dy < side:
                        ends = x * side + y, (x + dx) * side + y + dy
                        length = random.randint(1, 9)
                        roads += [(*ends, length), (*reversed(ends), length)]
        with db.transaction() as tx:
            tx.insert("depots", [(0,)])
            tx.insert("roads", roads)
        print("farthest:", max(db.view("distances").rows(), key=lambda row: row[1]))
        for closed in random.sample(roads, 5):
            with db.transaction() as tx:
                tx.delete("roads", [closed])
            step = db.metrics().steps[-1]
            print(f"closed a road: {step.keys} rows changed in {step.rounds} rounds")
        db.sql("INSERT INTO depots VALUES (77)")
        print("farthest:", max(db.view("distances").rows(), key=lambda row: row[1]))
        verify(db, "distances")


if __name__ == "__main__":
    main()
