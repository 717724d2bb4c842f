"""Packed bits: the same signs, sums and bytes as rows give."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sketchlearn as skl
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.features.waves import QuantizedCosine, QuantizedSawtooth, Square
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.sketch.bits import PackedBits

D = 9
RNG = np.random.default_rng(0)
ROWS = 20 * RNG.normal(size=(700, D))
OPERATORS = {
    "complex": skl.features.FourierFeatures(D, 50, law=Gaussian(1.0), wave="square", seed=3),
    "real": skl.features.FourierFeatures(D, 128, law=Gaussian(1.0), wave=Square(complex=False), seed=4),
    "structured": skl.features.FourierFeatures(D, 37, law=Gaussian(1.0), wave="square", structured=True, seed=5),
    **{
        f"{kind.__name__} {bits}": skl.features.FourierFeatures(
            D, 41, law=Gaussian(1.0), wave=kind(bits, bits % 2 == 0), seed=6
        )
        for bits in range(2, 9)
        for kind in (QuantizedCosine, QuantizedSawtooth)
    },
}
OPERATOR = OPERATORS["complex"]


def signs(rows: int, n_bits: int, seed: int = 0):
    return np.random.default_rng(seed).choice([-1, 1], size=(rows, n_bits)).astype(np.int8)


@given(st.integers(0, 600), st.integers(1, 200), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_packing_loses_nothing(rows, n_bits, seed):
    given_signs = signs(rows, n_bits, seed)
    bits = PackedBits.from_signs(given_signs)
    assert len(bits) == rows
    assert bits.nbytes == 8 * rows * -(-n_bits // 64)
    np.testing.assert_array_equal(bits.signs(), given_signs)
    np.testing.assert_array_equal(bits.sums(), given_signs.sum(axis=0, dtype=np.int64))
    weights = np.random.default_rng(seed).integers(0, 2**40, rows)
    np.testing.assert_array_equal(bits.sums(weights), weights @ given_signs.astype(np.int64))
    assert PackedBits.from_bytes(bits.to_bytes()) == bits


def test_rows_are_chosen_as_in_numpy():
    given_signs = signs(20, 70)
    bits = PackedBits.from_signs(given_signs)
    for rows in (slice(3, 9), slice(None, None, -2), [5, 1, 1], given_signs[:, 0] > 0):
        np.testing.assert_array_equal(bits[rows].signs(), given_signs[rows])
    np.testing.assert_array_equal(bits[-1].signs(), given_signs[-1:])
    with pytest.raises(IndexError):
        bits[20]


def test_values_do_not_change_with_the_array_they_came_from():
    words = np.array([[1]], np.uint64)
    bits = PackedBits(words, 3)
    words[0] = 2
    assert bits.words[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        bits.words[0] = 2
    assert bits != PackedBits(bits.words, 4)
    assert bits != 3


@pytest.mark.parametrize("name", OPERATORS)
def test_a_sketch_of_bits_is_the_sketch_of_rows(name):
    operator = OPERATORS[name]
    bits, n = operator.pack(ROWS), operator.packed_bits
    planes = bits.signs().astype(int).reshape(len(ROWS), n, -1)
    powers = [2**place for place in reversed(range(n))]
    np.testing.assert_array_equal(np.einsum("j,ijk", powers, planes), operator.write_rows(ROWS, 1)[0])
    assert PackedBits.from_bytes(bits.to_bytes()) == bits
    assert operator.sketch_packed(bits) == operator.sketch(ROWS)
    assert skl.Sketch(operator).update_packed(bits[:300]).update(ROWS[300:]) == operator.sketch(ROWS)
    for weights in (RNG.integers(0, 9, len(ROWS)), RNG.random(len(ROWS)) + 0.1):
        updated = operator.sketch(ROWS[:5]).update_packed(bits, sample_weight=weights)
        expected = operator.sketch(ROWS[:5]).update(ROWS, sample_weight=weights)
        assert updated == expected
        assert updated.heaviest == expected.heaviest


def test_packing_in_blocks_gives_the_same_bits():
    assert OPERATOR.pack(iter([ROWS[:100], ROWS[100:]])) == OPERATOR.pack(ROWS, n_jobs=1)
    assert len(OPERATOR.pack(ROWS[:0])) == 0


@pytest.mark.parametrize(
    ("words", "n_bits", "message"),
    [
        (np.zeros((2, 1), np.int64), 3, "uint64"),
        (np.zeros(2, np.uint64), 3, "uint64"),
        (np.zeros((2, 2), np.uint64), 64, "1 column"),
        (np.full((2, 1), 8, np.uint64), 3, "beyond the first 3 must be zero"),
        (np.zeros((2, 1), np.uint64), 0, "n_bits must be a whole number"),
    ],
)
def test_words_that_are_no_signs(words, n_bits, message):
    with pytest.raises(ValueError, match=message):
        PackedBits(words, n_bits)


@pytest.mark.parametrize("odd", [[[1, 0]], [1, -1], [[1.5]], [["a"]], np.empty((3, 0)), [[np.nan]]])
def test_signs_that_are_none(odd):
    with pytest.raises(ValueError, match=r"rows of \+1 and -1"):
        PackedBits.from_signs(odd)


def test_damaged_bytes():
    data = PackedBits.from_signs(signs(3, 11)).to_bytes()
    for bad in (b"", data[:10], b"x" + data[1:], None):
        with pytest.raises(ValueError, match="not packed bits"):
            PackedBits.from_bytes(bad)
    for bad in (data[:-1], data + b"\0", data[:8] + b"\xff" * 16 + data[24:]):
        with pytest.raises(ValueError, match="damaged"):
            PackedBits.from_bytes(bad)
    with pytest.raises(ValueError, match="beyond the first 11"):
        PackedBits.from_bytes(data[:-1] + b"\xff")


def test_golden_bytes():
    assert PackedBits.from_signs([[1, -1, -1, 1, 1, 1, -1, -1, 1], [-1] * 9]).to_bytes() == (
        b"SKLBITS\x01" + (2).to_bytes(8, "little") + (9).to_bytes(8, "little") + b"\x39\x01\x00\x00"
    )
    digest = hashlib.sha256(OPERATORS["real"].pack(np.arange(90.0).reshape(10, 9) / 7).to_bytes()).hexdigest()
    assert digest == "5f863ea2a2acb88c66992fe18dc1cf8deaa6abf1cd4a80b8445dbf13b2009395"


def test_what_cannot_be_packed():
    bits = OPERATOR.pack(ROWS[:3])
    for operator in (
        skl.features.FourierFeatures(D, 60, law=Gaussian(1.0)),
        skl.features.FourierFeatures(D, 60, law=Gaussian(1.0), wave="square", subsample=20),
        skl.features.SecondMoments(D, bound=100.0),
    ):
        with pytest.raises(ValueError, match="cannot be packed into bits: use wave"):
            operator.pack(ROWS)
        with pytest.raises(ValueError, match="cannot be packed into bits: use wave"):
            skl.Sketch(operator).update_packed(bits)
    with pytest.raises(ValueError, match="have 100 bits, but this operator gives 128"):
        OPERATORS["real"].sketch_packed(bits)
    with pytest.raises(TypeError, match="expected PackedBits"):
        OPERATOR.sketch_packed(ROWS)
    with pytest.raises(ValueError, match="row 1, column 2"):
        OPERATOR.pack(np.where(np.arange(27).reshape(3, 9) == 11, np.nan, 1.0))
    with pytest.raises(ValueError, match="has shape"):
        OPERATOR.sketch_packed(bits, sample_weight=[1.0])
    finer = OPERATORS["QuantizedCosine 2"]
    with pytest.raises(ValueError, match="have 100 bits, but this operator gives 164"):
        finer.sketch_packed(bits)
    with pytest.raises(ValueError, match="randomised responses are of single bits"):
        finer.with_origin("declared").pack(ROWS, epsilon=1.0)
    one_bit = skl.features.FourierFeatures(D, 82, law=Gaussian(1.0), wave="square").with_origin("declared")
    with pytest.raises(ValueError, match="private bits are of wave='square'"):
        finer.sketch_packed(one_bit.pack(ROWS, epsilon=1.0))
    heavy = OPERATOR.sketch_packed(bits, sample_weight=[2**60] * 3)
    with pytest.raises(OverflowError, match="a sum could overflow"):
        heavy.merged(heavy, overlapping=True).update_packed(bits, sample_weight=[2**60] * 3)


@pytest.mark.parametrize("n_bits", [1, 63, 64, 65, 127, 200, 513, 4099])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (3, 5), (4, 8), (70, 67), (0, 3)])
def test_inner_products_of_bits_are_those_of_signs(n_bits, n, k, kernel_name, monkeypatch):
    monkeypatch.setattr(kernel, "active", kernel_name)
    a, b = signs(n, n_bits, 1), signs(k, n_bits, 2)
    found = PackedBits.from_signs(a).inner(PackedBits.from_signs(b))
    np.testing.assert_array_equal(found, a.astype(np.int64) @ b.T.astype(np.int64))


def test_inner_products_at_their_limits(kernel_name, monkeypatch):
    monkeypatch.setattr(kernel, "active", kernel_name)
    ones = PackedBits.from_signs(np.ones((5, 70_000), np.int8))
    assert np.all(ones.inner(ones) == 70_000)
    assert np.all(ones.inner(PackedBits.from_signs(-ones.signs())) == -70_000)


def summed(given_signs, weights):
    """The twin: eight signed weights from the left, then the next eight, in float32."""
    bits = -(-given_signs.shape[1] // 8) * 8
    padded = np.zeros((len(given_signs), bits, weights.shape[1]), np.float32)
    padded[:, : given_signs.shape[1]] = given_signs[:, :, None] * weights
    total = np.zeros((len(given_signs), weights.shape[1]), np.float32)
    for first in range(0, bits, 8):
        part = np.zeros_like(total)
        for bit in range(first, first + 8):
            part = part + padded[:, bit]
        total = total + part
    return total


@pytest.mark.parametrize("n_bits", [1, 8, 63, 130])
@pytest.mark.parametrize("columns", [1, 5, 16, 17])
def test_products_with_floats_are_the_same_in_every_block_and_kernel(n_bits, columns, kernel_name, monkeypatch):
    monkeypatch.setattr(kernel, "active", kernel_name)
    given_signs = signs(131, n_bits)
    weights = np.random.default_rng(3).normal(size=(n_bits, columns)).astype(np.float32)
    bits, expected = PackedBits.from_signs(given_signs), summed(given_signs, weights)
    np.testing.assert_array_equal(bits @ weights, expected)
    np.testing.assert_array_equal(bits[7] @ weights, expected[7:8])
    np.testing.assert_array_equal(bits @ weights[:, 0], expected[:, 0])
    np.testing.assert_allclose(bits @ weights.astype(np.float64), given_signs @ weights, rtol=1e-4, atol=1e-4)


def test_products_on_any_number_of_threads():
    a = PackedBits(RNG.integers(0, 2**63, (5000, 40), np.uint64), 2560)
    weights = RNG.normal(size=(2560, 9)).astype(np.float32)
    for found in (a.inner(a[:700], n_jobs=1), a.inner(a[:700], n_jobs=5)):
        np.testing.assert_array_equal(found[:, :3], a.signs().astype(np.int64) @ a[:3].signs().T)
    one, many = (a.dot(weights, n_jobs=n_jobs) for n_jobs in (1, 5))
    np.testing.assert_array_equal(one, many)


def test_products_that_do_not_fit():
    bits = PackedBits.from_signs(signs(3, 11))
    with pytest.raises(ValueError, match="both must have the same number of bits, not 11 and 12"):
        bits.inner(PackedBits.from_signs(signs(3, 12)))
    with pytest.raises(TypeError, match="inner takes PackedBits"):
        bits.inner(bits.signs())
    with pytest.raises(TypeError, match=r"use a.inner\(b\)"):
        bits @ bits
    for odd in (np.ones(10), np.ones((11, 2, 2)), np.ones(11, complex), 3.0):
        with pytest.raises(ValueError, match="weights must have 11 rows of numbers"):
            bits @ odd


@pytest.mark.parametrize("weights", [np.ones(300, np.int64), np.ones(4), [1, 2]])
def test_sums_want_a_whole_weight_for_each_row(weights):
    bits = PackedBits.from_signs(np.ones((4, 3)))
    with pytest.raises(ValueError, match="4 whole numbers, one for each row"):
        bits.sums(weights)
