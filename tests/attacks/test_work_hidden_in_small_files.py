"""Small files that ask for much work in other ways than by drawing: each took seconds or gigabytes, or never ended."""

import json

import pytest

import sketchlearn as skl
from sketchlearn.core import randomness
from sketchlearn.core.containers import DESIGN, SCHEMA, to_document
from sketchlearn.estimators.base.supervised import check_labels
from sketchlearn.files.designs import design_from_bytes, schema_from_bytes
from sketchlearn.rows.schemas.columns import Date, Text
from sketchlearn.sketch import bits as private_bits
from sketchlearn.sketch import bits as randomised_response
from sketchlearn.sketch.bits import HEADER as PACKED_HEADER
from sketchlearn.sketch.bits import MAGIC as PACKED_MAGIC
from sketchlearn.sketch.bits import PackedBits, PrivateBits


class OfOneHash(int):
    """Whole numbers of one hash, as k (2^61 - 1) are: a set of n of them compares n^2 / 2 pairs."""

    compared = 0

    def __hash__(self):
        return 0

    def __eq__(self, other):
        OfOneHash.compared += 1
        return int(self) == other


@pytest.mark.parametrize("check", [check_labels, lambda given: Date("day", cycles=given)], ids=["labels", "cycles"])
def test_whole_numbers_of_one_hash_are_not_put_into_a_set(check):
    numbers = [OfOneHash(i) for i in range(1000)]
    OfOneHash.compared = 0
    try:
        check(numbers)
    except ValueError as error:
        assert "cycles are some of" in str(error)  # noqa: PT017 - labels are numbers, cycles are not
    assert OfOneHash.compared < 3 * len(numbers)


@pytest.mark.parametrize("epsilon", [21.0, 1e6, 1e300])
def test_the_series_of_a_large_epsilon_is_not_begun(epsilon, monkeypatch):
    """It has more than 2 epsilon terms: of 48 bytes that say 1e300, it never ended."""
    begun, plain = [], randomised_response.exponential_excess

    def counted(x):
        begun.append(x)
        return plain(min(x, 20))

    monkeypatch.setattr(randomised_response, "exponential_excess", counted)
    with pytest.raises(ValueError, match="more than 20"):
        PrivateBits.from_bytes(private_bits.PRIVATE_HEADER.pack(private_bits.PRIVATE_MAGIC, 0, epsilon, 100, 2, 65))
    assert begun == []


def test_bits_of_no_rows_make_no_room():
    """Sums of 2^30 bits take 8 GB, of however few rows."""
    with pytest.raises(skl.FormatError, match=r"adding them up would take about .*TRUST_FILES=1"):
        PackedBits.from_bytes(PACKED_HEADER.pack(PACKED_MAGIC, 0, 2**30))
    response = randomised_response.RandomisedResponse.best(2.0, 2**30)
    facts = (response.epsilon, response.n_bits, response.n_sent, response.factor)
    with pytest.raises(skl.FormatError, match=r"adding them up would take about .*TRUST_FILES=1"):
        PrivateBits.from_bytes(private_bits.PRIVATE_HEADER.pack(private_bits.PRIVATE_MAGIC, 0, *facts))


def test_short_rows_do_not_fill_words():
    """A row of one bit is a byte of a file, and eight in memory, several times over."""
    data = PACKED_HEADER.pack(PACKED_MAGIC, 20_000_000, 1) + b"\1" * 20_000_000
    with pytest.raises(skl.FormatError, match="adding them up would take about"):
        PackedBits.from_bytes(data)


@pytest.mark.parametrize(
    "columns",
    [
        [{"type": "Text", "name": "x" * 20_000, "n_words": 4000}],
        [{"type": "Text", "name": f"text {i}", "n_words": 4000} for i in range(300)],
        [{"type": "Category", "name": "x" * 200_000, "levels": [str(i) for i in range(1000)]}],
    ],
    ids=["long name", "many columns", "many levels"],
)
def test_numbers_of_a_schema_are_counted_before_they_are_named(columns, monkeypatch):
    """A hundred bytes of words hashed into 4096 numbers, each of which has the column's name in its own."""
    named = []
    for kind in (Text, skl.schemas.Category):
        monkeypatch.setattr(kind, "own_names", property(lambda self: (named.append(self.name) or self.name,)))
    schema = {"type": "Schema", "columns": columns}
    with pytest.raises(skl.FormatError, match="naming its numbers would take about"):
        schema_from_bytes(to_document(SCHEMA, 1, {"schema": schema}))
    form = {**skl.Histograms(1, edges=[(0, 1)]).to_json(), "columns": schema}
    with pytest.raises(skl.FormatError, match="naming its numbers would take about"):
        design_from_bytes(to_document(DESIGN, 1, {"operator": form, "made": {}}))
    assert named == []


def test_costs_of_all_parts_of_a_file_add_up():
    """Each of these parts is within the limits."""
    part = skl.FourierFeatures(4000, 1, law=skl.frequencies.Gaussian(1.0)).to_json()
    part["columns"] = {"type": "Schema", "columns": [{"type": "Text", "name": "x" * 1000, "n_words": 4000}]}
    whole = {"type": "Concatenated", "parts": [part] * 30, "digest": ""}
    with pytest.raises(skl.FormatError, match="naming its numbers would take about"):
        design_from_bytes(to_document(DESIGN, 1, {"operator": whole, "made": {}}))


def test_a_network_is_not_drawn_before_its_cost_is_known(monkeypatch):
    """Features that cannot be crossed were looked into for their inner operator, which a network draws filters for."""
    drawn, plain = [], randomness.Stream.integers
    monkeypatch.setattr(randomness.Stream, "integers", lambda self, n: drawn.append(n) or plain(self, n))
    network = {"type": "ConvolutionalFeatures", "shape": [8, 8], "n_outputs": 4, "pixels": [0.0, 1.0], "digest": ""}
    network |= {"n_filters": 4096, "filter_size": 31, "seed": 0}
    for kind in ("CrossFeatures", "FeatureMoments"):
        form = {"type": kind, "crossed": network, "bound": [1.0] * 64, "center": None, "digest": ""}
        with pytest.raises(skl.FormatError, match="crossed must be Fourier features"):
            design_from_bytes(to_document(DESIGN, 1, {"operator": form, "made": {}}))
    assert drawn == []


@pytest.mark.parametrize(
    "text", [b"[]," * 9_000_000, b'"ab":0,' * 4_000_000, b"0," * 4_000_000], ids=["lists", "keys", "numbers"]
)
def test_short_values_are_counted_before_they_are_made(text, monkeypatch):
    """27 MB of empty lists took 10 s and 1.4 GB."""
    monkeypatch.setattr(json, "loads", None)
    with pytest.raises(skl.FormatError, match=r"bytes of text: reading it would take about .*TRUST_FILES=1"):
        design_from_bytes(b'{"kind": "sketchlearn design", ' + text + b"}")
