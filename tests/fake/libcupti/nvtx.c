/* NVTX: puts functions into the tables of an NVTX client (each library of a program has its own),
 * which make MARKER records. The numbers are those of NVTX 3. */
#include "fake_cupti.h"

#include <signal.h>

#define EXPORT_CALLBACKS 1
#define MODULE_CORE	 1
#define MODULE_CORE2	 5
#define DEPTH_MAX	 64
#define MESSAGE_ASCII	 1
#define MESSAGE_STRING	 3 /* one that was registered */
#define COLOR_ARGB	 1

typedef void (*nvtx_fn)(void);

struct nvtx_callbacks {
	size_t size;
	int (*table)(uint32_t module, nvtx_fn ***table, unsigned int *count);
};

struct nvtx_attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const char *message;
};

static _Atomic uint32_t marker_ids;
static __thread struct {
	uint32_t ids[DEPTH_MAX];
	const char *domains[DEPTH_MAX];
	int depth;
} pushed;

/* As the real one, which has no state to look into before it was set up. */
static void need_state(void)
{
	if (!atomic_load(&cupti.set_up))
		raise(SIGSEGV);
}

static const char *keep(const char *text)
{
	const char *kept;

	need_state();
	if (!text)
		return NULL;
	pthread_mutex_lock(&cupti.lock);
	kept = name_keep(text);
	pthread_mutex_unlock(&cupti.lock);
	return kept;
}

static const char *message_of(const struct nvtx_attributes *attributes)
{
	if (attributes->message_type != MESSAGE_ASCII && attributes->message_type != MESSAGE_STRING)
		return NULL;
	return keep(attributes->message);
}

static void mark(uint32_t flags, uint32_t id, const char *name, const char *domain)
{
	struct owner *self = owner_self();
	struct cupti_marker record = {
		.kind = CUPTI_KIND_MARKER,
		.flags = flags,
		.timestamp = clock_stamp(clock_ns()),
		.id = id,
		.object_kind = CUPTI_OBJECT_THREAD,
		.object.pt = { cupti.process, owner_thread(self) },
		.name = name,
		.domain = domain,
	};

	need_state();
	if (atomic_load(&cupti.attached) && kind_enabled(CUPTI_KIND_MARKER, CUPTI_NONE))
		buffer_put(self, &record, sizeof(record));
}

static void mark_data(uint32_t id, const struct nvtx_attributes *attributes)
{
	struct cupti_marker_data record = {
		.kind = CUPTI_KIND_MARKER_DATA,
		.flags = attributes->color_type == COLOR_ARGB ? CUPTI_COLOR_ARGB : CUPTI_COLOR_NONE,
		.id = id,
		.payload = attributes->payload,
		.color = attributes->color,
		.category = attributes->category,
	};

	if (atomic_load(&cupti.attached) && kind_enabled(CUPTI_KIND_MARKER_DATA, CUPTI_NONE))
		buffer_put(owner_self(), &record, sizeof(record));
}

static uint32_t next_id(void)
{
	return atomic_fetch_add(&marker_ids, 1) + 1;
}

static int range_push(const char *name, const char *domain, const struct nvtx_attributes *data)
{
	uint32_t id = next_id();

	if (atomic_load(&cupti.forked) || pushed.depth == DEPTH_MAX)
		return -1;
	pushed.ids[pushed.depth] = id;
	pushed.domains[pushed.depth] = domain;
	mark(CUPTI_MARKER_START, id, name, domain);
	if (data)
		mark_data(id, data);
	return pushed.depth++;
}

static int range_pop(void)
{
	if (atomic_load(&cupti.forked) || pushed.depth == 0)
		return -1;
	pushed.depth--;
	mark(CUPTI_MARKER_END, pushed.ids[pushed.depth], NULL, pushed.domains[pushed.depth]);
	return pushed.depth;
}

static void instant(const char *name, const char *domain, const struct nvtx_attributes *data)
{
	uint32_t id = next_id();

	if (atomic_load(&cupti.forked))
		return;
	mark(CUPTI_MARKER_INSTANT, id, name, domain);
	if (data)
		mark_data(id, data);
}

static uint64_t range_start(const char *name, const char *domain,
			    const struct nvtx_attributes *data)
{
	uint32_t id = next_id();

	if (atomic_load(&cupti.forked))
		return 0;
	mark(CUPTI_MARKER_START, id, name, domain);
	if (data)
		mark_data(id, data);
	return id;
}

static void impl_mark_ex(const struct nvtx_attributes *a)
{
	instant(message_of(a), NULL, a);
}

static void impl_mark(const char *text)
{
	instant(keep(text), NULL, NULL);
}

static uint64_t impl_start_ex(const struct nvtx_attributes *a)
{
	return range_start(message_of(a), NULL, a);
}

static uint64_t impl_start(const char *text)
{
	return range_start(keep(text), NULL, NULL);
}

static void impl_end(uint64_t id)
{
	if (!atomic_load(&cupti.forked))
		mark(CUPTI_MARKER_END, (uint32_t)id, NULL, NULL);
}

static int impl_push_ex(const struct nvtx_attributes *a)
{
	return range_push(message_of(a), NULL, a);
}

static int impl_push(const char *text)
{
	return range_push(keep(text), NULL, NULL);
}

static int impl_pop(void)
{
	return range_pop();
}

/* A domain's handle is its name. */
static void impl_domain_mark(const char *domain, const struct nvtx_attributes *a)
{
	instant(message_of(a), domain, a);
}

static uint64_t impl_domain_start(const char *domain, const struct nvtx_attributes *a)
{
	return range_start(message_of(a), domain, a);
}

static void impl_domain_end(const char *domain, uint64_t id)
{
	if (!atomic_load(&cupti.forked))
		mark(CUPTI_MARKER_END, (uint32_t)id, NULL, domain);
}

static int impl_domain_push(const char *domain, const struct nvtx_attributes *a)
{
	return range_push(message_of(a), domain, a);
}

static int impl_domain_pop(const char *domain)
{
	(void)domain;
	return range_pop();
}

static const char *impl_domain_create(const char *name)
{
	return keep(name);
}

static const char *impl_register_string(const char *domain, const char *text)
{
	(void)domain;
	return keep(text);
}

static const struct {
	uint32_t module, id;
	nvtx_fn fn;
} functions[] = {
	{ MODULE_CORE, 1, (nvtx_fn)impl_mark_ex },
	{ MODULE_CORE, 2, (nvtx_fn)impl_mark },
	{ MODULE_CORE, 4, (nvtx_fn)impl_start_ex },
	{ MODULE_CORE, 5, (nvtx_fn)impl_start },
	{ MODULE_CORE, 7, (nvtx_fn)impl_end },
	{ MODULE_CORE, 8, (nvtx_fn)impl_push_ex },
	{ MODULE_CORE, 9, (nvtx_fn)impl_push },
	{ MODULE_CORE, 11, (nvtx_fn)impl_pop },
	{ MODULE_CORE2, 1, (nvtx_fn)impl_domain_mark },
	{ MODULE_CORE2, 2, (nvtx_fn)impl_domain_start },
	{ MODULE_CORE2, 3, (nvtx_fn)impl_domain_end },
	{ MODULE_CORE2, 4, (nvtx_fn)impl_domain_push },
	{ MODULE_CORE2, 5, (nvtx_fn)impl_domain_pop },
	{ MODULE_CORE2, 10, (nvtx_fn)impl_register_string },
	{ MODULE_CORE2, 12, (nvtx_fn)impl_domain_create },
};

static int nvtx_take(void *get)
{
	const void *(*export)(uint32_t) = (const void *(*)(uint32_t))get;
	const struct nvtx_callbacks *callbacks = export ? export(EXPORT_CALLBACKS) : NULL;
	unsigned int count;
	nvtx_fn **table;

	if (!callbacks || callbacks->size < sizeof(*callbacks))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		if (!callbacks->table(functions[i].module, &table, &count))
			return 0;
		if (functions[i].id < count && table[functions[i].id])
			*table[functions[i].id] = functions[i].fn;
	}
	return 1;
}

/* For a client of ours that is NVTX's injection itself, and passes on what it was given. */
int cuptiNvtxInitialize(void *exports)
{
	cupti_begin(__func__);
	return nvtx_take(exports) ? CUPTI_OK : CUPTI_E_INVALID_PARAMETER;
}

int cuptiNvtxInitialize2(void *exports)
{
	cupti_begin(__func__);
	return nvtx_take(exports) ? CUPTI_OK : CUPTI_E_INVALID_PARAMETER;
}

/* For NVTX_INJECTION64_PATH that names CUPTI. Sets it up, as cuptiNvtxInitialize2() does not. */
int InitializeInjectionNvtx(void *exports)
{
	cupti_begin(__func__);
	atomic_store(&cupti.set_up, true);
	return nvtx_take(exports);
}

int InitializeInjectionNvtx2(void *exports)
{
	cupti_begin(__func__);
	atomic_store(&cupti.set_up, true);
	return nvtx_take(exports);
}
