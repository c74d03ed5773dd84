#!/usr/bin/python3
"""sbt_read FILE: prints what is in an .sbt file. A second reader, written from docs/sbt.md alone.

Lines of JSON: of a chunk ["ops", process, stream, kind] and for each operation its columns by
number; of rows ["rows", table, columns] and the values of each; at the end whether the file is
whole, cut off or damaged, and whether its index was good."""

import json
import struct
import sys

import xxhash
import zstandard

MASK = (1 << 64) - 1
BLOCK_MAX = 12 << 20
ROWS_MAX = 8 << 20
OPS_MAX = 8192
# Bits of each column; signed ones are negative.
BITS = [64, 64, 64, 64, 32, 16, 16, 8, -16, -32, 64, 64, 64, 64, 64, 64, 64, 32, 32, 32, 32, 32,
        32, 32, 64, 64, 64, 32, 32, 32, 32]
START, END, GPU_START, GPU_END, SEEN = 0, 1, 2, 3, 24
TIMES = [START, END, GPU_START, GPU_END, SEEN]
REFERENCES = {END: [16], GPU_START: [16, 32], GPU_END: [16, 32, 48], SEEN: [16, 32, 48]}


class Damaged(Exception):
    pass


def check(condition, what):
    if not condition:
        raise Damaged(what)


def xxh3(data):
    return xxhash.xxh3_64_intdigest(bytes(data))


def unzstd(data, size):
    try:
        plain = zstandard.ZstdDecompressor().decompress(bytes(data), max_output_size=size)
    except zstandard.ZstdError as error:
        raise Damaged(str(error)) from error
    check(len(plain) == size, "a frame of another size")
    return plain


class Cursor:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, size):
        check(size <= len(self.data) - self.at, "bytes are missing")
        self.at += size
        return self.data[self.at - size:self.at]

    def byte(self):
        return self.take(1)[0]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7f) << shift
            if byte < 0x80:
                break
            shift += 7
        check(value <= MASK and (byte or not shift), "no varint")
        return value

    def zigzag(self):
        value = self.varint()
        return value >> 1 if value % 2 == 0 else -(value >> 1) - 1

    def packed(self, count):
        values = []
        while len(values) < count:
            part = min(128, count - len(values))
            width = self.byte()
            check(width <= 56, "packed too wide")
            bits = int.from_bytes(self.take((part * width + 7) // 8), "little")
            values += [bits >> (i * width) & ((1 << width) - 1) for i in range(part)]
        return values

    def done(self):
        check(self.at == len(self.data), "bytes that belong to nothing")


def dictionary(cursor):
    return [cursor.varint() for _ in range(cursor.byte())]


def look_up(entries, indexes):
    check(all(index < len(entries) for index in indexes), "no entry of the dictionary")
    return [entries[index] for index in indexes]


def deltas(first, least, differences):
    values = []
    for difference in differences:
        first = (first + difference + least) & MASK
        values.append(first)
    return values


def column_values(number, encoding, data, count, dictionaries):
    """The values of a column. A dictionary's size and indexes are put into `dictionaries`."""
    cursor = Cursor(data)
    base = cursor.varint()
    if encoding == 1:
        cursor.done()
        return [base] * count
    shift = cursor.byte()
    check(shift < 64, "a shift too far")
    if encoding == 2:
        values = [cursor.varint() for _ in range(count)]
    elif encoding == 3:
        values = deltas(0, 0, [cursor.zigzag() for _ in range(count)])
    elif encoding in (4, 7):
        entries = dictionary(cursor)
        indexes = list(cursor.take(count)) if encoding == 4 else cursor.packed(count)
        values = look_up(entries, indexes)
        dictionaries[number] = len(entries), indexes
    elif encoding == 5:
        values = cursor.packed(count)
    elif encoding == 6:
        least = cursor.zigzag()
        packed = cursor.packed(count)
        values = packed[:1] + deltas(packed[0], least, packed[1:])
    elif encoding == 8:
        other = cursor.byte()
        check(other < number and other in dictionaries and other not in TIMES,
              "mapped from nothing")
        size, indexes = dictionaries[other]
        values = look_up([cursor.varint() for _ in range(size)], indexes)
    else:
        raise Damaged("an unknown encoding")
    cursor.done()
    return [((value << shift) + base) & MASK for value in values]


def read_chunk(data):
    check(len(data) >= 52 and data[:4] == b"SBT\1", "no chunk")
    (size, checksum, process, stream, _, _, count, body_size, kind, flags, columns,
     zero) = struct.unpack_from("<IQIIQQIIBBBB", data, 4)
    check(size == len(data) and checksum == xxh3(data[16:]), "a damaged chunk")
    check(1 <= count <= OPS_MAX and flags in (0, 1) and zero == 0, "a chunk of nonsense")
    body = unzstd(data[52:], body_size) if flags else data[52:]
    check(len(body) == body_size, "a body of another size")
    return process, stream, kind, read_columns(Cursor(body), columns, count)


def read_columns(cursor, columns, count):
    values, dictionaries, references, before = {}, {}, {}, -1
    for _ in range(columns):
        number, encoding = cursor.byte(), cursor.byte()
        data = cursor.take(cursor.varint())
        check(number > before, "columns out of order")
        before = number
        if number >= len(BITS):
            continue
        if encoding & 64:
            inner = Cursor(data)
            size = inner.varint()
            check(size <= 16 + 10 * OPS_MAX, "a column too large")
            data = unzstd(inner.data[inner.at:], size)
        references[number] = encoding & 48
        check(not references[number] or references[number] in REFERENCES.get(number, []),
              "no such reference")
        values[number] = column_values(number, encoding & ~(48 | 64), data, count, dictionaries)
    cursor.done()
    for number in range(len(BITS)):
        values.setdefault(number, [0] * count)
    make_absolute(values, references, count)
    return [[signed(values[number][i], BITS[number]) for number in range(len(BITS))]
            for i in range(count)]


def make_absolute(values, references, count):
    before = 0
    for i in range(count):
        for number in (END, GPU_START, GPU_END, SEEN):
            reference = references.get(number, 0)
            value = values[number][i]
            if not reference or not value:
                continue
            if reference == 16:
                to = values[START][i]
            elif reference == 48:
                to = values[END][i]
            else:
                to = {GPU_START: max(values[START][i], before), GPU_END: values[GPU_START][i],
                      SEEN: values[GPU_END][i]}[number]
            # t - r + 1 where t >= r, else t - r
            time = (to + value - 1) & MASK
            values[number][i] = time if time >= to else (to + value) & MASK
        before = values[GPU_END][i]


def signed(value, bits):
    check(value < 1 << abs(bits), "a value too large for its field")
    return value - (1 << -bits) if bits < 0 and value >> (-bits - 1) else value


def read_name(cursor):
    name = bytes(cursor.take(cursor.byte()))
    check(name[:1].islower() and len(name) <= 63 and
          all(c in b"abcdefghijklmnopqrstuvwxyz0123456789_" for c in name), "no name")
    return name.decode()


def read_text(cursor, known):
    number = cursor.varint()
    check(number <= len(known), "a text that was not there")
    if number == 0:
        text = bytes(cursor.take(cursor.varint()))
        check(cursor.byte() == 0 and b"\0" not in text and len(text) <= 1 << 20, "no text")
        try:
            known.append(text.decode())
        except UnicodeDecodeError as error:
            raise Damaged("no UTF-8") from error
    return known[number - 1]


def read_column(cursor, count):
    types = cursor.byte()
    check(types <= 3, "unknown types")
    kinds = list(cursor.take(count)) if types == 3 else [types] * count
    values, known, before = [], [], 0
    for kind in kinds:
        check(kind <= 2, "an unknown type")
        if kind == 0:
            values.append(None)
        elif kind == 1:
            before = (before + cursor.zigzag()) & MASK
            values.append(before - (1 << 64) if before >> 63 else before)
        else:
            values.append(read_text(cursor, known))
    return values


def read_rows(data):
    check(len(data) >= 12, "no rows")
    count, body_size, columns, flags, zero = struct.unpack_from("<IIBBH", data)
    check(count <= 65536 and body_size <= ROWS_MAX and 1 <= columns <= 32 and flags in (0, 1) and
          zero == 0, "rows of nonsense")
    body = unzstd(data[12:], body_size) if flags else data[12:]
    check(len(body) == body_size, "a body of another size")
    cursor = Cursor(body)
    table, names, values = read_name(cursor), [], []
    for _ in range(columns):
        name = read_name(cursor)
        check(name not in names, "a column twice")
        names.append(name)
        values.append(read_column(cursor, count))
    cursor.done()
    return table, names, [list(row) for row in zip(*values)]


def read_block(data, offset):
    """Type and contents of the block at an offset, None: it is not whole."""
    if len(data) - offset < 32:
        return None
    magic, size, checksum, own, kind, zero = struct.unpack_from("<4sIQQII", data, offset)
    end = offset + 32 + size
    if magic != b"SBLK" or size > BLOCK_MAX or own != offset or zero or end > len(data) or \
            checksum != xxh3(data[offset + 16:end]):
        return None
    if kind == 1 and (size < 52 or struct.unpack_from("<I", data, offset + 36)[0] != size):
        return None
    return kind, data[offset + 32:end]


def read_index(data):
    """(offset, type) of each block, or None where the index is not good."""
    tail = data[-32:]
    if len(data) < 56 or tail[24:] != b"SBTEND\r\n":
        return None
    offset, own, checksum = struct.unpack_from("<QQQ", tail)
    if checksum != xxh3(tail[:16]) or own != len(data) - 32:
        return None
    blocks, end = [], own
    while True:
        block = read_block(data, offset)
        if not block or block[0] != 3 or offset + 32 + len(block[1]) != end:
            return None
        before, first = struct.unpack_from("<QQ", block[1])
        table, names, rows = read_rows(block[1][16:])
        check(table == "index" and names[:2] == ["type", "size"], "no index")
        at, part = first, []
        for row in rows:
            part.append((at, row[0], row[2:8]))
            at += 32 + row[1]
        if at != offset or before >= offset:
            return None
        blocks, end = part + blocks, first
        if not before:
            return blocks if first == 24 else None
        offset = before


def find_blocks(data):
    """Yields the blocks of a file without an index, then what is behind them."""
    offset = 24
    while True:
        block = read_block(data, offset)
        if not block:
            break
        yield offset, block
        offset += 32 + len(block[1])
    left = len(data) - offset
    cut = left < 32
    if not cut:
        magic, size, _, own = struct.unpack_from("<4sIQQ", data, offset)
        cut = magic == b"SBLK" and size <= BLOCK_MAX and own == offset and left < 32 + size
    yield len(data), "cut" if cut else "damaged"


def check_index(entry, block):
    process, stream, kind, ops, first, last = entry
    head = struct.unpack_from("<IIQQI", block, 16)
    check(head == (process, stream, first & MASK, last & MASK, ops) and block[48] == kind,
          "the index says something else")


def show(kind, contents):
    if kind == 1:
        process, stream, number, ops = read_chunk(contents)
        print(json.dumps(["ops", process, stream, number]))
        for op in ops:
            print(json.dumps(op))
    elif kind == 2:
        table, names, rows = read_rows(contents)
        print(json.dumps(["rows", table, names]))
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))


def main(path):
    with open(path, "rb") as file:
        data = memoryview(file.read())
    check(len(data) >= 24 and data[:8] == b"\x89SBT\r\n\x1a\n", "no .sbt file")
    check(struct.unpack_from("<Q", data, 16)[0] == xxh3(data[:16]), "a damaged head")
    check(struct.unpack_from("<I", data, 8)[0] == 1, "a later version")
    index = read_index(data)
    if index is None:
        for _, block in find_blocks(data):
            if isinstance(block, str):
                print(json.dumps([block]))
            else:
                show(*block)
        return
    for offset, kind, entry in index:
        block = read_block(data, offset)
        check(block and block[0] == kind, "a damaged block")
        if kind == 1:
            check_index(entry, block[1])
        show(*block)
    print(json.dumps(["whole"]))


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Damaged as damaged:
        sys.exit(f"sbt_read: {sys.argv[1]}: {damaged}")
