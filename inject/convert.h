/* convert.h: turns a record of CUPTI into an event. */
#ifndef TS_INJECT_CONVERT_H
#define TS_INJECT_CONVERT_H

#include <stddef.h>

#include "proto/event.h"

enum convert_result {
	CONVERT_DONE,
	CONVERT_SKIP,	 /* a record that was not requested */
	CONVERT_UNKNOWN, /* of an unknown kind, or too short for its kind */
};

/* `size` is the maximum length of the record. First sends the names that the event refers to. */
enum convert_result convert_record(const void *record, size_t size, struct ts_event *ret);

#endif
