/* Bench_w1: workload W1 (w1.h) as an .sbt file: bytes an op with everything kept, ops a second
 * written and read. Prints a table beside what an older TraceSmith took; each figure is the median
 * of several rounds, of the time of one processor and without a disk.
 *
 * Chunks are those of the store: of one stream and kind, in order of start. "write" encodes and
 * frames ops that lie together already, "write, sorting" also takes them from the order in which
 * they happened. "read" decodes all columns, "read, checked" walks the file by its index and checks
 * its blocks first, as a client does. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sbt/file.h"
#include "tests/bench/load.h"
#include "tests/bench/w1.h"

#define OPS	   1000000
#define ROUNDS	   9
#define KIND_MAX   32
#define GROUPS	   (W1_STREAMS * KIND_MAX)
#define FILE_BYTES ((size_t)OPS * 40)

struct group {
	struct op *op;
	size_t count, capacity;
};

struct bench {
	struct op *op; /* in order of time */
	struct group group[GROUPS];
	struct op *room; /* SBT_OPS_MAX of each group */
	size_t used[GROUPS];
	struct sbt_codec *codec;
	struct op *decoded;
	uint8_t *file;
	size_t size;
};

static double cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void check(int r)
{
	if (r < 0) {
		fprintf(stderr, "bench_w1: %s\n", strerror(-r));
		exit(1);
	}
}

static void *get(size_t count, size_t size)
{
	void *data = calloc(count, size);

	check(data ? 0 : -ENOMEM);
	memset(data, 1, count * size); /* the pages are there before time is taken */
	return data;
}

static size_t group_of(const struct op *op)
{
	return (op->stream - 1) * KIND_MAX + op->kind;
}

static void group_add(struct group *group, const struct op *op)
{
	if (group->count == group->capacity) {
		group->capacity = group->capacity ? 2 * group->capacity : 4096;
		group->op = reallocarray(group->op, group->capacity, sizeof(*op));
		check(group->op ? 0 : -ENOMEM);
	}
	group->op[group->count++] = *op;
}

static void bench_start(struct bench *bench)
{
	struct w1 w1 = w1_start();

	bench->op = get(OPS, sizeof(struct op));
	bench->room = get((size_t)GROUPS * SBT_OPS_MAX, sizeof(struct op));
	bench->decoded = get(SBT_OPS_MAX, sizeof(struct op));
	bench->file = get(FILE_BYTES, 1);
	check(sbt_codec_new(&bench->codec));
	for (size_t i = 0; i < OPS; i++) {
		w1_next(&w1, &bench->op[i]);
		group_add(&bench->group[group_of(&bench->op[i])], &bench->op[i]);
	}
}

static void bench_end(struct bench *bench)
{
	for (size_t i = 0; i < GROUPS; i++)
		free(bench->group[i].op);
	free(bench->op);
	free(bench->room);
	free(bench->decoded);
	free(bench->file);
	sbt_codec_free(bench->codec);
}

static int append(void *data, const void *bytes, size_t size)
{
	struct bench *bench = data;

	if (bench->size + size > FILE_BYTES)
		return -ENOSPC;
	memcpy(bench->file + bench->size, bytes, size);
	bench->size += size;
	return 0;
}

static void write_chunk(struct bench *bench, struct sbt_writer *writer, const struct op *op,
			size_t count)
{
	const void *data;
	size_t size;

	check(sbt_encode(bench->codec, op, count, &data, &size));
	check(sbt_writer_add(writer, SBT_BLOCK_OPS, data, size));
}

static void write_grouped(struct bench *bench, struct sbt_writer *writer)
{
	for (size_t i = 0; i < GROUPS; i++)
		for (size_t k = 0; k < bench->group[i].count; k += SBT_OPS_MAX) {
			size_t left = bench->group[i].count - k;

			write_chunk(bench, writer, &bench->group[i].op[k],
				    left < SBT_OPS_MAX ? left : SBT_OPS_MAX);
		}
}

static void write_sorting(struct bench *bench, struct sbt_writer *writer)
{
	memset(bench->used, 0, sizeof(bench->used));
	for (size_t i = 0; i < OPS; i++) {
		size_t group = group_of(&bench->op[i]);
		struct op *room = bench->room + group * SBT_OPS_MAX;

		room[bench->used[group]++] = bench->op[i];
		if (bench->used[group] == SBT_OPS_MAX) {
			write_chunk(bench, writer, room, SBT_OPS_MAX);
			bench->used[group] = 0;
		}
	}
	for (size_t i = 0; i < GROUPS; i++)
		if (bench->used[i])
			write_chunk(bench, writer, bench->room + i * SBT_OPS_MAX, bench->used[i]);
}

static double write_ns(struct bench *bench, void (*chunks)(struct bench *, struct sbt_writer *))
{
	_cleanup_(sbt_writer_freep) struct sbt_writer *writer = NULL;
	double begin = cpu_ns();

	bench->size = 0;
	check(sbt_writer_new(append, bench, &writer));
	chunks(bench, writer);
	check(sbt_writer_end(writer));
	return cpu_ns() - begin;
}

static int read_file(void *data, uint64_t offset, void *bytes, size_t size)
{
	struct bench *bench = data;

	memcpy(bytes, bench->file + offset, size);
	return 0;
}

static void must_match(struct bench *bench, struct sbt_info *info)
{
	size_t group = group_of(bench->decoded);
	size_t at = bench->used[group];

	if (memcmp(&bench->group[group].op[at], bench->decoded, info->count * sizeof(struct op)) !=
	    0) {
		fprintf(stderr, "bench_w1: what was read is not what was written\n");
		exit(1);
	}
	bench->used[group] += info->count;
}

static size_t decode(struct bench *bench, const void *data, size_t size, bool compare)
{
	struct sbt_info info;

	check(sbt_decode(bench->codec, data, size, SBT_ALL_COLUMNS, bench->decoded, &info));
	if (compare)
		must_match(bench, &info);
	return info.count;
}

static double read_ns(struct bench *bench, bool checked, bool compare)
{
	_cleanup_(sbt_reader_freep) struct sbt_reader *reader = NULL;
	struct sbt_source source = { read_file, bench, bench->size };
	struct sbt_block block;
	const void *data;
	size_t count = 0;
	double begin = cpu_ns();

	memset(bench->used, 0, sizeof(bench->used));
	check(sbt_reader_new(&source, &reader));
	while (sbt_reader_next(reader, &block) == 0) {
		data = bench->file + block.offset + 32;
		if (checked)
			check(sbt_reader_get(reader, &block, &data));
		count += decode(bench, data, block.size, compare);
	}
	check(count == OPS ? 0 : -EBADMSG);
	return cpu_ns() - begin;
}

int main(void)
{
	static struct bench bench;
	double grouped[ROUNDS], sorting[ROUNDS], checked[ROUNDS], plain[ROUNDS];
	double bytes;

	bench_start(&bench);
	write_ns(&bench, write_grouped);
	read_ns(&bench, true, true);
	bytes = (double)bench.size / OPS;
	for (int i = 0; i < ROUNDS; i++) {
		sorting[i] = write_ns(&bench, write_sorting);
		grouped[i] = write_ns(&bench, write_grouped);
		plain[i] = read_ns(&bench, false, false);
		checked[i] = read_ns(&bench, true, false);
	}
	printf("W1, %d ops               older       ours   wanted\n", OPS);
	printf("bytes an op                 22.9 %10.2f      8.0\n", bytes);
	printf("write, M op/s                3.0 %10.1f     10.0\n",
	       OPS * 1e3 / median(grouped, ROUNDS));
	printf("write, sorting, M op/s         - %10.1f        -\n",
	       OPS * 1e3 / median(sorting, ROUNDS));
	printf("read, M op/s                 2.0 %10.1f     20.0\n",
	       OPS * 1e3 / median(plain, ROUNDS));
	printf("read, checked, M op/s          - %10.1f        -\n",
	       OPS * 1e3 / median(checked, ROUNDS));
	bench_end(&bench);
	return 0;
}
