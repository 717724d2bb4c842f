"""The tables of laws, waves and operators that all tests go through."""

import functools
from dataclasses import replace

import numpy as np

import sketchlearn as skl
from sketchlearn.features.directions import packed
from sketchlearn.features.frequencies import (
    AdaptedRadius,
    Cauchy,
    FoldedGaussian,
    Gaussian,
    LogUniform,
    Mixture,
    ProductCauchy,
    Weighted,
)
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

LAWS = {
    "gaussian": Gaussian(2.0),
    "folded": FoldedGaussian(2.0),
    "adapted-mixture": AdaptedRadius(2.0),
    "adapted-kmeans": AdaptedRadius(2.0, variant="kmeans"),
    "cauchy": Cauchy(2.0),
    "product-cauchy": ProductCauchy(2.0),
    "log-uniform": LogUniform(1.0, 4.0),
    "weighted": Weighted(2.0, n_components=10),
    "mixture": Mixture((Gaussian(1.0), FoldedGaussian(5.0)), shares=(2.0, 1.0)),
}

WAVES = {
    "exponential": Exponential(),
    "cosine": Cosine(),
    "square": Square(),
    "square-real": Square(complex=False),
    "sawtooth": Sawtooth(),
    "sawtooth-real": Sawtooth(complex=False),
    "triangle": Triangle(),
    "triangle-real": Triangle(complex=False),
    "series": FourierSeries((0.2 + 0.1j, 0.0, -0.1j, 0.05), complex=True),
    "series-real": FourierSeries((0.2 + 0.1j, 0.0, -0.1j, 0.05)),
    "series-long": FourierSeries(tuple(1j**k / 33 for k in range(16)), complex=True),
    "quantized-cosine": QuantizedCosine(3),
    "quantized-cosine-real": QuantizedCosine(2, complex=False),
    "quantized-sawtooth": QuantizedSawtooth(8),
    "quantized-sawtooth-real": QuantizedSawtooth(4, complex=False),
}


@functools.cache
def operators(d: int, m: int = 60) -> dict[str, skl.extend.Operator]:
    """One operator of each kind for d columns; bounds suit rows of a few units."""
    fourier = {
        f"wave-{name}": skl.features.FourierFeatures(d, m, law=Gaussian(1.0), wave=wave, seed=3)
        for name, wave in WAVES.items()
    }
    laws = {f"law-{name}": skl.features.FourierFeatures(d, m, law=law, seed=4) for name, law in LAWS.items()}
    others = {
        "center": skl.features.FourierFeatures(d, m, law=Gaussian(1.0), center=[0.3 * k - 1 for k in range(d)], seed=5),
        "subsample": skl.features.FourierFeatures(d, m, law=Gaussian(1.0), subsample=m // 4, seed=6),
        "quadratic": skl.features.QuadraticFeatures(d, m, bound=60.0 * d**0.5, center=[0.5] * d, seed=10),
        "cumulants": cumulants(d),
        "moments": skl.features.SecondMoments(
            d, bound=[60.0 + k for k in range(d)], center=[0.25] * d, rounding="twice"
        ),
        "moments-once": skl.features.SecondMoments(d, bound=[60.0 + k for k in range(d)], center=[0.25] * d),
        "columns": skl.features.ColumnMoments(d, bound=[60.0 + k for k in range(d)], center=[0.25] * d),
    }
    others["histograms"] = histograms(d)
    others |= crosses(fourier["wave-exponential"], others["subsample"])
    others["cells"] = cells(d, bound=[60.0 + k for k in range(d)], center=[0.25] * d)
    others["cells-squares"] = cells(d, bound=60.0, squares="columns", outside="refuse")
    others["cells-normalize"] = cells(d, bound=1.0, normalize=True)
    others["cells-columns"] = cells_in_columns(d)
    others["cells-medians"] = cells_in_columns(d, radius=2.0)
    others |= {f"statistics-{kind}": statistics(d, kind) for kind in ("diag", "full")}
    others |= directions(d)
    if d == 9:
        others["convolutional"] = skl.features.ConvolutionalFeatures((3, 3), m, pixels=(-60, 60), seed=11)
    both = skl.features.concatenate([others["moments"], others["quadratic"], fourier["wave-square"]])
    return {**fourier, **laws, **others, **(structured(d, m) if d >= 8 else {}), "concatenated": both, **small(d)}


def statistics(d: int, kind: str) -> skl.extend.Operator:
    """Expected statistics of three Gaussians, some rows of which are out of reach."""
    means = np.array([[((3 * i + 5 * j) % 7 - 3) / 2 for j in range(d)] for i in range(3)])
    deviations = np.array([[1 + ((i + j) % 3) / 4 for j in range(d)] for i in range(3)])
    skewed = np.tril([[((i + 2 * j) % 5 - 2) / 8 if i > j else 0.0 for j in range(d)] for i in range(d)])
    factors = deviations if kind == "diag" else deviations[:, :, None] * (np.eye(d) + skewed)
    box = {"bound": np.array([60.0 + k for k in range(d)]), "center": np.full(d, 0.25)}
    return skl.features.ExpectedStatistics.at_mixture(np.array([0.5, 0.3, 0.2]), means, factors, reach=12.0, **box)


def cumulants(d: int) -> skl.extend.Operator:
    """Of at most four components, so that there are columns that do not matter alone."""
    unmixing = [[((3 * i + 5 * j) % 7 - 3) / 4 + (i == j) for j in range(d)] for i in range(min(d, 4))]
    frequencies, phases = [0.3 + 0.7 * i for i in range(min(d, 4))], [0.4 * i for i in range(min(d, 4))]
    bound, center = [60.0 + k for k in range(d)], [0.25] * d
    return skl.features.CumulantFeatures(
        d, unmixing=unmixing, frequencies=frequencies, phases=phases, bound=bound, center=center
    )


def crosses(
    waves: skl.features.FourierFeatures, subsampled: skl.features.FourierFeatures
) -> dict[str, skl.extend.Operator]:
    """Features times values: beside the features, and of frequencies of which each record contributes to some."""
    d = waves.n_features
    values = sorted({0, d // 2, d - 1}, reverse=True)
    box = {"bound": [60.0 + k for k in range(len(values))], "center": [0.25] * len(values), "values": values}
    some = skl.features.SomeColumns(
        skl.features.FourierFeatures(len(values), 20, law=Gaussian(1.0), seed=12), d, which=values
    )
    few = {"bound": 60.0, "values": None if d < 10 else [2, 1, 20], "n_crossed": subsampled.subsample + 1}
    return {
        "crosses": skl.features.concatenate([waves, skl.features.CrossFeatures(waves, n_crossed=5, **box)]),
        "some-columns": skl.features.concatenate(
            [some, skl.features.CrossFeatures(some, n_crossed=5, bound=60.0, values=[0])]
        ),
        "crosses-subsample": skl.features.CrossFeatures(subsampled, **few),
        "feature-moments": skl.features.FeatureMoments(
            few_waves(d), bound=[60.0 + k for k in range(d)], center=[0.25] * d
        ),
    }


def few_waves(d: int) -> skl.extend.Operator:
    """Four frequencies of one column or two, which need not be all."""
    n = min(d, 2)
    waves = skl.features.FourierFeatures(n, 4, law=Gaussian(1.0), seed=13)
    return skl.features.SomeColumns(waves, d, which=range(n)) if d > n else waves


def histograms(d: int) -> skl.extend.Operator:
    """Columns with different numbers of bins; every third has few values."""
    edges = [[(j - 2 - k % 4) * 0.75 for j in range(5 + 3 * k % 20)] for k in range(d)]
    values = [[a + 0.25 for a in column[:-1]] if k % 3 == 2 else None for k, column in enumerate(edges)]
    return skl.features.Histograms(d, edges=edges, values=values)


def cells(d: int, **options) -> skl.extend.Operator:
    """Five cells, told apart in at most three directions."""
    p = min(d, 3)
    directions = np.array([[(2 * i + 3 * j) % 11 - 5 for j in range(d)] for i in range(p)]) * 2000
    points = np.array([[(5 * i + 7 * j) % 9 - 4 for j in range(p)] for i in range(5)]) * 2000
    shift = 29 if options.get("normalize") else 25
    directions, points = packed(directions, "<i2"), packed(points, "<i4")
    return skl.features.CellSums(d, n_directions=p, directions=directions, cells=points, shift=shift, **options)


def cells_in_columns(d: int, **options) -> skl.extend.Operator:
    """Nineteen cells in the columns themselves, in units of their own; some columns are clipped."""
    points = np.array([[((5 * i + 7 * j + i * j) % 13 - 6) / 4 for j in range(d)] for i in range(19)])
    bound, units = np.array([1.0 + 59 * (k % 3) for k in range(d)]), np.array([0.5 + k % 2 for k in range(d)])
    return skl.features.CellSums.at_points(
        points, bound=bound, center=np.full(d, 0.25), units=units, units_of_errors=tuple(map(float, units)), **options
    )


def directions(d: int) -> dict[str, skl.extend.Operator]:
    """Waves and moments of places in at most three directions; the latter have room for all places."""
    p = min(d, 3)
    numbers = packed(np.array([[(2 * i + 3 * j) % 11 - 5 for j in range(d)] for i in range(p)]) * 2000, "<i2")
    box = {"bound": [60.0 + k for k in range(d)], "center": [0.25] * d, "n_directions": p, "directions": numbers}
    waves = skl.features.FourierFeatures(p, 20, law=Gaussian(20_000.0), seed=14)
    moments = skl.features.SecondMoments(p, bound=2.0**20, outside="clip")
    return {
        "directions": skl.features.SomeDirections(d, inner_operator=waves, shift=20, **box),
        "directions-moments": skl.features.SomeDirections(d, inner_operator=moments, shift=17, outside="refuse", **box),
    }


def structured(d: int, m: int) -> dict[str, skl.extend.Operator]:
    size = max(32, 1 << (d - 1).bit_length())
    options = {
        "structured": {"seed": 7},
        "structured-square": {"wave": "square", "seed": 8},
        "structured-subsample": {"subsample": size, "seed": 9},
    }
    return {
        name: skl.features.FourierFeatures(
            d, 2 * size if "subsample" in o else m, law=Gaussian(1.0), structured=True, **o
        )
        for name, o in options.items()
    }


def small(d: int) -> dict[str, skl.extend.Operator]:
    """Operators for few columns only."""
    if d > 9:
        return {}
    return {"veronese": skl.features.VeroneseMoments(d, bound=[60.0 + k for k in range(d)], center=[0.25] * d)}


def clipping(operator):
    """The same operator, clipping where it would refuse rows."""
    if isinstance(operator, skl.features.Concatenated):
        return skl.features.concatenate([clipping(part) for part in operator.parts])
    return replace(operator, outside="clip") if hasattr(operator, "outside") else operator


NAMES = list(operators(9))
GOLDEN_ROWS = (np.arange(180).reshape(20, 9) % 17 - 8).astype(np.float32) / 4
