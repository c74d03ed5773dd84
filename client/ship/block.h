/* block.h: fills the blocks of a parcel with rows. */
#ifndef TS_CLIENT_SHIP_BLOCK_H
#define TS_CLIENT_SHIP_BLOCK_H

#include <stdio.h>

#include "client/ship/jobs.h"
#include "client/ship/parcel_plan.h"
#include "client/ship/rowbinary.h"
#include "client/ship/tables.h"

struct maker {
	const struct parcel_plan *plan;
	FILE *out;
	const struct table *table;
	struct jobs jobs;
	size_t process;		       /* which of its columns that is */
	bool unknown;		       /* it had a row of a process that is not known yet */
	struct rowbinary open, packed; /* rows of the block that is open, and as they are sent */
	uint32_t open_rows, number;    /* of the table */
	uint32_t blocks;
	uint64_t rows, bytes;
	int64_t newest; /* commit up to which all came that comes into being once */
	uint32_t cut;	/* tables of which the daemon did not send all rows */
};

void maker_begin(struct maker *maker, const struct table *table);
/* A row of the daemon's answer, unless its process is left out; `data` is the maker. */
int maker_row(void *data, const Tracesmith__V1__Row *row);
/* Rows of what retention took away before, and of answers that were cut off, if there are any. */
int maker_lost(struct maker *maker);
int maker_host(struct maker *maker);
/* If it is known. */
int maker_clock(struct maker *maker);
/* Writes what is open. */
int maker_end(struct maker *maker);
void maker_done(struct maker *maker);

#endif
