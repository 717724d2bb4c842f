"""A reader of sketch files that uses the standard library alone, written from docs/reference/file-format.md."""

import hashlib
import json
import struct
import sys
from array import array

BLANK = b"0" * 64


def read(path):
    """The description and the integers of a sketch file."""
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < 8:
        raise ValueError("too short")
    (length,) = struct.unpack("<Q", data[:8])
    if length > len(data) - 8:
        raise ValueError("the header is longer than the file")
    header = json.loads(data[8 : 8 + length])
    description = json.loads(header["__metadata__"]["sketchlearn"])
    if description["format"] != 1:
        raise ValueError(f"format {description['format']} is not known here")
    digest = description["digest"].encode()
    if hashlib.sha256(data.replace(digest, BLANK, 1)).hexdigest().encode() != digest:
        raise ValueError("the digest does not match")
    tensor = header["sums"]
    begin, end = tensor["data_offsets"]
    body = data[8 + length :]
    if tensor["dtype"] != "I64" or end - begin != 8 * tensor["shape"][0] or end > len(body):
        raise ValueError("the integers are not where the header says")
    sums = array("q", body[begin:end])
    if sys.byteorder == "big":
        sums.byteswap()
    return description, sums


def mean(path):
    """The mean feature vector of a sketch of Fourier features with the exponential wave: a list of complex numbers."""
    description, sums = read(path)
    operator = description["operator"]
    kinds = (operator["type"], operator["wave"]["type"], operator["law"]["type"] == "Weighted")
    if kinds != ("FourierFeatures", "Exponential", False):
        raise ValueError("this reader knows only the exponential wave, without weights")
    total = int(description["count"]) * 2**20
    m = operator["n_frequencies"]
    groups = m // operator["subsample"] if operator["subsample"] else 1
    return [complex(sums[j], sums[m + j]) * groups / total for j in range(m)]


if __name__ == "__main__":
    about, integers = read(sys.argv[1])
    print(f"{int(about['count']) / 2 ** about['bits']:,.6g} records, {len(integers)} integers, {about['software']}")
