/* Bench_replay: workload W1 (w1.h) played at full speed: by the core alone, in chunks like those of
 * the store, and by `tsctl replay` from an .sbt file, from start to end of the program. Prints a
 * table; each figure is the median of several rounds. `bench_replay FILE OPS` only makes a
 * recording of so many operations. */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/replay/replay.h"
#include "core/sbt/file.h"
#include "core/sbt/rows.h"
#include "tests/bench/w1.h"

#define ROUNDS	   7
#define CORE_OPS   1000000
#define FILE_OPS   100000
#define GROUPS	   (W1_STREAMS * 32)
#define CHUNKS_MAX 4096
#define PATH	   "/tmp/tracesmith-bench-replay.sbt"

extern char **environ;

struct chunk {
	struct op *op;
	size_t count;
};

static struct chunk chunk[CHUNKS_MAX];
static size_t chunks;
static uint64_t changes;

static void check(int r)
{
	if (r < 0) {
		fprintf(stderr, "bench_replay: %s\n", strerror(-r));
		exit(1);
	}
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int by_first(const void *a, const void *b)
{
	const struct chunk *x = a, *y = b;

	return x->op->start_ns < y->op->start_ns ? -1 : x->op->start_ns > y->op->start_ns;
}

/* Ops of one stream and kind each, in order of their first time. */
static void make_chunks(size_t count)
{
	struct w1 w1 = w1_start();
	size_t open[GROUPS] = { 0 };

	for (size_t i = 0; i < chunks; i++)
		free(chunk[i].op);
	chunks = 0;
	for (size_t i = 0; i < count; i++) {
		struct op op;
		size_t *at;

		w1_next(&w1, &op);
		at = &open[(op.stream - 1) * 32 + op.kind];
		if (!*at || chunk[*at - 1].count == SBT_OPS_MAX) {
			check(chunks < CHUNKS_MAX ? 0 : -ENOSPC);
			chunk[chunks] = (struct chunk){ .op = calloc(SBT_OPS_MAX, sizeof(op)) };
			check(chunk[chunks].op ? 0 : -ENOMEM);
			*at = ++chunks;
		}
		chunk[*at - 1].op[chunk[*at - 1].count++] = op;
	}
	qsort(chunk, chunks, sizeof(*chunk), by_first);
}

static int on_change(void *data, const struct replay_change *change)
{
	changes++;
	return 0;
}

static double play_core(void)
{
	uint8_t effect[W1_FUNCTION_COUNT] = { 0 };
	struct replay *replay = NULL;
	double begin_s = now_s();

	for (int fn = 1; fn < W1_FUNCTION_COUNT; fn++)
		effect[fn] = (uint8_t)w1_functions[fn].effect;
	changes = 0;
	check(replay_new(effect, W1_FUNCTION_COUNT, on_change, NULL, &replay));
	for (size_t i = 0; i < chunks; i++)
		check(replay_ops(replay, chunk[i].op, chunk[i].count, chunk[i].op->start_ns));
	check(replay_end(replay));
	replay_free(replay);
	return now_s() - begin_s;
}

static int write_file(void *data, const void *bytes, size_t size)
{
	return fwrite(bytes, 1, size, data) == size ? 0 : -EIO;
}

/* Numbers, and what is left of the columns is this text. */
static void add_row(struct sbt_writer *writer, struct sbt_rows *rows, const char *table,
		    const char *const *column, size_t columns, const int64_t *number, size_t count,
		    const char *text)
{
	struct sbt_value value[8];
	const void *data;
	size_t size;

	for (size_t i = 0; i < count; i++)
		value[i] = (struct sbt_value){ .type = SBT_INTEGER, .integer = number[i] };
	for (size_t i = count; i < columns; i++)
		value[i] =
			(struct sbt_value){ .type = SBT_TEXT, .text = text, .size = strlen(text) };
	check(sbt_rows_begin(rows, table, column, columns));
	check(sbt_rows_add(rows, value));
	check(sbt_rows_end(rows, &data, &size));
	check(sbt_writer_add(writer, SBT_BLOCK_ROWS, data, size));
}

#define ROW(table, text, columns, ...)                                                             \
	do {                                                                                       \
		static const char *const column_[] = columns;                                      \
		const int64_t number_[] = { __VA_ARGS__ };                                         \
		add_row(writer, rows, table, column_, ARRAY_SIZE(column_), number_,                \
			ARRAY_SIZE(number_), text);                                                \
	} while (0)
#define LIST(...)                                                                                  \
	{                                                                                          \
		__VA_ARGS__                                                                        \
	}

static void add_rows(struct sbt_writer *writer, struct sbt_rows *rows)
{
	char name[W1_NAME_BYTES];

	ROW("boot", "bench", LIST("id", "wall_offset_ns", "last_ns", "boot_id"), 1, 0, INT64_MAX);
	ROW("process", "w1", LIST("id", "boot", "pid", "first_ns", "comm"), W1_PROCESS, 1, W1_TID,
	    1);
	for (int64_t fn = 1; fn < W1_FUNCTION_COUNT; fn++)
		ROW("function", w1_functions[fn].name, LIST("id", "kind", "effect", "name"), fn,
		    OP_LAUNCH, w1_functions[fn].effect);
	for (uint32_t i = 1; i <= W1_NAMES; i++)
		ROW("name", w1_name(i, name), LIST("id", "boot", "told_ns", "symbol", "text"), i, 1,
		    1);
}

static void make_file(const char *path)
{
	struct sbt_writer *writer = NULL;
	struct sbt_codec *codec = NULL;
	struct sbt_rows *rows = NULL;
	FILE *file = fopen(path, "w");
	const void *data;
	size_t size;

	check(file ? 0 : -errno);
	check(sbt_writer_new(write_file, file, &writer));
	check(sbt_rows_new(&rows));
	check(sbt_codec_new(&codec));
	add_rows(writer, rows);
	for (size_t i = 0; i < chunks; i++) {
		check(sbt_encode(codec, chunk[i].op, chunk[i].count, &data, &size));
		check(sbt_writer_add(writer, SBT_BLOCK_OPS, data, size));
	}
	check(sbt_writer_end(writer));
	sbt_codec_free(codec);
	sbt_rows_free(rows);
	sbt_writer_free(writer);
	fclose(file);
}

static double seconds(const struct timeval *time)
{
	return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

/* From its start to its end, with what it writes thrown away. */
static double run_tsctl(const char *option, double *ret_cpu_s)
{
	char *argv[] = { TSCTL, (char *)"replay", (char *)PATH, (char *)option, NULL };
	posix_spawn_file_actions_t actions;
	double begin_s = now_s();
	struct rusage usage;
	int status;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1, 0);
	check(-posix_spawn(&pid, TSCTL, &actions, NULL, argv, environ));
	posix_spawn_file_actions_destroy(&actions);
	wait4(pid, &status, 0, &usage);
	check(status ? -EIO : 0);
	*ret_cpu_s = seconds(&usage.ru_utime) + seconds(&usage.ru_stime);
	return now_s() - begin_s;
}

static int by_size(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static double median(double *round)
{
	qsort(round, ROUNDS, sizeof(*round), by_size);
	return round[ROUNDS / 2];
}

static void show(const char *what, double ops, double s, double cpu_s)
{
	printf("%-36s %8.1f %8.1f %12.0f %12.0f\n", what, s * 1e3, cpu_s * 1e3, ops / s,
	       (double)changes / s);
}

int main(int argc, char **argv)
{
	double round[ROUNDS], cpu[ROUNDS];

	if (argc == 3) {
		make_chunks(strtoul(argv[2], NULL, 10));
		make_file(argv[1]);
		return 0;
	}

	printf("%-36s %8s %8s %12s %12s\n", "W1", "ms", "CPU ms", "ops/s", "changes/s");
	make_chunks(CORE_OPS);
	for (int i = 0; i < ROUNDS; i++) {
		clock_t begin = clock();

		round[i] = play_core();
		cpu[i] = (double)(clock() - begin) / CLOCKS_PER_SEC;
	}
	show("core, 1,000,000 ops", CORE_OPS, median(round), median(cpu));
	make_chunks(FILE_OPS);
	play_core();
	make_file(PATH);
	for (int i = 0; i < ROUNDS; i++)
		round[i] = run_tsctl("--json", &cpu[i]);
	show("tsctl replay --json, 100,000 ops", FILE_OPS, median(round), median(cpu));
	for (int i = 0; i < ROUNDS; i++)
		round[i] = run_tsctl("--speed=max", &cpu[i]);
	show("tsctl replay, text, 100,000 ops", FILE_OPS, median(round), median(cpu));
	unlink(PATH);
	return 0;
}
