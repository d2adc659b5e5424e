"""Transactions as columns are the transactions: at every time every view is the oracle's recompute,
and the deltas are those of one transaction after the other."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from tests.conftest import Connect
from tests.harness import Checked
from tests.properties.streams import Stream
from tests.properties.test_physical_batching import consolidated, listen
from tests.reference.tables import Change
from tests.sql.scenario import Scenario, install, table

ORDERS = table("orders", "id INT, customer INT, price DECIMAL(12,2), status STRING", "id")
LINES = table("lines", "ord INT, amount INT, weight DOUBLE")
CUSTOMERS = table("customers", "id INT, name STRING", "id")

#: Each with what reads it; every operator that keeps state is in one of them.
SCENARIOS = (
    Scenario(
        "joins",
        (ORDERS, LINES, CUSTOMERS),
        {
            "three": "SELECT o.id, c.name, l.amount FROM orders o JOIN customers c"
            " ON o.customer = c.id JOIN lines l ON l.ord = o.id",
            "twins": "SELECT a.id, b.id AS twin FROM orders a JOIN orders b"
            " ON a.customer = b.customer AND a.id < b.id",
            "left_one": "SELECT c.id, o.id AS o, o.status FROM customers c"
            " LEFT JOIN orders o ON o.customer = c.id",
            "full_one": "SELECT o.id, l.amount FROM orders o FULL JOIN lines l ON l.ord = o.id",
            "ranges": "SELECT o.id, l.amount FROM orders o JOIN lines l ON l.amount < o.price",
        },
        (),
    ),
    Scenario(
        "groups",
        (ORDERS, LINES, CUSTOMERS),
        {
            "sums": "SELECT customer, sum(price) AS s, count(*) AS n, avg(price) AS a FROM orders"
            " GROUP BY customer HAVING count(*) > 1",
            "fronts": "SELECT customer, min(price) AS low, max(status) AS last, min(id) AS one"
            " FROM orders GROUP BY customer",
            "medians": "SELECT ord, median(amount) AS m, max_by(weight, amount) AS w FROM lines"
            " GROUP BY ord",
            "floats": "SELECT sum(weight) AS s, count(DISTINCT amount) AS n FROM lines",
            "per_customer": "SELECT c.name, sum(l.amount) AS s FROM customers c JOIN orders o"
            " ON o.customer = c.id JOIN lines l ON l.ord = o.id GROUP BY c.name",
            "sizes": "SELECT n, count(*) AS m FROM sums GROUP BY n",
        },
        (),
    ),
    Scenario(
        "order_and_subqueries",
        (ORDERS, LINES, CUSTOMERS),
        {
            "top": "SELECT id, price FROM orders ORDER BY price DESC, id LIMIT 3 OFFSET 1",
            "late": "SELECT c.name FROM customers c WHERE NOT EXISTS"
            " (SELECT 1 FROM orders o WHERE o.customer = c.id AND o.price > 1)",
            "semi": "SELECT id FROM orders o WHERE EXISTS (SELECT 1 FROM lines l"
            " WHERE l.ord = o.id AND l.amount <> o.customer)",
            "above": "SELECT id FROM orders WHERE price > (SELECT avg(price) FROM orders)",
            "absent": "SELECT id FROM customers WHERE id NOT IN (SELECT amount FROM lines)",
            "others": "SELECT status FROM orders EXCEPT SELECT name FROM customers",
        },
        (),
    ),
)


def _transactions(checked: Checked, seed: int, many: int) -> list[list[Change]]:
    stream = Stream(Random(seed), checked.tables)
    return [stream.filling(), *(stream.transaction() for _ in range(many - 1))]


def _cut(transactions: Sequence[list[Change]], rng: Random) -> list[list[list[Change]]]:
    """Runs of transactions, none of which ends with one that changes nothing."""
    steps: list[list[list[Change]]] = [[]]
    for changes in transactions:
        steps[-1].append(changes)
        if changes and rng.random() < 0.2:
            steps.append([])
    return [step for step in steps if any(step)]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_time_is_the_oracles(scenario: Scenario, seed: int, connect: Connect) -> None:
    checked = connect()
    install(scenario, checked)
    for step in _cut(_transactions(checked, seed, 40), Random(seed)):
        checked.columns(*step)
    checked.verify()
    counts = {name: view.lively_epochs for name, view in checked.views.items()}
    assert min(counts.values()) > 0, counts


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
@pytest.mark.parametrize("seed", [11, 12])
def test_deltas_are_those_of_separate_transactions(
    scenario: Scenario, seed: int, connect: Connect
) -> None:
    results, snapshots = [], []
    for as_columns in (False, True):
        checked = connect()
        install(scenario, checked)
        heard = listen(checked)
        transactions = _transactions(checked, seed, 200)
        last = max(i for i, changes in enumerate(transactions) if changes)
        if as_columns:
            with checked.db.transactions() as txs:
                checked.fill_columns(txs, transactions)
            assert txs.epochs == range(1, last + 2)
        else:
            for changes in transactions[: last + 1]:
                with checked.db.transaction() as tx:
                    checked.fill(tx, changes)
        assert checked.db.epoch == last + 1
        results.append(consolidated(heard))
        snapshots.append({name: sorted(checked.rows(name), key=repr) for name in checked.views})
    assert results[0] == results[1] and snapshots[0] == snapshots[1]
    assert all(len({time for _, time in deltas}) > 20 for deltas in results[0].values())
