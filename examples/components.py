"""Connected components: every account with the least account that it is connected with."""

from __future__ import annotations

from random import Random

import sqlview
from examples import verify

VIEW = """
CREATE MATERIALIZED VIEW components AS
WITH RECURSIVE component(account, least) MAX RECURSION LEVEL 1000 AS (
    SELECT account, min(least) FROM (
        SELECT account, account AS least FROM accounts
        UNION ALL
        SELECT b, least FROM component JOIN links ON links.a = component.account
        UNION ALL
        SELECT a, least FROM component JOIN links ON links.b = component.account
    ) GROUP BY account
)
SELECT account, least FROM component
"""
SIZES = """
CREATE MATERIALIZED VIEW sizes AS
SELECT least, count(*) AS accounts FROM components GROUP BY least
"""


def main(accounts: int = 300) -> None:
    random = Random(5)
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE accounts (account INT PRIMARY KEY)")
        db.sql("CREATE TABLE links (a INT, b INT)")
        db.sql(VIEW)
        db.sql(SIZES)
        links = [
            (random.randrange(accounts), random.randrange(accounts))
            for _ in range(accounts * 3 // 5)
        ]
        with db.transaction() as tx:
            tx.insert("accounts", [(a,) for a in range(accounts)])
            tx.insert("links", links)
        print(f"{len(db.view('sizes').rows())} components")
        for cut in random.sample(links, 5):
            with db.transaction() as tx:
                tx.delete("links", [cut])
            step = db.metrics().steps[-1]
            print(f"cut a link: {step.keys} rows changed in {step.rounds} rounds")
        print("largest:", max(db.view("sizes").rows(), key=lambda row: row[1]))
        for view in ("components", "sizes"):
            verify(db, view)


if __name__ == "__main__":
    main()
