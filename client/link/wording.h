/* wording.h: how tsctl words what a reply remarks. */
#ifndef TS_CLIENT_WORDING_H
#define TS_CLIENT_WORDING_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/control.pb-c.h"

/* Patterns of sentence.h. */
struct wording {
	const char *text, *recording; /* no `recording`: the same there */
	int options_from; /* arguments from this one on are names of fields; 0: none are */
};

/* NULL: none is better than the remark's own text. */
const struct wording *wording_find(size_t reason);

enum wording_place {
	WORDING_DAEMON = 0,
	WORDING_RECORDING = 1,
	WORDING_PAGE = 2, /* has no options to name: remarks keep their own text there */
};

/* Puts tsctl's words in place of the message of an error, or the note of an answer, that has
 * remarks. `place`: a sum. -ENOMEM: it is as it was. */
int wording_apply(Tracesmith__V1__Reply *reply, enum wording_place place);

/* A field of a request as the option that sets it; to be freed. NULL: no memory. */
char *wording_options(const char *fields);

#endif
