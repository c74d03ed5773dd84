/* ship_daemon.h: the daemon's side of a shipper's connection: what it is asked, and rows of values
 * as the answer. */
#ifndef TS_SHIP_DAEMON_H
#define TS_SHIP_DAEMON_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/library/connection.h"

#define ROW_VALUES_MAX 32

static inline Tracesmith__V1__Value text_value(const char *text)
{
	Tracesmith__V1__Value value = TRACESMITH__V1__VALUE__INIT;

	value.value_case = TRACESMITH__V1__VALUE__VALUE_TEXT;
	value.text = (char *)text;
	return value;
}

static inline Tracesmith__V1__Value integer_value(int64_t integer)
{
	Tracesmith__V1__Value value = TRACESMITH__V1__VALUE__INIT;

	value.value_case = TRACESMITH__V1__VALUE__VALUE_INTEGER;
	value.integer = integer;
	return value;
}

static inline void reply(int fd, uint64_t id, Tracesmith__V1__Reply *message)
{
	uint8_t *data;
	size_t size;

	message->id = id;
	assert_int_equal(ts_frame_pack(&message->base, TS_FRAME_REPLY_MAX, &data, &size), 0);
	assert_int_equal(send(fd, data, size, MSG_NOSIGNAL), size);
	free(data);
}

static inline void reply_row(int fd, uint64_t id, Tracesmith__V1__Value *value, size_t count)
{
	Tracesmith__V1__Reply message = TRACESMITH__V1__REPLY__INIT;
	Tracesmith__V1__Rows rows = TRACESMITH__V1__ROWS__INIT;
	Tracesmith__V1__Row row = TRACESMITH__V1__ROW__INIT, *one = &row;
	Tracesmith__V1__Value *values[ROW_VALUES_MAX];

	assert_true(count <= ROW_VALUES_MAX);
	for (size_t i = 0; i < count; i++)
		values[i] = &value[i];
	row.n_value = count;
	row.value = values;
	rows.n_row = 1;
	rows.row = &one;
	message.body_case = TRACESMITH__V1__REPLY__BODY_ROWS;
	message.rows = &rows;
	reply(fd, id, &message);
}

static inline void reply_done(int fd, uint64_t id)
{
	Tracesmith__V1__Reply message = TRACESMITH__V1__REPLY__INIT;
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;

	message.body_case = TRACESMITH__V1__REPLY__BODY_DONE;
	message.done = &done;
	reply(fd, id, &message);
}

/* Until the shipper hangs up, or after an answer that is false. */
static inline void serve(int fd, bool (*answer)(void *data, const Tracesmith__V1__Request *request),
			 void *data)
{
	struct ts_frame_reader reader = { .max = TS_FRAME_REQUEST_MAX };
	const uint8_t *bytes;
	bool more = true;
	size_t size;
	ssize_t n = 1;

	while (n > 0 && more) {
		Tracesmith__V1__Request *request;
		void *room = ts_frame_reader_room(&reader, &size);

		n = recv(fd, room, size, 0);
		ts_frame_reader_fill(&reader, n > 0 ? (size_t)n : 0);
		if (ts_frame_reader_next(&reader, &bytes, &size) != 1)
			continue;
		request = tracesmith__v1__request__unpack(NULL, size, bytes);
		assert_non_null(request);
		more = answer(data, request);
		tracesmith__v1__request__free_unpacked(request, NULL);
	}
	ts_frame_reader_done(&reader);
	close(fd);
}

#endif
