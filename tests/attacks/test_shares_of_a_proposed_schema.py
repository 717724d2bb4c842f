"""Shares of rare values in the rows from which a schema was proposed: through files and pickles of releases."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest

import sketchlearn as skl


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_release_has_no_shares_of_the_sample():
    words = np.array(["x", "y"] * 490 + [f"rare {i}" for i in range(20)])
    rows = pd.DataFrame({"word": words, "number": np.random.default_rng(0).standard_normal(1000)})
    schema = skl.schema(rows)
    assert dict(schema.unlisted) == {"word": 0.02}
    operator = skl.design(rows, n_components=2, schema=schema)
    sketch = operator.sketch(rows)
    release = skl.privatize(sketch, epsilon=1.0, delta=1e-6, assume_public_design=True)
    for data in (release.to_bytes(), sketch.to_bytes(), json.dumps(operator.to_json()).encode()):
        assert b"unlisted" not in data
    for value in (release, sketch):
        assert pickle.loads(pickle.dumps(value)).operator.columns.schema.unlisted == ()
