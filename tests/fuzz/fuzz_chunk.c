/* Fuzz_chunk: any bytes may be given to the decoder, and any ops to the encoder.
 * The first byte of an input says what is done with the rest: decode it as it is, decode it as a
 * chunk whose size and checksum are right (so that what is behind them is reached), or make ops of
 * it, which must come back from a chunk as they were. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/sbt/sbt.h"
#include "tests/fuzz/seed.h"

#define HEAD_SIZE 52

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sbt_codec *codec;
static struct op in[SBT_OPS_MAX], out[SBT_OPS_MAX];

static void decode(const uint8_t *data, size_t size)
{
	struct sbt_info info;

	sbt_peek(data, size, &info);
	sbt_decode(codec, data, size, SBT_ALL_COLUMNS, out, &info);
	sbt_decode(codec, data, size, 1u << 3, out, &info);
	sbt_decode(codec, data, size, 1u << 24, out, &info);
}

static void decode_repaired(const uint8_t *data, size_t size)
{
	uint8_t *copy;
	uint64_t checksum;
	uint32_t length = (uint32_t)size, body = length - HEAD_SIZE;

	if (size < HEAD_SIZE)
		return;
	copy = malloc(size);
	memcpy(copy, data, size);
	memcpy(copy, "SBT\1", 4);
	memcpy(copy + 4, &length, 4);
	if (!(copy[49] & 1)) /* not compressed, so its size is known */
		memcpy(copy + 44, &body, 4);
	checksum = XXH3_64bits(copy + 16, size - 16);
	memcpy(copy + 8, &checksum, 8);
	decode(copy, size);
	free(copy);
}

/* Ops whose bytes are those of the input, with more or fewer zeros between. */
static size_t make_ops(const uint8_t *data, size_t size)
{
	size_t count = 1 + (data[0] | (size_t)data[1] << 8) % 600, used = 2;

	memset(in, 0, sizeof(in[0]) * count);
	for (size_t i = 0; i < count; i++) {
		uint8_t *bytes = (uint8_t *)&in[i];

		for (size_t k = 0; k < sizeof(in[0]); k += 1 + data[used % size] % 16)
			bytes[k] = data[used++ % size];
		in[i].start_ns &= INT64_MAX;
		in[i].end_ns &= INT64_MAX;
		in[i].gpu_start_ns &= INT64_MAX;
		in[i].gpu_end_ns &= INT64_MAX;
		in[i].seen_ns &= INT64_MAX;
		in[i].process = in[0].process;
		in[i].stream = in[0].stream;
		in[i].kind = in[0].kind;
		in[i].reserved = 0;
	}
	return count;
}

static void round_trip(const uint8_t *data, size_t size)
{
	struct sbt_info info;
	const void *chunk;
	size_t chunk_size, count;

	if (size < 3)
		return;
	count = make_ops(data, size);
	if (sbt_encode(codec, in, count, &chunk, &chunk_size) < 0 ||
	    sbt_decode(codec, chunk, chunk_size, SBT_ALL_COLUMNS, out, &info) < 0 ||
	    info.count != count || info.size != chunk_size ||
	    memcmp(in, out, count * sizeof(in[0])) != 0)
		abort();
}

static void (*const actions[])(const uint8_t *data, size_t size) = { decode, decode_repaired,
								     round_trip };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size)
		actions[data[0] % 3](data + 1, size - 1);
	return 0;
}

/* Real chunks, small enough not to be compressed and large enough to be. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const uint16_t counts[] = { 1, 3, 20, 500 };
	const char *directory = getenv("TS_FUZZ_SEEDS");
	uint8_t bytes[256];
	const void *chunk;
	size_t size;

	if (sbt_codec_new(&codec) < 0)
		abort();
	for (unsigned int i = 0; directory && i < 8; i++) {
		for (unsigned int k = 0; k < sizeof(bytes); k++)
			bytes[k] = (uint8_t)(k * k * (i + 1) >> 3);
		memcpy(bytes, &counts[i % 4], sizeof(counts[0]));
		write_seed(directory, 2 * i, 2, bytes, sizeof(bytes));
		if (sbt_encode(codec, in, make_ops(bytes, sizeof(bytes)), &chunk, &size) == 0)
			write_seed(directory, 2 * i + 1, 1, chunk, size);
	}
	return 0;
}
