"""Who can reach what: permissions that are handed on, kept up while grants come and go."""

from __future__ import annotations

from random import Random

import sqlview
from examples import verify

VIEW = """
CREATE MATERIALIZED VIEW may_read AS
WITH RECURSIVE reached(person, team) AS (
    SELECT person, team FROM members
    UNION
    SELECT person, child FROM reached JOIN contains ON contains.parent = reached.team
)
SELECT person, document FROM reached JOIN documents USING (team)
"""


def main(teams: int = 200, people: int = 40) -> None:
    random = Random(1)
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE members (person INT, team INT)")
        db.sql("CREATE TABLE contains (parent INT, child INT)")
        db.sql("CREATE TABLE documents (document INT, team INT)")
        db.sql(VIEW)
        edges = [(random.randrange(teams), random.randrange(teams)) for _ in range(teams)]
        with db.transaction() as tx:
            tx.insert("members", [(p, random.randrange(teams)) for p in range(people)])
            tx.insert("contains", edges)
            tx.insert("documents", [(d, random.randrange(teams)) for d in range(2 * teams)])
        print(f"{len(db.view('may_read').rows())} permissions")
        for gone in random.sample(edges, 3):  # teams may contain each other: cycles do no harm
            with db.transaction() as tx:
                tx.delete("contains", [gone])
                tx.insert("contains", [(gone[1], random.randrange(teams))])
            step = db.metrics().steps[-1]
            print(f"moved a team: {step.keys} rows changed in {step.rounds} rounds")
        verify(db, "may_read")


if __name__ == "__main__":
    main()
