"""
Kernel machines that are asked in single bits
=============================================
Schellekens' thesis (2021), figure 3.5: five classes of four Gaussians each in the plane, and support vector machines of
the Gaussian kernel of scale 2. Either the machine is trained with the kernel, which is then replaced by products of m
random features, or it is trained on cosines. Questions, and what the machine keeps, are cosines or single bits. The
thesis reports that it takes about 300 cosines in the first case and fewer than 50 in the second for more than 97.5 per
cent; that bits cost most where the machine keeps them; and that they need stronger regularisation (C of 0.25 in place
of 5), most of all in the second case.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

import sketchlearn as skl

SCALE, CLASSES, GAUSSIANS = 2.0, 5, 4
SIDE, WIDTH = 11.5, 0.5  # of the square that means lie in, and of each Gaussian
SIZES, PENALTIES = (25, 50, 100, 300, 1000), (5.0, 0.25)
PAIRS = {  # waves of questions, and of what the machine keeps
    "cosine, cosine": ("cosine", "cosine"),
    "bits, cosine": ("square", "cosine"),
    "cosine, bits": ("cosine", "square"),
    "bits, bits": ("square", "square"),
}


def rows(n, seed):
    """Means apart from each other (each the farthest of ten), given to classes at random."""
    rng = np.random.default_rng(seed)
    means = [rng.uniform(0, SIDE, 2)]
    while len(means) < CLASSES * GAUSSIANS:
        others = rng.uniform(0, SIDE, (10, 2))
        means.append(others[np.linalg.norm(others[:, None] - np.array(means), axis=2).min(axis=1).argmax()])
    which = rng.integers(len(means), size=n)
    return np.array(means)[which] + WIDTH * rng.standard_normal((n, 2)), rng.permutation(len(means))[which] % CLASSES


def features_of(pair, m, X, seed):
    """Features of the two sides; all pairs of a seed have the same frequencies and dither."""
    query, wave = PAIRS[pair]
    return skl.PeriodicFeatures(m, scale=SCALE, wave=wave, query=query, random_state=seed).fit(X)


def answers(machine, features, X, asked):
    """Classes by a machine whose kernel is replaced by products of features of questions and of support vectors."""
    questions = features.transform_queries(asked)
    decisions = [
        questions @ (part.dual_coef_ @ features.transform(X[part.support_])).ravel() + part.intercept_[0]
        for part in machine.estimators_
    ]
    return np.argmax(decisions, axis=0)


def table(n=3000, sizes=SIZES, penalties=PENALTIES, draws=7):
    """Median per cent of right answers; a fifth of the rows is asked."""
    found, (X, y) = [], rows(n, 0)
    known = 4 * n // 5
    (X, asked), (y, right) = (X[:known], X[known:]), (y[:known], y[known:])
    for penalty in penalties:
        exact = OneVsRestClassifier(SVC(C=penalty, gamma=1 / (2 * SCALE**2))).fit(X, y)
        limit = 100 * exact.score(asked, right)
        scores = {(case, pair, m): [] for case in ("kernel", "cosines") for pair in PAIRS for m in sizes}
        for m in sizes:
            for seed in range(draws):
                cosines = features_of("cosine, cosine", m, X, seed).transform(X)
                trained = OneVsRestClassifier(SVC(C=penalty, kernel="linear")).fit(cosines, y)
                for pair in PAIRS:
                    features = features_of(pair, m, X, seed)
                    for case, machine in (("kernel", exact), ("cosines", trained)):
                        found_right = answers(machine, features, X, asked) == right
                        scores[case, pair, m].append(100 * np.mean(found_right))
        for case in ("kernel", "cosines"):
            for pair in PAIRS:
                line = {"trained with": case, "C": penalty, "questions, kept": pair}
                line |= {f"m = {m}": np.median(scores[case, pair, m]).round(1) for m in sizes}
                found.append({**line, "exact": round(limit, 1)})
    return pd.DataFrame(found)


def draw(found):
    figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained", sharex=True, sharey=True)
    sizes = [name for name in found.columns if name.startswith("m = ")]
    for ax, ((case, penalty), part) in zip(axes.flat, found.groupby(["trained with", "C"], sort=False), strict=True):
        for color, (_, line) in zip(("k", "C2", "C0", "C3"), part.iterrows(), strict=True):
            ax.semilogx([int(name[4:]) for name in sizes], line[sizes], f"{color}o-", label=line["questions, kept"])
        ax.axhline(part["exact"].iloc[0], color="grey", linestyle="--", label="exact kernel")
        ax.set(title=f"trained with the {case}, C = {penalty:g}", xlabel="m", ylabel="test accuracy, %")
    axes[0, 0].legend(fontsize=8)
    return figure


# %%
# A machine that is trained with the kernel has 96.0 per cent with 300 cosines and C = 5, and needs 1,000 for more than
# 97.5; trained on cosines, 97.5 with 50. Bits in the question cost little where there are many features (96.0 with 300,
# and 96.3 with 100 after training on cosines), and bits that the machine keeps cost more (83.8 and 61.0). A smaller C
# helps these: 94.8 and 87.7. So far this is the figure of the thesis. Other than there, bits on both sides do better
# than bits that are kept alone, in all lines.
#
# The thesis has 10,000 rows and 25 draws, ``table(n=10_000, draws=25)``; here are 3,000 rows, of which 600 are asked,
# and 7 draws, and other rows of the same kind.
if __name__ == "__main__":
    numbers = table()
    print(numbers.to_string(index=False))
    draw(numbers)
