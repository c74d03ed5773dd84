/* convert.h: a record of CUPTI becomes an event. */
#ifndef TS_INJECT_CONVERT_H
#define TS_INJECT_CONVERT_H

#include <stddef.h>

#include "proto/event.h"

enum convert_result {
	CONVERT_DONE,
	CONVERT_SKIP,	 /* a record that nobody asked for */
	CONVERT_UNKNOWN, /* of a kind that we do not know, or too short for it */
};

/* `size` is how far the record may reach. Sends the names that the event refers to before. */
enum convert_result convert_record(const void *record, size_t size, struct ts_event *ret);

#endif
