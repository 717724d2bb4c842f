"""Signatures: whoever changes a file, or puts another one in its place, is noticed; each attack as one would try it."""

import contextlib
import json
import os
import shutil
import stat
import sys
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import reader
from cases import operators
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings
from safetensors.numpy import save as save_tensors
from typer.testing import CliRunner

import sketchlearn as skl
from sketchlearn.cli.commands import app
from sketchlearn.core import containers as container
from sketchlearn.core.signatures import check_signature, write_keys

X = np.random.default_rng(0).uniform(-5, 5, (400, 2))
OPERATOR = skl.features.SecondMoments(2, bound=5.0, outside="clip").with_origin("declared")
KEY, STRANGER = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2))
PUBLIC = KEY.public_key().public_bytes_raw().hex()
EXACT = OPERATOR.sketch(np.vstack([X, [[9.0, 9.0]]]), sample_weight=np.r_[np.full(400, 0.5), 2.0])
PRIVATE = skl.privatize(OPERATOR.sketch(X), epsilon=1.0)
WITH_ROWS = skl.design(X, n_components=2, rows=20).sketch(X)
SKETCHES = {"exact": EXACT + skl.Sketch(OPERATOR, skipped=("bad.csv",)), "private": PRIVATE, "with rows": WITH_ROWS}
NOT_SIGNED = "it is not signed, but only files signed by a trusted key are accepted: ask whoever wrote it to sign it"
FILES = {name: sketch.to_bytes(key=KEY) for name, sketch in SKETCHES.items()}


def accepted(data):
    return skl.from_bytes(data, trusted=[PUBLIC])


def packed(tensors, description):
    """A file with a digest that is right, as anybody can write it."""
    description = {name: value for name, value in description.items() if name != "digest"}
    return container.pack(
        tensors["sums"], description, (tensors["rows"], tensors["row_units"]) if "rows" in tensors else None
    )


def refused(data, message, trusted=(PUBLIC,)):
    with pytest.raises(skl.FormatError, match=message) as caught:
        skl.from_bytes(data, trusted=trusted)
    assert "\n" not in str(caught.value)


# What honest people do


@pytest.mark.parametrize("name", FILES)
def test_what_was_signed_is_accepted(name, tmp_path):
    sketch = SKETCHES[name]
    assert accepted(FILES[name]) == skl.from_bytes(FILES[name]) == sketch
    assert sketch.to_bytes(key=KEY) == FILES[name]  # the same sketch and key, the same bytes
    sketch.save(tmp_path / "a.sketch", key=KEY)
    assert (tmp_path / "a.sketch").read_bytes() == FILES[name]
    assert skl.load(tmp_path / "a.sketch", trusted=[STRANGER.public_key(), KEY.public_key()]) == sketch


@pytest.mark.parametrize("operator", operators(9, m=8).values(), ids=operators(9, m=8))
def test_sketches_of_every_operator_are_signed(operator, tmp_path):
    sketch = operator.sketch((np.arange(180).reshape(20, 9) % 17 - 8).astype(np.float32) / 4)
    data = sketch.to_bytes(key=KEY)
    assert accepted(data) == sketch
    (tmp_path / "a.sketch").write_bytes(data)
    _, sums = reader.read(tmp_path / "a.sketch")  # readers that know nothing of signatures
    assert list(sums) == sketch.sums.tolist()


@pytest.mark.parametrize("name", FILES)
def test_the_signature_is_what_the_page_says(name):
    """Checked from docs/reference/file-format.md alone, without the package."""
    data = FILES[name]
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    description = json.loads(header["__metadata__"]["sketchlearn"])
    key, value = description["signature"]["key"], description["signature"]["value"]
    for digits in (description["digest"], value):
        assert data.count(digits.encode()) == 1
        data = data.replace(digits.encode(), b"0" * len(digits))
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(value), data)


def test_a_signature_changes_nothing_else():
    for name, sketch in SKETCHES.items():
        tensors, description = container.unpack(FILES[name])
        assert description.pop("signature").keys() == {"key", "value"}
        assert packed(tensors, description) == sketch.to_bytes()


def test_digits_that_look_like_a_blank_do_not_disturb():
    names = ("0" * 128, "0" * 64, '"signature":{"key":"' + PUBLIC + '","value":"' + "0" * 128 + '"}')
    sketch = OPERATOR.sketch(X) + skl.Sketch(OPERATOR, skipped=names)
    assert accepted(sketch.to_bytes(key=KEY)).skipped == tuple(sorted(names))


def test_sums_are_not_signed_unless_a_key_is_given(tmp_path):
    paths = [tmp_path / "a.sketch", tmp_path / "b.sketch"]
    for path, rows in zip(paths, (X[:100], X[100:]), strict=True):
        OPERATOR.sketch(rows).save(path, key=KEY)
    total = skl.merge(paths, trusted=iter([PUBLIC]))
    assert total == OPERATOR.sketch(X)
    refused(total.to_bytes(), "it is not signed")
    assert accepted(total.to_bytes(key=KEY)) == total
    OPERATOR.sketch(X[:1]).save(paths[1])
    with pytest.raises(skl.FormatError, match=rf"b\.sketch: {NOT_SIGNED}"):
        skl.merge(paths, trusted=[PUBLIC])


# Attacks


def test_exact_sums_with_a_copied_ledger_are_refused():
    """The forgery that a digest does not notice: it loads as private, and has no noise."""
    description = container.unpack(FILES["private"])[1]
    sums = {"sums": OPERATOR.sketch(X).sums}
    forgery = packed(sums, {**description, "count": "400"})
    refused(forgery, "its signature does not match: it was changed after it was signed")
    refused(forgery, "its signature does not match", trusted=None)
    del description["signature"]
    forgery = packed(sums, {**description, "count": "400"})
    assert skl.from_bytes(forgery).ledger == PRIVATE.ledger  # nothing is known about who wrote it
    refused(forgery, NOT_SIGNED)
    refused(skl.from_bytes(forgery).to_bytes(key=STRANGER), "signed by the key 8139770ea87d.*, which is not trusted")


def test_a_signature_of_another_key_under_a_trusted_name_is_refused():
    tensors, description = container.unpack(PRIVATE.to_bytes(key=STRANGER))
    value = description["signature"]["value"]
    refused(packed(tensors, {**description, "signature": {"key": PUBLIC, "value": value}}), "does not match")


def changed(value):
    """Other values in the place of one, of every kind that JSON has."""
    if isinstance(value, dict):
        yield from ({**value, name: new} for name in value for new in changed(value[name]))
        yield from ({k: v for k, v in value.items() if k != name} for name in value)
        yield {**value, "more": 1}
    elif isinstance(value, list):
        yield from ([*value[:i], new, *value[i + 1 :]] for i in range(len(value)) for new in changed(value[i]))
        yield [*value, 1]
    elif isinstance(value, bool) or value is None:
        yield not value
    elif isinstance(value, int | float):
        yield value + 1 if isinstance(value, int) else np.nextafter(value, np.inf)
    else:
        yield value[:-1] + ("1" if value[-1:] != "1" else "2")


@pytest.mark.parametrize("name", FILES)
def test_every_field_counts(name):
    """The signature alone refuses each, whatever else would."""
    tensors, description = container.unpack(FILES[name])
    fields = {field: value for field, value in description.items() if field != "digest"}
    assert fields.keys() >= {"count", "bits", "operator", "software", "format", "signature"}
    forgeries = [packed(tensors, forged) for forged in changed(fields) if forged.get("format") == fields["format"]]
    for tensor in tensors:
        for position in list(np.ndindex(tensors[tensor].shape))[:: 1 + tensors[tensor].size // 60]:
            array = tensors[tensor].copy()
            array[position] += 1
            forgeries.append(packed({**tensors, tensor: array}, fields))
    for data in forgeries:
        with pytest.raises(skl.FormatError):
            check_signature(data, container.unpack(data)[1], frozenset([PUBLIC]))
    for data in forgeries[::10]:
        with pytest.raises(skl.FormatError):
            accepted(data)


def test_a_signature_does_not_fit_another_file():
    donor = container.unpack(FILES["private"])[1]["signature"]
    for name in ("exact", "with rows"):
        tensors, description = container.unpack(FILES[name])
        refused(packed(tensors, {**description, "signature": donor}), "does not match")
    tensors, description = container.unpack(skl.privatize(OPERATOR.sketch(X[:200]), epsilon=1.0).to_bytes())
    refused(packed(tensors, {**description, "signature": donor}), "does not match")


def with_text(data, change):
    """The file with another text of its description, and the digest of that."""
    tensors, description = container.unpack(data)
    text = json.dumps({**description, "digest": "0" * 64}, sort_keys=True, separators=(",", ":"))
    return container.with_digest(save_tensors(tensors, metadata={"sketchlearn": change(text)}))


def test_a_signature_cannot_hide_elsewhere():
    """Where blanks are put must not be for the forger to choose."""
    value = container.unpack(FILES["private"])[1]["signature"]["value"]
    assert with_text(FILES["private"], lambda text: text) == FILES["private"]
    escaped = "".join(f"\\u{ord(digit):04x}" for digit in value)
    refused(with_text(FILES["private"], lambda text: text.replace(value, escaped)), "must be there once")
    note = f'"note":"{value}",'
    for with_note in (lambda text: "{" + note + text[1:], lambda text: "{" + note + text[1:].replace(value, escaped)):
        refused(with_text(FILES["private"], with_note), "must be there once|does not match")
    refused(with_text(FILES["private"], lambda text: " " + text), "does not match")
    refused(with_text(FILES["private"], lambda text: text.replace(value, value.upper())), "its signature is damaged")


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        {},
        "f" * 128,
        {"key": PUBLIC},
        {"key": PUBLIC, "value": None},
        {"key": PUBLIC, "value": "f" * 126},
        {"key": PUBLIC, "value": "f" * 130},
        {"key": PUBLIC, "value": "g" * 128},
        {"key": PUBLIC[:-2], "value": "f" * 128},
        {"key": PUBLIC + "00", "value": "f" * 128},
        {"key": PUBLIC.upper(), "value": "f" * 128},
        {"key": PUBLIC, "value": "f" * 128, "more": 1},
        {"key": int(PUBLIC, 16), "value": "f" * 128},
        {"key": PUBLIC + "\n", "value": "f" * 128},
    ],
)
def test_signatures_of_another_form_are_refused(entry):
    tensors, description = container.unpack(FILES["private"])
    for trusted in ([PUBLIC], None):
        refused(packed(tensors, {**description, "signature": entry}), "its signature is damaged", trusted)


@pytest.mark.parametrize("value", ["0" * 128, "f" * 128, "0" * 64 + "f" * 64])
def test_odd_signatures_and_keys_are_refused(value):
    tensors, description = container.unpack(FILES["private"])
    for key in (PUBLIC, "0" * 64, "f" * 64, f"{1:064x}"):
        data = packed(tensors, {**description, "signature": {"key": key, "value": value}})
        with pytest.raises(skl.FormatError):
            accepted(data)


def test_truncated_and_extended_files_are_refused():
    data = FILES["private"]
    for other in [data[:n] for n in range(0, len(data), 7)] + [data + b"\0", data + data]:
        with pytest.raises(skl.FormatError):
            accepted(other)


def flipped(data, flips):
    changed = bytearray(data)
    for position, mask in flips:
        changed[position % len(changed)] ^= mask
    return bytes(changed)


def blank(data):
    return data.replace(container.unpack(data)[1]["digest"].encode(), b"0" * 64)


@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_is_refused_whatever_the_digest(bit):
    data = FILES["private"]
    without = blank(data)
    for position in range(len(data)):
        for forgery in (
            flipped(data, [(position, 1 << bit)]),
            container.with_digest(flipped(without, [(position, 1 << bit)])),
        ):
            with pytest.raises(skl.FormatError):
                accepted(forgery)


@settings(max_examples=200)
@given(
    name=st.sampled_from(sorted(FILES)),
    flips=st.lists(st.tuples(st.integers(0, 2**16), st.integers(1, 255)), min_size=1, max_size=5),
    new_digest=st.booleans(),
)
def test_flipped_bytes_are_refused(name, flips, new_digest):
    data = FILES[name]
    forgery = container.with_digest(flipped(blank(data), flips)) if new_digest else flipped(data, flips)
    if forgery == data:  # two flips that undo each other
        return
    with pytest.raises(skl.FormatError):
        accepted(forgery)
    with pytest.raises(skl.FormatError):
        skl.from_bytes(forgery)


# Keys


def pem(key, password=None):
    kind = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, kind)


def public_pem(key):
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A folder with keys of all kinds."""
    folder = tmp_path_factory.mktemp("keys")
    rsa_key = rsa.generate_private_key(65537, 2048)
    files = {
        "mine.key": pem(KEY),
        "mine.pub": PUBLIC.upper().encode() + b"\r\n",
        "mine.pem": public_pem(KEY.public_key()),
        "locked.key": pem(KEY, b"secret"),
        "rsa.key": pem(rsa_key),
        "rsa.pem": public_pem(rsa_key.public_key()),
        "short.pub": PUBLIC[:-1].encode(),
        "empty": b"",
        "odd": bytes(range(256)),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def test_keys_are_files_digits_or_objects(keys):
    data = PRIVATE.to_bytes(key=keys / "mine.key")
    assert data == PRIVATE.to_bytes(key=str(keys / "mine.key")) == FILES["private"]
    for key in (PUBLIC, PUBLIC.upper(), keys / "mine.pub", str(keys / "mine.pem"), KEY.public_key()):
        assert skl.from_bytes(data, trusted=[key]) == PRIVATE
        assert skl.from_bytes(data, trusted=[f"{1:064x}", key]) == PRIVATE


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        ("nope.key", OSError, "cannot read the key .*nope.key: No such file"),
        (".", OSError, "cannot read the key .*: Is a directory"),
        ("mine.pub", ValueError, "mine.pub has no private ed25519 key: give the .key file"),
        ("mine.pem", ValueError, "mine.pem has no private ed25519 key"),
        ("rsa.key", ValueError, "rsa.key has no private ed25519 key"),
        ("empty", ValueError, "empty has no private ed25519 key"),
        ("odd", ValueError, "odd has no private ed25519 key"),
        ("locked.key", ValueError, "the key in .*locked.key has a password: give one without"),
        (KEY.public_key(), TypeError, "key must be the path of a private key, or an Ed25519PrivateKey, not"),
        (bytes(32), TypeError, "key must be the path of a private key, or an Ed25519PrivateKey, not bytes"),
    ],
)
def test_other_private_keys_are_refused(key, error, message, keys):
    with pytest.raises(error, match=message):
        PRIVATE.save(keys / "a.sketch", key=keys / key if isinstance(key, str) else key)
    assert not (keys / "a.sketch").exists()


@pytest.mark.parametrize(
    ("trusted", "error", "message"),
    [
        ([], ValueError, "trusted is empty, so no file would be accepted"),
        (PUBLIC, TypeError, "trusted must be a list of public keys, not str"),
        (bytes.fromhex(PUBLIC), TypeError, "trusted must be a list of public keys, not bytes"),
        (KEY.public_key(), TypeError, "trusted must be a list of public keys"),
        ([PUBLIC[:-1]], ValueError, "is neither a public key .64 hexadecimal digits. nor a file"),
        ([PUBLIC + "0"], ValueError, "is neither a public key"),
        (["g" + PUBLIC[1:]], ValueError, "is neither a public key"),
        ([""], ValueError, "is neither a public key"),
        ([PUBLIC, PUBLIC[:-2]], ValueError, "is neither a public key"),
        ([KEY], TypeError, "a trusted key must be its digits, a path, or an Ed25519PublicKey, not"),
        ([bytes.fromhex(PUBLIC)], TypeError, "a trusted key must be its digits, a path, or an Ed25519PublicKey, not"),
        ([None], TypeError, "a trusted key must be its digits, a path, or an Ed25519PublicKey, not NoneType"),
    ],
)
def test_other_lists_of_keys_are_refused(trusted, error, message):
    """None of them is taken for no list at all."""
    with pytest.raises(error, match=message):
        skl.from_bytes(FILES["private"], trusted=trusted)


@pytest.mark.parametrize("name", ["mine.key", "rsa.pem", "short.pub", "empty", "odd"])
def test_files_without_a_public_key_are_refused(name, keys):
    with pytest.raises(ValueError, match=f"{name} has no public ed25519 key: give the .pub file"):
        skl.from_bytes(FILES["private"], trusted=[keys / name])


def test_without_the_package(monkeypatch):
    """A signed file is read, with a word about it; whoever asks for a trusted key is not put off with less."""
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.warns(UserWarning, match="the signature of a sketch was not checked: pip install"):
        assert skl.from_bytes(FILES["private"]) == PRIVATE
    for ask in (accepted, lambda _: PRIVATE.to_bytes(key="mine.key"), lambda _: write_keys("mine")):
        with pytest.raises(ImportError, match=r"this needs cryptography: pip install 'sketchlearn\[signing\]'"):
            ask(FILES["private"])
    refused(PRIVATE.to_bytes(), "it is not signed")


# The command line


def run(line, code=0):
    """What a command says, or how it fails."""
    told = CliRunner().invoke(app, line.split())
    assert told.exit_code == code, told.output
    return told.stderr if code else told.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with rows, a design, keys and sketches: not to be written to."""
    folder = tmp_path_factory.mktemp("made")
    np.savetxt(folder / "rows.csv", X, delimiter=",", header="a,b", comments="", fmt="%.6f")
    with contextlib.chdir(folder):
        run("design --bounds -5,5 --columns a,b --task moments -o design.json")
        run("keygen mine")
        run("keygen other")
        run("sketch rows.csv --design design.json --key mine.key -o signed.sketch")
        run("sketch rows.csv --design design.json -o plain.sketch")
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """Where commands run: a copy."""
    monkeypatch.chdir(shutil.copytree(made, tmp_path / "copy"))


@pytest.mark.usefixtures("folder")
def test_keygen_makes_two_files_once():
    assert stat.S_IMODE(os.stat("mine.key").st_mode) == 0o600
    before = [Path(name).read_bytes() for name in ("mine.key", "mine.pub")]
    assert before[0].startswith(b"-----BEGIN PRIVATE KEY-----")
    assert "mine.key is there already: give another name" in run("keygen mine", 1)
    os.rename("mine.key", "other.key")
    assert "mine.pub is there already" in run("keygen mine", 1)
    assert not os.path.exists("mine.key")
    os.symlink("nowhere", "link.key")
    assert "link.key is there already" in run("keygen link", 1)
    assert "No such file" in run("keygen no/folder", 1)
    assert [Path(name).read_bytes() for name in ("other.key", "mine.pub")] == before
    told = json.loads(run("keygen more --json"))
    assert Path("more.pub").read_text() == told["key"] + "\n"


@pytest.mark.usefixtures("folder")
def test_info_says_who_signed():
    digits = Path("mine.pub").read_text().strip()
    assert f"{digits} (not compared with any trusted key: give --trusted)" in run("info signed.sketch")
    assert f"{digits} (a trusted key)" in run("info signed.sketch --trusted mine.pub")
    assert "nobody" in run("info plain.sketch")
    told = [json.loads(run(f"info {line} --json")) for line in ("signed.sketch", "signed.sketch --trusted mine.pub")]
    assert [(each["signed_by"], each["trusted"]) for each in told] == [(digits, False), (digits, True)]
    assert "designs, models and schemas are not signed: leave out --trusted" in run(
        "info design.json --trusted mine.pub", 1
    )


# all but `fit generator`, which imports torch for five seconds and reads as `fit pca` does
READERS = [
    *("merge {} -o x", "merge signed.sketch {} --overlapping -o x", "subtract {} signed.sketch -o x"),
    *("subtract signed.sketch {} -o x", "privatize {} --epsilon 1 -o x", "info {}", "compare {} signed.sketch"),
    *("privatize signed.sketch --already {} --epsilon 1 -o x", "compare signed.sketch {}", "watch signed.sketch {}"),
    *("marginal {} a", "explain {} -k 2", "fit kmeans -k 2 {} -o x", "fit gmm -k 2 {} -o x", "fit pca -k 1 {} -o x"),
    *("fit regression {} -o x", "fit ica {} -o x", "fit subspaces -k 2 {} -o x", "fit classifier a={} -o x"),
]


@pytest.mark.parametrize("line", READERS)
@pytest.mark.usefixtures("folder")
def test_every_command_that_reads_sketches_takes_trusted_keys(line):
    told = run(f"{line.format('plain.sketch')} --trusted mine.pub --trusted other.pub", 1)
    assert told == f"sketchlearn: plain.sketch: {NOT_SIGNED}\n"
    if "signed.sketch" not in line:
        told = run(f"{line.format('signed.sketch')} --trusted other.pub", 1)
        assert "which is not trusted: ask its sender whose key that is" in told
    assert not os.path.exists("x")
    assert not os.path.exists("plain.sketch.budget.sqlite")


@pytest.mark.usefixtures("folder")
def test_signatures_pass_through_a_pipeline():
    trusted = "--trusted mine.pub"
    run(f"privatize signed.sketch --epsilon 1 --key mine.key {trusted} -o private.sketch")
    assert skl.load("private.sketch", trusted=["mine.pub"]).ledger.epsilon == 1
    run(f"merge private.sketch {trusted} -o unsigned.sketch")
    run(f"merge private.sketch {trusted} --key mine.key -o merged.sketch")
    assert "it is not signed" in run(f"fit pca -k 1 unsigned.sketch {trusted} -o model.json", 1)
    run(f"fit pca -k 1 signed.sketch {trusted} -o model.json")
    assert skl.load("merged.sketch", trusted=["mine.pub"]).ledger.epsilon == 1
    run(f"subtract signed.sketch signed.sketch {trusted} --key mine.key -o nothing.sketch")
    assert skl.load("nothing.sketch", trusted=["mine.pub"]).count == 0


@pytest.mark.usefixtures("folder")
def test_a_wrong_key_costs_nothing():
    """It is read before noise is drawn and booked, and no key is written over."""
    for key, message in (("nope.key", "cannot read the key nope.key"), ("mine.pub", "has no private ed25519 key")):
        told = run(f"privatize plain.sketch --epsilon 1 --key {key} -o x", 1)
        assert message in told
        assert "plain.sketch" not in told
    assert not os.path.exists("plain.sketch.budget.sqlite")
    assert "mine.key is an input too" in run("merge plain.sketch --key mine.key -o mine.key", 2)
    assert "mine.pub is an input too" in run("merge signed.sketch --trusted mine.pub -o mine.pub", 2)
    told = run("merge signed.sketch --trusted nope.pub -o x", 1)
    assert told == "sketchlearn: 'nope.pub' is neither a public key (64 hexadecimal digits) nor a file\n"
