"""`sketchlearn sample`: random rows of a model, as CSV."""

from __future__ import annotations

import csv
import json as json_module
import sys
from typing import Any

from sketchlearn.cli.error_messages import misused
from sketchlearn.cli.predict_command import model_from
from sketchlearn.cli.standard_streams import check_paths


def run(model: str, n_rows: int, label: str | None, seed: int, json: bool) -> None:
    """Prints rows that a generator or a mixture makes."""
    check_paths([model], [])
    learned: Any = model_from(model).set_params(random_state=seed)
    if not hasattr(learned, "sample"):
        raise misused("sample needs a generator or a mixture (fit generator, fit gmm or fit stable)")
    if label is None:
        made = learned.sample(n_rows)
    elif not hasattr(learned, "network_"):
        raise misused("--label is for generators that were learned with labels")
    else:
        labels = {str(known): known for known in learned.classes_}
        made = learned.sample(n_rows, y=labels.get(label, label))
    rows = (made[0] if isinstance(made, tuple) else made).tolist()
    names = learned.columns_ or [f"column_{i}" for i in range(learned.n_features_in_)]
    if json:
        sys.stdout.write(json_module.dumps({"columns": list(names), "rows": rows}) + "\n")
        return
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(names)
    lines.writerows(rows)
