/* Sql: SQLite with errno errors. Keeps only, for each thread, which statement lacks a text for lack
 * of memory: it does not run. */
#include "core/store/sql.h"

#include <errno.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/utf8.h"

static _Thread_local const sqlite3_stmt *unbound;

static const struct {
	int code, error;
} errors[] = {
	{ SQLITE_NOMEM, -ENOMEM },    { SQLITE_FULL, -ENOSPC },	  { SQLITE_CORRUPT, -EBADMSG },
	{ SQLITE_NOTADB, -EBADMSG },  { SQLITE_BUSY, -EBUSY },	  { SQLITE_LOCKED, -EBUSY },
	{ SQLITE_READONLY, -EROFS },  { SQLITE_PERM, -EACCES },	  { SQLITE_AUTH, -EACCES },
	{ SQLITE_INTERRUPT, -EINTR }, { SQLITE_TOOBIG, -EINVAL }, { SQLITE_CONSTRAINT, -EINVAL },
	{ SQLITE_MISMATCH, -EINVAL }, { SQLITE_NOLFS, -EFBIG },	  { SQLITE_PROTOCOL, -EBUSY },
};

int sql_error(sqlite3 *db)
{
	int code = sqlite3_errcode(db), system = sqlite3_system_errno(db);

	if (sqlite3_extended_errcode(db) == SQLITE_READONLY_RECOVERY)
		return -EAGAIN;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if ((code & 0xff) == errors[i].code)
			return errors[i].error;
	if (((code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN) && system > 0)
		return -system;
	return -EIO;
}

int sql_exec(sqlite3 *db, const char *text)
{
	return sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK ? 0 : sql_error(db);
}

int sql_in_savepoint(sqlite3 *db, int (*run)(void *data), void *data)
{
	int r = sql_exec(db, "SAVEPOINT part"), end;

	if (r < 0)
		return r;
	r = run(data);
	if (r >= 0) {
		end = sql_exec(db, "RELEASE part");
		if (end == 0)
			return r;
		r = end;
	}
	/* To go back to a savepoint, pages are read. */
	if (sql_exec(db, "ROLLBACK TO part; RELEASE part") < 0 && !sqlite3_get_autocommit(db))
		sql_exec(db, "ROLLBACK");
	return r;
}

int sql_prepare(sqlite3 *db, const char *text, sqlite3_stmt **ret)
{
	sqlite3_stmt *stmt;

	if (sqlite3_prepare_v3(db, text, -1, SQLITE_PREPARE_PERSISTENT, &stmt, NULL) != SQLITE_OK)
		return sql_error(db);
	*ret = stmt;
	return 0;
}

int sql_prepare_made(sqlite3 *db, char *text, sqlite3_stmt **ret)
{
	int r = text ? sql_prepare(db, text, ret) : -ENOMEM;

	sqlite3_free(text);
	return r;
}

int sql_exec_made(sqlite3 *db, char *text)
{
	int r = text ? sql_exec(db, text) : -ENOMEM;

	sqlite3_free(text);
	return r;
}

int sql_prepare_all(sqlite3 *db, const char *const *text, size_t count, sqlite3_stmt **ret)
{
	for (size_t i = 0; i < count; i++) {
		int r = sql_prepare(db, text[i], &ret[i]);

		if (r < 0) {
			sql_finalize_all(ret, i);
			return r;
		}
	}
	return 0;
}

void sql_finalize_all(sqlite3_stmt **stmt, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		sqlite3_finalize(stmt[i]);
		stmt[i] = NULL;
	}
}

void sql_bind_array(sqlite3_stmt *stmt, const int64_t *value, int count)
{
	for (int i = 0; i < count; i++)
		sqlite3_bind_int64(stmt, i + 1, value[i]);
}

void sql_bind_text(sqlite3_stmt *stmt, int number, const char *text)
{
	size_t size = text ? strlen(text) : 0;
	char *clean = NULL;
	int code = SQLITE_NOMEM;

	if (!text || utf8_valid(text, size))
		code = sqlite3_bind_text(stmt, number, text, (int)size, SQLITE_TRANSIENT);
	else
		clean = sqlite3_malloc64(3 * size + 1);
	if (clean) {
		size = utf8_clean(clean, text, size);
		code = sqlite3_bind_text(stmt, number, clean, (int)size, sqlite3_free);
	}
	if (code == SQLITE_NOMEM) /* a statement need not have all of the parameters */
		unbound = stmt;
}

/* After this, its texts can be bound again. */
static int take_unbound(const sqlite3_stmt *stmt)
{
	if (unbound != stmt)
		return 0;
	unbound = NULL;
	return -ENOMEM;
}

int sql_run(sqlite3_stmt *stmt)
{
	int r = take_unbound(stmt);

	if (r == 0 && sqlite3_step(stmt) != SQLITE_DONE)
		r = sql_error(sqlite3_db_handle(stmt));
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	return r;
}

int sql_integer(sqlite3_stmt *stmt, int64_t *ret)
{
	int r = take_unbound(stmt), code = r < 0 ? SQLITE_DONE : sqlite3_step(stmt);
	int64_t value = 0;

	if (code == SQLITE_ROW)
		value = sqlite3_column_int64(stmt, 0);
	else if (code != SQLITE_DONE)
		r = sql_error(sqlite3_db_handle(stmt));
	sqlite3_reset(stmt);
	sqlite3_clear_bindings(stmt);
	if (r == 0)
		*ret = value;
	return r;
}

int sql_query_integer(sqlite3 *db, const char *text, int64_t *ret)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *stmt = NULL;
	int r = sql_prepare(db, text, &stmt);

	return r < 0 ? r : sql_integer(stmt, ret);
}
