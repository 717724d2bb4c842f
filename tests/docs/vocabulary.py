"""Where words of our own are left that the field has another word for: `python tests/docs/vocabulary.py [--all]`.

The words are those of docs/concepts/glossary.md. A line is listed if it has a word of the left column; decisions and
the changelog are records, and are left out.
"""

import argparse
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: a regular expression of what is written, and the field's word for it
WORDS = {
    r"\b[Ll]aws? of (the )?(random )?(frequencies|lengths)\b|\bfrequency laws?\b": "frequency distribution",
    r"\b(the|whatever the|same|any|their) laws?\b": "distribution",
    r"\bstable laws\b|\bbell shapes?\b|\bclouds\b": "symmetric alpha-stable distributions, cluster covariances",
    r"\bhow far apart\b|\bdistance of sketches\b": "maximum mean discrepancy",
    r"\btold apart\b|\btells? apart\b": "Voronoi cells; distinguished",
    r"\brandom sums\b": "random projections",
    r"\btravel along\b|\bthat travels? beside\b": "passive columns",
    r"\bchances\b": "inclusion probabilities",
    r"\b[Oo]penness\b": "calibration slack",
    r"\breweighted until\b": "calibration weights",
    r"\batoms?\b": "support points with exponential tilting",
    r"\btouch(es|ed)? (all|some|so many|few|of)?.{0,12}frequenc": "frequency subsampling",
    r"\bGlimpse\b|\bglimpse\b": "design sample",
    r"\bcomputed elsewhere\b": "external features",
    r"\btells_by_refusing\b|\btells? by refusing\b": "data-dependent errors",
    r"\bprotected unit\b|\bProtectedUnit\b": "privacy unit",
    r"\bhidden (sums?|parts?|reports?)\b": "secure aggregation, secret shares",
    r"\bnoise shares\b|\bshares of noise\b": "distributed noise generation",
    r"\bpass(es|ed|ing)? on\b": "forwarding",
    r"\bupkeep\b|\bhousekeeping\b": "background maintenance",
    r"\bwithout a word\b": "silently; duplicate detection by batch ids",
    r"\bmisfits?\b": "residual",
    r"\bwhat chance leaves\b|\bby chance alone\b|\bthan chance\b": "sampling error",
    r"\bhow sure\b": "standard error, confidence interval",
    r"\bhang together\b": "are correlated",
    r"\bwhat sets\b.{0,20}\bapart\b": "distinguishing features",
    r"\bwithheld\b": "not reported, because ...",
    r"\btables as people have them\b": "real-world tables",
    r"\bmakes? no sense\b": "validates parameters",
}


def files() -> list[Path]:
    """What people read: code, messages and pages."""
    found = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    left_out = ("docs/decisions", "docs/reference/generated", "docs/gallery", "docs/concepts/glossary.md")
    return [path for path in sorted(found) if not str(path.relative_to(ROOT)).startswith(left_out)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="every line, and not only how many there are")
    every, counts = parser.parse_args().all, Counter()
    for path in files():
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for pattern, word in WORDS.items():
                if found := re.search(pattern, line):
                    counts[word] += 1
                    if every:
                        print(f"{path.relative_to(ROOT)}:{number}: {found[0]!r}: {word}")
    for word, n in counts.most_common():
        print(f"{n:5} {word}")
    print(f"{sum(counts.values()):5} in all")


if __name__ == "__main__":
    main()
