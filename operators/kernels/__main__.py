"""`python -m operators.kernels`: see compiling."""

from operators.kernels.compiling import main

if __name__ == "__main__":
    raise SystemExit(main())
