/* Web: what a request asks for, and what is said when that is not to be had. */
#include "client/serve/web.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/output/json.h"
#include "core/base/text.h"

const char *web_argument(const struct web_request *request, const char *name)
{
	return request->http->MHD_lookup_connection_value(request->connection,
							  MHD_GET_ARGUMENT_KIND, name);
}

int web_number(const struct web_request *request, const char *name, int64_t *ret)
{
	const char *text = web_argument(request, name);
	char *end;
	int64_t value;

	if (!text)
		return 0;
	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno || end == text || *end) {
		complain("'%s' must be an integer (got '%.40s')", name, text);
		return -EINVAL;
	}
	*ret = value;
	return 0;
}

/* In nanoseconds of the daemon's clock; below 0, before `now_ns`. */
static int web_time(const struct web_request *request, const char *name, uint64_t now_ns,
		    uint64_t *ret)
{
	int64_t value;
	int r = web_number(request, name, &value);

	if (r < 0 || !web_argument(request, name))
		return r;
	if (value < 0 && __builtin_add_overflow(value, (int64_t)now_ns, &value))
		value = 1;
	*ret = value > 0 ? (uint64_t)value : 1;
	return 0;
}

int web_period(const struct web_request *request, uint64_t now_ns, uint64_t *ret_since_ns,
	       uint64_t *ret_until_ns)
{
	int r = web_time(request, "since", now_ns, ret_since_ns);

	return r < 0 ? r : web_time(request, "until", now_ns, ret_until_ns);
}

struct moment web_moment(const struct link *link, uint64_t ns)
{
	/* Unsigned: a request or a recording may claim any time. */
	return (struct moment){ .ns = (int64_t)(ns + (uint64_t)link_hello(link)->wall_offset_ns) };
}

void web_say(struct web_answer *answer, unsigned int status, const char *sentence)
{
	char *text = NULL;

	*answer = (struct web_answer){ .status = status, .type = WEB_TEXT, .fixed = "" };
	if (asprintf(&text, "%s\n", sentence) < 0)
		return;
	answer->text = text;
	answer->size = strlen(text);
}

static unsigned int status_of(int error)
{
	switch (error) {
	case -EINVAL:
		return MHD_HTTP_BAD_REQUEST;
	case -ENOENT:
		return MHD_HTTP_NOT_FOUND;
	case -E2BIG:
		return MHD_HTTP_CONTENT_TOO_LARGE;
	default:
		return MHD_HTTP_SERVICE_UNAVAILABLE;
	}
}

void web_fail(struct web_answer *answer, int error, const char *why)
{
	FILE *out;

	free(answer->text);
	*answer = (struct web_answer){ .status = status_of(error), .type = WEB_JSON, .fixed = "" };
	out = text_open(&answer->text, &answer->size);
	if (!out)
		return;
	fputs("{\"error\":", out);
	json_string(out, why);
	fputs("}\n", out);
	text_close(out);
}

void web_relay(const struct web_request *request, struct web_answer *answer, web_writer *write)
{
	char why[COMPLAINT_BYTES] = "";
	struct link *link = NULL;
	FILE *out;
	int r;

	*answer = (struct web_answer){ .status = MHD_HTTP_OK, .type = WEB_JSON, .fixed = "" };
	complain_into(why);
	r = source_take(request->source, &link) < 0 ? -EIO : 0;
	if (r == 0) {
		out = text_open(&answer->text, &answer->size);
		r = out ? write(request, link, out) : -ENOMEM;
		source_give(request->source, link, r);
		if (out && text_close(out) < 0)
			r = -ENOMEM;
	}
	if (r == 0 && answer->size > WEB_BYTES_MAX) {
		complain("The answer is too long: ask for less of it");
		r = -E2BIG;
	}
	complain_into(NULL);
	if (r < 0)
		web_fail(answer, r, *why ? why : "Not enough memory");
}
