/* Bench_sbt: bytes an op and ops a second of the chunk codec, for the loads that matter.
 * Prints a table; each figure is the median of several rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/array.h"
#include "core/sbt/sbt.h"
#include "tests/bench/load.h"

#define ROUNDS	  9
#define PER_ROUND 64 /* chunks */

static struct op ops[SBT_OPS_MAX], decoded[SBT_OPS_MAX];

static double encode_ns(struct sbt_codec *codec, size_t count, const void **data, size_t *size)
{
	double begin = now_ns();

	for (int i = 0; i < PER_ROUND; i++)
		sbt_encode(codec, ops, count, data, size);
	return (now_ns() - begin) / PER_ROUND / (double)count;
}

static double decode_ns(struct sbt_codec *codec, const void *data, size_t size, uint32_t columns)
{
	double begin = now_ns();
	struct sbt_info info = { 0 };

	for (int i = 0; i < PER_ROUND; i++)
		if (sbt_decode(codec, data, size, columns, decoded, &info) < 0)
			abort();
	return (now_ns() - begin) / PER_ROUND / info.count;
}

static void measure(struct sbt_codec *codec, const struct load *load, size_t count)
{
	double encode[ROUNDS], all[ROUNDS], one[ROUNDS];
	const void *data;
	void *copy;
	size_t size;

	load_make(load, 1, 1, count, ops);
	encode_ns(codec, count, &data, &size);
	copy = malloc(size);
	memcpy(copy, data, size);
	for (int i = 0; i < ROUNDS; i++) {
		encode[i] = encode_ns(codec, count, &data, &size);
		all[i] = decode_ns(codec, copy, size, SBT_ALL_COLUMNS);
		one[i] = decode_ns(codec, copy, size, 1);
	}
	printf("%-10s %6zu %8.2f %12.1f %12.1f %14.1f\n", load->name, count,
	       (double)size / (double)count, 1e3 / median(encode, ROUNDS),
	       1e3 / median(all, ROUNDS), 1e3 / median(one, ROUNDS));
	free(copy);
}

int main(void)
{
	static const size_t counts[] = { SBT_OPS_MAX, 512, 32 };
	struct sbt_codec *codec;

	if (sbt_codec_new(&codec) < 0)
		return 1;
	printf("%-10s %6s %8s %12s %12s %14s\n", "load", "ops", "bytes/op", "encode Mop/s",
	       "decode Mop/s", "start_ns Mop/s");
	for (size_t i = 0; i < LOAD_COUNT; i++)
		for (size_t k = 0; k < ARRAY_SIZE(counts); k++)
			measure(codec, &loads[i], counts[k]);
	sbt_codec_free(codec);
	return 0;
}
