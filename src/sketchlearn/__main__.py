"""`python -m sketchlearn` is the command `sketchlearn`."""

from sketchlearn.cli import app

if __name__ == "__main__":
    app(prog_name="sketchlearn")
