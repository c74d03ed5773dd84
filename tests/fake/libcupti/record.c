/* Record: kernels, copies, sets and graph launches. Room is taken when the work is queued, in the
 * buffer of the thread that did it, and filled in when the GPU has ended it; nodes of graphs get
 * theirs at the end, in the device's buffer. With GRAPH_TRACE a graph has one record and no nodes.
 */
#include "fake_cupti.h"

#include <stdlib.h>
#include <string.h>

#define PENDING_BUCKETS 4096
#define NAME_BUCKETS	4096
#define NAME_CACHE	256
#define CONTEXT_RULES	64
#define REGISTERS	32 /* of every kernel, as cuFuncGetAttribute says */
#define CHANNEL_COMPUTE 1
#define CHANNEL_COPY	2

struct pending {
	struct pending *next;
	uint32_t correlation;
	void *record; /* NULL: its buffer was given back by force */
	struct buffer *buffer;
};

struct name {
	struct name *next;
	char text[];
};

static struct pending *pending_table[PENDING_BUCKETS], *pending_free;
static struct name *names[NAME_BUCKETS];
static struct {
	const char *from, *kept;
} name_cache[NAME_CACHE];
static struct {
	uint32_t context, kind;
	_Atomic bool enable;
} rules[CONTEXT_RULES];
static _Atomic uint32_t rules_count;

bool kind_enabled(uint32_t kind, uint32_t context)
{
	bool enabled = atomic_load_explicit(&cupti.kinds[kind], memory_order_relaxed);

	for (uint32_t i = 0; i < atomic_load(&rules_count); i++)
		if (rules[i].context == context && rules[i].kind == kind)
			enabled = rules[i].enable;
	return enabled;
}

/* With the lock held. */
bool kind_context(uint32_t context, uint32_t kind, bool enable)
{
	uint32_t i, count = atomic_load(&rules_count);

	for (i = 0; i < count; i++)
		if (rules[i].context == context && rules[i].kind == kind)
			break;
	if (i == CONTEXT_RULES)
		return false;
	rules[i].context = context;
	rules[i].kind = kind;
	rules[i].enable = enable;
	if (i == count)
		atomic_store(&rules_count, count + 1);
	return true;
}

bool kinds_any(void)
{
	for (size_t i = 0; i < CUPTI_KIND_COUNT; i++)
		if (atomic_load(&cupti.kinds[i]))
			return true;
	for (size_t i = 0; i < CBID_COUNT; i++)
		if (atomic_load(&cupti.driver_calls[i]))
			return true;
	return false;
}

static uint32_t name_hash(const char *text)
{
	uint32_t hash = 2166136261u;

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * 16777619u;
	return hash % NAME_BUCKETS;
}

/* A copy that stays, as CUPTI's names do. With the lock held. */
const char *name_keep(const char *text)
{
	size_t slot = ((uintptr_t)text >> 4) % NAME_CACHE;
	struct name **bucket, *name;

	if (name_cache[slot].from == text && strcmp(name_cache[slot].kept, text) == 0)
		return name_cache[slot].kept;
	bucket = &names[name_hash(text)];
	for (name = *bucket; name; name = name->next)
		if (strcmp(name->text, text) == 0)
			break;
	if (!name) {
		name = malloc(sizeof(*name) + strlen(text) + 1);
		if (!name)
			cupti_abort("out of memory");
		strcpy(name->text, text);
		name->next = *bucket;
		*bucket = name;
	}
	name_cache[slot].from = text;
	name_cache[slot].kept = name->text;
	return name->text;
}

/* --- what waits for its end --- */

static void pending_add(uint32_t correlation, void *record, struct buffer *buffer)
{
	struct pending **bucket = &pending_table[correlation % PENDING_BUCKETS];
	struct pending *pending = pending_free;

	if (pending)
		pending_free = pending->next;
	else
		pending = malloc(sizeof(*pending));
	if (!pending)
		cupti_abort("out of memory");
	pending->correlation = correlation;
	pending->record = record;
	pending->buffer = buffer;
	pending->next = *bucket;
	*bucket = pending;
	buffer->unfinished++;
}

/* True: it was waited for. *record is NULL if its buffer is gone. */
static bool pending_remove(uint32_t correlation, void **record, struct buffer **buffer)
{
	struct pending **link = &pending_table[correlation % PENDING_BUCKETS], *pending;

	while (*link && (*link)->correlation != correlation)
		link = &(*link)->next;
	pending = *link;
	if (!pending)
		return false;
	*link = pending->next;
	*record = pending->record;
	*buffer = pending->buffer;
	pending->next = pending_free;
	pending_free = pending;
	return true;
}

void records_forget(const struct buffer *buffer)
{
	for (size_t i = 0; i < PENDING_BUCKETS; i++)
		for (struct pending *p = pending_table[i]; p; p = p->next)
			if (p->buffer == buffer) {
				p->record = NULL;
				p->buffer = NULL;
			}
}

/* Of what was queued before a detach nobody tells us the end; rules for contexts end as well. */
void records_clear(void)
{
	for (size_t i = 0; i < PENDING_BUCKETS; i++) {
		while (pending_table[i]) {
			struct pending *next = pending_table[i]->next;

			pending_table[i]->next = pending_free;
			pending_free = pending_table[i];
			pending_table[i] = next;
		}
	}
	atomic_store(&rules_count, 0);
}

/* --- the records --- */

static bool call_is_async(const struct frame *frame)
{
	return frame && strstr(frame->call->name, "Async");
}

static void fill_kernel(struct cupti_kernel *record, const struct fake_op_info *op)
{
	bool concurrent = kind_enabled(CUPTI_KIND_CONCURRENT_KERNEL, op->context_id);

	record->kind = concurrent ? CUPTI_KIND_CONCURRENT_KERNEL : CUPTI_KIND_KERNEL;
	record->registers = REGISTERS;
	record->device = (uint32_t)op->device;
	record->context = op->context_id;
	record->stream = op->stream_id;
	for (size_t i = 0; i < 3; i++) {
		record->grid[i] = (int32_t)op->grid[i];
		record->block[i] = (int32_t)op->block[i];
	}
	record->dynamic_shared = (int32_t)op->shared_bytes;
	record->shared_executed = op->shared_bytes;
	record->correlation = op->correlation;
	record->grid_id = op->correlation;
	record->name = name_keep(op->name);
	record->node = op->node_id;
	record->graph = op->graph_id;
	record->channel_type = CHANNEL_COMPUTE;
}

/* Of the calls that name their sides in order: to, from. */
static void fill_sides(const struct fake_op_info *op, uint8_t *src, uint8_t *dst,
		       uint32_t *src_device, uint32_t *dst_device)
{
	const struct frame *frame = op->node_id ? NULL : call_current();
	bool to_host = op->copy_kind == FAKE_COPY_DTOH || op->copy_kind == FAKE_COPY_HTOH;
	bool from_host = op->copy_kind == FAKE_COPY_HTOD || op->copy_kind == FAKE_COPY_HTOH;
	bool linear = frame && frame->call->args_count >= 3;
	bool peer = frame && strncmp(frame->call->name, "cuMemcpyPeer", 12) == 0;
	uint64_t to = linear ? frame->call->args[0] : 0;
	uint64_t from = linear ? frame->call->args[peer ? 2 : 1] : 0;

	*dst = memory_kind(to, dst_device, to_host);
	*src = memory_kind(from, src_device, from_host);
}

static uint8_t copy_kind(enum fake_copy_kind kind)
{
	static const uint8_t kinds[] = {
		[FAKE_COPY_ANY] = 0,  [FAKE_COPY_HTOD] = 1, [FAKE_COPY_DTOH] = 2,
		[FAKE_COPY_DTOD] = 8, [FAKE_COPY_HTOH] = 9, [FAKE_COPY_PTOP] = 10,
	};

	return kinds[kind];
}

static void fill_copy(struct cupti_copy *record, const struct fake_op_info *op)
{
	uint32_t device = (uint32_t)op->device;

	record->kind = CUPTI_KIND_COPY;
	record->copy_kind = copy_kind(op->copy_kind);
	fill_sides(op, &record->src_kind, &record->dst_kind, &device, &device);
	record->flags = call_is_async(call_current()) ? CUPTI_FLAG_ASYNC : 0;
	record->bytes = op->bytes;
	record->device = (uint32_t)op->device;
	record->context = op->context_id;
	record->stream = op->stream_id;
	record->correlation = op->correlation;
	record->node = op->node_id;
	record->graph = op->graph_id;
	record->channel_type = CHANNEL_COPY;
#if FAKE_CUPTI_MAJOR >= 13
	record->copies = 1;
#endif
}

static void fill_peer(struct cupti_peer_copy *record, const struct fake_op_info *op)
{
	uint32_t src = (uint32_t)op->device, dst = (uint32_t)op->device;

	record->kind = CUPTI_KIND_PEER_COPY;
	record->copy_kind = copy_kind(op->copy_kind);
	fill_sides(op, &record->src_kind, &record->dst_kind, &src, &dst);
	record->flags = call_is_async(call_current()) ? CUPTI_FLAG_ASYNC : 0;
	record->bytes = op->bytes;
	record->device = (uint32_t)op->device;
	record->context = op->context_id;
	record->stream = op->stream_id;
	record->src_device = src;
	record->dst_device = dst;
	record->src_context = op->context_id;
	record->dst_context = op->context_id;
	record->correlation = op->correlation;
	record->node = op->node_id;
	record->graph = op->graph_id;
	record->channel_type = CHANNEL_COPY;
}

static void fill_set(struct cupti_set *record, const struct fake_op_info *op)
{
	record->kind = CUPTI_KIND_SET;
	record->value = (uint32_t)op->value;
	record->bytes = op->bytes;
	record->device = (uint32_t)op->device;
	record->context = op->context_id;
	record->stream = op->stream_id;
	record->correlation = op->correlation;
	record->flags = call_is_async(call_current()) ? CUPTI_FLAG_ASYNC : 0;
	record->memory_kind = CUPTI_MEMORY_DEVICE;
	record->node = op->node_id;
	record->graph = op->graph_id;
	record->channel_type = CHANNEL_COMPUTE;
}

static void fill_graph(struct cupti_graph_trace *record, const struct fake_op_info *op)
{
	record->kind = CUPTI_KIND_GRAPH_TRACE;
	record->correlation = op->correlation;
	record->device = (uint32_t)op->device;
	record->graph = op->graph_id;
	record->context = op->context_id;
	record->stream = op->stream_id;
#if FAKE_CUPTI_MAJOR >= 13
	record->end_device = (uint32_t)op->device;
	record->end_context = op->context_id;
#endif
}

/* The kind of record that an operation gets now, or 0. The device does nothing for a copy or set of
 * nothing. */
static uint32_t record_kind(const struct fake_op_info *op)
{
	uint32_t kind = 0;

	if ((op->kind == FAKE_OP_COPY || op->kind == FAKE_OP_SET) && !op->bytes)
		return 0;
	switch (op->kind) {
	case FAKE_OP_KERNEL:
		kind = kind_enabled(CUPTI_KIND_CONCURRENT_KERNEL, op->context_id)
			       ? CUPTI_KIND_CONCURRENT_KERNEL
			       : CUPTI_KIND_KERNEL;
		break;
	case FAKE_OP_COPY:
		kind = op->copy_kind == FAKE_COPY_PTOP ? CUPTI_KIND_PEER_COPY : CUPTI_KIND_COPY;
		break;
	case FAKE_OP_SET:
		kind = CUPTI_KIND_SET;
		break;
	case FAKE_OP_GRAPH:
		kind = CUPTI_KIND_GRAPH_TRACE;
		break;
	default:
		return 0;
	}
	return kind_enabled(kind, op->context_id) ? kind : 0;
}

static void record_fill(void *record, uint32_t kind, const struct fake_op_info *op)
{
	switch (kind) {
	case CUPTI_KIND_COPY:
		fill_copy(record, op);
		break;
	case CUPTI_KIND_PEER_COPY:
		fill_peer(record, op);
		break;
	case CUPTI_KIND_SET:
		fill_set(record, op);
		break;
	case CUPTI_KIND_GRAPH_TRACE:
		fill_graph(record, op);
		break;
	default:
		fill_kernel(record, op);
	}
}

/* True: it has to come twice. */
static bool record_stamp(void *data, const struct fake_op_info *op)
{
	uint64_t start = clock_stamp(op->start_ns), end = clock_stamp(op->end_ns);
	uint32_t kind = ((struct cupti_record *)data)->kind;
	bool twice = false;

	if (op->kind == FAKE_OP_KERNEL)
		twice = odd_kernel(&start, &end);
	if (kind == CUPTI_KIND_COPY) {
		((struct cupti_copy *)data)->start = start;
		((struct cupti_copy *)data)->end = end;
	} else if (kind == CUPTI_KIND_PEER_COPY) {
		((struct cupti_peer_copy *)data)->start = start;
		((struct cupti_peer_copy *)data)->end = end;
	} else if (kind == CUPTI_KIND_SET) {
		((struct cupti_set *)data)->start = start;
		((struct cupti_set *)data)->end = end;
	} else if (kind == CUPTI_KIND_GRAPH_TRACE) {
		((struct cupti_graph_trace *)data)->start = start;
		((struct cupti_graph_trace *)data)->end = end;
	} else {
		((struct cupti_kernel *)data)->start = start;
		((struct cupti_kernel *)data)->end = end;
		((struct cupti_kernel *)data)->completed = end;
	}
	return twice;
}

void record_queued(const struct fake_op_info *op)
{
	struct buffer *buffer;
	struct owner *self;
	uint32_t kind;
	void *record;

	if (atomic_load(&cupti.forked) || !op->correlation)
		return;
	if (op->kind == FAKE_OP_GRAPH)
		atomic_store(&cupti.graphs, true);
	kind = record_kind(op);
	if (!kind)
		return;
	self = owner_self();
	pthread_mutex_lock(&cupti.lock);
	record = buffer_take(self, record_bytes(kind), &buffer);
	if (record) {
		record_fill(record, kind, op);
		pending_add(op->correlation, record, buffer);
	}
	pthread_mutex_unlock(&cupti.lock);
}

/* A node of a graph: nobody knew of it before. */
static void record_node(const struct fake_op_info *op)
{
	uint32_t kind = record_kind(op);
	void *record;

	if (!kind || kind_enabled(CUPTI_KIND_GRAPH_TRACE, op->context_id))
		return;
	record = buffer_take(&cupti.device, record_bytes(kind), NULL);
	if (!record)
		return;
	record_fill(record, kind, op);
	if (record_stamp(record, op)) {
		void *again = buffer_take(&cupti.device, record_bytes(kind), NULL);

		if (again)
			memcpy(again, record, record_bytes(kind));
	}
}

void record_end(const struct fake_op_info *op)
{
	struct buffer *buffer;
	void *record;

	if (atomic_load(&cupti.forked) || !op->correlation)
		return;
	pthread_mutex_lock(&cupti.lock);
	if (op->graph_id && op->kind != FAKE_OP_GRAPH) {
		record_node(op);
	} else if (pending_remove(op->correlation, &record, &buffer) && record) {
		size_t bytes = record_bytes(((struct cupti_record *)record)->kind);
		bool twice = record_stamp(record, op);
		void *again = twice ? buffer_take(&cupti.device, bytes, NULL) : NULL;

		if (again)
			memcpy(again, record, bytes);
		buffer_finish(buffer);
	}
	pthread_mutex_unlock(&cupti.lock);
}
