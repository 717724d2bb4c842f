"""A report about a release that shows a model of exact records: it was called private, and written for all to read."""

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.cli import main

RNG = np.random.default_rng(0)
X = np.concatenate([c + 0.3 * RNG.standard_normal((2000, 2)) for c in ([-6.0, 0.0], [6.0, 0.0])])
EXACT = skl.design(bounds=([-10.0] * 2, [10.0] * 2), n_components=2).sketch(X)
RELEASE = skl.privatize(EXACT, epsilon=10.0)
PRIVATE = "<span>private release</span>"


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("sketch", [RELEASE, EXACT], ids=["release", "exact sketch"])
def test_a_page_is_private_if_all_that_it_shows_is(sketch, tmp_path):
    usual = tmp_path / "usual"
    usual.touch()
    for learned in (RELEASE, EXACT):
        model, path = skl.SketchKMeans(2, random_state=0).fit_sketch(learned), tmp_path / "page.html"
        page = skl.report(sketch, model, path)
        private = sketch is RELEASE and learned is RELEASE
        assert (PRIVATE in page) == private
        assert mode(path) == (mode(usual) if private else 0o600)
        path.unlink()
        sketch.save(tmp_path / "records.sketch")
        skl.save(model, tmp_path / "model.json")
        with pytest.raises(SystemExit):
            main(["report", str(tmp_path / "records.sketch"), str(tmp_path / "model.json"), "-o", str(path)])
        assert (PRIVATE in path.read_text()) == private
        assert mode(path) == (mode(usual) if private else 0o600)
        path.unlink()
