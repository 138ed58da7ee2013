"""`python -m epp` is the `epp` command."""

import sys

from epp.cli import main

if __name__ == "__main__":
    sys.exit(main())
