/* web.h: a request and its answer, as the parts of the server see them. */
#ifndef TS_CLIENT_WEB_H
#define TS_CLIENT_WEB_H

#include <stdint.h>
#include <stdio.h>

#include "client/serve/http.h"
#include "client/serve/source.h"

struct web_request {
	const struct http *http;
	struct MHD_Connection *connection;
	struct source *source;
	const char *other; /* a second recording, which `recording=2` asks for; NULL: none */
	const char *rest;  /* of the path, behind that of the route */
};

/* What is sent. */
struct web_answer {
	unsigned int status;
	const char *type;
	char *text; /* owned until it is sent; NULL: `fixed` */
	const char *fixed;
	size_t size;
	char location[256]; /* of a redirection; "": none */
};

#define WEB_TEXT "text/plain; charset=utf-8"
#define WEB_JSON "application/json"
/* No answer to the page is longer. */
#define WEB_BYTES_MAX 200000

/* The value of ?NAME=, NULL: not given. */
const char *web_argument(const struct web_request *request, const char *name);
/* The same as an integer; `ret` stays as it is if it is not given. Complains. */
int web_number(const struct web_request *request, const char *name, int64_t *ret);
/* ?since= and ?until= in nanoseconds of the daemon's clock; below 0, before `now_ns`. Likewise. */
int web_period(const struct web_request *request, uint64_t now_ns, uint64_t *ret_since_ns,
	       uint64_t *ret_until_ns);

/* Such a time, for which link_time() gives the same again. */
struct moment web_moment(const struct link *link, uint64_t ns);

/* One sentence as text. */
void web_say(struct web_answer *answer, unsigned int status, const char *sentence);
/* One sentence as {"error":…}, with the status that suits the error of a link. */
void web_fail(struct web_answer *answer, int error, const char *why);

/* Writes an answer from what the link says. A negative errno: it has complained. */
typedef int web_writer(const struct web_request *request, struct link *link, FILE *out);
/* The answer of a writer as JSON, or why there is none. */
void web_relay(const struct web_request *request, struct web_answer *answer, web_writer *write);

#endif
