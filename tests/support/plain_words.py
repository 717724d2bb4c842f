"""What is Python in a sentence: `name=value`, `skl.`, calls, constants, and arguments by their names."""

import re

ARGUMENTS = (
    *("n_components", "n_clusters", "n_frequencies", "n_jobs", "n_rows", "n_samples", "n_dimensions", "random_state"),
    *("covariance_type", "max_iter", "assume_public_design", "allow_weak", "sample_weight", "count_share"),
    *("fit_sketch", "partial_fit"),
)
PYTHON = re.compile(
    r"\b[a-z_]\w*=(?![=\s])"  # nulls="drop"
    r"|\bskl\."
    r"|[\w\]]\((?!s\))"  # explain(), but not file(s)
    r"|\b(?:True|False|None)\b"
    r"|`"
    rf"|\b(?:{'|'.join(ARGUMENTS)})\b"
)
NAMES = re.compile(r"'[^']*'|\"[^\"]*\"|\S+\.(?:sketch|csv|json|npy|parquet|png|private)\b|LABEL=SKETCH")


def python_in(said: str) -> str | None:
    """The first piece of Python in a sentence, or None; names in quotes, and of files, are not looked at."""
    found = PYTHON.search(NAMES.sub("...", said))
    return None if found is None else found[0]
