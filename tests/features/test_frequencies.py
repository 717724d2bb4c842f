"""Laws: reproducible to the bit, and distributed as they say. Statistics are at a confidence of 99.99 %."""

import hashlib

import numpy as np
import pytest
from cases import LAWS
from scipy import integrate, special, stats

from sketchlearn.core.randomness import Stream, logarithm, normal_quantile
from sketchlearn.features.frequencies import (
    MEAN_SQUARES,
    AdaptedRadius,
    Cauchy,
    FoldedGaussian,
    Gaussian,
    Law,
    Mixture,
    Probed,
    ProductCauchy,
    Shaped,
    Weighted,
)

# SHA-256 of 4 x 100 frequencies of seed 1, in float64: what every machine and version must draw.
DIGESTS = {
    "log-uniform": "bce3e2e916c2153e",
    "gaussian": "1f0ed7240ab102d5",
    "folded": "6fc287f05e1de2c8",
    "adapted-mixture": "5fe28c75a118a341",
    "adapted-kmeans": "773328a66895b32f",
    "cauchy": "dcd7ca113e80dfab",
    "product-cauchy": "8c35063dd50703d4",
    "weighted": "f71819889f378fd4",
    "mixture": "5ccb04bcd241cdf3",
}


@pytest.mark.parametrize("name", LAWS)
def test_drawn_numbers_never_change(name):
    drawn = LAWS[name].draw(4, 100, Stream(1, "frequencies"))
    assert hashlib.sha256(drawn.astype("<f8").tobytes()).hexdigest()[:16] == DIGESTS[name]


@pytest.mark.parametrize(
    "name", [name for name in LAWS if name not in ("cauchy", "product-cauchy", "mixture", "log-uniform")]
)
@pytest.mark.parametrize("d", [1, 7])
def test_mean_square_length_is_d_over_scale_squared(name, d):
    squares = LAWS[name].radii(d, 100_000, Stream(2, "test")) ** 2
    assert abs(squares.mean() - d / 4) < 4 * squares.std() / np.sqrt(len(squares))


def radius_density(name, d):
    """Unnormalised density of the length, for scale 1."""
    if name == "gaussian":
        return lambda r: r ** (d - 1) * np.exp(-(r**2) / 2)
    if name == "folded":
        return lambda r: np.exp(-(r**2) / (2 * d))
    if name == "adapted-kmeans":
        return lambda r: r * np.exp(-(r**2) / d)
    c = np.sqrt(MEAN_SQUARES["mixture"] / d)
    return lambda r: np.sqrt((c * r) ** 2 + (c * r) ** 4 / 4) * np.exp(-((c * r) ** 2) / 2)


@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("gaussian", Gaussian(1.0)),
        ("folded", FoldedGaussian(1.0)),
        ("adapted-kmeans", AdaptedRadius(1.0, "kmeans")),
        ("adapted-mixture", AdaptedRadius(1.0)),
    ],
)
def test_lengths_follow_their_density(name, law, d):
    r = law.radii(d, 20_000, Stream(3, "test"))
    grid = np.linspace(0, 40, 200_001)
    cumulative = integrate.cumulative_simpson(radius_density(name, d)(grid), x=grid, initial=0)
    assert stats.kstest(r, lambda x: np.interp(x, grid, cumulative / cumulative[-1])).pvalue > 1e-4


def test_the_mean_square_of_the_adapted_radius():
    p = lambda r: np.sqrt(r**2 + r**4 / 4) * np.exp(-(r**2) / 2)  # noqa: E731
    expected = integrate.quad(lambda r: r**2 * p(r), 0, 40)[0] / integrate.quad(p, 0, 40)[0]
    assert MEAN_SQUARES["mixture"] == pytest.approx(expected, rel=1e-10)


def test_the_weighted_law_follows_its_density():
    d, k = 3, 10
    law = Weighted(1.0, n_components=k)
    epsilon = law._parameters(d)[2]
    grid = np.linspace(0, 60, 200_001)
    density = grid ** (d - 1) * (1 + (epsilon * grid) ** 2) * np.exp(-((epsilon * grid) ** 2) / (2 * np.log(k)))
    cumulative = integrate.cumulative_simpson(density, x=grid, initial=0)
    r = law.radii(d, 20_000, Stream(4, "test"))
    assert stats.kstest(r, lambda x: np.interp(x, grid, cumulative / cumulative[-1])).pvalue > 1e-4
    assert np.allclose(law.weights(d, r), 1 / (1 + epsilon * r))


def test_the_cauchy_law_gives_the_exponential_kernel():
    omega = Cauchy(2.0).draw(3, 400_000, Stream(5, "test"))
    for x in ([0.5, 0.0, 0.0], [1.0, -1.0, 2.0]):
        expected = np.exp(-0.6744897501960817 * np.linalg.norm(x) / 2)
        assert abs(np.cos(np.array(x) @ omega).mean() - expected) < 4 / np.sqrt(400_000)


def test_the_product_of_cauchy_laws_gives_the_laplace_kernel():
    omega = ProductCauchy(2.0).draw(3, 400_000, Stream(5, "test"))
    for x in ([0.5, 0.0, 0.0], [1.0, -1.0, 2.0]):
        distance = np.abs(x).sum()
        expected = np.exp(-0.6744897501960817 * distance / 2)
        assert ProductCauchy(2.0).kernel(np.array([distance]), 3)[0] == pytest.approx(expected)
        assert abs(np.cos(np.array(x) @ omega).mean() - expected) < 4 / np.sqrt(400_000)
    for row in omega[:, :20_000]:
        assert stats.kstest(row * 2 / 0.6744897501960817, "cauchy").pvalue > 1e-4
    assert abs(np.corrcoef(np.abs(omega) > np.median(np.abs(omega)))[0, 1:]).max() < 4 / np.sqrt(400_000)


def test_a_product_of_cauchy_laws_has_no_radii():
    for made in (lambda law: Mixture((law,)), lambda law: Shaped(law, Gaussian(1.0), ((1.0, 1.0),))):
        with pytest.raises(ValueError, match=r"isotropic|prefers some directions"):
            made(ProductCauchy(2.0))
    with pytest.raises(ValueError, match="prefers some directions"):
        ProductCauchy(2.0).radii(2, 3, Stream(0, "test"))


@pytest.mark.parametrize("name", [name for name in LAWS if LAWS[name].isotropic])
def test_directions_are_uniform(name):
    omega = LAWS[name].draw(3, 20_000, Stream(6, "test"))
    height = omega[2] / np.linalg.norm(omega, axis=0)  # uniform on [-1, 1] on the sphere in three dimensions
    assert stats.kstest(height, "uniform", args=(-1, 2)).pvalue > 1e-4


def test_mixtures_keep_their_shares():
    r = Mixture((Gaussian(1e-6), Gaussian(1e6)), shares=(3, 1)).radii(2, 40_000, Stream(7, "test"))
    assert np.all(r > 0)
    assert abs(np.mean(r > 1) - 0.75) < 4 * np.sqrt(0.75 * 0.25 / 40_000)


def test_normal_numbers():
    p = np.concatenate([Stream(8, "test").uniform(100_000), [2.0**-53, 1e-300, 0.5, 0.075, 0.925, 1 - 2.0**-53]])
    assert np.allclose(normal_quantile(p), special.ndtri(p), rtol=1e-14, atol=1e-15)
    assert stats.kstest(Stream(9, "test").normal(100_000), "norm").pvalue > 1e-4


def philox(key, blocks):
    """Philox 4x64 with 10 rounds, as published: counters 1, 2, ... (NumPy counts before it draws)."""
    mask, result = 2**64 - 1, []
    for counter in range(1, blocks + 1):
        c, k = [counter, 0, 0, 0], list(key)
        for _ in range(10):
            high0, low0 = divmod(0xD2E7470EE14C6C93 * c[0], 2**64)
            high1, low1 = divmod(0xCA5A826395121157 * c[2], 2**64)
            c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
            k = [(k[0] + 0x9E3779B97F4A7C15) & mask, (k[1] + 0xBB67AE8584CAA73B) & mask]
        result += c
    return result


def test_bits_are_those_of_the_published_generator():
    name = int.from_bytes(hashlib.sha256(b"frequencies").digest()[:8], "little")
    for seed in (0, 7, 2**64 - 1):
        assert Stream(seed, "frequencies").integers(40).tolist() == philox((seed, name), 10)


@pytest.mark.parametrize("degrees", [1, 2, 3, 7, 1000])
def test_chi_numbers(degrees):
    assert stats.kstest(Stream(10, "test").chi(degrees, 20_000), stats.chi(degrees).cdf).pvalue > 1e-4


def test_logarithm():
    x = np.exp(np.random.default_rng(0).uniform(-700, 700, 10_000))
    assert np.allclose(logarithm(x), np.log(x), rtol=1e-15, atol=1e-16)


def test_streams_are_independent():
    a, b, c = (Stream(*name).uniform(1000) for name in ((1, "a"), (1, "b"), (2, "a")))
    for x, y in ((a, b), (a, c)):
        assert abs(np.corrcoef(x, y)[0, 1]) < 4 / np.sqrt(1000)
    assert np.all(np.abs(Stream(1, "a").signs(1000)) == 1)


@pytest.mark.parametrize("name", LAWS)
def test_laws_survive_json(name):
    assert Law.from_json(LAWS[name].to_json()) == LAWS[name]


TILTED = Shaped(Gaussian(1.0), AdaptedRadius(2.0), shapes=((0.1, 3.0, 2.0), (1.0, -0.5, 0.01)), share=0.25)


def test_shaped_frequencies_never_change():
    drawn = TILTED.draw(2, 100, Stream(1, "frequencies"))
    assert hashlib.sha256(drawn.astype("<f8").tobytes()).hexdigest()[:16] == "bfad42bcd36ef873"


def test_local_frequencies_follow_their_law_in_the_metric_of_a_shape():
    law = Shaped(Gaussian(1.0), AdaptedRadius(2.0), shapes=((0.1, 3.0, 2.0),), share=0.9999999)
    local = law.factors(2)[0].T @ law.draw(2, 20_000, Stream(3, "test"))
    expected = AdaptedRadius(2.0).radii(2, 20_000, Stream(4, "test"))
    assert stats.ks_2samp(np.linalg.norm(local, axis=0), expected).pvalue > 1e-4
    assert stats.kstest(np.arctan2(*local), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-4


def test_a_share_of_the_frequencies_is_local():
    law = Shaped(Gaussian(1.0), Gaussian(1.0), shapes=((1e-6, 1e-6), (1e6, 1e6)), share=0.3)
    lengths = np.linalg.norm(law.draw(2, 20_000, Stream(5, "test")), axis=0)
    for part, share in ((lengths > 100, 0.15), (lengths < 1e-3, 0.15)):
        assert abs(part.mean() - share) < 4 * np.sqrt(share / len(lengths))


def test_the_smallest_share_takes_no_frequency():
    law = Shaped(Gaussian(1.0), AdaptedRadius(1.0), shapes=((1e-6, 1e-6),), share=1e-320)
    drawn = law.draw(2, 50, Stream(6, "test"))
    assert np.array_equal(drawn, Gaussian(1.0).draw(2, 50, Stream(6, "test")))


def test_shapes_are_declared_in_the_units_of_the_data():
    probed = Probed(TILTED, units=(1.0, 10.0), spread=(1.0, 1.0))
    np.testing.assert_allclose(probed.covariances(2)[0], [[0.01, 3.0], [3.0, 1300.0]])
    assert Law.from_json(probed.to_json()) == probed
    assert Gaussian(1.0).covariances(2).shape == (0, 2, 2)
    np.testing.assert_allclose(probed.widths(2), [1.0, 10.0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Shaped(Gaussian(1.0), TILTED, shapes=((1.0,),)), "local must be an isotropic distribution"),
        (lambda: Shaped(Gaussian(1.0), Gaussian(1.0), shapes=()), "at least one shape"),
        (lambda: Shaped(Gaussian(1.0), Gaussian(1.0), shapes=((1.0,), (1.0, 2.0))), "equally many"),
        (lambda: Shaped(Gaussian(1.0), Gaussian(1.0), shapes=((np.inf,),)), "finite number"),
        (lambda: Shaped(Gaussian(1.0), Gaussian(1.0), shapes=((1.0,),), share=1.5), "share must be below 1"),
        (lambda: TILTED.draw(4, 5, Stream(0, "test")), "not for 4 columns"),
        (lambda: Shaped(Gaussian(1.0), Gaussian(1.0), shapes=((-1.0,),)).factors(1), "must be positive"),
        (lambda: TILTED.radii(2, 5, Stream(0, "test")), "prefers some directions"),
    ],
)
def test_shaped_laws_refuse_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()
