"""Where the integers of rows are added up: on the processor, or on GPUs while the processor reads on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sketchlearn.gpu import (
    NONE_BAD,
    Device,
    DevicePlan,
    DeviceRows,
    Memory,
    Room,
    Search,
    Stream,
    devices,
    downloaded,
    host_rows,
)
from sketchlearn.keeping import KeptRows, RowKeeper
from sketchlearn.progress import row_bar
from sketchlearn.sketch_limits import check_room
from sketchlearn.sources import Block, Source, check_width, gpu_rows

Integers = NDArray[np.int64]
SLOTS_PER_DEVICE = 2  # blocks that are on their way through one GPU: one is copied while the other one is summed
ROWS_PER_BLOCK = 1 << 24  # of rows that are on a GPU already


class Summable(Protocol):
    """What an operator tells of itself here."""

    @property
    def n_features(self) -> int: ...
    @property
    def n_sums(self) -> int: ...
    @property
    def keeping(self) -> Any: ...
    @property
    def side_by_side(self) -> tuple[Any, ...]: ...
    def add_counted(
        self, rows: NDArray[Any], weights: Integers | None, threads: int, sums: Integers
    ) -> tuple[int, int]: ...
    def accept(self, block: Block, bad: int) -> None: ...
    def warn_of_noise(self, rows: NDArray[Any]) -> None: ...
    def device_plan(self, owner: Device) -> DevicePlan | None: ...


class ProcessorSums:
    """Sums on the processor, with kept rows and the number of rows that were moved onto a bound."""

    def __init__(self, operator: Summable, threads: int) -> None:
        self._operator, self._threads = operator, threads
        self.sums, self.clipped = np.zeros(operator.n_sums, np.int64), 0
        self.keeper = None if operator.keeping is None else RowKeeper(operator.keeping)

    @property
    def kept(self) -> KeptRows | None:
        return None if self.keeper is None else self.keeper.kept

    def add(self, block: Block, weights: Integers | None, bits: int) -> None:
        """Adds the rows of a block, of weights in steps of 2^-bits."""
        self.add_sums(block, weights)
        if self.keeper is not None:
            self.keeper.add(block.rows, weights, bits, self._threads)

    def add_sums(self, block: Block, weights: Integers | None) -> None:
        """Adds the rows of a block, without keeping any."""
        bad, clipped = self._operator.add_counted(block.rows, weights, self._threads, self.sums)
        self._operator.accept(block, bad)
        self.clipped += clipped

    def finish(self) -> None:
        """All blocks have come."""


@dataclass(frozen=True)
class GpuBlock:
    """Rows that are on a GPU already, from row `start` on."""

    rows: DeviceRows
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.rows)

    @property
    def which(self) -> slice:
        return slice(self.start, self.end)

    def downloaded(self) -> Block:
        return Block(downloaded(self.rows), self.start)


def gpu_blocks(rows: DeviceRows) -> Iterator[GpuBlock]:
    """The rows of an array on a GPU, some at a time."""
    for first in range(0, len(rows), ROWS_PER_BLOCK):
        yield GpuBlock(rows[first : first + ROWS_PER_BLOCK], first)


class _Slot:
    """A place for one block on a GPU, with what its kernels need."""

    def __init__(self, owner: Device, operator: Summable) -> None:
        self.device, self.stream, self._operator = owner, Stream(owner), operator
        self.sums, self.bad = Memory(8 * operator.n_sums, owner), Memory(8, owner)
        self.work: tuple[Any, Integers | None, Any] | None = None
        self._room = Room(owner)

    @cached_property
    def plans(self) -> list[DevicePlan | None]:
        """What computes each part; those of the second slot are made while the first one is at work."""
        return [part.device_plan(self.device) for part in self._operator.side_by_side]

    def uploaded(self, rows: NDArray[Any]) -> DeviceRows:
        """Rows on their way to the GPU: pinned memory is copied while others are summed, and other memory soon."""
        room = self._room.of(rows.nbytes)
        with self.device.current():
            self.stream.upload(room.address, rows.ctypes.data, rows.nbytes)
        return host_rows(rows, self.device, room)


class DeviceSums:
    """Sums on GPUs, of the parts of an operator that have kernels there; the processor does the others.

    A block with a row that a kernel refuses is summed by the processor instead: it says which row, or moves it.
    """

    def __init__(self, operator: Summable, rows: Source, owners: list[Device], slots: int, threads: int) -> None:
        self._operator, self._rows, self._threads = operator, rows, threads
        self._slots = [_Slot(owner, operator) for _ in range(slots) for owner in owners]
        self._turn = 0
        self._processor = ProcessorSums(operator, threads)
        self._searches: dict[int, Search] = {}
        ends = np.cumsum([part.n_sums for part in operator.side_by_side]).tolist()
        self._places = [slice(end - part.n_sums, end) for part, end in zip(operator.side_by_side, ends, strict=True)]

    @property
    def sees_every_value(self) -> bool:
        """Whether kernels look at all values: they refuse missing ones, so that nobody else needs to."""
        plans = self._slots[0].plans
        return None not in plans and any(plan is not None and plan.sees_all_columns for plan in plans)

    @property
    def sums(self) -> Integers:
        return self._processor.sums

    @property
    def clipped(self) -> int:
        return self._processor.clipped

    @property
    def kept(self) -> KeptRows | None:
        return self._processor.kept

    def add(self, block: Any, weights: Integers | None, bits: int) -> None:
        slot = self._slots[self._turn]
        self._turn = (self._turn + 1) % len(self._slots)
        self._take(slot)
        if isinstance(block, GpuBlock) and block.rows.device is not slot.device:
            slot = next(own for own in self._slots if own.device is block.rows.device)
            self._take(slot)
        if len(block.rows) == 0:
            return
        rows = block.rows if isinstance(block, GpuBlock) else slot.uploaded(block.rows)
        own_weights = None if weights is None else slot.device.copy(weights)
        slot.work = (block, weights, (rows, own_weights))
        with slot.device.current():
            slot.stream.fill(slot.sums.address, 0, slot.sums.size)
            slot.stream.fill(slot.bad.address, 0xFF, 8)
            for number, plan in enumerate(slot.plans):
                if plan is None:
                    continue
                at = slot.sums.address + 8 * self._places[number].start
                address = None if own_weights is None else own_weights.address
                plan.add(rows, address, at, slot.bad.address, slot.stream)
        if self._processor.keeper is not None:
            self._keep(self._processor.keeper, block, rows, weights, bits)

    def _keep(self, keeper: RowKeeper, block: Any, rows: DeviceRows, weights: Integers | None, bits: int) -> None:
        if not isinstance(block, GpuBlock):
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
        """Waits for what a slot has to do, and adds it."""
        if slot.work is None:
            return
        block, weights, _ = slot.work
        sums, bad = np.empty(slot.sums.size // 8, np.int64), np.empty(1, np.uint64)
        with slot.device.current():
            slot.stream.download(sums.ctypes.data, slot.sums.address, sums.nbytes)
            slot.stream.download(bad.ctypes.data, slot.bad.address, 8)
            slot.stream.wait()
        slot.work = None
        left_over = any(plan is None for plan in slot.plans)
        on_processor = (
            block.downloaded() if isinstance(block, GpuBlock) and (left_over or int(bad[0]) != NONE_BAD) else block
        )
        if int(bad[0]) != NONE_BAD:
            self._rows.refuse_gaps(on_processor)
            self._processor.add_sums(on_processor, weights)
            return
        for part, plan, place in zip(self._operator.side_by_side, slot.plans, self._places, strict=True):
            if plan is None:
                refused, clipped = part.add_counted(on_processor.rows, weights, self._threads, sums[place])
                self._operator.accept(on_processor, refused)
                self._processor.clipped += clipped
        self._processor.sums += sums

    def finish(self) -> None:
        for slot in self._slots[self._turn :] + self._slots[: self._turn]:
            self._take(slot)


def sum_of_rows(
    operator: Any,
    rows: Source,
    weights: Integers | None,
    bits: int,
    threads: int,
    wanted: str | None,
    progress: bool,
) -> tuple[int, ProcessorSums | DeviceSums]:
    """How many records (or weight steps) there are, and their sums, on the device that is wanted."""
    there = None if wanted == "cpu" else gpu_rows(rows)
    owners = devices(wanted) if there is None or wanted not in (None, "auto") else [there.device]
    if there is not None:
        check_width(there.shape[1], operator.n_features)
        if there.device not in owners:
            where = f"the rows are on GPU {there.device.number}, which is not the device that was asked for"
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
                first = block.rows[:100]
                operator.warn_of_noise(downloaded(first) if isinstance(first, DeviceRows) else first)
            advance(block.end - block.start)
        summed.finish()
    return units, summed
