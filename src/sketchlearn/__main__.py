"""`python -m sketchlearn` is the command `sketchlearn`."""

from sketchlearn.cli import main

if __name__ == "__main__":
    main()
