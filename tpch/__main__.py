"""`python -m tpch`."""

from tpch.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
