/* The frame reader over any stream, in any pieces: the first byte says how it is cut. */
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"

#define MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t touched[MAX];

/* Reads all that is there; the bytes of a message are copied for the sanitizers to see. */
static int drain(struct ts_frame_reader *reader)
{
	const uint8_t *message;
	size_t size;
	int r;

	while ((r = ts_frame_reader_next(reader, &message, &size)) > 0) {
		if (size > reader->max)
			abort();
		memcpy(touched, message, size);
	}
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ts_frame_reader reader = { .max = MAX };
	size_t piece = size ? 1 + data[0] : 1, room, n;
	void *to;

	for (size_t i = 1; i < size; i += n) {
		to = ts_frame_reader_room(&reader, &room);
		if (!to || !room)
			abort();
		n = size - i < piece ? size - i : piece;
		n = n < room ? n : room;
		memcpy(to, data + i, n);
		ts_frame_reader_fill(&reader, n);
		if (drain(&reader) < 0)
			break;
		if (reader.capacity > 4 * reader.max)
			abort();
	}
	ts_frame_reader_done(&reader);
	return 0;
}
