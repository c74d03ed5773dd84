/* Facts: whatever a file claims, times are such that a few can be added without overflow. */
#include "core/store/file/facts.h"

#include <stdio.h>

#include "core/base/array.h"
#include "core/store/schema.h"
#include "core/store/sql.h"
#include "core/store/tables.h"

#define TIME_MAX (INT64_MAX / 4)

static const struct row_column columns[] = {
	{ .name = "key", .type = "TEXT", .merge = ROW_KEY },
	{ .name = "value", .type = "" },
};

const struct row_table file_facts_table = {
	.name = "recording",
	.column = columns,
	.count = ARRAY_SIZE(columns),
};

/* Without numbers of rows, so that a key must not be NULL and rows come in order of their keys. */
int file_facts_make(sqlite3 *db)
{
	return sql_exec(db, "CREATE TABLE recording(key TEXT PRIMARY KEY, value) WITHOUT ROWID");
}

/* A number from the table; *ret stays if it has no valid one. */
static int get_number(sqlite3 *db, const char *key, int64_t *ret)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int64_t value = TIME_MAX;
	int r = sql_prepare(db,
			    "SELECT coalesce((SELECT value FROM recording WHERE key = ?1"
			    " AND typeof(value) = 'integer'), ?2)",
			    &stmt);

	if (r < 0)
		return r;
	sql_bind_text(stmt, 1, key);
	sqlite3_bind_int64(stmt, 2, value);
	r = sql_integer(stmt, &value);
	if (r == 0 && value > -TIME_MAX && value < TIME_MAX)
		*ret = value;
	return r;
}

static int ask(sqlite3 *db, const char *sql, int64_t *ret)
{
	int64_t value = 0;
	int r = sql_query_integer(db, sql, &value);

	*ret = value > 0 && value < TIME_MAX ? value : 0;
	return r;
}

/* 1: found; 0: no boot is stored. */
static int find_boot(sqlite3 *db, struct file_facts *facts)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int code, r = sql_prepare(db,
				  "SELECT id, boot_id FROM boot ORDER BY boot_id ="
				  " (SELECT value FROM recording WHERE key = 'boot_id') DESC,"
				  " id DESC",
				  &stmt);

	if (r < 0)
		return r;
	code = sqlite3_step(stmt);
	if (code != SQLITE_ROW)
		return code == SQLITE_DONE ? 0 : sql_error(db);
	facts->boot = sqlite3_column_int64(stmt, 0);
	snprintf(facts->boot_id, sizeof(facts->boot_id), "%s",
		 (const char *)sqlite3_column_text(stmt, 1));
	return 1;
}

static int write_boot(sqlite3 *db, struct file_facts *facts)
{
	const struct store_config config = { .boot_id = "unknown" };

	snprintf(facts->boot_id, sizeof(facts->boot_id), "%s", config.boot_id);
	return schema_write_boot(db, &config, &facts->boot);
}

static int find_times(sqlite3 *db, enum sbt_state state, struct file_facts *facts)
{
	int64_t last = 0, until, told;
	int r = ask(db, "SELECT max(last_ns) FROM file_block", &last);

	until = last;
	if (r == 0)
		r = get_number(db, "until_ns", &until);
	/* A recording without its end may announce an end before the data reached it. */
	if (state != SBT_WHOLE && last > until)
		until = last;
	told = until > 0 ? until : 1;
	facts->now_ns = (uint64_t)told;
	if (r == 0)
		r = get_number(db, "told_ns", &told);
	facts->told_ns = (uint64_t)told;
	if (r == 0)
		r = ask(db, "SELECT max(wall_offset_ns) FROM boot", &facts->wall_offset_ns);
	return r < 0 ? r : get_number(db, "wall_offset_ns", &facts->wall_offset_ns);
}

int file_facts_read(sqlite3 *db, enum sbt_state state, struct file_facts *ret)
{
	struct file_facts facts = { 0 };
	int r = find_boot(db, &facts);

	if (r == 0)
		r = write_boot(db, &facts);
	if (r >= 0)
		r = find_times(db, state, &facts);
	if (r < 0)
		return r;
	*ret = facts;
	return 0;
}

static int write_loss(sqlite3 *db, const struct file_facts *facts)
{
	struct core_loss loss = {
		.end_ns = facts->now_ns,
		.reason = LOSS_CUT_OFF,
		.count = 1,
	};
	_cleanup_(tables_freep) struct tables *tables = NULL;
	int64_t since = 0;
	int r = get_number(db, "since_ns", &since);

	if (r < 0)
		return r;
	loss.start_ns = since > 0 ? (uint64_t)since : 0;
	r = tables_new(db, facts->boot, &tables);
	return r < 0 ? r : tables_write(tables, CORE_ROW_LOSS, &loss);
}

int file_facts_add_extent(sqlite3 *db, const struct file_facts *facts,
			  const struct file_extent *extent)
{
	static const char *const names[] = {
		[SBT_WHOLE] = "whole", [SBT_CUT] = "cut off", [SBT_DAMAGED] = "damaged"
	};
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int r = sql_prepare(db,
			    "INSERT OR REPLACE INTO recording VALUES"
			    " ('file_bytes', ?1), ('file_used_bytes', ?2), ('file_state', ?3)",
			    &stmt);

	if (r < 0)
		return r;
	sql_bind(stmt, (int64_t)extent->size, (int64_t)extent->used);
	sql_bind_text(stmt, 3, names[extent->state]);
	r = sql_run(stmt);
	return r < 0 || extent->state == SBT_WHOLE ? r : write_loss(db, facts);
}

int file_facts_add_damage(sqlite3 *db, uint64_t byte)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int r = sql_prepare(db,
			    "INSERT OR REPLACE INTO recording SELECT 'file_state', 'damaged'"
			    " UNION ALL SELECT 'file_damaged_byte', min(?1, coalesce((SELECT"
			    " value FROM recording WHERE key = 'file_damaged_byte'), ?1))",
			    &stmt);

	if (r < 0)
		return r;
	sql_bind(stmt, (int64_t)byte);
	return sql_run(stmt);
}
