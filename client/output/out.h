/* out.h: bytes on their way out, gathered so that they leave in large pieces.
 *
 * Who writes asks for room once for each piece of at most OUT_ROOM bytes and then writes unchecked.
 * The first error of the sink stays, and nothing is written after it.
 */
#ifndef TS_CLIENT_OUT_H
#define TS_CLIENT_OUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/base/cleanup.h"

#define OUT_BYTES (1u << 20)
#define OUT_ROOM  (64u << 10)

struct out_sink {
	int (*write)(void *data, const void *bytes, size_t size); /* all of it, or negative errno */
	void *data;
};

struct out {
	struct out_sink sink;
	int error;
	uint8_t *at;
	uint8_t buffer[OUT_BYTES];
};

int out_new(const struct out_sink *sink, struct out **ret);
struct out *out_free(struct out *out); /* what was not flushed is lost */
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

#endif
