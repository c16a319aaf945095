"""`python -m tenter`: the command line, where its entry point is not on PATH."""

from tenter.cli import main

if __name__ == "__main__":
    main()
