"""ClickHouse's RowBinary, read back by other code than what writes it. Source: ClickHouse's documentation of the format."""
import struct

NUMBERS = {"UInt8": "<B", "UInt16": "<H", "UInt32": "<I", "UInt64": "<Q", "Int32": "<i", "Int64": "<q", "DateTime": "<I"}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        if self.at + size > len(self.data):
            raise ValueError("the rows end in the middle of a value")
        self.at += size
        return self.data[self.at - size:self.at]

    def length(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7f) << shift
            shift += 7
            if not byte & 0x80:
                return value

    def value(self, kind):
        if kind == "String":
            return self.take(self.length()).decode()
        if kind == "Array(String)":
            return tuple(self.value("String") for _ in range(self.length()))
        form = NUMBERS[kind]
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]


def rows(data, columns):
    """Of (name, type) pairs, as dictionaries."""
    reader = Reader(data)
    while reader.at < len(data):
        yield {name: reader.value(kind) for name, kind in columns}
