/* frame.h: messages on a byte stream: a length of 4 bytes, little-endian, followed by that many
 * bytes of protobuf. The length does not include itself; 0 is a valid message without fields.
 *
 * The reader takes bytes as they come. Its memory grows with what has arrived, never with what a
 * length claims, and a length above the maximum ends the stream.
 */
#ifndef TS_FRAME_H
#define TS_FRAME_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

#define TS_PROTOCOL	     1 /* of control.proto; part of both hellos */
#define TS_FRAME_HEAD	     4
#define TS_FRAME_REQUEST_MAX (64u << 10) /* what a client may send */
#define TS_FRAME_REPLY_MAX   (16u << 20) /* what a client must accept */

struct ts_frame_reader {
	uint32_t max; /* longest message accepted */
	uint8_t *data;
	size_t capacity;
	size_t begin, end; /* data[begin..end) is not consumed yet */
};

/* All zero except `max` is an empty reader. */
void ts_frame_reader_done(struct ts_frame_reader *reader);

/* Where the next bytes of the stream go: at least one byte of room. Invalidates messages returned
 * earlier. NULL: no memory. Afterwards report how many bytes came. */
void *ts_frame_reader_room(struct ts_frame_reader *reader, size_t *ret_size);
void ts_frame_reader_fill(struct ts_frame_reader *reader, size_t size);

/* 1: the next message, valid until the next room; 0: it is not complete yet;
 * -EMSGSIZE: longer than the maximum, nothing can be read from this stream any more. */
int ts_frame_reader_next(struct ts_frame_reader *reader, const uint8_t **ret_data,
			 size_t *ret_size);

/* Part of a message has arrived, the rest has not. */
static inline int ts_frame_reader_half(const struct ts_frame_reader *reader)
{
	return reader->end > reader->begin;
}

/* The message with its length, to be freed by the caller. -EMSGSIZE: longer than `max`. */
int ts_frame_pack(const ProtobufCMessage *message, uint32_t max, uint8_t **ret_data,
		  size_t *ret_size);

/* The message that the bytes are, to be freed with protobuf_c_message_free_unpacked(). -EBADMSG:
 * they are none, or -ENOMEM. */
int ts_frame_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t size,
		    void *ret_message);

#endif
