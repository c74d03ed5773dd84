/* Live: what devices and processes do, put together from messages that say what has changed. Who is
 * not in a message has done nothing; who has gone is forgotten. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/library/session.h"

/* More than the daemon reports. */
#define THINGS_MAX 16384

typedef Tracesmith__V1__LiveReply__Device device_message;
typedef Tracesmith__V1__LiveReply__Process process_message;

/* Messages that replies have given away: of devices, or of processes. */
struct things {
	ProtobufCMessage **message;
	size_t count;
};

struct live {
	struct things devices, processes;
};

static void things_clear(struct things *things)
{
	for (size_t i = 0; i < things->count; i++)
		protobuf_c_message_free_unpacked(things->message[i], NULL);
	free(things->message);
	*things = (struct things){ 0 };
}

struct live *live_free(struct live *live)
{
	if (!live)
		return NULL;
	things_clear(&live->devices);
	things_clear(&live->processes);
	free(live);
	return NULL;
}

static bool same_device(const ProtobufCMessage *one, const ProtobufCMessage *other)
{
	const device_message *a = (const void *)one, *b = (const void *)other;

	return a->device == b->device && strcmp(a->uuid, b->uuid) == 0;
}

static bool same_process(const ProtobufCMessage *one, const ProtobufCMessage *other)
{
	return ((const process_message *)one)->id == ((const process_message *)other)->id;
}

static void rest_states(Tracesmith__V1__LiveReply__States *states)
{
	if (states)
		tracesmith__v1__live_reply__states__init(states);
}

static void rest_calls(Tracesmith__V1__LiveReply__Calls *calls)
{
	if (calls)
		tracesmith__v1__live_reply__calls__init(calls);
}

static void rest(struct live *live)
{
	for (size_t i = 0; i < live->devices.count; i++) {
		device_message *device = (device_message *)live->devices.message[i];

		rest_calls(device->calls);
		rest_states(device->states);
	}
	for (size_t i = 0; i < live->processes.count; i++) {
		process_message *process = (process_message *)live->processes.message[i];

		rest_calls(process->calls);
		process->lost = 0;
		for (size_t use = 0; use < process->n_use; use++)
			rest_states(process->use[use]->states);
	}
}

/* Takes the messages out of `from`, each in the place of an older one of the same. */
static int things_take(struct things *things, ProtobufCMessage **from, size_t count,
		       bool (*same)(const ProtobufCMessage *, const ProtobufCMessage *))
{
	ProtobufCMessage **grown;
	size_t place;

	if (things->count + count > THINGS_MAX)
		return -EPROTO;
	grown = reallocarray(things->message, things->count + count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	things->message = grown;
	for (size_t i = 0; i < count; i++) {
		for (place = 0; place < things->count; place++)
			if (same(things->message[place], from[i]))
				break;
		if (place < things->count)
			protobuf_c_message_free_unpacked(things->message[place], NULL);
		else
			things->count++;
		things->message[place] = TAKE(from[i]);
	}
	return 0;
}

static void forget(struct things *processes, uint32_t id)
{
	for (size_t i = 0; i < processes->count; i++) {
		if (((process_message *)processes->message[i])->id != id)
			continue;
		protobuf_c_message_free_unpacked(processes->message[i], NULL);
		processes->message[i] = processes->message[--processes->count];
		return;
	}
}

static int apply(struct live *live, Tracesmith__V1__LiveReply *reply)
{
	const size_t devices = reply->n_device, processes = reply->n_process;
	int r;

	if (reply->whole) {
		things_clear(&live->devices);
		things_clear(&live->processes);
	}
	rest(live);
	reply->n_device = reply->n_process = 0; /* what is not taken is freed here */
	r = things_take(&live->devices, (ProtobufCMessage **)reply->device, devices, same_device);
	if (r == 0)
		r = things_take(&live->processes, (ProtobufCMessage **)reply->process, processes,
				same_process);
	reply->n_device = devices;
	reply->n_process = processes;
	for (size_t i = 0; r == 0 && i < reply->n_gone; i++)
		forget(&live->processes, reply->gone[i]);
	return r;
}

EXPORT int tracesmith_subscribe(struct tracesmith *ts)
{
	Tracesmith__V1__SubscribeRequest subscribe = TRACESMITH__V1__SUBSCRIBE_REQUEST__INIT;
	int r;

	if (!ts)
		return TRACESMITH_BAD_REQUEST;
	r = session_send(ts, &subscribe.base);
	if (r < 0)
		return r;
	ts->live = calloc(1, sizeof(*ts->live));
	return ts->live ? 0 : session_lost(ts, -ENOMEM);
}

EXPORT int tracesmith_next(struct tracesmith *ts)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	int r;

	if (!ts)
		return TRACESMITH_BAD_REQUEST;
	if (!ts->live)
		return session_fail(ts, TRACESMITH_BAD_REQUEST, "The connection is not subscribed");
	if (session_foreign(ts))
		return TRACESMITH_BAD_REQUEST;
	connection_until(&ts->connection, session_until(ts));
	r = session_next(ts, &reply);
	if (r < 0)
		return r;
	if (reply->body_case != TRACESMITH__V1__REPLY__BODY_LIVE)
		return session_lost(ts, -EPROTO);
	r = apply(ts->live, reply->live);
	return r < 0 ? session_lost(ts, r) : 0;
}

static int uses(const struct things *processes, struct tracesmith_answer **ret)
{
	_cleanup_(freep) const ProtobufCMessage **message = NULL;
	_cleanup_(freep) uint32_t *id = NULL;
	struct answer_key key = { .name = "process" };
	size_t count = 0;

	for (size_t i = 0; i < processes->count; i++)
		count += ((process_message *)processes->message[i])->n_use;
	message = calloc(count + 1, sizeof(*message));
	key.value = id = calloc(count + 1, sizeof(*id));
	if (!message || !id)
		return -ENOMEM;
	count = 0;
	for (size_t i = 0; i < processes->count; i++) {
		const process_message *process = (process_message *)processes->message[i];

		for (size_t use = 0; use < process->n_use; use++) {
			id[count] = process->id;
			message[count++] = &process->use[use]->base;
		}
	}
	return answer_of_messages(&tracesmith__v1__live_reply__use__descriptor, message, count,
				  &key, ret);
}

static int table(const struct things *things, const ProtobufCMessageDescriptor *descriptor,
		 struct tracesmith_answer **ret)
{
	return answer_of_messages(descriptor, (const ProtobufCMessage *const *)things->message,
				  things->count, NULL, ret);
}

EXPORT int tracesmith_live(struct tracesmith *ts, enum tracesmith_live what,
			   struct tracesmith_answer **ret)
{
	int r;

	if (!ts)
		return TRACESMITH_BAD_REQUEST;
	if (!ts->live)
		return session_fail(ts, TRACESMITH_BAD_REQUEST, "The connection is not subscribed");
	switch (what) {
	case TRACESMITH_DEVICES:
		r = table(&ts->live->devices, &tracesmith__v1__live_reply__device__descriptor, ret);
		break;
	case TRACESMITH_PROCESSES:
		r = table(&ts->live->processes, &tracesmith__v1__live_reply__process__descriptor,
			  ret);
		break;
	case TRACESMITH_USES:
		r = uses(&ts->live->processes, ret);
		break;
	default:
		return session_fail(ts, TRACESMITH_BAD_REQUEST, "Unknown table");
	}
	return r < 0 ? session_no_memory(ts) : 0;
}
