/* rowbinary.h: rows as ClickHouse's format RowBinary has them: the values of a row one after
 * another without anything between, integers little-endian, a text behind its length (LEB128).
 * Source: https://clickhouse.com/docs/interfaces/formats/RowBinary */
#ifndef TS_CLIENT_ROWBINARY_H
#define TS_CLIENT_ROWBINARY_H

#include <stddef.h>
#include <stdint.h>

/* Their names in ClickHouse, and bytes; 0: as long as it is. */
#define ROWBINARY_TYPES(X)                                                                         \
	X(U8, "UInt8", 1)                                                                          \
	X(U16, "UInt16", 2)                                                                        \
	X(U32, "UInt32", 4)                                                                        \
	X(U64, "UInt64", 8)                                                                        \
	X(I16, "Int16", 2)                                                                         \
	X(I32, "Int32", 4)                                                                         \
	X(I64, "Int64", 8)                                                                         \
	X(TIME, "DateTime", 4)                                                                     \
	X(TEXT, "String", 0)                                                                       \
	X(LINES, "Array(String)", 0)

enum rowbinary_type {
#define X(identifier, name, bytes) ROWBINARY_##identifier,
	ROWBINARY_TYPES(X)
#undef X
};

const char *rowbinary_name(enum rowbinary_type type);

/* Bytes that grow. */
struct rowbinary {
	uint8_t *data;
	size_t size, room;
};

void rowbinary_done(struct rowbinary *rows);
/* Makes room for more bytes. -ENOMEM. */
int rowbinary_room(struct rowbinary *rows, size_t size);
int rowbinary_bytes(struct rowbinary *rows, const void *bytes, size_t size);
/* A value of a type that is a number; of one that does not fit its nearest neighbour is written. A
 * U64 takes all 64 bits. -ENOMEM. */
int rowbinary_integer(struct rowbinary *rows, enum rowbinary_type type, int64_t value);
/* NULL is "". -ENOMEM. */
int rowbinary_text(struct rowbinary *rows, const char *text);
/* The lines of a text, as an array. NULL and "" have none. -ENOMEM. */
int rowbinary_lines(struct rowbinary *rows, const char *text);

#endif
