"""Triangles of a graph that changes: who of those that follow somebody follow each other.

A few accounts are followed by almost everybody. A change there is no more work than elsewhere: each
pair takes the third one from whoever of the two follows, or is followed by, fewer.
"""

from __future__ import annotations

from random import Random

import sqlview
from examples import verify

VIEW = """
CREATE MATERIALIZED VIEW triangles AS
SELECT x.who AS a, x.whom AS b, y.whom AS c
FROM follows x
JOIN follows y ON y.who = x.whom
JOIN follows z ON z.who = x.who AND z.whom = y.whom
"""
COUNTS = """
CREATE MATERIALIZED VIEW circles AS
SELECT a AS who, count(*) AS triangles FROM triangles GROUP BY a
"""


def main(people: int = 2_000) -> None:
    random = Random(6)
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE follows (who INT, whom INT, PRIMARY KEY (who, whom))")
        stars = range(3)
        rows = {(who, star) for who in range(3, people) for star in stars}
        rows |= {(star, random.randrange(3, people)) for star in stars for _ in range(people)}
        rows |= {(random.randrange(3, people), random.randrange(3, people)) for _ in range(people)}
        with db.transaction() as tx:
            tx.insert("follows", sorted(rows))
        db.sql(VIEW)
        db.sql(COUNTS)
        found = len(db.view("triangles").rows())
        print(f"{len(rows)} follow somebody, {found} triangles")
        for who, whom in random.sample(sorted(rows), 3):
            with db.transaction() as tx:
                tx.delete("follows", [(who, whom)])
                tx.upsert("follows", [(random.randrange(3, people), whom)])
            step = db.metrics().steps[-1]
            print(f"{who} follows {whom} no more: {step.prefixes} rows on the way")
        verify(db, "triangles")
        verify(db, "circles")


if __name__ == "__main__":
    main()
