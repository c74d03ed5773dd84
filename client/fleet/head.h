/* head.h: what stands in the comments at the start of a query's file: what it shows, the options
 * that it takes, its usual window and its columns. docs/fleet.md says how to write one. */
#ifndef TS_CLIENT_FLEET_HEAD_H
#define TS_CLIENT_FLEET_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/base/options.h"
#include "client/fleet/source.h"
#include "proto/control.pb-c.h"

#define HEAD_COLUMNS_MAX 32
#define HEAD_TEXT_BYTES	 128
#define HEAD_NAME_BYTES	 32

struct head {
	bool internal; /* not for users */
	char text[HEAD_TEXT_BYTES];
	char options[HEAD_TEXT_BYTES]; /* between blanks */
	uint64_t window_ns;
	size_t columns;
	struct {
		char name[HEAD_NAME_BYTES];
		Tracesmith__V1__Columns__Type type;
		bool id; /* negative: unknown */
	} column[HEAD_COLUMNS_MAX];
};

/* -EINVAL: the file is not as it should be. */
int head_read(const struct source *source, struct head *ret);
bool head_takes(const struct head *head, const char *option);
/* "host text, seen time" */
void head_write_columns(const struct head *head, FILE *out);

#endif
