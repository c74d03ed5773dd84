/* Sync: records of synchronizations, waits and recorded events, at the end of their calls. */
#include "fake_cupti.h"

#define EVENTS 1024

enum sync_action {
	SYNC_NOTHING,
	SYNC_CONTEXT,
	SYNC_STREAM,
	SYNC_EVENT,
	SYNC_WAIT,
	SYNC_RECORD,
};

static const struct sync_row {
	uint8_t action, query;
} sync_rows[FAKE_FN_COUNT] = {
	[FAKE_FN_cuCtxSynchronize] = { SYNC_CONTEXT, 0 },
	[FAKE_FN_cuCtxSynchronize_v2] = { SYNC_CONTEXT, 0 },
	[FAKE_FN_cuStreamSynchronize] = { SYNC_STREAM, 0 },
	[FAKE_FN_cuStreamSynchronize_ptsz] = { SYNC_STREAM, 0 },
	[FAKE_FN_cuStreamQuery] = { SYNC_STREAM, 1 },
	[FAKE_FN_cuStreamQuery_ptsz] = { SYNC_STREAM, 1 },
	[FAKE_FN_cuEventSynchronize] = { SYNC_EVENT, 0 },
	[FAKE_FN_cuEventQuery] = { SYNC_EVENT, 1 },
	[FAKE_FN_cuStreamWaitEvent] = { SYNC_WAIT, 0 },
	[FAKE_FN_cuStreamWaitEvent_ptsz] = { SYNC_WAIT, 0 },
	[FAKE_FN_cuEventRecord] = { SYNC_RECORD, 0 },
	[FAKE_FN_cuEventRecord_ptsz] = { SYNC_RECORD, 0 },
	[FAKE_FN_cuEventRecordWithFlags] = { SYNC_RECORD, 0 },
	[FAKE_FN_cuEventRecordWithFlags_ptsz] = { SYNC_RECORD, 0 },
};

/* The call that last recorded an event, by its id. */
static struct {
	_Atomic uint32_t event, correlation;
} events[EVENTS];

static uint32_t event_id(uint64_t handle)
{
	return (uint32_t)cupti.driver->object_id((void *)(uintptr_t)handle);
}

static void event_record(struct owner *self, const struct frame *frame, uint32_t context)
{
	const uint64_t *args = frame->call->args;
	struct cupti_event record = {
		.kind = CUPTI_KIND_CUDA_EVENT,
		.correlation = frame->call->correlation,
		.context = context,
		.stream = resource_stream((void *)(uintptr_t)args[1], context),
		.event = event_id(args[0]),
	};

	atomic_store(&events[record.event % EVENTS].event, record.event);
	atomic_store(&events[record.event % EVENTS].correlation, record.correlation);
	if (!kind_enabled(CUPTI_KIND_CUDA_EVENT, context))
		return;
#if FAKE_CUPTI_MAJOR >= 13
	record.event_sync = record.correlation;
	resource_context(frame->call->context, NULL, &record.device);
#endif
	buffer_put(self, &record, sizeof(record));
}

static void sync_event(struct cupti_sync *record, uint64_t handle)
{
	record->event = event_id(handle);
#if FAKE_CUPTI_MAJOR >= 13
	if (atomic_load(&events[record->event % EVENTS].event) == record->event)
		record->event_sync = atomic_load(&events[record->event % EVENTS].correlation);
#endif
}

static bool sync_wanted(const struct frame *frame, const struct sync_row *row)
{
	if (frame->call->result == CUDA_SUCCESS)
		return true;
	return FAKE_CUPTI_MAJOR >= 13 && row->query && atomic_load(&cupti.all_syncs) &&
	       frame->call->result == CUDA_ERROR_NOT_READY;
}

void sync_call(struct owner *self, const struct frame *frame)
{
	const struct sync_row *row = &sync_rows[frame->call->function];
	const uint64_t *args = frame->call->args;
	struct cupti_sync record = {
		.kind = CUPTI_KIND_SYNC,
		.correlation = frame->call->correlation,
		.context = CUPTI_NONE,
		.stream = CUPTI_NONE,
		.event = CUPTI_NONE,
	};

	if (row->action == SYNC_NOTHING || !sync_wanted(frame, row))
		return;
	resource_context(frame->call->context, &record.context, NULL);
	if (row->action == SYNC_RECORD) {
		event_record(self, frame, record.context);
		return;
	}
	if (!kind_enabled(CUPTI_KIND_SYNC, record.context))
		return;
	record.start = clock_stamp(frame->start_ns);
	record.end = clock_stamp(clock_ns());
#if FAKE_CUPTI_MAJOR >= 13
	record.event_sync = CUPTI_NONE;
	record.result = (uint32_t)frame->call->result;
#endif
	record.type = CUPTI_SYNC_CONTEXT;
	if (row->action == SYNC_STREAM || row->action == SYNC_WAIT)
		record.stream = resource_stream((void *)(uintptr_t)args[0], record.context);
	if (row->action == SYNC_STREAM)
		record.type = CUPTI_SYNC_STREAM;
	if (row->action == SYNC_WAIT)
		record.type = CUPTI_SYNC_STREAM_WAIT;
	if (row->action == SYNC_EVENT)
		record.type = CUPTI_SYNC_EVENT;
	if (row->action == SYNC_EVENT || row->action == SYNC_WAIT)
		sync_event(&record, args[row->action == SYNC_WAIT ? 1 : 0]);
	buffer_put(self, &record, sizeof(record));
}
