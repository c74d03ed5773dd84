/* Gzip: zlib between two sinks. */
#include "client/export/gzip.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#define BUFFER_BYTES (64u << 10)
#define GZIP_WINDOW  (15 + 16) /* the largest; 16: with gzip header and trailer */
#define MEMORY_LEVEL 8	       /* zlib's default */

struct gzip {
	struct out_sink sink;
	z_stream stream;
	uint8_t buffer[BUFFER_BYTES];
};

int gzip_new(const struct out_sink *sink, struct gzip **ret)
{
	struct gzip *gzip = calloc(1, sizeof(*gzip));

	if (!gzip)
		return -ENOMEM;
	gzip->sink = *sink;
	if (deflateInit2(&gzip->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW,
			 MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
		free(gzip);
		return -ENOMEM;
	}
	*ret = gzip;
	return 0;
}

struct gzip *gzip_free(struct gzip *gzip)
{
	if (!gzip)
		return NULL;
	deflateEnd(&gzip->stream);
	free(gzip);
	return NULL;
}

/* Until all input is consumed, and at the end until all output is written. */
static int squeeze(struct gzip *gzip, const void *bytes, size_t size, int flush)
{
	z_stream *stream = &gzip->stream;
	int r = 0;

	stream->next_in = (Bytef *)bytes;
	stream->avail_in = (uInt)size;
	do {
		stream->next_out = gzip->buffer;
		stream->avail_out = BUFFER_BYTES;
		if (deflate(stream, flush) == Z_STREAM_ERROR)
			return -EINVAL;
		if (stream->avail_out < BUFFER_BYTES)
			r = gzip->sink.write(gzip->sink.data, gzip->buffer,
					     BUFFER_BYTES - stream->avail_out);
	} while (r == 0 && stream->avail_out == 0);
	return r;
}

static int write_sink(void *data, const void *bytes, size_t size)
{
	return squeeze(data, bytes, size, Z_NO_FLUSH);
}

struct out_sink gzip_sink(struct gzip *gzip)
{
	return (struct out_sink){ write_sink, gzip };
}

int gzip_end(struct gzip *gzip)
{
	return squeeze(gzip, NULL, 0, Z_FINISH);
}
