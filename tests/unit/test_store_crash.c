/* The store when things go wrong: killed at any moment, no room on the disk, a writer that is
 * behind. What was committed is there, and what is not there was counted. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "daemon/limits.h"
#include "tests/unit/store_fixture.h"

#define KILLS 20 /* tests/soak/kills has more */
/* Of one database: all of it is read after each, which takes ever longer as it grows. */
#define KILLS_OF_ONE 10

/* What a child does until it is killed: batch n has ops with correlation n, and one rollup call.
 * After each commit it says in the pipe how many ops it knows to be in the database. */
static void write_for_ever(struct fixture *f, int pipe, uint64_t batch)
{
	uint64_t seed = batch + 1, written = 0, before = 0;
	struct store_stats stats;

	if (fixture_open(f) < 0)
		_exit(1);
	for (;; batch++) {
		uint64_t now_ns = 1000 * SECOND_NS + batch * SECOND_NS / 4;
		int count = 1 + (int)(fixture_random(&seed) % 3000);

		for (int i = 0; i < count; i++) {
			struct op op = fixture_launch(1, 1 + (uint32_t)i % 5,
						      now_ns + (uint64_t)i * 1000, &seed);

			op.correlation = batch;
			store_add_op(f->store, &op);
		}
		store_add(f->store, &(struct core_rollup){ .second = 1, .calls = (uint64_t)count });
		stats = fixture_commit(f, now_ns);
		written = stats.ops_written - before;
		before = stats.ops_written;
		if (write(pipe, &written, sizeof(written)) != sizeof(written))
			_exit(1);
	}
}

/* Sums what came through the pipe until the child is dead. */
static uint64_t read_written(int pipe)
{
	uint64_t written, sum = 0;

	while (read(pipe, &written, sizeof(written)) == sizeof(written))
		sum += written;
	return sum;
}

static uint64_t run_and_kill(struct fixture *f, uint64_t batch, unsigned int after_ms)
{
	int ends[2], status;
	uint64_t written;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		write_for_ever(f, ends[1], batch);
	}
	close(ends[1]);
	/* Any moment will do: nothing is waited for here. */
	pause_ms(after_ms);
	kill(pid, SIGKILL);
	written = read_written(ends[0]);
	close(ends[0]);
	waitpid(pid, &status, 0);
	assert_true(WIFSIGNALED(status));
	return written;
}

static void start_anew(const struct fixture *f)
{
	remove_all(f->directory);
	assert_int_equal(mkdir(f->directory, 0700), 0);
}

static void a_kill_at_any_moment_loses_nothing_committed(void **state)
{
	const char *wanted = getenv("TS_KILLS");
	const unsigned int kills = wanted ? (unsigned int)atoi(wanted) : KILLS;
	struct fixture *f = *state;
	uint64_t known = 0, seed = 7;

	/* Until something was committed, which takes longer on a busy machine. */
	for (unsigned int i = 0; i < kills || !known; i++) {
		unsigned int after_ms = 5 + (unsigned int)(fixture_random(&seed) % 150);
		int64_t ops;

		assert_true(i < 20 * kills);
		if (i > 0 && i % KILLS_OF_ONE == 0) {
			start_anew(f);
			known = 0;
		}
		known += run_and_kill(f, (uint64_t)i * 10000, after_ms * (1 + i / kills));
		assert_int_equal(fixture_open(f), 0);
		assert_int_equal(fixture_ask(f, "SELECT integrity_check = 'ok'"
						" FROM pragma_integrity_check"),
				 1);
		ops = fixture_ask(f, "SELECT count(*) FROM op");
		assert_true((uint64_t)ops >= known);
		/* A batch is there as a whole or not at all. */
		assert_int_equal(fixture_ask(f, "SELECT coalesce(sum(calls), 0) FROM rollup"), ops);
		known = (uint64_t)ops;
		f->store = store_free(f->store);
	}
}

/* Moves into a mount namespace of its own, where a small file system is the store's directory. */
static void mount_small(struct fixture *f, const char *options)
{
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("small", f->directory, "tmpfs", 0, options) < 0) {
		print_message("needs root, to mount a small file system\n");
		skip();
	}
}

static uint64_t ops_seed = 3;

static void add_ops(struct fixture *f, uint64_t count, uint64_t now_ns)
{
	for (uint64_t i = 0; i < count; i++) {
		struct op op = fixture_launch(1, 1, now_ns + i * 1000, &ops_seed);

		op.address = fixture_random(&ops_seed); /* cannot be compressed */
		store_add_op(f->store, &op);
	}
}

/* Some 50 bytes each, so that a disk is full soon. */
static void add_large_ops(struct fixture *f, uint64_t count, uint64_t now_ns)
{
	for (uint64_t i = 0; i < count; i++) {
		struct op op = fixture_launch(1, 1, now_ns + i * 1000, &ops_seed);

		op.address = fixture_random(&ops_seed);
		op.source = fixture_random(&ops_seed);
		op.handle = fixture_random(&ops_seed);
		op.bytes = fixture_random(&ops_seed);
		op.name = fixture_random(&ops_seed);
		store_add_op(f->store, &op);
	}
}

static struct store_stats fill_until_full(struct fixture *f, uint64_t *now_ns, uint64_t *offered)
{
	struct store_stats stats;

	do {
		add_large_ops(f, 5000, *now_ns);
		*offered += 5000;
		stats = fixture_commit(f, *now_ns += SECOND_NS);
		assert_true(*offered < 100000000);
	} while (!stats.last_error);
	return stats;
}

static struct store_stats commit_until_written(struct fixture *f, uint64_t *now_ns)
{
	struct store_stats stats;

	/* One turn of the writer at a time: a busy machine would never see it idle otherwise. */
	for (int i = 0; i < 1000; i++) {
		stats = fixture_commit(f, *now_ns += SECOND_NS);
		if (!stats.last_error)
			return stats;
	}
	fail_msg("last error %d", stats.last_error);
	return stats;
}

/* As a query of the daemon's own sees it while the disk is full. */
static int64_t ask_held(struct fixture *f, const char *sql)
{
	sqlite3 *db = NULL;
	int64_t value;

	assert_true(store_held_since(f->store));
	assert_int_equal(store_reader_open_held(f->path, 0, &db), 0);
	value = ask(db, sql);
	sqlite3_close(db);
	return value;
}

#define LOST(reason)                                                                               \
	"SELECT coalesce(sum(count), 0) FROM loss JOIN loss_reason r ON r.id = reason"             \
	" WHERE r.name = '" reason "'"
#define INTACT "SELECT integrity_check = 'ok' FROM pragma_integrity_check"

static void what_comes_while_the_disk_is_full_is_known_and_written_later(void **state)
{
	struct fixture *f = *state;
	struct core_process process = { .id = 7, .pid = 4711 };
	struct store_process_detail detail = { .command = "a program" };
	uint64_t offered = 0, now_ns = 1000 * SECOND_NS, since_ns;
	struct store_stats stats;

	mount_small(f, "size=8m");
	assert_int_equal(fixture_open(f), 0);
	fill_until_full(f, &now_ns, &offered);
	since_ns = store_held_since(f->store);
	assert_in_range(since_ns, 1000 * SECOND_NS, now_ns - 1); /* what is on the disk is */
	store_add(f->store, &process);
	fixture_commit(f, now_ns += SECOND_NS);
	store_add_process_detail(f->store, process.id, &detail);
	for (int i = 0; i < 3; i++)
		store_add(f->store, &(struct core_rollup){ .second = 9, .calls = 5 });
	add_ops(f, 1000, now_ns += SECOND_NS);
	stats = fixture_commit(f, now_ns);
	offered += 1000;
	assert_int_equal(stats.last_error, -ENOSPC);
	assert_int_equal(store_held_since(f->store), since_ns);
	assert_true(stats.ops_held > 1000 && stats.ops_dropped == 0);
	assert_int_equal(stats.ops_written + stats.ops_held, offered);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM op"), stats.ops_written);
	assert_int_equal(ask_held(f, "SELECT count(*) FROM op"), offered);
	assert_int_equal(ask_held(f, "SELECT pid FROM process WHERE command = 'a program'"), 4711);
	assert_int_equal(ask_held(f, "SELECT sum(calls) FROM rollup"), 15);
	assert_int_equal(ask_held(f, "SELECT count(*) FROM loss"), 0);

	assert_int_equal(mount("small", f->directory, "tmpfs", MS_REMOUNT, "size=256m"), 0);
	stats = commit_until_written(f, &now_ns);
	assert_int_equal(store_held_since(f->store), 0);
	assert_int_equal(stats.written_ns, now_ns);
	assert_int_equal(stats.ops_written, offered);
	assert_int_equal(stats.ops_held + stats.ops_dropped + stats.rows_dropped, 0);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM op"), offered);
	assert_int_equal(fixture_ask(f, "SELECT pid FROM process WHERE command = 'a program'"),
			 4711);
	assert_int_equal(fixture_ask(f, "SELECT sum(calls) FROM rollup"), 15);
	assert_int_equal(fixture_ask(f, INTACT), 1);
	f->store = store_free(f->store);
	umount(f->directory);
}

/* Much more than there is memory for. */
static void a_full_disk_costs_the_oldest_ops_and_nothing_else(void **state)
{
	struct fixture *f = *state;
	uint64_t offered = 0, now_ns = 1000 * SECOND_NS;
	struct store_stats stats;

	mount_small(f, "size=8m");
	assert_int_equal(fixture_open(f), 0);
	stats = fill_until_full(f, &now_ns, &offered);
	store_add(f->store, &(struct core_rollup){ .second = 9, .calls = 4711 });
	assert_int_equal(stats.ops_dropped, 0);
	while (!stats.ops_dropped) {
		add_large_ops(f, 100000, now_ns);
		offered += 100000;
		stats = fixture_commit(f, now_ns += SECOND_NS / 4);
		assert_int_equal(stats.last_error, -ENOSPC);
		assert_int_equal(ask_held(f, "SELECT max(batch) FROM chunk"),
				 ask_held(f, "SELECT next_batch - 1 FROM boot"));
		assert_true(offered < 100000000);
	}
	assert_int_equal(ask_held(f, LOST("store")), stats.ops_dropped);
	assert_int_equal(stats.rows_dropped, 0);
	assert_int_equal(ask_held(f, "SELECT count(*) FROM op"),
			 stats.ops_written + stats.ops_held);

	assert_int_equal(mount("small", f->directory, "tmpfs", MS_REMOUNT, "size=512m"), 0);
	stats = commit_until_written(f, &now_ns);
	assert_int_equal(stats.ops_written + stats.ops_dropped, offered);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM op"), stats.ops_written);
	assert_int_equal(fixture_ask(f, LOST("store")), stats.ops_dropped);
	/* The newest are there. */
	assert_true(fixture_ask(f, "SELECT max(start_ns) FROM op") >
		    fixture_ask(f, "SELECT max(end_ns) FROM loss"));
	assert_int_equal(fixture_ask(f, "SELECT sum(calls) FROM rollup"), 4711);
	assert_int_equal(fixture_ask(f, INTACT), 1);
	f->store = store_free(f->store);
	umount(f->directory);
}

static atomic_bool asking;

/* Finds each turn as a whole, and chunks that are merged once. */
static void *ask_for_ever(void *data)
{
	struct fixture *f = data;
	int64_t count, before = 0;

	while (asking) {
		sqlite3 *db = NULL;

		store_held_lock(f->store);
		if (store_reader_open_held(f->path, 0, &db) < 0)
			abort();
		count = ask(db, "SELECT sum(ops) FROM chunk");
		if (count < before)
			abort();
		store_held_unlock(f->store);
		before = count;
		sqlite3_close(db);
	}
	return NULL;
}

static void queries_run_while_it_is_held_and_written(void **state)
{
	struct fixture *f = *state;
	uint64_t offered = 0, now_ns = 1000 * SECOND_NS;
	struct store_stats stats;
	pthread_t thread[2];

	mount_small(f, "size=8m");
	assert_int_equal(fixture_open(f), 0);
	for (int round = 1; round <= 2; round++) {
		char size[32];

		fill_until_full(f, &now_ns, &offered);
		asking = true;
		for (int i = 0; i < 2; i++)
			pthread_create(&thread[i], NULL, ask_for_ever, f);
		for (int i = 0; i < 20; i++, offered += 5000) {
			add_ops(f, 5000, now_ns);
			fixture_commit(f, now_ns += SECOND_NS / 4);
		}
		snprintf(size, sizeof(size), "size=%dm", 8 + 24 * round);
		assert_int_equal(mount("small", f->directory, "tmpfs", MS_REMOUNT, size), 0);
		stats = commit_until_written(f, &now_ns);
		asking = false;
		for (int i = 0; i < 2; i++)
			pthread_join(thread[i], NULL);
		assert_int_equal(stats.ops_written, offered);
		assert_int_equal(fixture_ask(f, INTACT), 1);
	}
	f->store = store_free(f->store);
	umount(f->directory);
}

static void a_disk_that_stays_full_costs_what_was_held(void **state)
{
	struct fixture *f = *state;
	uint64_t offered = 0, now_ns = 1000 * SECOND_NS;
	struct store_stats stats;

	mount_small(f, "size=8m");
	assert_int_equal(fixture_open(f), 0);
	fill_until_full(f, &now_ns, &offered);
	store_stop(f->store);
	store_stats(f->store, &stats);
	assert_int_equal(stats.last_error, -ENOSPC);
	assert_int_equal(stats.ops_written + stats.ops_held, offered);
	f->store = store_free(f->store);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM op"), stats.ops_written);
	assert_int_equal(fixture_ask(f, INTACT), 1);
	umount(f->directory);
}

/* Writing to the log fails so where this is not SQLITE_OK, to other files of the same disk it does
 * not. */
static atomic_int log_code;
static sqlite3_io_methods log_methods;
static int (*log_write)(sqlite3_file *file, const void *data, int size, sqlite3_int64 offset);
static int (*vfs_open)(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags,
		       int *ret_flags);

static int write_or_fail(sqlite3_file *file, const void *data, int size, sqlite3_int64 offset)
{
	return log_code ? log_code : log_write(file, data, size, offset);
}

static int open_log(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags,
		    int *ret_flags)
{
	int code = vfs_open(vfs, path, file, flags, ret_flags);

	if (code == SQLITE_OK && (flags & SQLITE_OPEN_WAL)) {
		log_methods = *file->pMethods;
		log_write = log_methods.xWrite;
		log_methods.xWrite = write_or_fail;
		file->pMethods = &log_methods;
	}
	return code;
}

static sqlite3_vfs failing_vfs;

static void open_failing(struct fixture *f)
{
	failing_vfs = *sqlite3_vfs_find(NULL);
	vfs_open = failing_vfs.xOpen;
	failing_vfs.xOpen = open_log;
	failing_vfs.zName = "failing";
	sqlite3_vfs_register(&failing_vfs, 1);
	assert_int_equal(fixture_open(f), 0);
}

static void close_failing(struct fixture *f)
{
	f->store = store_free(f->store);
	sqlite3_vfs_unregister(&failing_vfs);
}

/* There is room, so it is tried, and fails. */
static struct store_stats commit_until_dropped(struct fixture *f, uint64_t *now_ns, uint64_t count)
{
	struct store_stats stats;

	do
		stats = fixture_commit(f, *now_ns += SECOND_NS);
	while (stats.ops_dropped < count);
	assert_int_equal(stats.ops_dropped, count);
	return stats;
}

static void a_disk_that_fails_at_the_last_costs_what_was_held(void **state)
{
	struct fixture *f = *state;
	uint64_t now_ns = 1000 * SECOND_NS;
	struct store_stats stats;

	open_failing(f);
	add_ops(f, 100, now_ns);
	assert_int_equal(fixture_commit(f, now_ns).last_error, 0);
	log_code = SQLITE_IOERR_WRITE;
	add_ops(f, 1000, now_ns);
	store_add(f->store, &(struct core_rollup){ .second = 9, .calls = 4711 });
	stats = fixture_commit(f, now_ns += SECOND_NS / 4);
	assert_true(stats.last_error < 0);
	assert_int_equal(stats.ops_held, 1000);
	assert_int_equal(ask_held(f, "SELECT count(*) FROM op"), 1100);
	commit_until_dropped(f, &now_ns, 1000);
	add_ops(f, 10, now_ns);
	stats = fixture_commit(f, now_ns += SECOND_NS / 4);
	assert_int_equal(ask_held(f, LOST("store")), 1000);
	assert_int_equal(ask_held(f, LOST("store-rows")), 1);
	assert_int_equal(stats.rows_dropped, 1);
	/* What reported it is dropped too, and reported again. */
	commit_until_dropped(f, &now_ns, 1010);
	log_code = SQLITE_OK;
	stats = commit_until_written(f, &now_ns);
	assert_int_equal(stats.ops_written, 100);
	assert_int_equal(fixture_ask(f, LOST("store")), 1010);
	assert_int_equal(fixture_ask(f, LOST("store-rows")), 1);
	assert_int_equal(fixture_ask(f, INTACT), 1);
	close_failing(f);
}

/* Errors that pass are tried again without holding anything; but what is held stays so. */
static void what_is_held_outlasts_an_error_that_passes(void **state)
{
	struct fixture *f = *state;
	uint64_t now_ns = 1000 * SECOND_NS;
	struct store_stats stats;

	open_failing(f);
	log_code = SQLITE_NOMEM;
	add_ops(f, 100, now_ns);
	do {
		store_commit(f->store, now_ns += SECOND_NS / 4);
		pause_ms(1);
		store_stats(f->store, &stats);
	} while (!stats.last_error);
	assert_int_equal(stats.last_error, -ENOMEM);
	assert_int_equal(store_held_since(f->store), 0);
	log_code = SQLITE_OK;
	assert_int_equal(commit_until_written(f, &now_ns).ops_written, 100);

	log_code = SQLITE_IOERR_WRITE;
	add_ops(f, 1000, now_ns);
	assert_int_equal(fixture_commit(f, now_ns += SECOND_NS / 4).ops_held, 1000);
	log_code = SQLITE_NOMEM;
	commit_until_dropped(f, &now_ns, 1000);
	log_code = SQLITE_OK;
	add_ops(f, 10, now_ns);
	stats = commit_until_written(f, &now_ns);
	assert_int_equal(stats.ops_written, 110);
	assert_int_equal(fixture_ask(f, LOST("store")), 1000);
	close_failing(f);
}

/* A reader that started on held data, and has not finished, does not stop the writer. */
static void a_reader_of_what_was_held_may_stay(void **state)
{
	struct fixture *f = *state;
	uint64_t now_ns = 1000 * SECOND_NS;
	sqlite3 *db = NULL;
	sqlite3_stmt *stmt;
	struct store_stats stats;

	open_failing(f);
	add_ops(f, 100, now_ns);
	assert_int_equal(fixture_commit(f, now_ns).last_error, 0);
	log_code = SQLITE_IOERR_WRITE;
	add_ops(f, 1000, now_ns);
	assert_int_equal(fixture_commit(f, now_ns += SECOND_NS / 4).ops_held, 1000);
	store_held_lock(f->store);
	assert_int_equal(store_reader_open_held(f->path, 0, &db), 0);
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT start_ns FROM op", -1, &stmt, NULL),
			 SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	store_held_unlock(f->store);
	log_code = SQLITE_OK;
	assert_int_equal(commit_until_written(f, &now_ns).ops_written, 1100);

	/* More than SQLite keeps in memory. */
	log_code = SQLITE_IOERR_WRITE;
	add_large_ops(f, 100000, now_ns);
	fixture_commit(f, now_ns += SECOND_NS / 4);
	log_code = SQLITE_OK;
	add_ops(f, 10, now_ns);
	stats = commit_until_written(f, &now_ns);
	assert_int_equal(stats.ops_written, 101110);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	assert_int_equal(fixture_ask(f, INTACT), 1);
	close_failing(f);
}

static void ops_beyond_the_bound_are_dropped_and_counted(void **state)
{
	struct fixture *f = *state;
	uint64_t offered = LIMIT_STORE_OPS + 12345, now_ns = 1000 * SECOND_NS;
	struct store_stats stats;

	assert_int_equal(fixture_open(f), 0);
	/* Without a commit in between, the writer gets none of them. */
	add_ops(f, offered, now_ns);
	stats = commit_until_written(f, &now_ns);
	assert_true(stats.ops_dropped >= 12345 && stats.ops_dropped < 12345 + 1024);
	assert_int_equal(stats.ops_written + stats.ops_dropped, offered);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM op"), stats.ops_written);
	/* The oldest went. */
	assert_int_equal(fixture_ask(f, "SELECT min(start_ns) FROM op"),
			 1000 * SECOND_NS + stats.ops_dropped * 1000);
	assert_int_equal(fixture_ask(f, "SELECT start_ns FROM loss"), 1000 * SECOND_NS);
	assert_int_equal(fixture_ask(f, "SELECT end_ns FROM loss"),
			 1000 * SECOND_NS + (stats.ops_dropped - 1) * 1000);
	assert_int_equal(fixture_ask(f, "SELECT count FROM loss"), stats.ops_dropped);
}

static void rows_beyond_the_bound_are_dropped_and_counted(void **state)
{
	struct fixture *f = *state;
	uint64_t now_ns = 1000 * SECOND_NS, count = LIMIT_STORE_ROW_BYTES / 64;
	struct store_stats stats;

	assert_int_equal(fixture_open(f), 0);
	for (uint64_t i = 0; i < count; i++)
		store_add(f->store, &(struct core_loss){ .reason = LOSS_GAP, .count = 1 });
	store_stats(f->store, &stats);
	assert_true(stats.rows_dropped == 0 || stats.rows_dropped < count);
	for (uint64_t i = 0; i < count; i++)
		store_add(f->store, &(struct core_loss){ .reason = LOSS_GAP, .count = 1 });
	stats = commit_until_written(f, &now_ns);
	assert_true(stats.rows_dropped > 0);
	assert_int_equal(fixture_ask(f, LOST("gap")) + (int64_t)stats.rows_dropped, 2 * count);
	assert_int_equal(fixture_ask(f, LOST("store-rows")), stats.rows_dropped);
}

static void what_is_left_is_written_at_the_end(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(fixture_open(f), 0);
	add_ops(f, 300000, 1000 * SECOND_NS);
	f->store = store_free(f->store);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM op"), 300000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_kill_at_any_moment_loses_nothing_committed),
		TEST(what_comes_while_the_disk_is_full_is_known_and_written_later),
		TEST(a_full_disk_costs_the_oldest_ops_and_nothing_else),
		TEST(queries_run_while_it_is_held_and_written),
		TEST(a_disk_that_stays_full_costs_what_was_held),
		TEST(a_disk_that_fails_at_the_last_costs_what_was_held),
		TEST(what_is_held_outlasts_an_error_that_passes),
		TEST(a_reader_of_what_was_held_may_stay),
		TEST(ops_beyond_the_bound_are_dropped_and_counted),
		TEST(rows_beyond_the_bound_are_dropped_and_counted),
		TEST(what_is_left_is_written_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
