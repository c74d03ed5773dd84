/* Frame: splits a byte stream into messages, and puts the length before a message. data[begin..end)
 * has arrived and was not consumed; begin is always at the start of a length. */
#include "proto/frame.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 4096

static uint32_t load_le32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void store_le32(uint8_t *p, uint32_t value)
{
	for (int i = 0; i < TS_FRAME_HEAD; i++)
		p[i] = (uint8_t)(value >> (8 * i));
}

void ts_frame_reader_done(struct ts_frame_reader *reader)
{
	free(reader->data);
	*reader = (struct ts_frame_reader){ .max = reader->max };
}

void *ts_frame_reader_room(struct ts_frame_reader *reader, size_t *ret_size)
{
	size_t capacity;
	uint8_t *data;

	if (reader->begin > 0) {
		if (reader->end > reader->begin)
			memmove(reader->data, reader->data + reader->begin,
				reader->end - reader->begin);
		reader->end -= reader->begin;
		reader->begin = 0;
	}
	if (reader->end == reader->capacity) {
		capacity = reader->capacity ? 2 * reader->capacity : FIRST_CAPACITY;
		data = realloc(reader->data, capacity);
		if (!data)
			return NULL;
		reader->data = data;
		reader->capacity = capacity;
	}
	*ret_size = reader->capacity - reader->end;
	return reader->data + reader->end;
}

void ts_frame_reader_fill(struct ts_frame_reader *reader, size_t size)
{
	reader->end += size;
}

int ts_frame_reader_next(struct ts_frame_reader *reader, const uint8_t **ret_data, size_t *ret_size)
{
	size_t held = reader->end - reader->begin;
	uint32_t length;

	if (held < TS_FRAME_HEAD)
		return 0;
	length = load_le32(reader->data + reader->begin);
	if (length > reader->max)
		return -EMSGSIZE;
	if (held - TS_FRAME_HEAD < length)
		return 0;
	*ret_data = reader->data + reader->begin + TS_FRAME_HEAD;
	*ret_size = length;
	reader->begin += TS_FRAME_HEAD + length;
	return 1;
}

int ts_frame_pack(const ProtobufCMessage *message, uint32_t max, uint8_t **ret_data,
		  size_t *ret_size)
{
	size_t length = protobuf_c_message_get_packed_size(message);
	uint8_t *data;

	if (length > max)
		return -EMSGSIZE;
	data = malloc(TS_FRAME_HEAD + length);
	if (!data)
		return -ENOMEM;
	store_le32(data, (uint32_t)length);
	protobuf_c_message_pack(message, data + TS_FRAME_HEAD);
	*ret_data = data;
	*ret_size = TS_FRAME_HEAD + length;
	return 0;
}

static void *allocate(void *failed, size_t size)
{
	void *memory = malloc(size);

	if (!memory)
		*(bool *)failed = true;
	return memory;
}

static void release(void *failed, void *memory)
{
	(void)failed;
	free(memory);
}

int ts_frame_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t size,
		    void *ret_message)
{
	/* protobuf-c has one NULL for both. */
	bool failed = false;
	ProtobufCAllocator allocator = { allocate, release, &failed };
	ProtobufCMessage *message = protobuf_c_message_unpack(type, &allocator, size, data);

	if (!message)
		return failed ? -ENOMEM : -EBADMSG;
	*(ProtobufCMessage **)ret_message = message;
	return 0;
}
