"""Every function on every type's extremes, through views, against Spark itself.

values.py      the rows: extremes of each type in a column or two of its own
expressions.py what is computed of them: each function on each type that it takes, nested at random
engine.py      expressions as views, rows inserted and deleted; a session that dies is a death
spark.py       the same by Spark's own evaluator, row by row, errors caught
__main__.py    the command: python -m tests.extremes --pairs 100000 --seed 1
record.py      Spark's answers for a fixed sample, which test_extremes.py compares without Spark
"""
