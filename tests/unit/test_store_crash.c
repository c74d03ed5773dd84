/* The store when things go wrong: killed at any moment, no room on the disk, a writer that is
 * behind. What was committed is there, and what is not there was counted. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "daemon/limits.h"
#include "tests/unit/store_fixture.h"

#define KILLS 20

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
		store_add_rollup(f->store,
				 &(struct core_rollup){ .second = 1, .calls = (uint64_t)count });
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

static void a_kill_at_any_moment_loses_nothing_committed(void **state)
{
	struct fixture *f = *state;
	uint64_t known = 0, seed = 7;

	for (int i = 0; i < KILLS; i++) {
		int64_t ops;

		known += run_and_kill(f, (uint64_t)i * 10000,
				      5 + (unsigned int)(fixture_random(&seed) % 150));
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
	assert_true(known > 0);
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

static void add_ops(struct fixture *f, uint64_t count, uint64_t now_ns)
{
	static uint64_t seed = 3;

	for (uint64_t i = 0; i < count; i++) {
		struct op op = fixture_launch(1, 1, now_ns + i * 1000, &seed);

		op.address = fixture_random(&seed); /* cannot be compressed */
		store_add_op(f->store, &op);
	}
}

static struct store_stats fill_until_full(struct fixture *f, uint64_t *now_ns, uint64_t *offered)
{
	struct store_stats stats;

	do {
		add_ops(f, 20000, *now_ns);
		*offered += 20000;
		stats = fixture_commit(f, *now_ns += SECOND_NS);
		assert_true(*offered < 100000000);
	} while (!stats.last_error);
	return stats;
}

static struct store_stats commit_until_written(struct fixture *f, uint64_t *now_ns)
{
	struct store_stats stats;

	for (int i = 0; i < 10000; i++) {
		store_commit(f->store, *now_ns += SECOND_NS);
		pause_ms(1);
		store_stats(f->store, &stats);
		if (!stats.last_error && !stats.queued_batches)
			return stats;
	}
	fail_msg("last error %d", stats.last_error);
	return stats;
}

static void a_full_disk_costs_ops_and_nothing_else(void **state)
{
	struct fixture *f = *state;
	uint64_t offered = 0, now_ns = 1000 * SECOND_NS;
	struct store_stats stats;

	mount_small(f, "size=8m");
	assert_int_equal(fixture_open(f), 0);
	stats = fill_until_full(f, &now_ns, &offered);
	assert_int_equal(stats.last_error, -ENOSPC);
	store_add_rollup(f->store, &(struct core_rollup){ .second = 9, .calls = 4711 });
	/* Ops are kept while there is memory for them, then the oldest go. */
	assert_int_equal(stats.ops_dropped, 0);
	for (uint64_t i = 0; i < 2 * LIMIT_STORE_OPS / 20000; i++, offered += 20000) {
		add_ops(f, 20000, now_ns);
		stats = fixture_commit(f, now_ns += SECOND_NS / 4);
	}
	assert_true(stats.ops_dropped > 0);
	assert_int_equal(stats.rows_dropped, 0);

	assert_int_equal(mount("small", f->directory, "tmpfs", MS_REMOUNT, "size=256m"), 0);
	stats = commit_until_written(f, &now_ns);
	assert_int_equal(stats.ops_written + stats.ops_dropped, offered);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM op"), stats.ops_written);
	assert_int_equal(fixture_ask(f, "SELECT sum(count) FROM loss JOIN loss_reason r"
					" ON r.id = reason WHERE r.name = 'store'"),
			 stats.ops_dropped);
	/* The newest are there. */
	assert_true(fixture_ask(f, "SELECT max(start_ns) FROM op") >
		    fixture_ask(f, "SELECT max(end_ns) FROM loss"));
	assert_int_equal(fixture_ask(f, "SELECT sum(calls) FROM rollup"), 4711);
	assert_int_equal(fixture_ask(f, "SELECT integrity_check = 'ok'"
					" FROM pragma_integrity_check"),
			 1);
	f->store = store_free(f->store);
	umount(f->directory);
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
		store_add_loss(f->store, &(struct core_loss){ .reason = LOSS_GAP, .count = 1 });
	store_stats(f->store, &stats);
	assert_true(stats.rows_dropped == 0 || stats.rows_dropped < count);
	for (uint64_t i = 0; i < count; i++)
		store_add_loss(f->store, &(struct core_loss){ .reason = LOSS_GAP, .count = 1 });
	stats = commit_until_written(f, &now_ns);
	assert_true(stats.rows_dropped > 0);
	assert_int_equal(fixture_ask(f, "SELECT sum(count) FROM loss") +
				 (int64_t)stats.rows_dropped,
			 2 * count);
}

static void what_is_left_is_written_at_the_end(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(fixture_open(f), 0);
	add_ops(f, 300000, 1000 * SECOND_NS);
	f->store = store_free(f->store);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM op"), 300000);
}

static int64_t file_bytes(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

/* A reader in a transaction sees one state, and the log it holds goes once it is done. */
static void a_long_reader_keeps_the_log_only_while_it_reads(void **state)
{
	struct fixture *f = *state;
	uint64_t now_ns = 1000 * SECOND_NS;
	struct store_stats stats;
	char log[128];
	sqlite3 *db;

	f->config.keep_bytes = 64 << 20; /* so the log may have 8 MiB */
	snprintf(log, sizeof(log), "%s-wal", f->path);
	assert_int_equal(fixture_open(f), 0);
	assert_int_equal(store_reader_open(f->path, 0, &db), 0);
	assert_int_equal(sqlite3_exec(db, "BEGIN", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(ask(db, "SELECT count(*) FROM op"), 0);
	for (int i = 0; i < 40; i++) {
		add_ops(f, 50000, now_ns);
		stats = fixture_commit(f, now_ns += SECOND_NS / 4);
	}
	assert_true(stats.database_bytes > 16 << 20);
	assert_int_equal(ask(db, "SELECT count(*) FROM op"), 0);
	sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
	assert_int_equal(ask(db, "SELECT count(*) FROM op"), stats.ops_written);
	assert_true(file_bytes(log) > 8 << 20);
	for (int i = 0; file_bytes(log) > 8 << 20; i++) {
		fixture_commit(f, now_ns += SECOND_NS);
		assert_true(i < 5000);
		pause_ms(1);
	}
	sqlite3_close(db);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_kill_at_any_moment_loses_nothing_committed),
		TEST(a_full_disk_costs_ops_and_nothing_else),
		TEST(ops_beyond_the_bound_are_dropped_and_counted),
		TEST(rows_beyond_the_bound_are_dropped_and_counted),
		TEST(what_is_left_is_written_at_the_end),
		TEST(a_long_reader_keeps_the_log_only_while_it_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
