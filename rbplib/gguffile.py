"""What stands at the start of a GGUF file: what it says of a model, and its tensors' shapes.

The package `gguf` makes an array of each token, a minute for a tokenizer of 262,144; here lists are
gone over and kept as bytes.
"""

import math
import mmap
import re
import struct
from dataclasses import dataclass, field

from rbplib.families import telling

NUMBERS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}  # how each type is unpacked
TEXT, LIST = 8, 9  # the other types
TABLES = re.compile(r"\w+_embd\.weight|token_types\.weight|output\.weight")  # S leaves them out


@dataclass
class Header:
    """fields: {name: number or text, or bytes of a list}. tensors: {name: shape, innermost side
    first}. offset: of the next byte."""

    data: object
    offset: int = 0
    fields: dict = field(default_factory=dict)
    tensors: dict = field(default_factory=dict)

    def numbers(self, kinds):
        """The next numbers, as `struct` names their kinds."""
        kinds = f"<{kinds}"
        values = struct.unpack_from(kinds, self.data, self.offset)
        self.offset += struct.calcsize(kinds)
        return values

    def text(self):
        """The next text, which begins with its length."""
        (size,) = self.numbers("Q")
        self.offset += size
        return self.data[self.offset - size : self.offset].decode()

    def value(self):
        """The next value, which begins with its type."""
        (kind,) = self.numbers("I")
        if kind != LIST:
            return self.text() if kind == TEXT else self.numbers(NUMBERS[kind])[0]
        start = self.offset
        kind, count = self.numbers("IQ")
        if kind != TEXT:
            self.offset += count * struct.calcsize(NUMBERS[kind])
            return self.data[start : self.offset]
        offset, size_at = self.offset, struct.Struct("<Q").unpack_from
        for _ in range(count):
            offset += 8 + size_at(self.data, offset)[0]
        self.offset = offset
        return self.data[start:offset]

    @property
    def sizes(self):
        """As `models.count_sizes` of the model, whose tables are known by their names."""
        numbers = {name: math.prod(shape) for name, shape in self.tensors.items()}
        total = sum(numbers.values())
        tables = sum(number for name, number in numbers.items() if TABLES.fullmatch(name))
        head = self.tensors.get("output.weight") or self.tensors.get("token_embd.weight", (0, 0))
        return {
            "nonembedding_params": total - tables,
            "total_params": total,
            "vocab_size": head[-1],
        }


def read_header(path):
    """The Header of a GGUF file. Raises InputError: it is none.

    Cost: one reading of what stands before the weights; 0.5 s for a tokenizer of 262,144 tokens.
    """
    with telling(f"{path} cannot be read as GGUF, give a whole copy"), open(path, "rb") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            header = Header(data)
            magic, version, tensors, fields = header.numbers("4sIQQ")
            if magic != b"GGUF" or version not in (2, 3):
                raise ValueError("it does not begin as version 2 or 3 does")
            for _ in range(fields):
                name = header.text()
                header.fields[name] = header.value()
            for _ in range(tensors):
                name, (sides,) = header.text(), header.numbers("I")
                header.tensors[name] = header.numbers(f"{sides}QIQ")[:sides]
            header.data = None
            return header
