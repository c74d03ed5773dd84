/* out.h: buffers output so that it is written in large pieces.
 *
 * A writer reserves room for each piece of at most OUT_ROOM bytes, then writes unchecked. The first
 * error of the sink is kept, and nothing is written after it. */
#ifndef TS_CLIENT_OUT_H
#define TS_CLIENT_OUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/base/cleanup.h"

#define OUT_BYTES (1u << 20)
#define OUT_ROOM  (64u << 10)

struct out_sink {
	int (*write)(void *data, const void *bytes,
		     size_t size); /* writes all of it; 0 or a negative errno */
	void *data;
};

struct out {
	struct out_sink sink;
	int error;
	uint8_t *at;
	uint8_t buffer[OUT_BYTES];
};

int out_new(const struct out_sink *sink, struct out **ret);
struct out *out_free(struct out *out); /* drops what was not flushed */
int out_flush(struct out *out);

CLEANUP_DEFINE(struct out, out_free)

static inline int out_room(struct out *out)
{
	if (out->at - out->buffer > OUT_BYTES - OUT_ROOM)
		return out_flush(out);
	return out->error;
}

static inline void out_bytes(struct out *out, const void *bytes, size_t size)
{
	memcpy(out->at, bytes, size);
	out->at += size;
}

static inline void out_text(struct out *out, const char *text)
{
	out_bytes(out, text, strlen(text));
}

void out_number(struct out *out, uint64_t value); /* in decimal */
void out_signed(struct out *out, int64_t value);

#endif
