"""`python -m h2dlint`."""

import os
import sys

if sys.path and sys.path[0] == os.getcwd():
    del sys.path[0]  # else a `click.py` in the folder that is checked would be imported, and run

from h2dlint.cli import main

if __name__ == "__main__":
    main()
