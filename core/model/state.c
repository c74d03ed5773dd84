/* State: turns changes of state into intervals, each reported when it ends. Intervals of one stream
 * or device are adjacent and never empty. An interval that stays open is reported in pieces that
 * double in length, so that it shows soon and costs little when it lasts. */
#include "core/model/state.h"

#include <stdlib.h>

#include "core/base/invariant.h"
#include "core/base/time.h"
#include "core/model/model.h"

#define STATE_PIECE_NS	   2000000000ull
#define STATE_PIECE_MAX_NS 32000000000ull
/* Events of the last moments may still be in transit when a piece is cut. */
#define STATE_MARGIN_NS NS_PER_S

void state_init(struct state *state, uint32_t process, uint32_t stream, int16_t device)
{
	*state = (struct state){ .process = process, .stream = stream, .device = device };
	list_init(&state->link);
}

static void state_tell(struct core *core, const struct state *state, uint64_t until_ns)
{
	struct op op = {
		.start_ns = state->since_ns,
		.end_ns = until_ns,
		.process = state->process,
		.stream = state->stream,
		.flags = state->settled_ns ? OP_EXACT : OP_BOUNDS,
		.kind = OP_STATE,
		.detail = state->now,
		.device = state->device,
	};

	assert_invariant(op.start_ns < op.end_ns);
	core_emit(core, &op);
}

void state_set(struct core *core, struct state *state, uint8_t now, uint64_t time_ns)
{
	if (state->now == now)
		return;
	if (state->now == STATE_NONE)
		list_append(&core->states, &state->link);
	else if (time_ns > state->since_ns)
		state_tell(core, state, time_ns);
	if (now == STATE_NONE)
		list_remove(&state->link);
	if (time_ns > state->since_ns)
		state->since_ns = time_ns;
	state->now = now;
	state->piece_ns = STATE_PIECE_NS;
}

void state_checkpoint(struct core *core, uint64_t now_ns)
{
	struct state *state;

	if (now_ns < STATE_MARGIN_NS)
		return;
	list_for_each(state, &core->states, link) {
		uint64_t edge_ns =
			state->settled_ns ? *state->settled_ns : now_ns - STATE_MARGIN_NS;

		if (edge_ns < state->since_ns || edge_ns - state->since_ns < state->piece_ns)
			continue;
		state_tell(core, state, edge_ns);
		state->since_ns = edge_ns;
		if (state->piece_ns < STATE_PIECE_MAX_NS)
			state->piece_ns *= 2;
	}
}

void state_flush(struct core *core, uint64_t now_ns)
{
	struct state *state;

	list_for_each(state, &core->states, link)
		state_set(core, state, STATE_NONE, now_ns);
}

struct device *device_get(struct process *process, int16_t ordinal)
{
	struct device *device;

	list_for_each(device, &process->devices, link)
		if (device->state.device == ordinal)
			return device;
	device = calloc(1, sizeof(*device));
	if (!device)
		return NULL;
	state_init(&device->state, process->row.id, 0, ordinal);
	list_append(&process->devices, &device->link);
	return device;
}

void device_count(struct core *core, struct device *device, uint8_t from, uint8_t to,
		  uint64_t time_ns)
{
	uint8_t now;

	if (!device)
		return;
	assert_invariant(from != OP_STATE_PENDING || device->pending > 0);
	assert_invariant(from != OP_STATE_WAITING || device->waiting > 0);
	device->pending += (to == OP_STATE_PENDING) - (from == OP_STATE_PENDING);
	device->waiting += (to == OP_STATE_WAITING) - (from == OP_STATE_WAITING);
	now = device->pending	? OP_STATE_PENDING
	      : device->waiting ? OP_STATE_WAITING
				: OP_STATE_IDLE;
	state_set(core, &device->state, now, time_ns);
}
