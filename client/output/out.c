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

void out_number(struct out *out, uint64_t value)
{
	char digits[20], *at = digits + sizeof(digits);

	do
		*--at = (char)('0' + value % 10);
	while (value /= 10);
	out_bytes(out, at, digits + sizeof(digits) - at);
}

void out_signed(struct out *out, int64_t value)
{
	if (value < 0)
		*out->at++ = '-';
	out_number(out, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

int out_flush(struct out *out)
{
	size_t size = out->at - out->buffer;

	out->at = out->buffer;
	if (out->error == 0 && size > 0)
		out->error = out->sink.write(out->sink.data, out->buffer, size);
	return out->error;
}
