"""Files as an adversary forges them, of every kind that is loaded; `tests/soak/fuzz.py` loads them.

Golden files, designs, models of every task, schemas, bits and reports are changed at random: in their JSON (numbers,
sizes, lists, types, whole parts), by operators in operators to random depths, in the headers before their numbers, and
in the bytes of their text. Each file follows from a seed and its number.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
import re
import struct
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as save_tensors

import sketchlearn as skl
from sketchlearn.collector.clients.secret_shares import MAGIC as HIDDEN_MAGIC
from sketchlearn.collector.clients.secret_shares import START, HiddenPart, hide, new_private_key, public_key_of
from sketchlearn.core import containers as container
from sketchlearn.core.limits import MOST_MEGABYTES, MOST_SECONDS, Cost, text_cost
from sketchlearn.estimators.files import model_from_bytes, model_to_bytes, selected_from_bytes, selected_to_bytes
from sketchlearn.estimators.registry import tasks
from sketchlearn.features.directions import packed as in_base_64
from sketchlearn.features.frequencies import AdaptedRadius, Gaussian, LogUniform, Mixture, Probed, Shaped
from sketchlearn.features.operator import Operator
from sketchlearn.files import checkpoints
from sketchlearn.files.designs import design_from_bytes, design_to_bytes, schema_from_bytes, schema_to_bytes
from sketchlearn.files.sketches import KnownOperator
from sketchlearn.privacy.class_selection import select_classes
from sketchlearn.rows.schemas.columns import Category, Date, Flag, Number, Ordinal, Text
from sketchlearn.sketch import bits as packed

GOLDEN = Path(__file__).parents[1] / "golden"
CHEAP = 0.01  # seconds; the digests of operators that cost less are corrected, so that some changed files load
NUMBERS = (0, -1, 1, 2, 7, 64, 1000, 4097, 65_535, 65_536, 10**6, 2**31, 2**53, 2**63, 10**30, 10**400)
FLOATS = (0.0, -0.0, 1e-320, 1e-150, 0.5, 1.0, 1e9, 1e150, 1e308, -1.5)
OF_ONE_HASH = [k * (2**61 - 1) for k in range(1, 3000)]  # whole numbers that a set has in one place
OTHERS = (None, True, "", "x", "x" * 10_000, [], {}, [[]], [None], {"type": "Gaussian", "scale": 1.0}, OF_ONE_HASH)
REPEATS = (2, 3, 10, 30, 100, 1000, 20_000)
MANY = 1000  # items of a list: a file with so many is changed no further: they may be one object, and all change
MOST_BYTES = 200_000  # of a part that is repeated: larger ones take long to make, and few are made
LARGEST = 30_000_000
DEPTHS = (1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 12, 22, 25, 100, 300)  # of operators in operators
FILLED = 0.001  # of all files: they take a second each
# Kinds of files, and how many of them in a hundred.
SHARES = {"sketch": 30, "design": 24, "model": 22, "report": 6, "part": 3, "schema": 5, "classes": 2, "bits": 4,
          "private bits": 2, "hidden part": 2}  # fmt: skip


@dataclass
class File:
    """A file before it is written.

    Attributes
    ----------
    kind : which of `LOADERS` reads it.
    document : its JSON or, of bits, the fields of their header.
    arrays : of safetensors files, what comes after the header.
    body : of bits and hidden parts, what comes after the header.
    """

    kind: str
    document: dict[str, Any]
    arrays: dict[str, Any] = field(default_factory=dict)
    body: bytes = b""

    @cached_property
    def places(self) -> list[tuple[Any, ...]]:
        """The paths of all parts of its document."""
        return places(self.document)

    @cached_property
    def text(self) -> str:
        """Its document as text, which is copied faster."""
        return json.dumps(self.document)


# What is changed


def of_sketch(data: bytes, kind: str = "sketch") -> File:
    arrays, description = container.unpack(data)
    return File(kind, {name: item for name, item in description.items() if name != "digest"}, arrays)


def of_json(kind: str, data: bytes) -> File:
    return File(kind, json.loads(data))


def sketches() -> list[File]:
    """Golden files, and others: with rows, private, of directions, of nested operators."""
    rows = np.random.default_rng(0).normal(size=(60, 2))
    keeping = skl.design(rows, n_components=2, rows=20).sketch(rows)
    private = skl.design(bounds=([-9, -9], [9, 9]), n_components=2).sketch(rows)
    private = skl.privatize(private, epsilon=1.0, seed_for_tests_not_private=0)
    wide = np.random.default_rng(0).normal(size=(200, 80))
    cells = skl.design(wide, n_components=3).sketch(wide)
    files = [path.read_bytes() for folder in ("sketches", "schema") for path in (GOLDEN / folder).glob("*.sketch")]
    made = (sketch.to_bytes() for sketch in (keeping, private, cells))
    return [of_sketch(data) for data in (*sorted(files), *made)]


def designs() -> list[File]:
    """Designs of all tasks, of a schema, of directions, and of distributions that no design has."""
    rng = np.random.default_rng(0)
    rows, wide = rng.normal(size=(200, 9)), rng.normal(size=(200, 80))
    names = ("kmeans", "mixture", "mixture-full", "stable", "histograms", "generator", "moments", "ica", "subspaces")
    made = [skl.design(rows, n_components=3, task=task, seed=0) for task in names]
    made += [skl.design(wide, n_components=3, features=skl.features.Cells()), skl.design(wide, task="generator")]
    made += [
        skl.design(wide, task="moments", features=skl.features.Moments(4)),
        skl.design(rows, n_components=3, rows=50),
    ]
    full = tuple(1.0 if i == j else 0.1 for i in range(9) for j in range(i + 1))
    laws = [
        Probed(Shaped(Gaussian(1.0), AdaptedRadius(1.0), ((1.0,) * 9,)), (1.0,) * 9, (1.0,) * 9),
        Shaped(Gaussian(1.0), Gaussian(1.0), (full, full)),
        Mixture((Gaussian(1.0), Mixture((LogUniform(1.0, 2.0), AdaptedRadius(1.0)))), shares=(1, 2)),
    ]
    made += [skl.features.FourierFeatures(9, 40, law=law) for law in laws]
    found = [of_json("design", design_to_bytes(operator)) for operator in made]
    return [*found, of_json("design", (GOLDEN / "schema" / "columns.design.json").read_bytes())]


def models() -> list[File]:
    """One model of each task, or several; their numbers are learned in a moment, and mean nothing."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    rows = rng.laplace(size=(300, 3)) + 8 * labels[:, None]
    kinds = ("full", "tied", "diag", "spherical")
    mixtures = [skl.SketchGaussianMixture(2, covariance_type=kind, random_state=0) for kind in kinds]
    clusters = (skl.SketchKMeans, skl.SketchKMedians, skl.SketchStableMixture)
    others = [skl.SketchPCA(2), skl.SketchICA(2, random_state=0), skl.SketchSubspaces(2, 1, random_state=0)]
    fitted = [model.fit(rows) for model in (*mixtures, *(kind(2, random_state=0) for kind in clusters), *others)]
    numbers = (skl.SketchLinearRegression(), skl.SketchRidge(), skl.SketchKernelRegressor(n_frequencies=20))
    fitted += [model.fit(rows, rows[:, 0]) for model in numbers]
    rules = ("auto", "parzen", "kernel")
    fitted += [skl.SketchClassifier(rule=rule, random_state=0).fit(rows, labels) for rule in rules]
    found = [of_json("model", model_to_bytes(model)) for model in fitted]
    wide = rng.normal(size=(300, 80))
    for table, classes in ((rows, None), (rows, labels), (wide, None)):
        model = skl.SketchGenerator(
            max_iter=1, features=skl.features.Fourier(n_frequencies=20), batch_size=20, random_state=0
        )
        found.append(_of_generator(model_to_bytes(model.fit(table, classes))))
    assert {file.document["type"] for file in found} >= set(tasks())
    return found


def _of_generator(data: bytes) -> File:
    from safetensors.numpy import load

    return File("model", json.loads(container.Header.of(data).entry), load(data))


def reports() -> list[File]:
    """What a collector takes in: sketches of its design, bits, and hidden parts; and parts of a checkpointed run."""
    rows = np.random.default_rng(0).normal(size=(60, 2))
    sketch, (bits, few) = operator_of_reports().sketch(rows), operator_of_bits()
    progress = {"name": "a", "rows": 60, "dropped": 0, "done": True}
    part = hide(
        sketch, "r1", collection="c", epoch="2026-01-01", design="d", public_key=public_key_of(new_private_key())
    )
    data = part.to_bytes()
    size = START.unpack_from(data)[1]
    facts = dict(zip(("n_rows", "n_bits"), packed.HEADER.unpack_from(bits)[1:], strict=True))
    names = ("n_rows", "epsilon", "n_bits", "n_sent", "factor")
    private = dict(zip(names, packed.PRIVATE_HEADER.unpack_from(few)[1:], strict=True))
    return [
        of_sketch(sketch.to_bytes(), "report"),
        of_sketch(sketch.without_rows().to_bytes(), "report"),
        of_sketch(sketch.to_bytes(progress=progress), "part"),
        File("bits", facts, body=bits[packed.HEADER.size :]),
        File("private bits", private, body=few[packed.PRIVATE_HEADER.size :]),
        File("hidden part", json.loads(data[START.size : START.size + size]), body=data[START.size + size : -32]),
    ]


def others() -> list[File]:
    """Schemas, and names of classes."""
    columns = [Number("a", scaling="log"), Flag("b"), Category("c", ["x", "y"], missing="indicate")]
    columns += [Ordinal("d", ["low", "high"]), Date("e", cycles=("year", "day")), Text("f", n_words=8), Text("g")]
    selected = select_classes({"a": 500, "b": 400}, epsilon=1.0, delta=1e-6)
    schema = schema_to_bytes(skl.Schema(columns, left_out=(("h", "empty"),)))
    return [of_json("schema", schema), of_json("classes", selected_to_bytes(selected))]


@cache
def operator_of_reports() -> Operator:
    """The design of a collection."""
    return skl.design(np.random.default_rng(0).normal(size=(60, 2)), n_components=2, rows=20)


@cache
def known_bits() -> KnownOperator:
    """The design of a collection of bits."""
    return KnownOperator(skl.features.FourierFeatures(2, 50, law=Gaussian(1.0), wave="square").with_origin("declared"))


def operator_of_bits() -> tuple[bytes, bytes]:
    """Bits of rows, and private ones."""
    operator, rows = known_bits().operator, np.random.default_rng(0).normal(size=(60, 2))
    return operator.pack(rows).to_bytes(), operator.pack(rows, epsilon=4.0).to_bytes()


@cache
def known_reports() -> KnownOperator:
    return KnownOperator(operator_of_reports())


def load_part(data: bytes) -> Any:
    """A part of a checkpointed run, as the next run finds it; None if it begins again."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.part").write_bytes(data)
        return checkpoints._kept(operator_of_reports(), "a", Path(folder))


LOADERS: dict[str, Callable[[bytes], Any]] = {
    "sketch": skl.from_bytes,
    "design": design_from_bytes,
    "model": model_from_bytes,
    "schema": schema_from_bytes,
    "classes": selected_from_bytes,
    "report": lambda data: known_reports().from_file(data),
    "part": load_part,
    "bits": lambda data: known_bits().from_file(data),
    "private bits": lambda data: known_bits().from_file(data),
    "hidden part": HiddenPart.from_bytes,
}


def corpus() -> dict[str, list[File]]:
    """All files that are changed, by their kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        every = sketches() + designs() + models() + reports() + others()
    return {kind: [file for file in every if file.kind == kind] for kind in SHARES}


# Changes of JSON


def places(item: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all parts of a JSON value; of long lists, of the first and last items alone."""
    found = [path] if path else []
    keys: list[Any] = list(item) if isinstance(item, dict) else []
    if isinstance(item, list):
        keys = list(range(len(item)))
        keys = keys if len(keys) <= 6 else [*keys[:3], *keys[-3:]]
    for key in keys:
        found += places(item[key], (*path, key))
    return found


def at(item: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        item = item[key]
    return item


def at_most(times: int, item: Any, dice: random.Random) -> int:
    """How often a part is repeated: so many times, unless that would take too many bytes."""
    return min(times, (LARGEST if dice.random() < 0.002 else MOST_BYTES) // len(json.dumps(item)) + 1)


def changed(item: Any, dice: random.Random, others: dict[str, list[File]]) -> Any:
    """Something else in place of a part of a file."""
    if isinstance(item, list) and dice.random() < 0.6:
        some = item * at_most(dice.choice(REPEATS), item, dice) if len(item) < 50 else item + item
        return dice.choice([some, item[: len(item) // 2], [*item, *item[-1:]], item[::-1]])
    if isinstance(item, dict) and "type" in item and dice.random() < 0.4:
        inside = [item] * at_most(dice.choice((1, 2, 1000)), item, dice)
        return dice.choice(
            [{"type": "Mixture", "laws": inside, "shares": []}, {"type": "Concatenated", "parts": inside}]
        )
    if isinstance(item, int | float) and not isinstance(item, bool) and dice.random() < 0.85:
        near = [
            item + 1,
            item - 1,
            item * 2,
            -item,
            item / 3 if abs(item) < 1e300 else 0.0,
            dice.randrange(10 ** dice.randrange(1, 12)),
        ]
        return dice.choice([*near, dice.choice(NUMBERS), dice.choice(FLOATS)])
    if dice.random() < 0.5:
        other = dice.choice(dice.choice(list(others.values())))
        return at(json.loads(other.text), dice.choice(other.places))
    return copy.deepcopy(dice.choice(OTHERS))


def change_document(file: File, dice: random.Random, files: dict[str, list[File]]) -> None:
    """One to three changes."""
    for _ in range(dice.choice((1, 1, 2, 3))):
        path = dice.choice(file.places)
        try:
            parent = at(file.document, path[:-1])
            item = parent[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue  # it went with a change before
        if isinstance(parent, str):
            continue
        if dice.random() < 0.05:
            del parent[path[-1]]
            continue
        new = parent[path[-1]] = changed(item, dice, files)
        lists = [new, *new.values()] if isinstance(new, dict) else [new]
        if any(isinstance(one, list) and len(one) >= MANY for one in lists):
            return


def fill(file: File, dice: random.Random) -> None:
    """Repeats the items of some list until the file is about as costly to read as it may be."""
    lists = [path for path in places(file.document) if isinstance(item := at(file.document, path), list) and item]
    if not lists:
        return
    path = dice.choice(lists)
    items, parent = at(file.document, path), at(file.document, path[:-1])

    def cost_of(times: int) -> Cost:
        parent[path[-1]] = items * times
        return text_cost(json.dumps(file.document).encode())

    one, three = cost_of(1), cost_of(3)
    part = dice.choice((0.3, 0.6, 0.9, 0.98))
    seconds = (part * MOST_SECONDS - one.seconds) / (three.seconds - one.seconds)
    megabytes = (part * MOST_MEGABYTES - one.megabytes) / (three.megabytes - one.megabytes)
    parent[path[-1]] = items * max(1, 1 + int(2 * min(seconds, megabytes)))


# Operators in operators


def around(form: dict[str, Any], d: int, columns: Any, dice: random.Random) -> tuple[dict[str, Any], int, Any]:
    """The form of an operator around another one of d columns; how many columns it takes, and their names."""
    kind = dice.choice(("SomeColumns", "SomeColumns", "SomeDirections", "Concatenated", "Concatenated", "Crossed"))
    if kind == "SomeColumns":
        n = d + dice.choice((0, 0, 1, 3))
        names = None if columns is None else [*columns, *(f"more {i}" for i in range(n - d))]
        if dice.random() < 0.2:  # names that the inner operator lacks
            names = [f"{dice.random()} {i}" for i in range(n)]
        form = {"type": kind, "inner_operator": form, "n_features": n, "which": list(range(d)), "digest": ""}
        return (form if names is None else {**form, "columns": names}), n, names
    if kind == "SomeDirections":
        n = dice.choice((1, 2, 9))
        directions = in_base_64(np.ones((d, n)), "<i2")
        own = {"n_directions": d, "directions": directions, "shift": 0, "bound": [1.0] * n, "center": None}
        return {"type": kind, "inner_operator": form, "n_features": n, **own, "digest": ""}, n, None
    if kind == "Concatenated":
        return {"type": kind, "parts": [form] * dice.choice((1, 1, 2, 3)), "digest": ""}, d, columns
    kind = dice.choice(("CrossFeatures", "FeatureMoments"))
    return {"type": kind, "crossed": form, "bound": [1.0] * d, "center": None, "digest": ""}, d, columns


def nested(dice: random.Random, files: dict[str, list[File]]) -> dict[str, Any]:
    """The form of operators in operators, to a random depth; there may be more of them than a file can hold."""
    leaf = json.loads(dice.choice(files[dice.choice(("sketch", "design"))]).text)["operator"]
    small = {"type": "FourierFeatures", "n_features": 1, "n_frequencies": 4, "law": {"type": "Gaussian", "scale": 1.0},
              "wave": {"type": "Exponential"}, "center": None, "seed": 0, "structured": False, "subsample": None,
              "digest": ""}  # fmt: skip
    form = first = leaf if dice.random() < 0.4 else small
    while "parts" in first:
        first = first["parts"][0]
    d, columns = first.get("n_features", 1), first.get("columns")
    d, columns = (d if isinstance(d, int) else 1), columns if isinstance(columns, list) else None
    size = len(json.dumps(form))
    for _ in range(dice.choice(DEPTHS)):
        form, d, columns = around(form, d, columns, dice)
        size = size * len(form.get("parts", (0,))) + 30 * d
        if size > 2 * MOST_BYTES:
            break
    return form


# Texts and headers


def a_size(dice: random.Random, most: float) -> int:
    """A number of bytes or items, mostly small."""
    return int(10 ** (dice.random() ** 3 * np.log10(most)))


def long_values(dice: random.Random) -> bytes:
    """Deep, long or many JSON values."""
    n = a_size(dice, 2e7)
    whole = dice.choice((b"[]", b"{}", b'""', b'"ab"', b"0", b"-1e5", b"1.5", b"[[0]]", b"null", b"1" * 308, b"NaN"))
    letters = dice.choice(
        (b"x", "é".encode(), "😀".encode(), b"\\u00e9", b"\\ud83d\\ude00", b"\\\\", b"\xff", b"{", b"[")
    )
    made: list[Callable[[], bytes]] = [
        lambda: b"[" * n + b"]" * n,
        lambda: b'{"x":' * min(n, 10**6) + b"0" + b"}" * min(n, 10**6),
        lambda: b"[" + b",".join([whole] * (n // (len(whole) + 1) + 1)) + b"]",
        lambda: b'"' + letters * (n // len(letters) + 1) + b'"',
        lambda: b'"\\ud83d\\ude00' + letters * (n // len(letters) + 1) + b'"',
        lambda: dice.choice((b"", b"-", b"0.", b"1e")) + dice.choice((b"1", b"9")) * n,
        lambda: b"{" + b",".join(b'"%d":0' % i for i in range(n // 10 + 1)) + b"}",
    ]
    return dice.choice(made)()


def forge_text(text: bytes, dice: random.Random) -> bytes:
    """Other bytes for the text of a JSON object."""
    made: list[Callable[[], bytes]] = [
        lambda: text[:-1] + b',"x":' + long_values(dice) + b"}",
        lambda: b'{"x":' + long_values(dice) + b"," + text[1:],
        lambda: text.replace(dice.choice((b"null", b"[]", b"1", b"0", b"true")), long_values(dice), 1),
        lambda: text[: dice.randrange(len(text))],
        lambda: text + dice.choice((b"\0", b" " * a_size(dice, 2e7), b"{}", b"\xff")),
        lambda: b" " * a_size(dice, 2e7) + text,
        lambda: text[:-1] + b"," + text[1:],  # every key twice
        lambda: b"\xef\xbb\xbf" + text,
        lambda: text.decode().encode(dice.choice(("utf-16", "utf-32"))),
        lambda: text.replace(b"[", b"\\u005b").replace(b"{", b"\\u007b"),
        lambda: _flipped(text, dice),
    ]
    return dice.choice(made)()


def _flipped(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.choice((1, 2, 10))):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed)


_NAMES = [f"t{i}" for i in range(400_000)]


def forge_header(data: bytes, dice: random.Random) -> bytes:
    """Another header before the numbers of a safetensors file."""
    size = struct.unpack("<Q", data[:8])[0]
    text, numbers = data[8 : 8 + size], data[8 + size :]
    header = json.loads(text)
    name = dice.choice([name for name in header if name != "__metadata__"])
    one, end = header[name], len(numbers)
    empty = {"dtype": dice.choice(("I64", "F32", "F64", "BF16", "F4", "X")), "shape": [0], "data_offsets": [end, end]}
    of_numbers = [*NUMBERS[:-1], *FLOATS, None, "1", [1], True]

    def many() -> None:
        header.update(dict.fromkeys(_NAMES[: a_size(dice, len(_NAMES))], empty))

    def elsewhere() -> None:
        one["data_offsets"] = [
            dice.choice((0, end, end - 8, *of_numbers)) for _ in range(dice.choice((0, 1, 2, 2, 2, 3)))
        ]

    def of_another_shape() -> None:
        one["shape"] = dice.choice(
            ([], [dice.choice(of_numbers)], [*one["shape"], 1], [1] * a_size(dice, 1e6), "x", None)
        )

    def of_another_type() -> None:
        one["dtype"] = dice.choice(("I64", "F64", "F32", "F16", "BF16", "BOOL", "U8", "F8_E4M3", "F4", "X", 7, None))

    def of_another_name() -> None:
        header[dice.choice(("x", "rows", "means", "lift:back", "é" * a_size(dice, 1e6), ""))] = header.pop(name)

    def with_other_entries() -> None:
        other = dice.choice((None, "x", {}, [], {"sketchlearn": 1}, {"sketchlearn": "{}"}))
        header["__metadata__"] = (
            {**header["__metadata__"], "x": "y" * a_size(dice, 2e7)} if dice.random() < 0.5 else other
        )

    if dice.random() < 0.7:
        made = (many, elsewhere, of_another_shape, of_another_type, of_another_name, with_other_entries)
        for change in dice.sample(made, dice.choice((1, 1, 2))):
            if name in header or change is many:
                change()
        text = json.dumps(header).encode()
    elif dice.random() < 0.5:
        text = forge_text(text.rstrip(), dice)
    else:
        numbers = dice.choice((b"", numbers[:-1], numbers[: len(numbers) // 2], numbers + b"\0" * a_size(dice, 6e7)))
    length = dice.choice((0, 1, 7, len(text) - 1, len(text) + 1, 2**31, 2**63, 2**64 - 1))
    return struct.pack("<Q", len(text) if dice.random() < 0.9 else max(length, 0)) + text + numbers


# From a file to its bytes


def written(file: File) -> bytes:
    """The bytes of a changed file, of which only the content is wrong."""
    document = file.document
    if file.kind == "bits":
        return packed.HEADER.pack(packed.MAGIC, document["n_rows"], document["n_bits"]) + file.body
    if file.kind == "private bits":
        fields = [document[name] for name in ("n_rows", "epsilon", "n_bits", "n_sent", "factor")]
        return packed.PRIVATE_HEADER.pack(packed.PRIVATE_MAGIC, *fields) + file.body
    if file.kind == "hidden part":
        header = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
        return with_digest_at_end(START.pack(HIDDEN_MAGIC, len(header)) + header + file.body)
    if "sums" in file.arrays:
        rows = (file.arrays["rows"], file.arrays["row_units"]) if "rows" in file.arrays else None
        return container.pack(file.arrays["sums"], document, rows)
    text = json.dumps(document, allow_nan=False)  # without indents, which take Python's slow way
    if file.arrays:
        return save_tensors(file.arrays, metadata={container.ENTRY: text})
    return text.encode()


_DIGEST, _BLANK = re.compile(rb'(?<=\\"digest\\":\\")[0-9a-f]{64}'), b"0" * 64


def with_digest_at_end(data: bytes) -> bytes:
    return data + hashlib.sha256(data).digest()


def forge_bytes(file: File, data: bytes, dice: random.Random) -> bytes:
    """Other bytes, with a digest that matches where there is one."""
    if file.kind == "hidden part":
        return with_digest_at_end(_flipped(data[:-32], dice))
    if file.kind in ("bits", "private bits"):
        return _flipped(data, dice) if dice.random() < 0.5 else data + b"\0" * a_size(dice, 6e7)
    if not file.arrays:
        return forge_text(data, dice)
    forged = forge_header(data, dice)
    if file.kind == "model":
        return forged
    return container.with_digest(_DIGEST.sub(_BLANK, forged, count=1))


def forged_file(files: dict[str, list[File]], seed: int, number: int) -> tuple[str, bytes]:
    """The kind of a file, and its bytes."""
    dice = random.Random(f"{seed} {number}")
    (kind,) = dice.choices(list(SHARES), list(SHARES.values()))
    chosen = dice.choice(files[kind])
    file = replace(chosen, document=json.loads(chosen.text), arrays=dict(chosen.arrays))
    file.places = chosen.places
    way = dice.random()
    if kind in ("sketch", "design", "report", "part") and way < 0.25:
        file.document["operator"] = nested(dice, files)
    if 0.15 < way < 0.8:
        change_document(file, dice, files)
    if dice.random() < FILLED:
        fill(file, dice)
    if dice.random() < 0.7:
        _correct_digests(file)
    data = written(file)
    return kind, forge_bytes(file, data, dice) if way >= 0.8 else data


def _correct_digests(file: File) -> None:
    """What a forger would do: the digests of what is drawn, and sums of no record that have the operator's size."""
    form = file.document.get("operator")
    try:
        operator = Operator.unverified(form)
        if operator.cost.seconds < CHEAP:
            file.document["operator"] = operator.to_json()
            if "sums" in file.arrays and operator.n_sums != len(file.arrays["sums"]) and operator.n_sums < 10**6:
                file.arrays["sums"] = np.zeros(operator.n_sums, np.int64)
                file.document["count"] = "0"
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        pass
