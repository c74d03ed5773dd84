/* Sbt: the chunk. encode.c writes one, decode.c reads one. Nothing in a chunk is believed before
 * its checksum and its own lengths agree; reading stays within the given bytes and the room for
 * ops.
 *
 * A chunk is a head and a body; numbers are little-endian. docs/sbt.md has the details.
 *   offset size
 *	0    4	"SBT" and the version, 1
 *	4    4	size of the whole chunk in bytes
 *	8    8	XXH3_64bits of everything from offset 16 to the end
 *     16    4	process
 *     20    4	stream
 *     24    8	first_ns: the smallest start_ns
 *     32    8	last_ns: the largest of start_ns, end_ns and gpu_end_ns
 *     40    4	number of ops, 1 to SBT_OPS_MAX
 *     44    4	size of the body before it is compressed as a whole
 *     48    1	kind (enum op_kind)
 *     49    1	flags: bit 0, the body is one zstd frame
 *     50    1	number of columns
 *     51    1	0
 *     52	the body
 * The body is the columns, in ascending order, each: number (SBT_COLUMNS), encoding (enum
 * sbt_encoding, plus 16 where times are relative, 32 where they are chained, 48 where they are from
 * the end, plus 64 where the data is compressed), length of the data as a varint, data. Compressed
 * data is a varint, its own size, and a zstd frame. column.h describes the data of each
 * encoding. An absent column is 0 in every op. Signed fields are stored as the
 * unsigned number with the same bits. A relative time is 0 where the time is 0, else the time minus
 * start_ns, plus 1 where it is not before start_ns, modulo 2^64. A chained time is relative to
 * another one: gpu_start_ns to the later of start_ns and the gpu_end_ns of the op before (of the
 * first op: start_ns), gpu_end_ns to gpu_start_ns, seen_ns to gpu_end_ns. One from the end is
 * relative to end_ns.
 */
#include "core/sbt/sbt.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/sbt/codec.h"

enum {
	AS_END = SBT_MODE_BIT(SBT_RELATIVE),
	AS_GPU_START = AS_END | SBT_MODE_BIT(SBT_CHAINED),
	AS_GPU_END = AS_GPU_START | SBT_MODE_BIT(SBT_FROM_END),
};

#define MODES_OF(number)                                                                           \
	((number) == COLUMN_END					 ? AS_END                          \
	 : (number) == COLUMN_GPU_START				 ? AS_GPU_START                    \
	 : (number) == COLUMN_GPU_END || (number) == COLUMN_SEEN ? AS_GPU_END                      \
								 : 0)
#define X(number, identifier, name)                                                                \
	[number] = { offsetof(struct op, name), sizeof(((struct op *)0)->name), MODES_OF(number) },
const struct sbt_field sbt_fields[SBT_COLUMN_COUNT] = { SBT_COLUMNS(X) };
#undef X

int sbt_codec_new(struct sbt_codec **ret)
{
	struct sbt_codec *codec = calloc(1, sizeof(*codec));

	if (!codec)
		return -ENOMEM;
	*ret = codec;
	return 0;
}

struct sbt_codec *sbt_codec_free(struct sbt_codec *codec)
{
	if (codec) {
		sbt_encoder_free(codec->encoder);
		sbt_decoder_free(codec->decoder);
	}
	free(codec);
	return NULL;
}

int sbt_head_read(const void *data, size_t size, struct sbt_head *ret)
{
	struct sbt_head head;

	if (size < SBT_HEAD_SIZE)
		return -ENODATA;
	memcpy(&head, data, SBT_HEAD_SIZE);
	head.magic = le32toh(head.magic);
	head.size = le32toh(head.size);
	head.checksum = le64toh(head.checksum);
	head.process = le32toh(head.process);
	head.stream = le32toh(head.stream);
	head.first_ns = le64toh(head.first_ns);
	head.last_ns = le64toh(head.last_ns);
	head.count = le32toh(head.count);
	head.body_size = le32toh(head.body_size);
	if (head.magic != SBT_MAGIC || head.size < SBT_HEAD_SIZE ||
	    head.size > SBT_HEAD_SIZE + SBT_BODY_MAX || head.count < 1 ||
	    head.count > SBT_OPS_MAX || head.body_size > SBT_BODY_MAX ||
	    head.flags & ~SBT_COMPRESSED || head.zero)
		return -EBADMSG;
	if (head.size > size)
		return -ENODATA;
	*ret = head;
	return 0;
}

void sbt_head_info(const struct sbt_head *head, struct sbt_info *ret)
{
	*ret = (struct sbt_info){
		.process = head->process,
		.stream = head->stream,
		.kind = head->kind,
		.count = head->count,
		.first_ns = head->first_ns,
		.last_ns = head->last_ns,
		.size = head->size,
	};
}

int sbt_peek(const void *data, size_t size, struct sbt_info *ret)
{
	struct sbt_head head;
	int r = sbt_head_read(data, size, &head);

	if (r < 0)
		return r;
	sbt_head_info(&head, ret);
	return 0;
}

int sbt_check(const void *data, size_t size, struct sbt_info *ret)
{
	struct sbt_head head;
	int r = sbt_head_read(data, size, &head);

	if (r < 0)
		return r;
	if (head.size != size || XXH3_64bits((const uint8_t *)data + SBT_CHECKED_FROM,
					     size - SBT_CHECKED_FROM) != head.checksum)
		return -EBADMSG;
	sbt_head_info(&head, ret);
	return 0;
}
