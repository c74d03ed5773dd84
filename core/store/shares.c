/* Shares: the sums are read from the database now and then, since that takes a look at each chunk;
 * in between, what is deleted is taken off them. */
#include "core/store/shares.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "core/store/sql.h"

#define USERS_MAX 64 /* with the most bytes */
#define READ_NS	  (60 * NS_PER_S)

/* Rows of a former version have no owner. */
#define OWNER "coalesce(p.owner, p.uid)"

enum { READ, DELETE, STATEMENT_COUNT };

static const char *const statement_text[] = {
	/* Lengths first: grouped at once, all the data would be sorted, in memory. */
	[READ] = "WITH of AS MATERIALIZED (SELECT process, length(data) AS bytes FROM chunk)"
		 " SELECT " OWNER ", sum(bytes) FROM of JOIN process p"
		 " ON p.id=of.process GROUP BY 1 ORDER BY 2 DESC LIMIT 64",
	[DELETE] = "DELETE FROM chunk WHERE id IN (SELECT c.id FROM chunk c JOIN process p"
		   " ON p.id=c.process WHERE " OWNER "=?1 ORDER BY c.boot, c.first_ns LIMIT ?2)"
		   " RETURNING length(data)",
};

struct shares {
	sqlite3 *db;
	sqlite3_stmt *stmt[STATEMENT_COUNT];
	struct {
		int64_t user, bytes;
	} of[USERS_MAX];
	uint32_t count;
	uint64_t read_ns; /* 0: not yet */
};

CLEANUP_DEFINE(struct shares, shares_free)

int shares_new(sqlite3 *db, struct shares **ret)
{
	_cleanup_(shares_freep) struct shares *shares = calloc(1, sizeof(*shares));
	int r;

	if (!shares)
		return -ENOMEM;
	shares->db = db;
	r = sql_prepare_all(db, statement_text, STATEMENT_COUNT, shares->stmt);
	if (r < 0)
		return r;
	*ret = TAKE(shares);
	return 0;
}

struct shares *shares_free(struct shares *shares)
{
	if (shares)
		sql_finalize_all(shares->stmt, STATEMENT_COUNT);
	free(shares);
	return NULL;
}

static int shares_read(struct shares *shares, uint64_t now_ns)
{
	sqlite3_stmt *stmt = shares->stmt[READ];
	int code;

	shares->count = 0;
	while ((code = sqlite3_step(stmt)) == SQLITE_ROW && shares->count < USERS_MAX) {
		shares->of[shares->count].user = sqlite3_column_int64(stmt, 0);
		shares->of[shares->count++].bytes = sqlite3_column_int64(stmt, 1);
	}
	sqlite3_reset(stmt);
	if (code != SQLITE_DONE && code != SQLITE_ROW)
		return sql_error(shares->db);
	shares->read_ns = now_ns;
	return 0;
}

/* -1: nobody pays alone. */
static int shares_biggest(const struct shares *shares, int64_t used_bytes)
{
	int64_t sum = 0;
	uint32_t biggest = 0;

	for (uint32_t i = 0; i < shares->count; i++) {
		sum += shares->of[i].bytes;
		if (shares->of[i].bytes > shares->of[biggest].bytes)
			biggest = i;
	}
	return shares->count < 2 || sum < used_bytes / 2 ? -1 : (int)biggest;
}

static int delete_of(struct shares *shares, uint32_t i, int64_t chunks)
{
	sqlite3_stmt *stmt = shares->stmt[DELETE];
	int64_t before = shares->of[i].bytes;
	int code;

	sql_bind(stmt, shares->of[i].user, chunks);
	while ((code = sqlite3_step(stmt)) == SQLITE_ROW)
		shares->of[i].bytes -= sqlite3_column_int64(stmt, 0);
	sqlite3_reset(stmt);
	if (code != SQLITE_DONE)
		return sql_error(shares->db);
	return shares->of[i].bytes != before;
}

int shares_delete(struct shares *shares, uint64_t now_ns, int64_t used_bytes, int64_t chunks)
{
	bool old = !shares->read_ns || now_ns - shares->read_ns >= READ_NS;
	int r = old ? shares_read(shares, now_ns) : 0;
	int biggest = r < 0 ? -1 : shares_biggest(shares, used_bytes);

	if (r < 0 || biggest < 0)
		return r;
	r = delete_of(shares, (uint32_t)biggest, chunks);
	if (r == 0)
		shares->read_ns = 0; /* they have changed */
	return r;
}
