/* codec.h: shared by writing (encode.c) and reading (decode.c) of a chunk. The format is described
 * in sbt.c. */
#ifndef TS_CORE_SBT_CODEC_H
#define TS_CORE_SBT_CODEC_H

#include <zstd.h>

#include "core/base/cleanup.h"
#include "core/sbt/column.h"
#include "core/sbt/sbt.h"

#define SBT_MAGIC	 0x01544253 /* "SBT\1" */
#define SBT_HEAD_SIZE	 52
#define SBT_CHECKED_FROM 16
#define SBT_COMPRESSED	 1 /* flag of the head: the body is one zstd frame */
/* Added to the encoding of a column. */
#define SBT_RELATIVE	      16 /* times: to start_ns */
#define SBT_CHAINED	      32 /* times: see sbt.c */
#define SBT_FROM_END	      48 /* times: to end_ns */
#define SBT_MODE_MASK	      48
#define SBT_MODE_BIT(mode)    (1 << (mode) / 16)
#define SBT_COLUMN_COMPRESSED 64 /* its data is a varint, its size, and a zstd frame */
#define SBT_ENCODING_MASK     15

#define SBT_COLUMN_HEAD_MAX   16 /* number, encoding, length, base, shift */
#define SBT_COLUMN_MAX	      (SBT_COLUMN_HEAD_MAX + (size_t)SBT_OPS_MAX * SBT_VARINT_MAX)
#define SBT_BODY_MAX	      (SBT_COLUMN_COUNT * SBT_COLUMN_MAX)
#define SBT_SLACK	      16 /* bytes that packing may write too far */

enum {
	COLUMN_START = SBT_COLUMN_START_NS,
	COLUMN_END = SBT_COLUMN_END_NS,
	COLUMN_GPU_START = SBT_COLUMN_GPU_START_NS,
	COLUMN_GPU_END = SBT_COLUMN_GPU_END_NS,
	COLUMN_SEEN = SBT_COLUMN_SEEN_NS,
};

static inline bool sbt_is_time(unsigned int column)
{
	return column <= COLUMN_GPU_END || column == COLUMN_SEEN;
}

struct sbt_head {
	uint32_t magic, size;
	uint64_t checksum;
	uint32_t process, stream;
	uint64_t first_ns, last_ns;
	uint32_t count, body_size;
	uint8_t kind, flags, column_count, zero;
};
_Static_assert(offsetof(struct sbt_head, zero) == SBT_HEAD_SIZE - 1, "the head has no holes");

struct sbt_field {
	uint8_t offset, width; /* in struct op */
	uint8_t modes;	       /* SBT_MODE_BIT() of those that its values may have */
};
extern const struct sbt_field sbt_fields[SBT_COLUMN_COUNT];

#define OP_WORDS (sizeof(struct op) / sizeof(uint64_t))
_Static_assert(sizeof(struct op) % sizeof(uint64_t) == 0, "an op is whole words");

#define SBT_DICTIONARIES_MAX 4 /* columns that others can be mapped from */

/* What encoding needs. Arrays are of a chunk's ops. */
struct sbt_encoder {
	ZSTD_CCtx *compressor;
	struct sbt_plan plan[2];
	uint64_t difference[OP_WORDS];			/* the bits in which ops differ */
	bool differs[SBT_COLUMN_COUNT];			/* or is a time */
	uint64_t values[SBT_COLUMN_COUNT][SBT_OPS_MAX]; /* of columns that differ */
	uint64_t relative[SBT_OPS_MAX], chain[SBT_OPS_MAX];
	struct sbt_dictionary dictionary[SBT_DICTIONARIES_MAX];
	uint8_t dictionary_column[SBT_DICTIONARIES_MAX];
	unsigned int dictionary_count;
	uint8_t column[SBT_COLUMN_MAX + SBT_SLACK];
	uint8_t compressed[SBT_COLUMN_MAX];
	uint8_t body[SBT_BODY_MAX + SBT_SLACK];
	uint8_t chunk[SBT_HEAD_SIZE + SBT_BODY_MAX];
};

/* A column as stored in the body. */
struct sbt_part {
	const uint8_t *data;
	size_t size;
	uint8_t encoding; /* 0: absent */
	bool wanted, needed;
};

struct sbt_decoder {
	ZSTD_DCtx *decompressor;
	struct sbt_part part[SBT_COLUMN_COUNT];
	struct sbt_column column[SBT_COLUMN_COUNT];
	uint64_t value[SBT_COLUMN_COUNT][SBT_GROUP];
	uint64_t last_gpu_end; /* of the group before */
	uint8_t body[SBT_BODY_MAX];
	uint8_t data[SBT_BODY_MAX]; /* of columns that were compressed */
};

/* Halves are computed when first needed. */
struct sbt_codec {
	struct sbt_encoder *encoder;
	struct sbt_decoder *decoder;
};

int sbt_encoder_new(struct sbt_encoder **ret);
struct sbt_encoder *sbt_encoder_free(struct sbt_encoder *encoder);
int sbt_decoder_new(struct sbt_decoder **ret);
struct sbt_decoder *sbt_decoder_free(struct sbt_decoder *decoder);

/* -EBADMSG, -ENODATA as sbt_peek() */
int sbt_head_read(const void *data, size_t size, struct sbt_head *ret);
void sbt_head_info(const struct sbt_head *head, struct sbt_info *ret);

CLEANUP_DEFINE(struct sbt_encoder, sbt_encoder_free)
CLEANUP_DEFINE(struct sbt_decoder, sbt_decoder_free)

#endif
