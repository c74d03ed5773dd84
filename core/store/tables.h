/* tables.h: the rows of all tables but chunk, from records of a batch into the database. */
#ifndef TS_TABLES_H
#define TS_TABLES_H

#include <sqlite3.h>
#include <stdint.h>

#include "core/model/core.h"
#include "core/store/batch.h"

/* number, identifier: the type of a record; its data is the struct of that name. */
#define RECORD_TYPES(X)                                                                            \
	X(0, PROCESS)                                                                              \
	X(1, DETAIL)                                                                               \
	X(2, STREAM)                                                                               \
	X(3, ALLOCATION)                                                                           \
	X(4, MEMORY)                                                                               \
	X(5, ROLLUP)                                                                               \
	X(6, LOSS)                                                                                 \
	X(7, STACK)                                                                                \
	X(8, NAME)                                                                                 \
	X(9, WORK)                                                                                 \
	X(10, BUSY)                                                                                \
	X(11, DEVICE)                                                                              \
	X(12, COLLECT)                                                                             \
	X(13, POOL)

enum record_type {
#define X(number, name) RECORD_##name = number,
	RECORD_TYPES(X)
#undef X
};

/* The others but NAME are the model's own structs. */

struct record_allocation {
	struct core_allocation allocation;
	uint64_t live;
};

struct record_pool {
	struct core_pool pool;
	uint64_t live;
};

/* Strings follow each other in `text`; an offset of 0 is NULL, else one more than where it is. */
struct record_detail {
	uint32_t process;
	uint32_t command, user, cgroup, container;
	bool executed;
	char text[];
};

struct record_frame {
	uint64_t address, offset;
	uint32_t file, symbol; /* offsets as above, in what follows the frames */
};

struct record_stack {
	uint64_t id;
	uint32_t process, count;
	struct record_frame frame[];
};

struct record_name {
	uint64_t id;
	char text[]; /* ends with a NUL */
};

struct tables;

int tables_new(sqlite3 *db, int64_t boot, struct tables **ret);
struct tables *tables_free(struct tables *tables);

/* The time of the rows that follow, and the number of the commit that they are for. */
void tables_set_time(struct tables *tables, uint64_t now_ns, uint64_t pending_ns, int64_t batch);
/* Inside the caller's transaction. */
int tables_write(struct tables *tables, enum record_type type, const void *data);
/* When this boot was last written to, and the next ids. */
int tables_write_time(struct tables *tables);

#endif
