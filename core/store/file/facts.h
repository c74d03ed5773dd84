/* facts.h: a recording's description of itself: the table `recording`, and the rows that every
 * recording has. */
#ifndef TS_FILE_FACTS_H
#define TS_FILE_FACTS_H

#include <sqlite3.h>
#include <stdint.h>

#include "core/sbt/file.h"
#include "core/store/row.h"

struct file_facts {
	int64_t boot; /* id of its row */
	char boot_id[64];
	uint64_t now_ns;  /* the end of the recording, which queries see as the present */
	uint64_t told_ns; /* when its first sums were reported, some by the minute */
	int64_t wall_offset_ns;
};

/* How much of the file can be used. */
struct file_extent {
	enum sbt_state state;
	uint64_t size, used; /* bytes */
};

/* The columns of the table. */
extern const struct row_table file_facts_table;

int file_facts_make(sqlite3 *db);
/* Once the tables are filled. Adds a row of an unknown boot if there is none. */
int file_facts_read(sqlite3 *db, enum sbt_state state, struct file_facts *ret);
/* Adds the extent as SQL shows it; missing data counts as a loss in every answer. */
int file_facts_add_extent(sqlite3 *db, const struct file_facts *facts,
			  const struct file_extent *extent);
/* Adds that the file is damaged at this byte. */
int file_facts_add_damage(sqlite3 *db, uint64_t byte);

#endif
