/* Call: what happens at the start and the end of each driver call while we are attached: the
 * callbacks of the subscriber, and the records of the call itself. */
#include "fake_cupti.h"

static const uint32_t call_ids[FAKE_FN_COUNT] = {
#define CBID(function, number) [FAKE_FN_##function] = number,
#include "cbid.def"
};

static __thread struct owner *call_owner; /* of the call that is being made */

const struct frame *call_current(void)
{
	if (!call_owner || !call_owner->depth)
		return NULL;
	return &call_owner->frames[call_owner->depth - 1];
}

static void call_tell(struct owner *self, struct frame *frame, uint32_t site)
{
	struct cupti_callback data = {
		.site = site,
		.name = frame->call->name,
		.result = site == CUPTI_SITE_EXIT ? &frame->call->result : NULL,
		.context = frame->call->context,
		.data = &frame->user,
		.correlation = frame->call->correlation,
	};

	if (!callback_wanted(CUPTI_DOMAIN_DRIVER, frame->cbid))
		return;
	resource_context(frame->call->context, &data.context_id, NULL);
	callback_call(self, CUPTI_DOMAIN_DRIVER, frame->cbid, &data);
}

void call_enter(struct fake_api_call *call)
{
	struct owner *self;
	struct frame *frame;

	call->user = 0;
	if (atomic_load(&cupti.forked) || !atomic_load(&cupti.attached))
		return;
	self = owner_self();
	if (self->busy || self->depth == FRAMES_MAX)
		return;
	call_owner = self;
	frame = &self->frames[self->depth++];
	frame->call = call;
	frame->user = 0;
	frame->cbid = call_ids[call->function];
	frame->exiting = false;
	frame->start_ns = clock_ns();
	call->user = self->depth;
	atomic_fetch_add(&cupti.inside, 1);
	call_tell(self, frame, CUPTI_SITE_ENTER);
	if (cupti.odd.loaded_ns)
		odd_spin(cupti.odd.loaded_ns);
	if (cupti.odd.kernel_ns && call->function == FAKE_FN_cuLaunchKernel &&
	    kind_enabled(CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_NONE))
		odd_spin(cupti.odd.kernel_ns);
}

/* Each of them is put before the record of the call. */
static void call_external(struct owner *self, uint32_t correlation)
{
	struct cupti_external record = { .kind = CUPTI_KIND_EXTERNAL, .correlation = correlation };

	for (uint32_t kind = 0; kind < EXTERNAL_MAX; kind++) {
		unsigned int depth = self->external_depth[kind];

		if (!depth)
			continue;
		record.external_kind = kind;
		record.external = self->external[kind][depth - 1];
		buffer_put(self, &record, sizeof(record));
	}
}

static void call_record(struct owner *self, const struct frame *frame)
{
	struct cupti_api record = {
		.kind = CUPTI_KIND_DRIVER,
		.cbid = frame->cbid,
		.process = cupti.process,
		.correlation = frame->call->correlation,
		.result = (uint32_t)frame->call->result,
	};

	if (!atomic_load_explicit(&cupti.driver_calls[frame->cbid], memory_order_relaxed))
		return;
	record.thread = owner_thread(self);
	record.start = clock_stamp(frame->start_ns);
	record.end = clock_stamp(clock_ns());
	if (kind_enabled(CUPTI_KIND_EXTERNAL, CUPTI_NONE))
		call_external(self, record.correlation);
	buffer_put(self, &record, sizeof(record));
	if (cupti.odd.slow_ns)
		odd_spin(cupti.odd.slow_ns);
}

void call_exit(struct fake_api_call *call)
{
	struct owner *self;
	struct frame *frame;

	if (!call->user || atomic_load(&cupti.forked))
		return;
	self = owner_self();
	frame = &self->frames[call->user - 1];
	frame->exiting = true;
	if (atomic_load(&cupti.attached)) {
		if (call->function == FAKE_FN_cuInit && call->result == CUDA_SUCCESS)
			resource_driver_ready();
		call_record(self, frame);
		sync_call(self, frame);
		memory_call(self, frame);
		call_tell(self, frame, CUPTI_SITE_EXIT);
	}
	self->depth = (unsigned int)call->user - 1;
	atomic_fetch_sub(&cupti.inside, 1);
}

int cuptiGetCallbackName(uint32_t domain, uint32_t id, const char **name)
{
	cupti_begin(__func__);
	if (!name || domain != CUPTI_DOMAIN_DRIVER || id == 0)
		return CUPTI_E_INVALID_PARAMETER;
	if (cupti_attach() != CUPTI_OK)
		return CUPTI_E_NOT_INITIALIZED;
	for (size_t i = 0; i < FAKE_FN_COUNT; i++) {
		if (call_ids[i] != id)
			continue;
		*name = cupti.driver->function_name((enum fake_function)i);
		return CUPTI_OK;
	}
	return CUPTI_E_INVALID_PARAMETER;
}

int cuptiActivityPushExternalCorrelationId(uint32_t kind, uint64_t id)
{
	struct owner *self;

	cupti_begin(__func__);
	self = owner_self();
	if (kind == 0 || kind >= EXTERNAL_MAX)
		return CUPTI_E_INVALID_PARAMETER;
	if (self->external_depth[kind] == EXTERNAL_DEEP)
		return CUPTI_E_MAX_LIMIT_REACHED;
	self->external[kind][self->external_depth[kind]++] = id;
	return CUPTI_OK;
}

int cuptiActivityPopExternalCorrelationId(uint32_t kind, uint64_t *last)
{
	struct owner *self;

	cupti_begin(__func__);
	self = owner_self();
	if (kind == 0 || kind >= EXTERNAL_MAX)
		return CUPTI_E_INVALID_PARAMETER;
	if (self->external_depth[kind] == 0)
		return CUPTI_E_QUEUE_EMPTY;
	self->external_depth[kind]--;
	if (last)
		*last = self->external[kind][self->external_depth[kind]];
	return CUPTI_OK;
}
