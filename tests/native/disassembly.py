"""Loops in the machine code of an object file, as objdump prints it."""

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

_FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
_INSTRUCTION = re.compile(r"^ *([0-9a-f]+):\t(\S+)\s*(.*)$")
_JUMP = re.compile(r"b|b\.\w+|cbn?z|tbn?z|j\w+")
_NEVER_GOES_ON = re.compile(r"b|br|ret\w*|jmp\w*|ud2|brk|udf")
_ENDS_BLOCK = re.compile(rf"{_JUMP.pattern}|{_NEVER_GOES_ON.pattern}")
_CALL = re.compile(r"blr?|call\w*")
_TARGET = re.compile(r"(?:^|[ ,])([0-9a-f]+) <")
_STACK = re.compile(r"\[sp\b|\(%rsp\b|\(%rbp\b")


@dataclass(frozen=True)
class Instruction:
    address: int
    name: str
    operands: str

    @property
    def target(self) -> int | None:
        """Where it jumps to."""
        found = _TARGET.search(self.operands) if _JUMP.fullmatch(self.name) else None
        return int(found[1], 16) if found else None

    @property
    def is_call(self) -> bool:
        return bool(_CALL.fullmatch(self.name))

    @property
    def on_stack(self) -> bool:
        return bool(_STACK.search(self.operands))


Code = tuple[Instruction, ...]


def functions(object_file: Path, objdump: str) -> Iterator[tuple[str, Code]]:
    """Every function's name, without arguments, and its code; clones of one function have the same name."""
    command = [objdump, "-d", "-C", "--no-show-raw-insn", str(object_file)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    name, code = "", []
    for line in text.splitlines():
        if header := _FUNCTION.match(line):
            if code:
                yield name, tuple(code)
            name, code = _short(header[1]), []
        elif parsed := _INSTRUCTION.match(line):
            code.append(Instruction(int(parsed[1], 16), parsed[2], parsed[3]))
    if code:
        yield name, tuple(code)


def _short(name: str) -> str:
    name = name.replace("sketchlearn::", "").replace("(anonymous namespace)::", "").replace("> >", ">>")
    return re.sub(r"^void |\(.*", "", name)


def loops(code: Code) -> Iterator[Code]:
    """Every natural loop: what leads to a jump back without passing the place that it jumps to."""
    leaders = {code[0].address} | {i.target for i in code if i.target is not None}
    leaders |= {after.address for i, after in pairwise(code) if _ENDS_BLOCK.fullmatch(i.name)}
    blocks: list[list[Instruction]] = []
    for instruction in code:
        if instruction.address in leaders:
            blocks.append([])
        blocks[-1].append(instruction)
    at = {block[0].address: b for b, block in enumerate(blocks)}
    before: list[set[int]] = [set() for _ in blocks]
    for b, block in enumerate(blocks):
        if (target := block[-1].target) in at:
            before[at[target]].add(b)
        if not _NEVER_GOES_ON.fullmatch(block[-1].name) and b + 1 < len(blocks):
            before[b + 1].add(b)
    bodies: dict[int, set[int]] = {}
    dominators = _dominators(before)
    for head, sources in enumerate(before):
        for source in sources:
            if head in dominators[source]:
                bodies.setdefault(head, {head}).update(_reaching(source, head, before))
    for body in bodies.values():
        yield tuple(instruction for b in sorted(body) for instruction in blocks[b])


def _dominators(before: list[set[int]]) -> list[set[int]]:
    """For each block, those that every way to it passes."""
    everything = set(range(len(before)))
    found = [{0}] + [everything for _ in before[1:]]
    changed = True
    while changed:
        changed = False
        for b in range(1, len(before)):
            ways = [found[p] for p in before[b]]
            new = {b} | (set.intersection(*ways) if ways else set())
            changed |= new != found[b]
            found[b] = new
    return found


def _reaching(block: int, head: int, before: list[set[int]]) -> set[int]:
    found, waiting = {head}, [block]
    while waiting:
        b = waiting.pop()
        if b not in found:
            found.add(b)
            waiting += before[b]
    return found


def busiest_loop(code: Code, work: re.Pattern[str]) -> Code:
    """Of the innermost loops that work, the one that works most; without any, the whole function."""

    def amount(part: Code) -> int:
        return sum(bool(work.fullmatch(i.name)) for i in part)

    working = [loop for loop in loops(code) if amount(loop)]
    innermost = [a for a in working if not any(set(b) < set(a) for b in working)]
    return max(innermost, key=amount, default=code)
