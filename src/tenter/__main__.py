"""`python -m tenter`: the command line, where its entry point is not on PATH."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        # `-m` put the working folder first: a project there could replace Python's modules before anybody trusts it.
        del sys.path[0]
    from tenter.cli import main

    main()
