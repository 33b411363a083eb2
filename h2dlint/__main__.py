"""`python -m h2dlint`."""

from h2dlint.cli import main

if __name__ == "__main__":
    main()
