"""docs/reference/arithmetic.md in NumPy: the integers that every kernel must give, to the bit."""

import base64
import math
import struct
from fractions import Fraction

import numpy as np

import sketchlearn as skl
from sketchlearn.features.waves import (
    Cosine,
    Exponential,
    FourierSeries,
    QuantizedCosine,
    QuantizedSawtooth,
    Sawtooth,
    Square,
    Triangle,
)

f32, f64 = np.float32, np.float64


def fma(a, b, c):
    """a b + c, rounded once to float32: the sum in float64 is made odd where it is inexact, and then rounded."""
    product = np.asarray(a, f64) * np.asarray(b, f64)  # exact: 48 bits
    c = np.asarray(c, f64)
    total = product + c
    rest = total - product
    error = (product - (total - rest)) + (c - rest)
    bits = total.view(np.int64) if total.ndim else np.array([total]).view(np.int64)[0]
    toward = np.where(error > 0, 1, -1) * np.where(total > 0, 1, -1)
    odd = np.where((error != 0) & (bits & 1 == 0), np.where(toward > 0, bits + 1, bits - 1), bits)
    return np.asarray(odd).view(f64).astype(f32)


def nearest(x):
    return np.rint(x).astype(f32)


SINE = [f32(c) for c in (112.68334, -866.5708, 3692.9429, -7483.647, 4549.512)]
COSINE = [f32(c) for c in (318.44711, -1928.9376, 5877.2407, -7146.3457, 1448.1547)]


def horner(coefficients, v):
    p = np.full_like(v, coefficients[0])
    for c in coefficients[1:]:
        p = fma(p, v, np.full_like(v, c))
    return p


def halves(u):
    v = u * u
    return horner(SINE, v) * u, horner(COSINE, v)


def to_integer(product_a, product_b, start):
    """start + a b (or start alone), rounded once to an integer, as adding 1.5 * 2^23 does."""
    return fma(product_a, product_b, f32(start) + f32(12582912)).astype(np.int64) - 12582912


def wave_integers(wave, t):
    """Integers of each part of a wave at float32 phases t (with their dither)."""
    if isinstance(wave, QuantizedCosine | QuantizedSawtooth):
        before = Exponential() if isinstance(wave, QuantizedCosine) else Sawtooth()
        steps = [(part + 2**20) * 2**wave.bits // 2**21 for part in wave_integers(before, t)[: wave.parts]]
        return [2 * np.minimum(step, 2**wave.bits - 1) + 1 - 2**wave.bits for step in steps]
    u = (t - nearest(t)).astype(f32)
    if isinstance(wave, Cosine | Exponential):
        s, c = halves(u)
        parts = [to_integer(-s, s, 2**20), to_integer(s, c, 0)]
    elif isinstance(wave, Square):
        q = np.floor(t.astype(f64) * 4) % 4
        parts = [np.where((q == 0) | (q == 3), 1, -1), np.where(q < 2, 1, -1)]
    elif isinstance(wave, Sawtooth):
        u = np.where(u < f32(0.5), u, f32(-0.5))
        later = u + np.where(u < f32(-0.25), f32(0.75), f32(-0.25))
        parts = [to_integer(x, np.full_like(x, 2**21), 0) for x in (u, later)]
    elif isinstance(wave, Triangle):
        w = np.abs(u)
        sine = np.copysign(f32(0.25) - np.abs(w - f32(0.25)), u)
        parts = [to_integer(-w, np.full_like(w, 2**22), 2**20), to_integer(sine, np.full_like(w, 2**22), 0)]
    elif isinstance(wave, FourierSeries):
        parts = [harmonics(u, pairs) for pairs in np.array(wave.kernel_coefficients, f32).reshape(wave.parts, -1, 2)]
    else:
        raise AssertionError(wave)
    return parts[: wave.parts]


def harmonics(u, pairs):
    total = np.zeros_like(u)
    for h, (a, b) in enumerate(pairs, start=1):
        w = fma(np.full_like(u, h), u, -nearest(f32(h) * u))
        s, c = (x * f32(2**-10) for x in halves(w))
        cosine, sine = fma(-s, s, np.full_like(s, 1)), s * c
        total = fma(np.full_like(u, a), cosine, fma(np.full_like(u, b), sine, total))
    return (total + f32(12582912)).astype(np.int64) - 12582912


def centred(operator, X):
    return (X - operator.middle.astype(X.dtype)).astype(f32)


def chain(x, w):
    """t[i, j] = sum over k of x[i, k] w[k, j], one fused multiply-add after the other."""
    t = np.zeros((len(x), w.shape[1]), f32)
    for k in range(x.shape[1]):
        t = fma(x[:, k, None], w[k], t)
    return t


def hadamard(y):
    h = 1
    while h < y.shape[1]:
        pairs = y.reshape(len(y), -1, 2, h)
        y = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(y.shape)
        h *= 2
    return y


def phases(operator, X):
    x = centred(operator, X)
    if not operator.structured:
        t = chain(x, operator._dense)
    else:
        s = operator._structured
        padded = np.zeros((len(x), s.size), f32)
        padded[:, : x.shape[1]] = x
        blocks = []
        for (d3, d2, d1), d0 in zip(s.signs, s.radii, strict=True):
            blocks.append(hadamard(hadamard(hadamard(padded * d3) * d2) * d1) * d0)
        t = np.concatenate(blocks, axis=1)[:, : operator.n_frequencies]
    return t + operator._dither


def groups(operator, X):
    """Group of frequencies of each row, by the documented hash."""
    result = []
    for row in centred(operator, X):
        h = operator._key
        for word in (row + f32(0)).view(np.uint32).tolist():
            h = (h ^ word) * 0x9E3779B97F4A7C15 % 2**64
            h ^= h >> 32
        result.append((h % 2**32) * operator.n_groups >> 32)
    return np.array(result)


def network_outputs(operator, X):
    """Outputs of the network in whole numbers of Python's own size, image by image, pixel by pixel."""
    (height, width), channels, k = operator.shape[:2], operator.n_channels, operator.filter_size
    low, high = operator.pixels
    levels = np.rint((np.clip(X.astype(f64), low, high) - low) * (255 / (high - low)))
    images = np.minimum(levels, 255).astype(int).reshape(len(X), height, width, channels)
    filters = operator.filters.astype(int).reshape(channels, k, k, operator.n_filters)
    weights = [(16 * np.maximum(2 * n - np.abs(cell_distances(n)), 0) + n) // (2 * n) for n in (height, width)]
    outputs = []
    for image in images:
        pooled = np.zeros((len(weights[0]), len(weights[1]), operator.n_filters), int)
        for y in range(height):
            for x in range(width):
                near = [np.clip(np.arange(k) - k // 2 + at, 0, n - 1) for at, n in ((y, height), (x, width))]
                seen = np.maximum(np.einsum("yxc,cyxf->f", image[np.ix_(*near)], filters), 0)
                pooled += weights[0][:, y, None, None] * weights[1][:, x, None] * seen
        total = np.rint(np.sqrt(pooled)).astype(int).ravel() @ operator.signs.astype(int)
        outputs.append(np.clip(total, -operator.limit, operator.limit))
    return np.array(outputs, f64).reshape(len(X), operator.n_outputs)


def cell_distances(n):
    """From the middles of the cells to those of n pixels, in units of half a pixel's share of a cell."""
    cells = min(4, n)
    return (2 * np.arange(n) + 1) * cells - (2 * np.arange(cells)[:, None] + 1) * n


def cumulant_integers(operator, X):
    """Row by row, in Python's own floats."""
    found = []
    for row in (X.astype(f64) - operator.middle).tolist():
        u, reach = [], []
        for weights in operator.unmixing:
            total = size = 0.0
            for w, x, b in zip(weights, row, operator.bound, strict=True):
                total, size = total + w * x, size + abs(w) * b
            u.append(total)
            reach.append(size * (1 + 1e-9))
        sines, cosines = zip(
            *(
                wave_pair(x * (t / (2 * math.pi)) + a / (2 * math.pi))
                for x, t, a in zip(u, operator.frequencies, operator.phases, strict=True)
            ),
            strict=True,
        )
        products = [x * (2**30 / r) * g for g in sines for x, r in zip(u, reach, strict=True)]
        found.append([round(v) for v in [*(2**30 * g for g in sines), *(2**30 * c for c in cosines), *products]])
    return np.array(found, np.int64)


def wave_pair(turns):
    """Sine and cosine of the full angle, by nine terms of the series at half of it."""
    half = math.pi * (turns - round(turns))
    square, sine, cosine = half * half, 1.0, 1.0
    for n in range(8, 0, -1):
        sine = sine * square * (-1.0 / (2 * n * (2 * n + 1))) + 1.0
        cosine = cosine * square * (-1.0 / (2 * n * (2 * n - 1))) + 1.0
    sine *= half
    return 2.0 * sine * cosine, 1.0 - 2.0 * (sine * sine)


def counted(values, edges):
    """A 1 for each value: below the first edge, in a bin, or above the last edge, which its bin holds."""
    where = np.searchsorted(edges, values, side="right") - (values == edges[-1])
    return (where[:, None] == np.arange(len(edges) + 1)).astype(np.int64)


def whole_places(operator, X):
    """The values and the place of each row, in whole numbers of Python's own size."""
    d, p = operator.n_features, operator.n_directions
    directions = np.frombuffer(base64.b64decode(operator.directions), "<i2").reshape(p, d).tolist()
    for row in X.astype(f64).tolist():
        if getattr(operator, "normalize", False):
            exponent = math.frexp(max(map(abs, row)))[1]
            near = [round(math.ldexp(x, 18 - exponent)) for x in row]
            length = math.sqrt(sum(x * x for x in near)) or 1.0
            values = [round(x / length * 2.0**22) for x in near]
        else:
            away = zip(row, operator.middle.tolist(), operator.bound, strict=True)
            values = [max(-(2**22), min(2**22, round((x - c) * (2.0**22 / b)))) for x, c, b in away]
        inner = [sum(a * v for a, v in zip(direction, values, strict=True)) for direction in directions]
        yield values, [max(-(2**20), min(2**20, round(Fraction(y, 2**operator.shift)))) for y in inner]


def voronoi_integers(operator, X):
    """Cells in the columns themselves: float32 throughout, products as chains of fused multiply-adds."""
    d = operator.n_features
    away = (X - operator.middle.astype(X.dtype)).astype(f32) * (2.0**22 / np.array(operator.bound)).astype(f32)
    v = np.clip(away, f32(-(2**22)), f32(2**22))
    cells = np.frombuffer(base64.b64decode(operator.cells), "<f4").reshape(-1, d + 1)
    own = np.argmin(cells[:, -1] - chain(v, cells[:, :-1].T), axis=1)
    small = v * f32(2.0**-7)
    numbers = [np.full(len(X), 2**30), np.rint(small * small), np.rint(v * f32(2**8))]
    if operator.radius is not None:
        numbers += median_numbers(operator, v, cells[own, :-1])
    integers = np.zeros((len(X), len(cells), operator.width), np.int64)
    integers[np.arange(len(X)), own] = np.column_stack(numbers)
    return integers.reshape(len(X), -1)


def median_numbers(operator, v, points):
    """What rows add for the median of their cell: float32 throughout, a square as a chain of fused multiply-adds."""
    d = operator.n_features
    reaches = np.array(operator.bound) / np.array(operator.units or [1.0] * d)
    factors = (reaches / reaches.max() / 2.0**22).astype(f32)
    away = fma(v, factors, -(points.astype(f64) / factors).astype(f32))
    square = np.zeros(len(v), f32)
    for k in range(d):
        square = fma(away[:, k], away[:, k], square)
    distance, radius = np.sqrt(square), f32(operator.radius / reaches.max())
    inverse = f32(1) / np.maximum(distance, radius)
    longest = 2.0 ** math.ceil(math.log2(2 * math.sqrt(d)))
    numbers = distance * f32(2.0**29 / longest), radius * inverse * f32(2**29), away * inverse[:, None] * f32(2**29)
    return [np.rint(n) for n in numbers]


def cell_integers(operator, X):
    """Row by row, in whole numbers of Python's own size."""
    if operator.in_columns:
        return voronoi_integers(operator, X)
    d, p, found = operator.n_features, operator.n_directions, []
    cells = np.frombuffer(base64.b64decode(operator.cells), "<i4").reshape(-1, p).tolist()
    for values, place in whole_places(operator, X):
        scores = [sum(2 * c * y - c * c for c, y in zip(cell, place, strict=True)) for cell in cells]
        if operator.squares == "sum":
            total = sum(round(Fraction(v, 64)) ** 2 for v in values)
            squares = [round(float(total) * (2**30 / 2.0**32 / d))]
        else:
            squares = [round(Fraction(v * v, 2**14)) for v in values]
        own = [2**30, *squares, *(v * 2**8 for v in values)]
        table = np.zeros((len(cells), len(own)), np.int64)
        table[scores.index(max(scores))] = own
        found.append(table.ravel())
    return np.array(found)


def decay(x):
    """exp(-x) in float32, 0 beyond 87."""
    y = np.minimum(x, f32(87)) * f32(-1.44269504)
    n = nearest(y)
    p = horner([f32(c) for c in (0.00132647401, 0.00967151299, 0.0555073358, 0.240222424, 0.693147004, 1.0)], y - n)
    return np.where(x < f32(87), np.ldexp(f32(1), n.astype(np.int64)).astype(f32) * p, f32(0))


def logarithm(x):
    """log(x) in float32, for x >= 1."""
    bits = x.view(np.int32)
    exponent = (bits - 0x3F3504F3) >> 23
    near = (bits - (exponent << 23)).astype(np.int32).view(f32)
    z = (near - f32(1)) / (near + f32(1))
    p = horner([f32(c) for c in (0.285714286, 0.4, 0.666666667, 2.0)], z * z)
    return fma(exponent.astype(f32), f32(0.693147181), p * z)


def statistics_integers(operator, X):
    """Expected statistics: float32 throughout, component by component."""
    d, full = operator.n_features, operator.covariances == "full"
    away = (X - operator.middle.astype(X.dtype)).astype(f32) * (2.0**22 / np.array(operator.bound)).astype(f32)
    v = np.clip(away, f32(-(2**22)), f32(2**22))
    n_squares = d * (d + 1) // 2 if full else d
    components = np.frombuffer(base64.b64decode(operator.components), "<f4").reshape(-1, 2 + d + n_squares)
    logs, coordinates, lengths = [], [], []
    for numbers in components:
        shift, slopes, length, u = (
            numbers[2 : 2 + d],
            numbers[2 + d :],
            np.zeros(len(X), f32),
            np.empty((len(X), d), f32),
        )
        for i in range(d):
            u[:, i] = shift[i]
            for k in range(0 if full else i, i + 1):
                u[:, i] = fma(v[:, k], slopes[i * (i + 1) // 2 + k if full else i], u[:, i])
            length = fma(u[:, i], u[:, i], length)
        logs.append(fma(length, numbers[1], numbers[0]))
        coordinates.append(u)
        lengths.append(length)
    top = np.max(logs, axis=0)
    parts, total = [], np.zeros(len(X), f32)
    for log in logs:
        parts.append(decay(top - log))
        total = total + parts[-1]
    shares = np.array([np.rint(part * (f32(2**22) / total)) for part in parts])
    shares[np.argmax(np.array(parts) == 1, axis=0), np.arange(len(X))] += f32(2**22) - shares.sum(axis=0)
    likelihood = np.maximum((top + logarithm(total)) * f32(2**10), f32(-(2**22)))
    found = [np.rint(likelihood)]
    for share, u, length in zip(shares, coordinates, lengths, strict=True):
        far = length > f32(0.999)
        shrink = np.where(far, f32(0.9995) / np.sqrt(np.where(far, length, f32(1))), f32(1)).astype(f32)
        u = np.where(far[:, None], u * shrink[:, None], u)
        products = share[:, None] * u
        pairs = [(i, k) for i in range(d) for k in range(0 if full else i, i + 1)]
        found += [share, *np.rint(products).T, *(to_integer(products[:, i], u[:, k], 0) for i, k in pairs)]
    return np.array(found).astype(np.int64).T


def odd_fractions(operator, X):
    """Values in units of 2^-15 of the bound, their last bits set."""
    z = np.asarray((X.astype(f64) - operator.middle) * (2.0**15 / np.array(operator.bound)))
    z = np.where(z == 0, z, (z.view(np.uint64) | np.uint64(1)).view(f64))
    return [[Fraction(float(value)) for value in row] for row in z]


def crossed(operator, X):
    """All features by all values, each product rounded once."""
    integers = record_integers(operator.crossed, X).reshape(len(X), operator.waves.wave.parts, -1)
    features = integers[:, :, : operator.n_frequencies].reshape(len(X), -1)
    values = odd_fractions(operator, X if operator.values is None else X[:, operator.values])
    unit = Fraction(2**15, operator.waves.wave.unit)
    pairs = zip(features.tolist(), values, strict=True)
    return np.array([[round(f * unit * z) for f in own for z in row] for own, row in pairs], np.int64)


def once_rounded_moments(operator, X):
    exact = odd_fractions(operator, X)
    pairs = list(zip(*np.tril_indices(operator.n_features), strict=True))
    return np.array([[round(2**15 * a) for a in row] + [round(row[j] * row[k]) for j, k in pairs] for row in exact])


def record_integers(operator, X):
    """The integers of each row."""
    X = np.asarray(X)
    if isinstance(operator, skl.features.Concatenated):
        return np.concatenate([record_integers(part, X) for part in operator.parts], axis=1)
    if isinstance(operator, skl.features.SomeColumns):
        return record_integers(operator.inner, X[:, operator.which])
    if isinstance(operator, skl.features.SomeDirections):
        return record_integers(operator.inner, np.array([place for _, place in whole_places(operator, X)], f64))
    if isinstance(operator, skl.features.CrossFeatures):
        return crossed(operator, X)
    if isinstance(operator, skl.features.FeatureMoments):
        features = record_integers(operator.crossed, X) / operator.waves.wave.unit
        return record_integers(operator.inner, np.concatenate([features, X.astype(f64)], axis=1))
    if isinstance(operator, skl.features.ConvolutionalFeatures):
        return record_integers(operator.inner, network_outputs(operator, X))
    if isinstance(operator, skl.features.SecondMoments) and operator.rounding == "once":
        return once_rounded_moments(operator, X)
    if isinstance(operator, skl.features.SecondMoments):
        y = (X.astype(f64) - operator.middle) / np.array(operator.bound)
        j, k = np.tril_indices(operator.n_features)
        return np.rint(np.concatenate([2.0**30 * y, (y[:, j] * 2.0**30) * y[:, k]], axis=1)).astype(np.int64)
    if isinstance(operator, skl.features.VeroneseMoments):
        y = X.astype(f64) - operator.middle
        a, b = np.tril_indices(operator.n_features)
        return record_integers(operator.inner, y[:, a] * y[:, b])
    if isinstance(operator, skl.features.ColumnMoments):
        y = (X.astype(f64) - operator.middle) / np.array(operator.bound)
        return np.rint(np.concatenate([2.0**30 * y, (y * 2.0**30) * y], axis=1)).astype(np.int64)
    if isinstance(operator, skl.features.Histograms):
        pairs = zip(X.astype(f64).T, operator.edges, strict=True)
        return np.concatenate([counted(column, edges) for column, edges in pairs], axis=1)
    if isinstance(operator, skl.features.ExpectedStatistics):
        return statistics_integers(operator, X)
    if isinstance(operator, skl.features.CellSums):
        return cell_integers(operator, X)
    if isinstance(operator, skl.features.CumulantFeatures):
        return cumulant_integers(operator, X)
    if isinstance(operator, skl.features.QuadraticFeatures):
        t = chain(centred(operator, X), operator._directions)
        return to_integer(t * f32(2**20), t, 0)
    parts = wave_integers(operator.wave, phases(operator, X))
    if operator.subsample:
        group = np.arange(operator.n_frequencies) // operator.subsample
        parts = [np.where(groups(operator, X)[:, None] == group, p, 0) for p in parts]
    return np.concatenate(parts, axis=1)


def row_hash(key, row):
    """Of a list of Python's floats."""
    h = key
    for x in row:
        h = (h ^ struct.unpack("<Q", struct.pack("<d", x + 0.0))[0]) * 0x9E3779B97F4A7C15 % 2**64
        h ^= h >> 29
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD % 2**64
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 % 2**64
    return h ^ h >> 33


def row_priority(rule, row):
    """By which a row is kept or not."""
    h, square = row_hash(rule.key, row), 0.0
    u = ((h >> 11) + 0.5) * 2.0**-53
    if f"{h:016x}" in rule.certain:
        return u - 1.0
    for x, c, s in zip(row, rule.center, rule.scale, strict=True):
        away = (x - c) * s
        square += away * away
    chance = 0.5 * (1.0 + square)
    return u / (chance if chance < 2.0**500 else 2.0**500)


def kept_rows(rule, X, weights=None):
    """Rows, units and limit of what is kept, by definition: all records in order of priority, the first of them."""
    totals = {}
    for row, weight in zip(X.astype(f64).tolist(), [1] * len(X) if weights is None else weights, strict=True):
        if weight:
            row = tuple(x + 0.0 for x in row)
            totals[row] = totals.get(row, 0) + round(weight * 2**16)
    order = sorted((row_priority(rule, row), row) for row in totals)
    below = order[rule.size][0] if len(order) > rule.size else math.inf
    kept = [row for _, row in order[: rule.size]]
    return np.array(kept).reshape(-1, X.shape[1]), np.array([totals[row] for row in kept], np.int64), below


def phase_error_bound(d):
    """The promised error of a phase, in units of sum |x_k w_k|."""
    return (d + 1) * math.ldexp(1, -24)
