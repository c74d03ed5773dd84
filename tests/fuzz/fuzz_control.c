/* Any bytes as a request, answered from a real (empty) database as a client's would be. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/store/query/query.h"
#include "core/store/store.h"
#include "proto/frame.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[] = "/tmp/ts-fuzz-XXXXXX", path[64];

static void clean(void)
{
	char file[80];

	snprintf(file, sizeof(file), "%s-wal", path);
	unlink(file);
	snprintf(file, sizeof(file), "%s-shm", path);
	unlink(file);
	unlink(path);
	rmdir(directory);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct store_config config = { .path = path, .boot_id = "boot" };
	struct store *store;

	if (!mkdtemp(directory))
		abort();
	snprintf(path, sizeof(path), "%s/db", directory);
	atexit(clean);
	if (store_open(&config, &store) < 0)
		abort();
	store_free(store);
	return 0;
}

struct sent {
	int replies, ends;
};

/* What is sent must be a message that a client can read, and nothing may follow the end. */
static int on_send(void *data, const Tracesmith__V1__Reply *reply)
{
	struct sent *sent = data;
	Tracesmith__V1__Reply *copy;
	uint8_t *bytes;
	size_t size;
	int r = ts_frame_pack(&reply->base, TS_FRAME_REPLY_MAX, &bytes, &size);

	if (sent->ends)
		abort();
	if (r < 0)
		return r;
	copy = tracesmith__v1__reply__unpack(NULL, size - TS_FRAME_HEAD, bytes + TS_FRAME_HEAD);
	if (!copy)
		abort();
	tracesmith__v1__reply__free_unpacked(copy, NULL);
	free(bytes);
	sent->ends += reply->body_case == TRACESMITH__V1__REPLY__BODY_DONE ||
		      reply->body_case == TRACESMITH__V1__REPLY__BODY_ERROR;
	sent->replies++;
	return 0;
}

/* Long answers are cut off, so that the fuzzer stays fast. */
static bool on_cancelled(void *data)
{
	struct sent *sent = data;

	return sent->replies++ > 20;
}

static void answer(const Tracesmith__V1__Request *request)
{
	struct sent sent = { 0 };
	struct query_job job = {
		.request = request,
		.database = path,
		.boot_id = "boot",
		.now_ns = 1000 * 1000000000ull,
		.send = on_send,
		.cancelled = on_cancelled,
		.data = &sent,
	};

	query_run(&job);
	if (!sent.ends && sent.replies <= 20)
		abort();
}

/* The bytes as the statement of a request, which they would seldom become by chance. */
static void answer_sql(const uint8_t *data, size_t size)
{
	Tracesmith__V1__SqlRequest sql = TRACESMITH__V1__SQL_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	char *text = strndup((const char *)data, size);

	if (!text)
		abort();
	sql.text = text;
	request.id = 1;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_SQL;
	request.sql = &sql;
	answer(&request);
	free(text);
}

/* The first byte decides what the rest is. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Tracesmith__V1__Request *request;

	if (size < 1 || size > TS_FRAME_REQUEST_MAX)
		return 0;
	if (data[0] == 's') {
		answer_sql(data + 1, size - 1);
		return 0;
	}
	request = tracesmith__v1__request__unpack(NULL, size - 1, data + 1);
	if (!request)
		return 0;
	answer(request);
	tracesmith__v1__request__free_unpacked(request, NULL);
	return 0;
}
