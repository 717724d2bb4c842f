"""The same records, the same bits, on every machine: a design with a schema, and the sketch it made.

The files were written on 64-bit Arm, and `python tests/rows/test_schema_bits.py` writes them anew. The tests need no
more than pyarrow, so that they run anywhere.
"""

import json
from pathlib import Path

import pytest

import sketchlearn as skl

pa = pytest.importorskip("pyarrow")
GOLDEN = Path(__file__).parents[1] / "golden" / "schema"
COUNTRIES = ["FR", "DE", "Česko", "Cesko", "日本", None, "France", "FR "]
DATES = ["2024-02-29", "31.12.1999", None, "1970-01-01T12:30:00+02:00", "broken", "2031-07-04"]


def table() -> list[dict]:
    """Records with text, dates, flags, gaps, and numbers as whole numbers, fractions and text."""
    rows = []
    for i in range(600):
        price = [12.5 * i, i, f"{i},25", None][i % 4]
        rows.append(
            {
                "country": COUNTRIES[i % len(COUNTRIES)],
                "day": DATES[i % len(DATES)],
                "member": ["yes", "no", "ja", None, "true"][i % 5],
                "price": None if price is None else str(price),
                "size": ["small", "large", "medium"][i % 3],
                "note": "one two two" if i % 2 else "drei",
            }
        )
    return rows


def schema() -> skl.Schema:
    from sketchlearn.rows.schemas.columns import Category, Date, Flag, Number, Ordinal, Text

    return skl.Schema(
        columns=(
            Category("country", levels=("FR", "DE", "Česko", "日本"), missing="indicate"),
            Date("day", center=12_000.0, width=3000.0, cycles=("year", "week"), missing="indicate"),
            Flag("member", missing="indicate"),
            Number("price", scaling="log", center=5.0, width=2.0, decimal=",", missing="indicate"),
            Ordinal("size", levels=("small", "medium", "large")),
            Text("note", n_words=4),
        )
    )


def arrow() -> "pa.Table":
    return pa.Table.from_pylist(table())


def written(folder: Path, way: str):
    """The same records as a file, or in memory."""
    import pyarrow.csv
    import pyarrow.parquet

    path = folder / f"rows.{way}"
    if way == "arrow":
        return arrow()
    if way in ("pandas", "polars"):
        return pytest.importorskip(way).DataFrame(table())
    if way == "csv":
        pyarrow.csv.write_csv(arrow(), path)
    elif way == "parquet":
        pyarrow.parquet.write_table(arrow(), path, row_group_size=97)
    else:
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table()), encoding="utf-8")
    return path


@pytest.mark.filterwarnings("ignore:.*values that the schema does not know")
@pytest.mark.parametrize("way", ["arrow", "csv", "parquet", "jsonl", "pandas", "polars"])
def test_a_shared_design_gives_the_same_bits_on_every_machine(tmp_path, way):
    sketch = skl.load(GOLDEN / "columns.design.json").sketch(written(tmp_path, way))
    assert sketch.content() == skl.load(GOLDEN / "columns.sketch").content()


def main() -> None:
    operator = skl.design(arrow(), n_components=3, schema=schema(), seed=0)
    skl.save(operator, GOLDEN / "columns.design.json")
    operator.sketch(arrow()).save(GOLDEN / "columns.sketch")


if __name__ == "__main__":
    main()
