/* Fuzz_recording: any bytes may be opened as a recording and asked, for its own description, its
 * operations and their sums. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/store/file/file.h"
#include "core/store/sql.h"
#include "tests/fuzz/sbt_made.h"
#include "tests/fuzz/seed.h"

#define PLAN_OPS 1000
#define OPS_MAX	 200

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned int errors; /* remarks of files that were not opened */

static void count_errors(void *data, const struct file_remark *remark)
{
	(void)data;
	if (remark->reason < 0 || remark->reason >= FILE_REASON_COUNT)
		abort();
	errors += remark->reason < FILE_UNKNOWN_NAMES;
}

static bool not_cancelled(void *data)
{
	(void)data;
	return false;
}

/* Reads every value, as an answer would have it. */
static void ask(struct file *file, const char *sql)
{
	sqlite3_stmt *stmt;

	if (file_count(file, sql, not_cancelled, NULL) < 0)
		return;
	if (sql_prepare(file_reader(file), sql, &stmt) < 0)
		abort();
	while (sqlite3_step(stmt) == SQLITE_ROW)
		for (int i = 0; i < sqlite3_column_count(stmt); i++)
			sqlite3_column_text(stmt, i);
	sqlite3_finalize(stmt);
	file_note_losses(file);
}

static void ask_all(struct file *file)
{
	const struct file_facts *facts = file_facts(file);

	if (facts->boot_id[sizeof(facts->boot_id) - 1] || facts->now_ns == 0)
		abort();
	ask(file, "SELECT * FROM recording");
	ask(file, "SELECT * FROM op");
	ask(file, "SELECT * FROM rollup");
	ask(file, "SELECT * FROM work");
	ask(file, "SELECT * FROM busy");
	ask(file, "SELECT * FROM loss");
}

/* A file without a name. */
static void open_made(const struct memory *made)
{
	const struct file_config config = { .plan_ops = PLAN_OPS, .remark = count_errors };
	struct file *file = NULL;
	char path[32];
	int r, fd = memfd_create("made", MFD_CLOEXEC);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd < 0 || write(fd, made->data, made->size) != (ssize_t)made->size)
		abort();
	errors = 0;
	r = file_open(path, &config, &file);
	if ((r < 0) != (errors == 1))
		abort(); /* an error is remarked once */
	if (r == 0)
		ask_all(file);
	file_free(file);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct memory made;

	if (size < 1)
		return 0;
	made = made_of_input(data, size);
	open_made(&made);
	free(made.data);
	return 0;
}

#define INTEGER(number)                                                                            \
	{                                                                                          \
		.type = SBT_INTEGER, .integer = (number)                                           \
	}
#define TEXT(string)                                                                               \
	{                                                                                          \
		.type = SBT_TEXT, .text = (string), .size = sizeof(string) - 1                     \
	}

static void add_row(struct sbt_writer *writer, const char *table, const char *const *names,
		    const struct sbt_value *value, size_t count)
{
	struct sbt_rows *rows;
	const void *data;
	size_t size;

	if (sbt_rows_new(&rows) < 0 || sbt_rows_begin(rows, table, names, count) < 0 ||
	    sbt_rows_add(rows, value) < 0 || sbt_rows_end(rows, &data, &size) < 0 ||
	    sbt_writer_add(writer, SBT_BLOCK_ROWS, data, size) < 0)
		abort();
	sbt_rows_free(rows);
}

static void add_rows(struct sbt_writer *writer)
{
	static const char *const fact[] = { "key", "value" };
	static const char *const boot[] = { "id", "boot_id", "wall_offset_ns" };
	static const char *const process[] = { "id", "boot", "pid", "comm", "mood" };
	const struct sbt_value facts[] = { TEXT("told_ns"), INTEGER(2000000000) };
	const struct sbt_value boots[] = { INTEGER(1), TEXT("b"), INTEGER(5) };
	const struct sbt_value processes[] = { INTEGER(1), INTEGER(1), INTEGER(7), TEXT("job"),
					       INTEGER(3) };

	add_row(writer, "recording", fact, facts, 2);
	add_row(writer, "boot", boot, boots, 3);
	add_row(writer, "process", process, processes, 5);
}

static void add_ops(struct sbt_writer *writer, struct sbt_codec *codec, uint8_t kind, size_t count)
{
	static struct op op[OPS_MAX];
	const void *data;
	size_t size;

	for (size_t i = 0; i < count; i++) {
		op[i] = (struct op){ .process = 1, .stream = 1, .kind = kind, .tid = 5 };
		op[i].start_ns = 1000000000 + i * 7000000;
		op[i].end_ns = op[i].start_ns + 1000;
		op[i].gpu_start_ns = op[i].start_ns + 2000;
		op[i].gpu_end_ns = op[i].gpu_start_ns + 5000000;
		op[i].name = i % 3;
	}
	if (sbt_encode(codec, op, count, &data, &size) < 0 ||
	    sbt_writer_add(writer, SBT_BLOCK_OPS, data, size) < 0)
		abort();
}

static void make_file(struct memory *file, struct sbt_codec *codec, size_t count)
{
	struct sbt_writer *writer;

	if (sbt_writer_new(memory_append, file, &writer) < 0)
		abort();
	add_rows(writer);
	add_ops(writer, codec, OP_KERNEL, count);
	add_ops(writer, codec, OP_LAUNCH, count);
	sbt_writer_end(writer);
	sbt_writer_free(writer);
}

/* Real files, whole and cut off. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *directory = getenv("TS_FUZZ_SEEDS");
	struct sbt_codec *codec;

	(void)argc;
	(void)argv;
	if (sbt_codec_new(&codec) < 0)
		abort();
	for (unsigned int i = 0; directory && i < 6; i++) {
		struct memory file = { 0 };

		make_file(&file, codec, i < 3 ? 2 : OPS_MAX);
		write_seed(directory, i, (uint8_t)(i % 3), file.data,
			   file.size - (i % 2 ? SBT_TAIL : 0));
		free(file.data);
	}
	sbt_codec_free(codec);
	return 0;
}
