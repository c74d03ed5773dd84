/* A state folder of a shipper, and a reader of the rows that it sends. */
#ifndef TS_SHIP_FIXTURE_H
#define TS_SHIP_FIXTURE_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder_path[] = "/tmp/tracesmith-ship-XXXXXX";
static int folder;

static int make_folder(void **state)
{
	strcpy(strrchr(folder_path, '-'), "-XXXXXX");
	folder = mkdtemp(folder_path) ? open(folder_path, O_RDONLY | O_DIRECTORY) : -1;
	return folder < 0 ? -1 : 0;
}

static int remove_folder(void **state)
{
	static const char *const names[] = { "cursor", "parcel", "settings", "secret", "status" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlinkat(folder, names[i], 0);
	close(folder);
	return rmdir(folder_path); /* nothing else is left behind */
}

/* Reads RowBinary as its documentation has it. */
struct reader {
	const uint8_t *at, *end;
};

static uint64_t read_number(struct reader *reader, size_t bytes)
{
	uint64_t value = 0;

	assert_true((size_t)(reader->end - reader->at) >= bytes);
	for (size_t i = 0; i < bytes; i++)
		value |= (uint64_t)*reader->at++ << (8 * i);
	return value;
}

static size_t read_length(struct reader *reader)
{
	size_t value = 0, shift = 0;
	uint8_t byte;

	do {
		byte = (uint8_t)read_number(reader, 1);
		value |= (size_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	return value;
}

static void expect_text(struct reader *reader, const char *text)
{
	size_t size = read_length(reader);

	assert_int_equal(size, strlen(text));
	assert_memory_equal(reader->at, text, size);
	reader->at += size;
}

static void put_file(const char *name, const char *text, mode_t mode)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

#endif
