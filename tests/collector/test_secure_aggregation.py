"""Sums that hide their parts: exact whoever vanishes, and neither collector's half tells anything."""

import dataclasses
import json
import secrets
import sqlite3
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.stats import chi2

import sketchlearn as skl
from sketchlearn.collector.clients import secret_shares
from sketchlearn.collector.clients.secret_shares import (
    HiddenPart,
    PartHeader,
    SealedSeed,
    added,
    expanded,
    hidden_report,
    hide,
    integers_of,
    new_private_key,
    public_key_of,
)
from sketchlearn.collector.secure_aggregation import (
    AggregationTerms,
    Answer,
    Question,
    RefusedError,
    SecondCollector,
    open_total,
)
from sketchlearn.core.limits import FormatError

CERTAIN = 1e-6  # the probability that a test of statistics fails by chance
OPERATOR = skl.features.FourierFeatures(2, 20, law=skl.features.frequencies.Gaussian(1.0), seed=1).with_origin(
    "declared"
)
DESIGN = "d" * 64
PRIVATE = new_private_key()
PUBLIC = public_key_of(PRIVATE)
ROWS = np.random.default_rng(0).normal(size=(500, 2))
TERMS = AggregationTerms("c", DESIGN, OPERATOR.n_sums + 1, minimum=10, most_records=10**6)


def second(terms=TERMS, sender_of=None, private_key=PRIVATE):
    connection = sqlite3.connect(":memory:", isolation_level=None)
    found = SecondCollector(connection, private_key, sender_of)
    found.agree(terms)
    return found


def split(sketch, name, epoch="e1", **options):
    given = {"collection": "c", "epoch": epoch, "design": DESIGN, "public_key": PUBLIC, **options}
    return hide(sketch, name, **given)


def sketches(n=50, rows=ROWS):
    return {f"r{i}": OPERATOR.sketch(part) for i, part in enumerate(np.array_split(rows, n))}


def asked(parts, opening="o1", epoch="e1"):
    return Question("c", epoch, opening, frozenset(part.sealed_seed.fingerprint for part in parts))


def opened(parts, other, terms=TERMS):
    question = asked(parts)
    return open_total(terms, OPERATOR, question, other.answer(question), parts)


# Exactness


def whole_way(part, first, other):
    """A message to the first collector, and on to the second."""
    first.setdefault(part.header.id, part.to_bytes())
    other.receive([HiddenPart.from_bytes(first[part.header.id]).sealed_seed])


def before_sending(_sketch, _name, _first, _other):
    return False


def while_sending(sketch, name, _first, _other):
    with pytest.raises(FormatError):
        HiddenPart.from_bytes(split(sketch, name).to_bytes()[:-1])
    return False


def before_the_acknowledgement(sketch, name, first, other):
    whole_way(split(sketch, name), first, other)
    return True


def after_a_resend(sketch, name, first, other):
    part = split(sketch, name)
    whole_way(part, first, other)
    whole_way(part, first, other)
    return True


def after_another_split(sketch, name, first, other):
    """The sender forgot what it sent: the first collector keeps the first message."""
    whole_way(split(sketch, name), first, other)
    whole_way(split(sketch, name), first, other)
    return True


def before_the_second_collector(sketch, name, first, _other):
    first[name] = split(sketch, name).to_bytes()
    return False


def damaged_on_the_way_to_the_second(sketch, name, first, other):
    part = split(sketch, name)
    first[name] = part.to_bytes()
    sealed = bytearray(part.sealed_seed.sealed)
    sealed[40] ^= 1
    assert len(other.receive([SealedSeed(part.header, bytes(sealed))])) == 1
    return False


def split_anew_before_the_second_collector(sketch, name, first, other):
    """Each collector has a half, but of different splits."""
    first[name] = split(sketch, name).to_bytes()
    other.receive([split(sketch, name).sealed_seed])
    return False


def lost_by_the_first_collector(sketch, name, _first, other):
    other.receive([split(sketch, name).sealed_seed])
    return False


def lost_by_the_first_and_split_anew(sketch, name, first, other):
    """Halves of two splits would spoil the sum: fingerprints tell which ones belong together."""
    other.receive([split(sketch, name).sealed_seed])
    whole_way(split(sketch, name), first, other)
    return True


STEPS = [
    before_sending,
    while_sending,
    before_the_acknowledgement,
    after_a_resend,
    after_another_split,
    before_the_second_collector,
    damaged_on_the_way_to_the_second,
    split_anew_before_the_second_collector,
    lost_by_the_first_collector,
    lost_by_the_first_and_split_anew,
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_a_fifth_of_the_clients_vanishes(step):
    first, other, counted = {}, second(), []
    for i, (name, sketch) in enumerate(sketches().items()):
        if i % 5 == 0:
            counted += [sketch] * step(sketch, name, first, other)
        else:
            whole_way(split(sketch, name), first, other)
            counted.append(sketch)
    total = opened([HiddenPart.from_bytes(data) for data in first.values()], other)
    assert len(counted) in (40, 50)
    assert total == skl.merge(counted)
    assert total.ledger is None


def test_a_fifth_vanishes_at_all_steps_together():
    first, other, counted = {}, second(), []
    for i, (name, sketch) in enumerate(sketches(100).items()):
        vanishes = STEPS[(i // 5) % len(STEPS)] if i % 5 == 0 else after_a_resend
        counted += [sketch] * vanishes(sketch, name, first, other)
    total = opened([HiddenPart.from_bytes(data) for data in first.values()], other)
    assert total == skl.merge(counted)
    assert skl.from_bytes(total.to_bytes()) == total


WORD = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64 - 1])
VECTORS = st.integers(1, 6).flatmap(lambda n: st.lists(arrays.arrays(np.uint64, n, elements=WORD), min_size=1))


@given(VECTORS, st.data())
def test_halves_add_up_modulo_2_64(vectors, data):
    """In Python's integers, in any order, for any integers and shares, at the edges of 64 bits, too."""
    shares = [data.draw(arrays.arrays(np.uint64, len(vector), elements=WORD)) for vector in vectors]
    rests = [vector - share for vector, share in zip(vectors, shares, strict=True)]
    expected = [sum(map(int, column)) % 2**64 for column in zip(*vectors, strict=True)]
    assert added([added(rests), added(shares)]).tolist() == expected
    assert added([*shares[::-1], *rests]).tolist() == expected


@given(st.lists(st.integers(-(2**62), 2**62 - 1), min_size=2, max_size=2))
def test_signed_integers_come_back_wherever_their_sum_fits(pair):
    words = [np.array([value], np.int64).view(np.uint64) for value in pair]
    assert added(words).view(np.int64).tolist() == [sum(pair)]


def test_the_message_is_read_back():
    part = split(next(iter(sketches().values())), "r0")
    again = HiddenPart.from_bytes(part.to_bytes())
    assert again.sealed_seed == part.sealed_seed
    assert np.array_equal(again.rest, part.rest)
    assert again.to_bytes() == part.to_bytes()


# What the halves tell


def test_both_halves_are_uniform():
    """Bytes of rests and of shares of an empty sketch, whose integers are all 0: chi-square at 1 - 10^-6."""
    sketch = skl.Sketch(OPERATOR)
    parts = [split(sketch, f"r{i}") for i in range(200)]
    rests = np.concatenate([part.rest for part in parts])
    shares = np.concatenate([expanded(part.sealed_seed.open(PRIVATE)[0], TERMS.integers) for part in parts])
    for words in (rests, shares):
        for octets in words.view(np.uint8).reshape(-1, 8).T:  # each byte of a word by itself
            found = np.bincount(octets, minlength=256)
            expected = len(octets) / 256
            assert np.sum((found - expected) ** 2 / expected) < chi2.ppf(1 - CERTAIN / 16, 255)
    assert len(np.unique(rests)) == len(rests)


@pytest.fixture
def same_randomness(monkeypatch):
    """A function that begins all randomness anew, so that two runs differ by their data alone."""
    encrypted = {}  # an ideal cipher: random bytes stand for a secret

    def begin(seeds=None):
        rng, keys = np.random.default_rng(5), np.random.default_rng(6)
        drawn = iter(seeds or [rng.bytes(32) for _ in range(1000)])
        monkeypatch.setattr(secret_shares, "new_seed", lambda: next(drawn))

        def seal(secret, public_key, bound):
            sealed = keys.bytes(len(secret) + secret_shares.OVERHEAD)
            encrypted[sealed] = (secret, public_key, bound)
            return sealed

        def unseal(sealed, private_key, bound):
            secret, *wanted = encrypted[sealed]
            assert wanted == [public_key_of(private_key), bound]
            return secret

        monkeypatch.setattr(secret_shares, "seal", seal)
        monkeypatch.setattr(secret_shares, "unseal", unseal)

    return begin


def two_datasets():
    """Different parts, some of them of other sizes, with equal totals."""
    one, other = sketches(12), sketches(12, ROWS[::-1])
    return one, other


def stored(connection):
    return [
        (name, connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall())
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1").fetchall()
    ]


def test_what_the_second_collector_stores_is_the_same_for_all_data(same_randomness):
    """Byte by byte, before and after opening: seeds are drawn before the data is looked at."""
    transcripts = []
    for dataset in two_datasets():
        same_randomness()
        connection = sqlite3.connect(":memory:", isolation_level=None)
        other = SecondCollector(connection, PRIVATE)
        other.agree(TERMS)
        parts = [split(sketch, name) for name, sketch in dataset.items()]
        other.receive(part.sealed_seed for part in parts)
        before = stored(connection)
        opened(parts, other)
        transcripts.append((before, stored(connection), [part.sealed_seed.to_json() for part in parts]))
    assert transcripts[0] == transcripts[1]


def test_what_the_first_collector_sees_is_as_likely_for_all_data_of_equal_totals(monkeypatch, same_randomness):
    """With shares that are drawn instead of expanded: adding what the data differ by to the shares, which keeps their
    law, gives the same messages and the same answer, byte by byte. So a view of the first collector has the same
    probability under both; what ChaCha20 adds is that nobody can tell expanded shares from drawn ones."""
    one, other = two_datasets()
    assert skl.merge(one.values()) == skl.merge(other.values())
    assert any(a != b for a, b in zip(one.values(), other.values(), strict=True))
    rng = np.random.default_rng(7)
    seeds = [rng.bytes(32) for _ in one]
    drawn = [rng.integers(0, 2**64, TERMS.integers, np.uint64) for _ in one]
    moved = [
        share + integers_of(b) - integers_of(a) for share, a, b in zip(drawn, one.values(), other.values(), strict=True)
    ]
    views = []
    for dataset, shares in ((one, drawn), (other, moved)):
        same_randomness(seeds)
        table = dict(zip(seeds, shares, strict=True))
        monkeypatch.setattr(secret_shares, "expanded", lambda seed, _n, table=table: table[seed])
        monkeypatch.setattr("sketchlearn.collector.secure_aggregation.expanded", lambda s, _n, table=table: table[s])
        parts = [split(sketch, name) for name, sketch in dataset.items()]
        helper = second()
        helper.receive(part.sealed_seed for part in parts)
        views.append(([part.to_bytes() for part in parts], helper.answer(asked(parts)).to_json()))
    assert views[0] == views[1]


def test_messages_differ_in_nothing_but_what_is_uniform():
    """Of few and many records: equal lengths, and equal headers but for the encrypted seed."""
    lengths, headers = set(), []
    for sketch in (skl.Sketch(OPERATOR), OPERATOR.sketch(ROWS[:1]), OPERATOR.sketch(ROWS)):
        data = split(sketch, "r0", credential="x" * 40).to_bytes()
        lengths.add(len(data))
        headers.append(HiddenPart.from_bytes(data).header)
    assert len(lengths) == 1
    assert headers[0] == headers[1] == headers[2]


def test_notes_and_kept_rows_stay_with_the_sender():
    keeping = skl.design(ROWS, n_components=2, rows=20)
    sketch = keeping.sketch(ROWS)
    assert sketch.kept is not None
    noted = dataclasses.replace(sketch, skipped=("secret.csv",), clipped=3)
    data = split(noted, "r0").to_bytes()
    assert b"secret" not in data
    assert len(data) == len(split(sketch.without_rows(), "r0").to_bytes())


# Refusals


def test_an_epoch_below_the_minimum_is_refused_by_both():
    parts = [split(sketch, name) for name, sketch in list(sketches().items())[:9]]
    other = second()
    other.receive(part.sealed_seed for part in parts)
    with pytest.raises(RefusedError, match="shares of 9 reports of the epoch, which needs at least 10"):
        other.answer(asked(parts))
    lenient = second(dataclasses.replace(TERMS, minimum=2))
    lenient.receive(part.sealed_seed for part in parts)
    with pytest.raises(RefusedError, match="shares of 9 reports"):
        opened(parts, lenient)


def test_an_epoch_is_opened_once():
    """The same question gets the same answer, for answers that are lost; nothing else is told, also of fewer."""
    parts = [split(sketch, name) for name, sketch in sketches(20).items()]
    other = second()
    other.receive(part.sealed_seed for part in parts)
    answer = other.answer(asked(parts))
    assert other.answer(asked(parts)).to_json() == answer.to_json()
    for question in (asked(parts, opening="o2"), asked(parts[1:])):
        with pytest.raises(RefusedError, match="told once"):
            other.answer(question)
    late = split(OPERATOR.sketch(ROWS[:3]), "late")
    for part in (late, parts[0]):
        assert [*other.receive([part.sealed_seed]).values()] == ["the epoch e1 was opened already"]


def test_seeds_are_gone_after_opening():
    connection = sqlite3.connect(":memory:", isolation_level=None)
    other = SecondCollector(connection, PRIVATE)
    other.agree(TERMS)
    parts = [split(sketch, name) for name, sketch in sketches(20).items()]
    other.receive(part.sealed_seed for part in parts)
    other.answer(asked(parts))
    assert connection.execute("SELECT * FROM hidden_seeds").fetchall() == []


def test_invented_reports_do_not_fill_an_epoch():
    """Where the second collector knows senders, it counts those, and a first collector that reports itself is out."""
    tokens = {secrets.token_hex(16): f"s{i}" for i in range(12)}
    other = second(sender_of=tokens.get)
    one = next(iter(tokens))
    parts = [split(sketch, name, credential=one) for name, sketch in sketches(20).items()]
    assert other.receive(part.sealed_seed for part in parts) == {}
    with pytest.raises(RefusedError, match="shares of 1 sender"):
        other.answer(asked(parts))
    invented = split(skl.Sketch(OPERATOR), "fake", credential="guessed")
    assert "does not know the sender" in next(iter(other.receive([invented.sealed_seed]).values()))
    several = [split(skl.Sketch(OPERATOR), f"n{i}", credential=token) for i, token in enumerate(tokens)]
    assert other.receive(part.sealed_seed for part in several) == {}
    assert other.answer(asked(several)).missing == set()


CHANGES = {"id": "other", "collection": "other", "epoch": "e2", "design": "e" * 64, "integers": 7}


@pytest.mark.parametrize("field", CHANGES)
def test_a_seed_belongs_to_its_report_alone(field):
    part = split(OPERATOR.sketch(ROWS[:5]), "r0")
    moved = SealedSeed(dataclasses.replace(part.header, **{field: CHANGES[field]}), part.sealed_seed.sealed)
    with pytest.raises(ValueError, match="cannot be opened"):
        moved.open(PRIVATE)


def test_every_changed_byte_of_a_sealed_seed_is_noticed():
    part = split(OPERATOR.sketch(ROWS[:5]), "r0", credential="who")
    for place in range(len(part.sealed_seed.sealed)):
        sealed = bytearray(part.sealed_seed.sealed)
        sealed[place] ^= 0x40
        with pytest.raises(ValueError, match="cannot be opened"):
            SealedSeed(part.header, bytes(sealed)).open(PRIVATE)
    with pytest.raises(ValueError, match="cannot be opened"):
        part.sealed_seed.open(new_private_key())
    with pytest.raises(ValueError, match="cannot be opened"):  # a key of small order gives the same secret to all
        SealedSeed(part.header, bytes(32) + part.sealed_seed.sealed[32:]).open(PRIVATE)


def test_seeds_are_encrypted_as_rfc_9180_says():
    """Base mode of X25519, HKDF-SHA256 and ChaCha20-Poly1305: other implementations read and write it."""
    from cryptography.hazmat.primitives import hpke
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    suite = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.CHACHA20_POLY1305)
    part = split(OPERATOR.sketch(ROWS[:5]), "r0", credential="who")
    key = X25519PrivateKey.from_private_bytes(PRIVATE)
    secret = suite.decrypt(part.sealed_seed.sealed, key, info=part.header.bound())
    assert part.sealed_seed.open(PRIVATE) == (secret[:32], "who")


def test_seeds_of_before_rfc_9180_are_opened():
    """They wait in the databases of first collectors, and in spools."""
    sealed = bytes.fromhex(
        "91b6d5f176e4feea55fd156a75f6e5a44f7dd5a5034482fdf6e2dfba5454b860310a4fb5b9bbb21772a832dc65dd2e848bd5b77edeb879d4"
        "89a5644be2bb6f32f7a53aff09c62be4eacbc27894bf50df990f57"
    )
    header = PartHeader("r1", "c", "2026-01-01T00:00:00Z", "d" * 64, 3)
    assert SealedSeed(header, sealed).open(bytes(range(1, 33))) == (bytes(range(32)), "who")
    with pytest.raises(ValueError, match="cannot be opened"):
        SealedSeed(dataclasses.replace(header, id="r2"), sealed).open(bytes(range(1, 33)))


def test_every_changed_byte_of_a_message_is_noticed():
    data = split(skl.features.SecondMoments(2, bound=9.0).sketch(ROWS[:5]), "r0").to_bytes()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        with pytest.raises(FormatError):
            HiddenPart.from_bytes(bytes(changed))


def resigned(header: bytes, numbers: bytes) -> bytes:
    import hashlib

    body = secret_shares.START.pack(secret_shares.MAGIC, len(header)) + header + numbers
    return body + hashlib.sha256(body).digest()


def test_odd_headers_are_refused():
    part = split(OPERATOR.sketch(ROWS[:5]), "r0")
    form, numbers = part.sealed_seed.to_json(), part.rest.tobytes()
    written = json.dumps(form, sort_keys=True, separators=(",", ":"))
    assert HiddenPart.from_bytes(resigned(written.encode(), numbers)).header == part.header
    odd = [
        json.dumps(form),
        written.replace('"id":"r0"', '"id":"r0","id":"r0"'),
        written.replace('"id":"r0"', '"id":"r\\u001b"'),
        written.replace('"id":"r0"', '"id":7'),
        written.replace('"integers":41', '"integers":1e9'),
        written.replace('"integers":41', '"integers":-1'),
        written.replace('"ledger":null', '"ledger":{}'),
        "[" * 30_000,
        "{}",
        "[]",
    ]
    for text in odd:
        with pytest.raises(FormatError):
            HiddenPart.from_bytes(resigned(text.encode(), numbers))
    with pytest.raises(FormatError, match="must have 41 integers"):
        HiddenPart.from_bytes(resigned(written.encode(), numbers[8:]))


def test_sketches_that_cannot_be_hidden():
    refused = {
        "weight 1": OPERATOR.sketch(ROWS[:5], sample_weight=[2, 1, 1, 1, 1]),
        "private release needs no secret shares": skl.privatize(OPERATOR.sketch(ROWS), epsilon=1.0),
    }
    for message, sketch in refused.items():
        with pytest.raises(ValueError, match=message):
            split(sketch, "r0")


def collector_with(**rules):
    given = {"hidden": "first", "records_per_report": 10, "noise_epsilon": None, "epoch": "hour", **rules}
    return types.SimpleNamespace(get=lambda _path: {"rules": given})


def test_too_many_records_are_refused_before_they_are_split():
    """No collector could see it afterwards."""
    with pytest.raises(ValueError, match="at most 4 records here, and this one 5"):
        hidden_report(collector_with(records_per_report=4), "c", OPERATOR.sketch(ROWS[:5]), id="r", second_key=PUBLIC)
    with pytest.raises(ValueError, match="does not use secure aggregation"):
        hidden_report(collector_with(hidden=None), "c", OPERATOR.sketch(ROWS[:5]), id="r", second_key=PUBLIC)


@pytest.mark.parametrize(
    ("span", "time", "epoch"),
    [
        ("hour", "2026-01-05T12:34:56", "2026-01-05T12:00:00Z"),
        ("hour", 0, "1970-01-01T00:00:00Z"),
        ("day", 86_400.5, "1970-01-02T00:00:00Z"),
    ],
)
def test_a_report_names_its_epoch(span, time, epoch):
    sketch = OPERATOR.sketch(ROWS[:5])
    data = hidden_report(collector_with(epoch=span), "c", sketch, id="r", second_key=PUBLIC, time=time)
    assert HiddenPart.from_bytes(data).header.epoch == epoch


def test_totals_that_could_overflow_are_refused_before_they_do():
    with pytest.raises(RefusedError, match="could overflow"):
        TERMS.require_room(2**20, 2**25)
    TERMS.require_room(2**20, 2**22)


def test_answers_to_other_questions_are_refused():
    parts = [split(sketch, name) for name, sketch in sketches(20).items()]
    other = second()
    other.receive(part.sealed_seed for part in parts)
    question = asked(parts)
    answer = other.answer(question)
    with pytest.raises(RefusedError, match="another question"):
        open_total(TERMS, OPERATOR, asked(parts, opening="o9"), answer, parts)
    with pytest.raises(RefusedError, match="not asked about"):
        open_total(TERMS, OPERATOR, question, dataclasses.replace(answer, missing=frozenset({"x"})), parts)
    with pytest.raises(RefusedError, match="do not match the question"):
        open_total(TERMS, OPERATOR, question, answer, parts[1:])
    again = Question.from_json(json.loads(json.dumps(question.to_json())))
    read = Answer.from_json(json.loads(json.dumps(answer.to_json())))
    assert open_total(TERMS, OPERATOR, again, read, parts) == skl.merge(sketches(20).values())


def test_a_spoiled_total_is_noticed_where_it_is_impossible():
    """A lying sender moves the sum by whatever it likes; only what no records give is seen."""
    parts = [split(sketch, name) for name, sketch in sketches(20).items()]
    lying = dataclasses.replace(parts[0], rest=parts[0].rest + np.uint64(2**62))
    other = second()
    other.receive(part.sealed_seed for part in parts)
    with pytest.raises(RefusedError, match="has falsified its share"):
        opened([lying, *parts[1:]], other)


def test_terms_cannot_be_changed():
    assert AggregationTerms.from_json(json.loads(json.dumps(of_shares(4).to_json()))) == of_shares(4)
    other = second()
    other.agree(TERMS)
    with pytest.raises(RefusedError, match="cannot be changed"):
        other.agree(dataclasses.replace(TERMS, minimum=2))
    with pytest.raises(RefusedError, match="no collection"):
        other.answer(Question("x", "e1", "o1", frozenset()))


# Noise in shares


def of_shares(parties):
    """Terms of shares of noise: an empty sketch's share claims what all do."""
    share = skl.privatize(skl.Sketch(OPERATOR), epsilon=1.0, parties=parties)
    return dataclasses.replace(TERMS, ledger=share.ledger)


def test_shares_of_noise_make_the_opened_total_private():
    """Each report has its share of noise; the total has one curator's, and its ledger says so."""
    rows = np.array_split(ROWS, 20)
    terms = of_shares(16)
    noisy = [skl.privatize(OPERATOR.sketch(part), epsilon=1.0, parties=16) for part in rows]
    parts = [split(sketch, f"r{i}") for i, sketch in enumerate(noisy)]
    other = second(terms)
    assert other.receive(part.sealed_seed for part in parts) == {}
    total, expected = opened(parts, other, terms), skl.merge(noisy)
    assert np.array_equal(total.sums, expected.sums)
    assert total.units == expected.units
    assert (total.ledger.epsilon, total.ledger.shares, total.ledger.lacking) == (1.0, 20, 0)
    assert total.ledger.sum_variance == pytest.approx(expected.ledger.sum_variance)
    assert total.ledger.count_variance == pytest.approx(expected.ledger.count_variance)
    one = dataclasses.replace(expected.ledger, sum_variance=0, count_variance=0)
    assert dataclasses.replace(total.ledger, sum_variance=0, count_variance=0) == one
    assert str(total.ledger).startswith("epsilon 1 for adding or removing one record")


def test_too_few_shares_of_noise_stay_closed():
    noisy = [skl.privatize(OPERATOR.sketch(part), epsilon=1.0, parties=16) for part in np.array_split(ROWS, 15)]
    parts = [split(sketch, f"r{i}") for i, sketch in enumerate(noisy)]
    other = second(of_shares(16))
    other.receive(part.sealed_seed for part in parts)
    with pytest.raises(RefusedError, match="needs at least 16 for its shares of noise to be private"):
        other.answer(asked(parts))


def test_exact_reports_and_shares_of_noise_are_not_mixed():
    """Each is refused when it comes, so that one odd report does not close an epoch."""
    exact = split(OPERATOR.sketch(ROWS[:5]), "exact")
    noisy = split(skl.privatize(OPERATOR.sketch(ROWS[:5]), epsilon=1.0, parties=4), "noisy")
    assert "must have the same privacy claim: exact" in next(iter(second().receive([noisy.sealed_seed]).values()))
    other = second(of_shares(16))
    assert len(other.receive([noisy.sealed_seed, exact.sealed_seed])) == 2


def test_the_header_says_what_a_ledger_of_shares_says():
    share = skl.privatize(OPERATOR.sketch(ROWS), epsilon=1.0, parties=4)
    header = split(share, "r0").header
    assert PartHeader.from_json(header.to_json()) == header
    assert header.ledger == share.ledger
