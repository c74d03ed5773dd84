/* Out: a buffer in front of a sink. It is empty after each flush, even if the sink failed. */
#include "client/output/out.h"

#include <errno.h>
#include <stdlib.h>

int out_new(const struct out_sink *sink, struct out **ret)
{
	struct out *out = malloc(sizeof(*out));

	if (!out)
		return -ENOMEM;
	out->sink = *sink;
	out->error = 0;
	out->at = out->buffer;
	*ret = out;
	return 0;
}

struct out *out_free(struct out *out)
{
	free(out);
	return NULL;
}

int out_flush(struct out *out)
{
	size_t size = out->at - out->buffer;

	out->at = out->buffer;
	if (out->error == 0 && size > 0)
		out->error = out->sink.write(out->sink.data, out->buffer, size);
	return out->error;
}
