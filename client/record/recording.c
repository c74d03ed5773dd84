/* Recording: asks, and copies the answer to the file unchanged; only chunks that extend beyond the
 * window are decoded. The cursor moves with each chunk, so that an interrupted answer continues
 * where it stopped. */
#include "client/record/recording.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/base/complain.h"
#include "client/record/ask.h"
#include "client/trace/show.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/time.h"
#include "core/base/vector.h"

#define ASK_NS	 NS_PER_S
#define DIAL_NS	 NS_PER_S
#define HOST_MAX 256
#define PIDS_MAX 4096 /* of text; the rest is in the table `process` */

uint64_t recording_now(const struct recording *recording)
{
	return clock_ns(CLOCK_MONOTONIC) + recording->clock_offset_ns;
}

static void take_link(struct recording *recording, struct link *link)
{
	link_free(recording->link);
	recording->link = link;
	recording->hello = link_hello(link);
	recording->clock_offset_ns =
		(int64_t)(recording->hello->now_ns - clock_ns(CLOCK_MONOTONIC));
}

int recording_open(const struct options *options, struct recording *ret)
{
	struct link *link;
	int r;

	*ret = (struct recording){ 0 };
	tracesmith__v1__record_cursor__init(&ret->cursor);
	ret->op = calloc(SBT_OPS_MAX, sizeof(*ret->op));
	if (!ret->op || sbt_codec_new(&ret->codec) < 0) {
		complain_memory();
		return -ENOMEM;
	}
	r = link_open(options, &link);
	if (r < 0)
		return r;
	take_link(ret, link);
	return 0;
}

void recording_done(struct recording *recording)
{
	reply_free(recording->end);
	record_file_free(recording->file);
	sbt_codec_free(recording->codec);
	link_free(recording->link);
	free(recording->pid);
	free(recording->op);
	*recording = (struct recording){ 0 };
}

static int cut_chunk(struct recording *recording, const ProtobufCBinaryData *chunk)
{
	const void *data;
	struct sbt_info info;
	size_t count, size;
	int r = sbt_decode(recording->codec, chunk->data, chunk->len, SBT_ALL_COLUMNS,
			   recording->op, &info);

	if (r == -ENOMEM)
		complain_memory();
	else if (r < 0)
		complain("The answer is damaged: a chunk of operations cannot be read");
	if (r < 0)
		return r;
	count = show_keep_window(recording->op, info.count, recording->since_ns,
				 recording->until_ns ? recording->until_ns : UINT64_MAX);
	if (count == 0)
		return 0;
	r = sbt_encode(recording->codec, recording->op, count, &data, &size);
	if (r < 0) {
		complain_memory();
		return r;
	}
	recording->ops += count;
	return record_file_add(recording->file, SBT_BLOCK_OPS, data, size);
}

static int take_ops(struct recording *recording, const Tracesmith__V1__Chunk *chunk)
{
	struct sbt_info info;
	int r = sbt_peek(chunk->data.data, chunk->data.len, &info);

	if (r == 0 && info.first_ns >= recording->since_ns &&
	    (!recording->until_ns || info.last_ns < recording->until_ns)) {
		recording->ops += info.count;
		return record_file_add(recording->file, SBT_BLOCK_OPS, chunk->data.data,
				       chunk->data.len);
	}
	return cut_chunk(recording, &chunk->data);
}

static void list_pids(const struct recording *recording, char *text, size_t size)
{
	size_t at = 0, n;

	text[0] = '\0';
	for (size_t i = 0; i < recording->pid_count; i++, at += n) {
		n = snprintf(text + at, size - at, "%s%" PRIu32, i ? " " : "", recording->pid[i]);
		if (n < size - at)
			continue;
		text[at] = '\0'; /* half a number is a wrong number */
		break;
	}
}

/* The tables that change. */
static int add_facts(struct recording *recording, bool complete)
{
	uint64_t now_ns = recording_now(recording);
	bool over = recording->until_ns && recording->until_ns < now_ns;
	char pids[PIDS_MAX];
	const struct record_fact facts[] = {
		{ .key = "until_ns", .number = over ? recording->until_ns : now_ns },
		{ .key = "told_ns", .number = recording->told_ns },
		{ .key = "complete", .number = complete },
		{ .key = "pids", .text = pids },
	};

	list_pids(recording, pids, sizeof(pids));
	return record_file_facts(recording->file, facts, ARRAY_SIZE(facts) - recording->all);
}

/* Not before the daemon has answered, since it may refuse. */
static int start(struct recording *recording)
{
	char host[HOST_MAX] = "";
	const struct record_fact facts[] = {
		{ .key = "since_ns", .number = recording->since_ns },
		{ .key = "wall_offset_ns", .number = recording->hello->wall_offset_ns },
		{ .key = "boot_id", .text = recording->hello->boot_id },
		{ .key = "host", .text = host },
		{ .key = "version", .text = recording->hello->version },
		{ .key = "made_by", .text = "tsctl " TS_VERSION },
		{ .key = "command", .text = recording->command },
	};
	int r;

	if (recording->started)
		return 0;
	recording->started = true;
	recording->told_ns = recording_now(recording);
	gethostname(host, sizeof(host) - 1);
	r = record_file_facts(recording->file, facts, ARRAY_SIZE(facts) - !recording->command);
	return r < 0 ? r : add_facts(recording, false);
}

/* `cursor`: NULL if the answer is about the past. */
static int take_chunk(struct recording *recording, const Tracesmith__V1__Chunk *chunk,
		      Tracesmith__V1__RecordCursor *cursor)
{
	int r = start(recording);

	if (r < 0)
		return r;
	if (chunk->type != SBT_BLOCK_OPS)
		return record_file_add(recording->file, chunk->type, chunk->data.data,
				       chunk->data.len);
	r = take_ops(recording, chunk);
	recording->chunks++;
	if (r == 0 && cursor) {
		cursor->batch = chunk->batch;
		cursor->chunk = chunk->id;
	}
	return r;
}

static void take_done(struct recording *recording, Tracesmith__V1__Reply *end)
{
	const Tracesmith__V1__Done *done = end->done;

	recording->lost = 0;
	for (size_t i = 0; i < done->n_loss; i++) {
		recording->lost += done->loss[i]->count;
		if (strcmp(done->loss[i]->reason, "behind") == 0)
			recording->behind += done->loss[i]->count;
	}
	reply_free(recording->end);
	recording->end = end;
}

struct asking {
	struct recording *recording;
	const struct link *link;
	Tracesmith__V1__RecordCursor *cursor;
};

static int take(void *data, const Tracesmith__V1__Reply *reply)
{
	const struct asking *asking = data;
	struct recording *recording = asking->recording;
	int r = 0;

	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_CHUNK)
		r = take_chunk(recording, reply->chunk, asking->cursor);
	/* A long past must not delay the present, which would be merged by then. */
	if (r == 0 && asking->link != recording->link &&
	    clock_ns(CLOCK_MONOTONIC) - recording->asked_ns > ASK_NS)
		r = recording_ask(recording, false);
	return r;
}

static int converse(struct recording *recording, struct link *link,
		    Tracesmith__V1__RecordRequest *body)
{
	struct asking asking = { recording, link, body->cursor };
	Tracesmith__V1__Reply *end = NULL;
	int r;

	body->since_ns = recording->since_ns;
	body->until_ns = recording->until_ns;
	r = link_converse(link, &body->base, take, &asking, &end);
	if (r == 0)
		take_done(recording, end);
	return r;
}

/* The part of it before the cursor. */
static int ask_past(struct recording *recording, struct link *link, uint32_t *pid, size_t pid_count,
		    bool last)
{
	Tracesmith__V1__RecordRequest body = TRACESMITH__V1__RECORD_REQUEST__INIT;

	body.pid = pid;
	body.n_pid = pid_count;
	body.last = last;
	if (!last)
		body.before_batch = recording->cursor.batch + 1;
	return converse(recording, link, &body);
}

int recording_ask(struct recording *recording, bool last)
{
	Tracesmith__V1__RecordRequest body = TRACESMITH__V1__RECORD_REQUEST__INIT;
	const Tracesmith__V1__RecordCursor *told;
	int r;

	recording->chunks = 0;
	recording->asked_ns = clock_ns(CLOCK_MONOTONIC);
	if (!recording->all && recording->pid_count == 0)
		return 0;
	if (!recording->live)
		return ask_past(recording, recording->link, recording->pid, recording->pid_count,
				last);
	body.pid = recording->pid;
	body.n_pid = recording->pid_count;
	body.last = last;
	body.cursor = &recording->cursor;
	r = converse(recording, recording->link, &body);
	if (r != 0)
		return r;
	told = recording->end->done->cursor;
	if (told) {
		recording->cursor.batch = told->batch;
		recording->cursor.chunk = told->chunk;
		recording->cursor.told_ns = told->told_ns;
	}
	return add_facts(recording, false);
}

int recording_add_pid(struct recording *recording, uint32_t pid)
{
	if (VECTOR_ROOM(recording->pid, recording->pid_room, recording->pid_count + 1) < 0) {
		complain_memory();
		return -ENOMEM;
	}
	recording->pid[recording->pid_count++] = pid;
	return recording->live ? ask_past(recording, recording->link, &pid, 1, false) : 0;
}

int recording_begin(struct recording *recording, const struct options *options)
{
	_cleanup_(link_freep) struct link *past = NULL;
	int r = record_ask_cursor(recording->link, &recording->cursor, &recording->boot);

	recording->live = true;
	if (r < 0)
		return r;
	if (!recording->all && recording->pid_count == 0)
		return start(recording);
	recording->asked_ns = clock_ns(CLOCK_MONOTONIC);
	r = link_open(options, &past);
	return r < 0 ? r : ask_past(recording, past, recording->pid, recording->pid_count, false);
}

int recording_end(struct recording *recording, bool complete)
{
	const struct core_loss behind = { .start_ns = recording->since_ns,
					  .end_ns = recording_now(recording),
					  .reason = LOSS_BEHIND,
					  .count = recording->behind };
	int r = start(recording);

	if (r == 0 && recording->behind)
		r = record_file_loss(recording->file, recording->boot, &behind);
	if (r == 0)
		r = add_facts(recording, complete);
	return r < 0 ? r : record_file_end(recording->file);
}

static int try_connect(const char *path)
{
	_cleanup_(closep) int fd = connection_dial(path, SOCK_STREAM, DIAL_NS);

	return fd < 0 ? -ECONNREFUSED : 0;
}

int recording_open_again(const struct options *options, struct recording *recording)
{
	char boot_id[sizeof(recording->hello->boot_id)];
	struct link *link;
	int r = try_connect(options->socket);

	if (r < 0)
		return r;
	memcpy(boot_id, recording->hello->boot_id, sizeof(boot_id));
	r = link_open(options, &link);
	if (r < 0)
		return r;
	take_link(recording, link);
	if (strcmp(boot_id, recording->hello->boot_id) == 0)
		return 0;
	complain("The daemon answers from another boot now");
	return -ESTALE;
}
