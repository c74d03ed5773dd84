/* Buffer: the activity buffers that the client lends us, from the request to their return.
 * A buffer is in exactly one place: with its owner, closed, or given back. It is given back once,
 * and only when all its records are finished, unless it is forced. */
#include "fake_cupti.h"

#include <stdlib.h>
#include <string.h>

#define NULL_FORGIVEN 27 /* CUPTI 12.9 */

static __thread bool delivering;

size_t record_bytes(uint32_t kind)
{
	switch (kind) {
	case CUPTI_KIND_KERNEL:
	case CUPTI_KIND_CONCURRENT_KERNEL:
		return sizeof(struct cupti_kernel);
	case CUPTI_KIND_COPY:
		return sizeof(struct cupti_copy);
	case CUPTI_KIND_PEER_COPY:
		return sizeof(struct cupti_peer_copy);
	case CUPTI_KIND_SET:
		return sizeof(struct cupti_set);
	case CUPTI_KIND_DRIVER:
		return sizeof(struct cupti_api);
	case CUPTI_KIND_DEVICE:
		return sizeof(struct cupti_device);
	case CUPTI_KIND_CONTEXT:
		return sizeof(struct cupti_context);
	case CUPTI_KIND_STREAM:
		return sizeof(struct cupti_stream);
	case CUPTI_KIND_MARKER:
		return sizeof(struct cupti_marker);
	case CUPTI_KIND_MARKER_DATA:
		return sizeof(struct cupti_marker_data);
	case CUPTI_KIND_OVERHEAD:
		return sizeof(struct cupti_overhead);
	case CUPTI_KIND_CUDA_EVENT:
		return sizeof(struct cupti_event);
	case CUPTI_KIND_SYNC:
		return sizeof(struct cupti_sync);
	case CUPTI_KIND_EXTERNAL:
		return sizeof(struct cupti_external);
	case CUPTI_KIND_MEMORY2:
		return sizeof(struct cupti_memory);
	case CUPTI_KIND_POOL:
		return sizeof(struct cupti_pool);
	case CUPTI_KIND_GRAPH_TRACE:
		return sizeof(struct cupti_graph_trace);
	case CUPTI_KIND_ODD:
		return 2 * sizeof(struct cupti_kernel);
	default:
		return 0;
	}
}

static void buffer_close(struct owner *owner)
{
	struct buffer *buffer = owner->buffer;

	owner->buffer = NULL;
	buffer->next = NULL;
	buffer->ready_ns = cupti.odd.late_ns ? clock_ns() + cupti.odd.late_ns : 0;
	*cupti.closed_end = buffer;
	cupti.closed_end = &buffer->next;
}

static bool buffer_request(struct owner *owner)
{
	struct buffer *buffer;
	uint8_t *data = NULL;
	size_t size = 0, records_max = 0;

	if (!cupti.request)
		return false;
	cupti.request(&data, &size, &records_max);
	if (!data && cupti.version < NULL_FORGIVEN)
		cupti_abort("bufferRequested gave NULL, which crashes CUPTI before 12.9");
	if (!data)
		return false;
	if ((uintptr_t)data % 8)
		cupti_abort("bufferRequested gave a buffer that is not aligned to 8 bytes");
	buffer = calloc(1, sizeof(*buffer));
	if (!buffer)
		cupti_abort("out of memory");
	buffer->data = data;
	buffer->size = size;
	buffer->records_max = records_max;
	owner->buffer = buffer;
	return true;
}

static bool buffer_full(const struct buffer *buffer, size_t bytes)
{
	return buffer->used + bytes > buffer->size ||
	       (buffer->records_max && buffer->records == buffer->records_max);
}

static void *buffer_room(struct owner *owner, size_t bytes)
{
	struct buffer *buffer = owner->buffer;
	void *record;

	if (buffer && buffer_full(buffer, bytes)) {
		buffer_close(owner);
		if (!buffer->unfinished)
			worker_kick();
	}
	if (!owner->buffer && !buffer_request(owner))
		return NULL;
	buffer = owner->buffer;
	if (buffer_full(buffer, bytes))
		return NULL;
	record = buffer->data + buffer->used;
	memset(record, 0, bytes);
	buffer->used += bytes;
	buffer->records++;
	return record;
}

void *buffer_take(struct owner *owner, size_t bytes, struct buffer **where)
{
	struct cupti_record *strange;
	void *record;

	/* Without per-thread buffers all threads share the device's. */
	if (!cupti.per_thread)
		owner = &cupti.device;
	if (odd_unknown()) {
		strange = buffer_room(owner, record_bytes(CUPTI_KIND_ODD));
		if (strange)
			strange->kind = CUPTI_KIND_ODD;
	}
	record = odd_drops() ? NULL : buffer_room(owner, bytes);
	if (!record)
		atomic_fetch_add(&cupti.dropped, 1);
	else if (where)
		*where = owner->buffer;
	return record;
}

void buffer_put(struct owner *owner, const void *record, size_t bytes)
{
	void *room;

	pthread_mutex_lock(&cupti.lock);
	room = buffer_take(owner, bytes, NULL);
	if (room)
		memcpy(room, record, bytes);
	pthread_mutex_unlock(&cupti.lock);
}

void buffer_finish(struct buffer *buffer)
{
	if (--buffer->unfinished == 0 && buffer_full(buffer, 1))
		worker_kick();
}

static bool buffer_flushable(const struct owner *owner, bool forced)
{
	const struct buffer *buffer = owner->buffer;

	return buffer && (forced || (buffer->used && !buffer->unfinished));
}

/* Takes what can be given back out of the closed list. */
static struct buffer *buffers_ready(bool forced, bool now)
{
	struct buffer **link = &cupti.closed, *ready = NULL, **end = &ready;
	uint64_t time = cupti.odd.late_ns ? clock_ns() : 0;

	while (*link) {
		struct buffer *buffer = *link;

		if ((buffer->unfinished && !forced) || (buffer->ready_ns > time && !now)) {
			link = &buffer->next;
			continue;
		}
		*link = buffer->next;
		if (buffer->unfinished)
			records_forget(buffer);
		buffer->next = NULL;
		*end = buffer;
		end = &buffer->next;
	}
	cupti.closed_end = link;
	return ready;
}

static void buffers_give(struct buffer *list, cupti_complete_fn complete)
{
	struct buffer *next;

	for (struct buffer *buffer = list; buffer; buffer = next) {
		uint64_t start = clock_ns();

		next = buffer->next;
		if (cupti.odd.shuffle)
			odd_shuffle_records(buffer);
		if (complete)
			complete(NULL, 0, buffer->data, buffer->size, buffer->used);
		if (buffer->records)
			cupti_overhead(CUPTI_OVERHEAD_FLUSH, start, clock_ns());
		free(buffer);
	}
}

void buffers_deliver(bool partial, bool forced, bool now)
{
	cupti_complete_fn complete;
	struct buffer *list;

	if (delivering)
		return; /* from within bufferCompleted */
	pthread_mutex_lock(&cupti.delivery);
	pthread_mutex_lock(&cupti.lock);
	if (partial) {
		for (struct owner *o = cupti.owners; o; o = o->next)
			if (buffer_flushable(o, forced))
				buffer_close(o);
		if (buffer_flushable(&cupti.device, forced))
			buffer_close(&cupti.device);
		owners_sweep();
	}
	list = buffers_ready(forced, now);
	if (cupti.odd.shuffle)
		odd_shuffle_buffers(&list);
	complete = cupti.complete;
	pthread_mutex_unlock(&cupti.lock);
	delivering = true;
	buffers_give(list, complete);
	delivering = false;
	pthread_mutex_unlock(&cupti.delivery);
}

/* When the first of the late ones is due; without the lock. */
uint64_t buffers_next(void)
{
	uint64_t next = UINT64_MAX;

	pthread_mutex_lock(&cupti.lock);
	for (struct buffer *b = cupti.closed; b; b = b->next)
		if (!b->unfinished && b->ready_ns < next)
			next = b->ready_ns;
	pthread_mutex_unlock(&cupti.lock);
	return next;
}
