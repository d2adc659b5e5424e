"""A bill of materials: every part of every product with its level, its path and how many it is."""

from __future__ import annotations

from random import Random

import sqlview
from examples import verify

EXPLODED = """
CREATE MATERIALIZED VIEW exploded AS
WITH RECURSIVE parts(product, part, level, path, quantity) MAX RECURSION LEVEL 20 AS (
    SELECT id, id, 0, CAST(id AS STRING), 1L FROM products
    UNION ALL
    SELECT product, child, level + 1, concat(path, '/', child), parts.quantity * uses.quantity
    FROM parts JOIN uses ON uses.parent = parts.part
)
SELECT product, part, level, path, quantity FROM parts
"""
COSTS = """
CREATE MATERIALIZED VIEW costs AS
SELECT product, sum(quantity * price) AS cost, max(level) AS levels
FROM exploded JOIN prices ON prices.id = exploded.part GROUP BY product
"""


def main(products: int = 30, width: int = 60, levels: int = 5) -> None:
    random = Random(2)
    with sqlview.connect(placement="inline") as db:
        db.sql("CREATE TABLE products (id INT PRIMARY KEY)")
        db.sql(
            "CREATE TABLE uses (parent INT, child INT, quantity INT, PRIMARY KEY (parent, child))"
        )
        db.sql("CREATE TABLE prices (id INT PRIMARY KEY, price INT)")
        db.sql(EXPLODED)
        db.sql(COSTS)
        first = [products + level * width for level in range(levels)]
        uses = {
            (parent, first[level] + random.randrange(width)): random.randint(1, 4)
            for level in range(levels)
            for parent in (range(products) if level == 0 else range(first[level - 1], first[level]))
            for _ in range(3)
        }
        with db.transaction() as tx:
            tx.insert("products", [(p,) for p in range(products)])
            tx.insert("uses", [(*pair, quantity) for pair, quantity in uses.items()])
            tx.insert("prices", [(i, random.randint(1, 99)) for i in range(first[-1] + width)])
        print(f"{len(db.view('exploded').rows())} ways to a part")
        print("a path:", max((row[3] for row in db.view("exploded").rows()), key=len))
        parent, child = random.choice(list(uses))
        db.sql(f"UPDATE uses SET quantity = 9 WHERE parent = {parent} AND child = {child}")
        db.sql(f"DELETE FROM uses WHERE parent = {first[2]}")
        print("dearest:", max(db.view("costs").rows(), key=lambda row: row[1]))
        for view in ("exploded", "costs"):
            verify(db, view)


if __name__ == "__main__":
    main()
