"""Accumulation: the integers of rows are added up on the processor, or on GPUs while the processor reads on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Integers, Rows, Weights
from sketchlearn.core.progress import row_bar
from sketchlearn.features.provenance import Origin
from sketchlearn.features.sensitivity import Sensitivity
from sketchlearn.kernels.gpu.driver import NONE_BAD, Device, Memory, Room, Stream, devices
from sketchlearn.kernels.gpu.plans import Search, packed_words
from sketchlearn.kernels.gpu.rows import DevicePlan, DeviceRows, downloaded, host_rows
from sketchlearn.rows.source import gpu_rows
from sketchlearn.rows.source_base import Block, Source, check_width
from sketchlearn.rows.weights import weight_units
from sketchlearn.sketch.batches import Batches
from sketchlearn.sketch.bits import PackedBits, PrivateBits, RandomisedResponse
from sketchlearn.sketch.ledger import ASSUMED, DECLARED, RANDOMISED_RESPONSE, REPLACE, Ledger
from sketchlearn.sketch.priority_sample import RowKeeper
from sketchlearn.sketch.sums import Release, Sketch, check_room

if TYPE_CHECKING:
    from sketchlearn.features.operator import Operator

SLOTS_PER_DEVICE = 2  # one block is copied to the GPU while the other one is summed
ROWS_PER_BLOCK = 1 << 24  # of rows that are on a GPU already


class ProcessorSums:
    """Sums on the processor, the priority sample, and the number of rows that were moved onto a bound."""

    def __init__(self, operator: Operator, threads: int) -> None:
        self._operator, self._threads = operator, threads
        self.sums, self.clipped = np.zeros(operator.n_sums, np.int64), 0
        self.keeper = None if operator.keeping is None else RowKeeper(operator.keeping)

    def add(self, block: Block, weights: Weights, bits: int) -> None:
        """Adds the rows of a block, of weights in steps of 2^-bits."""
        self._add_features(self._operator, block, weights, self.sums)
        if self.keeper is not None:
            self.keeper.add(block.rows, weights, bits, self._threads)

    def _add_features(self, part: Operator, block: Block, weights: Weights, sums: Integers) -> None:
        """Adds a block's integers of the operator, or of a part of it."""
        bad, clipped = part.add_counted(block.rows, weights, self._threads, sums)
        self._operator.accept(block, bad)
        self.clipped += clipped

    def finish(self) -> None:
        """Adds what is still being computed."""


def gpu_blocks(rows: DeviceRows) -> Iterator[Any]:
    """Blocks whose rows are on a GPU already."""
    for first in range(0, len(rows), ROWS_PER_BLOCK):
        own: Any = rows[first : first + ROWS_PER_BLOCK]
        yield Block(own, first)


def on_processor(block: Block) -> Block:
    """The block, copied from the GPU if its rows are there."""
    return replace(block, rows=downloaded(block.rows)) if isinstance(block.rows, DeviceRows) else block


class _Slot:
    """A place for one block on a GPU, with what its kernels need."""

    def __init__(self, owner: Device, operator: Operator) -> None:
        self.device, self.stream, self._operator = owner, Stream(owner), operator
        self.sums, self.bad = Memory(8 * operator.n_sums, owner), Memory(8, owner)
        self.work: tuple[Block, Integers | None, Any] | None = None
        self._room = Room(owner)

    @cached_property
    def plans(self) -> list[DevicePlan | None]:
        """The plan of each part; those of the second slot are made while the first one computes."""
        return [part.device_plan(self.device) for part in self._operator.side_by_side]

    def uploaded(self, rows: Rows) -> DeviceRows:
        """Rows that are being copied to the GPU; pinned memory is copied while other rows are summed."""
        room = self._room.of(rows.nbytes)
        with self.device.current():
            self.stream.upload(room.address, rows.ctypes.data, rows.nbytes)
        return host_rows(rows, self.device, room)


class DeviceSums(ProcessorSums):
    """Sums on GPUs, of the parts of an operator that have kernels there; the processor does the others.

    A block with a row that a kernel refuses is summed by the processor instead, which names the row or clips it.
    """

    def __init__(self, operator: Operator, rows: Source, owners: list[Device], slots: int, threads: int) -> None:
        super().__init__(operator, threads)
        self._rows, self._turn = rows, 0
        self._slots = [_Slot(owner, operator) for _ in range(slots) for owner in owners]
        self._searches: dict[int, Search] = {}
        ends = np.cumsum([part.n_sums for part in operator.side_by_side]).tolist()
        self._places = [slice(end - part.n_sums, end) for part, end in zip(operator.side_by_side, ends, strict=True)]

    @property
    def sees_every_value(self) -> bool:
        """Whether kernels check all values for missing ones, so that the processor need not."""
        plans = self._slots[0].plans
        return None not in plans and any(plan is not None and plan.sees_all_columns for plan in plans)

    def add(self, block: Block, weights: Weights, bits: int) -> None:
        slot, given = self._slots[self._turn], block.rows
        self._turn = (self._turn + 1) % len(self._slots)
        self._take(slot)
        if isinstance(given, DeviceRows) and given.device is not slot.device:
            slot = next(own for own in self._slots if own.device is given.device)
            self._take(slot)
        if len(given) == 0:
            return
        rows = given if isinstance(given, DeviceRows) else slot.uploaded(given)
        own_weights = None if weights is None else slot.device.copy(weights)
        slot.work = (block, weights, (rows, own_weights))
        with slot.device.current():
            slot.stream.fill(slot.sums.address, 0, slot.sums.size)
            slot.stream.fill(slot.bad.address, 0xFF, 8)
            for plan, place in zip(slot.plans, self._places, strict=True):
                if plan is not None:
                    address = None if own_weights is None else own_weights.address
                    plan.add(rows, address, slot.sums.address + 8 * place.start, slot.bad.address, slot.stream)
        if self.keeper is not None:
            self._keep(self.keeper, block, rows, weights, bits)

    def _keep(self, keeper: RowKeeper, block: Block, rows: DeviceRows, weights: Weights, bits: int) -> None:
        if not isinstance(block.rows, DeviceRows):
            keeper.add(block.rows, weights, bits, self._threads)
            return
        number = rows.device.number
        if number not in self._searches:
            rule = keeper.rule
            self._searches[number] = Search(rows.device, rule.center, rule.scale, rule.key, rule.certain_hashes)
        for piece in keeper.pieces(len(rows)):
            found, which = self._searches[number].candidates(rows[piece], keeper.below)
            own = None if weights is None else weights[piece] if which is None else weights[piece][which]
            keeper.add_piece(found, own, bits, self._threads)

    def _take(self, slot: _Slot) -> None:
        """Waits for a slot's work, and adds its sums."""
        if slot.work is None:
            return
        block, weights, _ = slot.work
        sums, bad = np.empty(slot.sums.size // 8, np.int64), np.empty(1, np.uint64)
        with slot.device.current():
            slot.stream.read(sums, slot.sums.address)
            slot.stream.read(bad, slot.bad.address)
        slot.work = None
        refused = int(bad[0]) != NONE_BAD
        if refused or None in slot.plans:
            block = on_processor(block)
        if refused:
            self._rows.refuse_gaps(block)
            self._add_features(self._operator, block, weights, self.sums)
            return
        for part, plan, place in zip(self._operator.side_by_side, slot.plans, self._places, strict=True):
            if plan is None:
                self._add_features(part, block, weights, sums[place])
        self.sums += sums

    def finish(self) -> None:
        for slot in self._slots[self._turn :] + self._slots[: self._turn]:
            self._take(slot)


def sum_of_rows(
    operator: Operator,
    rows: Source,
    weights: Weights,
    bits: int,
    threads: int,
    wanted: str | None,
    progress: bool,
) -> tuple[int, ProcessorSums]:
    """How many records (or weight steps) there are, and their sums, on the device that is wanted."""
    there = None if wanted == "cpu" else gpu_rows(rows)
    owners = devices(wanted) if there is None or wanted not in (None, "auto") else [there.device]
    if there is not None:
        check_width(there.shape[1], operator.n_features)
        if there.device not in owners:
            where = f"the rows are on GPU {there.device.number}, which is not the requested device"
            raise ValueError(f"{where}: leave out device, or copy them there")
    slots = SLOTS_PER_DEVICE if there is None else 1  # rows that are there need not be copied
    summed = DeviceSums(operator, rows, owners, slots, threads) if owners else ProcessorSums(operator, threads)
    if isinstance(summed, DeviceSums) and summed.sees_every_value and not rows.gapless:
        rows = rows.unlooked()
    units = 0
    pieces: Any = rows.blocks(operator.n_features) if there is None else gpu_blocks(there)
    with row_bar(rows, progress) as advance, closing(pieces) as blocks:
        for block in blocks:
            part = None if weights is None else weights[block.which]
            units += len(block.rows) if part is None else int(part.sum())
            check_room(operator, units, bits)
            summed.add(block, part, bits)
            if block.start == 0 and len(block.rows):
                operator.warn_of_noise(on_processor(replace(block, rows=block.rows[:100])).rows)
            advance(block.end - block.start)
        summed.finish()
    return units, summed


def packed_rows(operator: Operator, rows: Source, n_bits: int, threads: int) -> NDArray[np.uint64]:
    """The words of all rows' integers, n_bits each; of rows on a GPU, packed there."""

    def packed(block: Block) -> NDArray[np.uint64]:
        integers, bad = operator.write_rows(block.rows, threads)
        operator.accept(block, bad)
        return packed_integers(integers, n_bits).words

    found, there = [np.empty((0, -(-n_bits * operator.n_sums // 64)), np.uint64)], gpu_rows(rows)
    writer = None if there is None else operator.feature_writer(there.device)
    if there is None or writer is None:
        return np.concatenate([*found, *(packed(block) for block in rows.blocks(operator.n_features))])
    check_width(there.shape[1], operator.n_features)
    for block in gpu_blocks(there):
        words = packed_words(writer, block.rows, n_bits)
        if words is None:  # a row is outside the domain: the processor says which
            block = on_processor(block)
            rows.refuse_gaps(block)
            words = packed(block)
        found.append(words)
    return np.concatenate(found)


def packed_integers(integers: NDArray[np.integer], n_bits: int) -> PackedBits:
    """Rows of odd numbers below 2^n_bits in size, as the signs of their powers of two, the highest power first.

    >>> packed_integers(np.array([[3, -1]]), 2).signs()
    array([[ 1, -1,  1,  1]], dtype=int8)
    """
    if n_bits == 1:
        return PackedBits.from_signs(integers)
    steps = (integers + (2**n_bits - 1)) >> 1
    ones = [steps >> place & 1 for place in reversed(range(n_bits))]
    return PackedBits.from_signs(2 * np.concatenate(ones, axis=1) - 1)


def unpacked_integers(signs: NDArray[Any], n_bits: int) -> NDArray[Any]:
    """Such numbers out of their signs, (..., n_bits times as many); or their sums, out of those of signs.

    >>> unpacked_integers(np.array([1, -1, 1, 1]), 2)
    array([ 3, -1])
    """
    planes = np.split(signs, n_bits, axis=-1)
    found: NDArray[Any] = planes[0].astype(np.promote_types(signs.dtype, np.int16))
    for plane in planes[1:]:
        found *= 2
        found += plane
    return found


def private_bits(blocks: Iterable[NDArray[np.integer]], n_bits: int, epsilon: float) -> PrivateBits:
    """The randomised responses of readings whose signs come block by block."""
    response = RandomisedResponse.best(epsilon, n_bits)
    positions, answers = [], []
    for signs in blocks:
        positions.append(response.positions(len(signs)))
        answers.append(response.answers(signs, positions[-1]))
    return PrivateBits(np.concatenate(positions), np.concatenate(answers), response)


def ledger_of(bits: PrivateBits, origin: Origin) -> Ledger:
    """What each reading has spent, and the noise in the sums."""
    response = bits.response
    return Ledger(
        mechanism=RANDOMISED_RESPONSE,
        epsilon=response.epsilon,
        delta=0.0,
        neighbors=REPLACE,  # that a reading was made is known
        sensitivity=2 * response.n_sent * response.factor,
        sum_scale=response.factor,
        count_scale=0.0,
        count_share=0.0,
        sum_variance=len(bits) * response.variance,
        count_variance=0.0,
        design=DECLARED if origin is Origin.DECLARED else ASSUMED,
    )


INTEGERS_AT_A_TIME = 1 << 17  # They stay in a cache while they are held to the sensitivity.


def weights_of_rows(sample_weight: Any, n_rows: int) -> tuple[Integers | None, int, int]:
    """The weights of rows in steps of 2^-bits, bits, and the largest weight, rounded up."""
    if sample_weight is None:
        return None, 0, 1
    weights, bits = weight_units(sample_weight, n_rows)
    return weights, bits, max(1, -(-int(weights.max(initial=0)) >> bits))


def sketch_of_bits(operator: Operator, bits: Any, sample_weight: Any) -> Sketch:
    """The sketch of rows that were packed, exactly or with randomised responses; the operator has `packed_bits`."""
    if not isinstance(bits, PackedBits | PrivateBits):
        raise TypeError(f"expected PackedBits, as operator.pack(rows) gives them, not {type(bits).__name__}")
    n_bits = operator.packed_bits or 1
    if bits.n_bits != n_bits * operator.n_sums:
        raise ValueError(f"the packed rows have {bits.n_bits} bits, but this operator gives {n_bits * operator.n_sums}")
    if isinstance(bits, PrivateBits) and n_bits > 1:
        raise ValueError("private bits are of wave='square': this operator has more than one bit a feature")
    if isinstance(bits, PrivateBits):
        if sample_weight is not None or not len(bits):
            raise ValueError("a private sketch is of at least one reading, and each counts once: leave out weights")
        return Release(operator.without_keeping(), bits.sums(), len(bits), ledger_of(bits, operator.origin))
    any_bits = Sensitivity.of_integers(operator.n_sums, operator.largest_contribution)
    if operator.add_remove_sensitivity() == any_bits:
        weights, units, notes = _weighed(operator, len(bits), sample_weight)
        return Sketch(operator.without_keeping(), unpacked_integers(bits.sums(weights), n_bits), units, **notes)
    return sketch_of_clipped(
        operator, len(bits), lambda some: unpacked_integers(bits[some].signs(), n_bits), sample_weight
    )


def sketch_of_clipped(
    operator: Operator, n_rows: int, integers_of: Callable[[slice], NDArray[Any]], sample_weight: Any
) -> Sketch:
    """The sketch of rows whose integers a function gives, each held to what a record may contribute."""
    weights, units, notes = _weighed(operator, n_rows, sample_weight)
    sums, clipped, step = np.zeros(operator.n_sums, np.int64), 0, max(1, INTEGERS_AT_A_TIME // operator.n_sums)
    for first in range(0, n_rows, step):
        some = slice(first, first + step)
        given = integers_of(some)
        held = operator.clip_contributions(given)
        clipped += int(np.count_nonzero(np.any(held != given, axis=1)))
        sums += held.sum(axis=0) if weights is None else weights[some] @ held
    return Sketch(operator.without_keeping(), sums, units, clipped=clipped, **notes)


def _weighed(operator: Operator, n_rows: int, sample_weight: Any) -> tuple[Integers | None, int, dict[str, Any]]:
    """The weights of rows without a sample, how many records (or weight steps) they are, and notes of them."""
    weights, n_bits, heaviest = weights_of_rows(sample_weight, n_rows)
    units = n_rows if weights is None else int(weights.sum())
    check_room(operator, units, n_bits)
    return weights, units, {"bits": n_bits, "heaviest": heaviest, "batches": Batches.just_read()}
