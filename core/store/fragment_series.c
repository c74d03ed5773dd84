/* Fragment_series: what the query of now says (fragment_table.h), kept for later. */
#include "core/store/fragment_series.h"

#include "core/base/time.h"
#include "core/memory/pools.h"
#include "core/store/sql.h"

#define MINUTE_S 60
/* More allocations than that take a tenth of a second, and are measured every ten minutes. */
#define MANY   262144
#define SELDOM 10

int fragment_series_take(sqlite3 *db, int64_t boot, uint64_t now_ns)
{
	int64_t second = (int64_t)(now_ns / (uint64_t)NS_PER_S), live;
	int r = sql_query_integer(db, "SELECT count(*) FROM allocation", &live);

	if (r < 0 || !live || (live > MANY && second / MINUTE_S % SELDOM))
		return r;
	return sql_exec_made(
		db, sqlite3_mprintf("INSERT OR REPLACE INTO fragmentation"
				    " SELECT %lld, %lld, process, device, pool, segment_bytes,"
				    " used_bytes, free_bytes, pieces, largest_bytes,"
				    " unusable_bytes, index_ppm FROM fragment(%lld, NULL, %lld, 0)"
				    " WHERE pool != %d AND process IN"
				    " (SELECT id FROM process WHERE boot = %lld"
				    " AND exit_ns IS NULL)",
				    (long long)boot, (long long)second, (long long)boot,
				    (long long)now_ns, MEMORY_POOL_UNKNOWN, (long long)boot));
}
