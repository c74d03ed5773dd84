/* Reader: the ring that the programs fill, an input of the intake, read in its turns.
 *
 * While events come the programs wake us for a stack that they cannot walk and for a ring that
 * fills up, and for nothing else; when none came for a while they are told to wake us at the next
 * one. So a busy host pays few wake-ups and an idle one no turns.
 */
#include <bpf/libbpf.h>
#include <errno.h>

#include "core/base/time.h"
#include "daemon/limits.h"
#include "daemon/probe/internal.h"
#include "daemon/proc/owner.h"

#define QUIET_NS		 200000000ull /* this long without a record, and we sleep */
#define IDLE_NS			 5000000ull /* a record started before the flag was seen has come */

#define CUDA_ERROR_OUT_OF_MEMORY 2

/* When it was sent, nearly. */
static uint64_t record_time_ns(const void *record)
{
	const struct probe_miss *miss = record;
	const struct ts_stack *stack = record;
	const struct ts_event *event = record;

	if (miss->kind == PROBE_MISS)
		return miss->time_ns;
	if (stack->kind == TS_EVENT_STACK)
		return stack->time_ns;
	return event->end_ns > event->start_ns ? event->end_ns : event->start_ns;
}

static bool record_is_lack_of_memory(const void *record)
{
	const struct ts_event *event = record;

	return event->kind == TS_EVENT_API && event->flags & TS_EVENT_RETURNED &&
	       event->result == CUDA_ERROR_OUT_OF_MEMORY;
}

static uint32_t record_tgid(const void *record)
{
	const struct probe_miss *miss = record;
	const struct ts_stack *stack = record;
	const struct ts_event *event = record;

	if (miss->kind == PROBE_MISS)
		return miss->tgid;
	return stack->kind == TS_EVENT_STACK ? stack->tgid : event->tgid;
}

void probe_give(void *data, const void *record, size_t size)
{
	struct probe *probe = data;

	probe->callbacks.record(probe->data, record, size);
}

static void probe_park(struct probe *probe, struct parked *parked, const void *record, size_t size)
{
	if (parking_put(&probe->parking, parked, record, size) < 0)
		probe->unkept++;
}

/* Its process waits from here on. NULL: no room. */
static struct parked *probe_park_first(struct probe *probe, const void *record, size_t size)
{
	uint32_t tgid = record_tgid(record);
	struct parked *parked =
		parking_begin(&probe->parking, tgid, owner_of_process(tgid), probe->intake,
			      INTAKE_PROBES, record_time_ns(record), probe->now_ns);

	if (!parked)
		return NULL;
	parked->lane.give = probe_give;
	parked->lane.data = probe;
	probe_park(probe, parked, record, size);
	return parked;
}

static void probe_take_miss(struct probe *probe, const void *record, size_t size)
{
	int r;

	r = probe->callbacks.miss(probe->data, record, size, false);
	if (r == PROBE_MISS_WAITS) {
		if (probe_park_first(probe, record, size))
			return;
		r = probe->callbacks.miss(probe->data, record, size, true);
	}
	intake_lane_stall(&probe->lane, r == PROBE_MISS_ASKED);
}

/* When memory ran out, all that others held is to be known: what they have parked until then comes
 * first. It goes by time, so no two wait for each other. */
static bool probe_waits_for_others(const struct probe *probe, const void *record)
{
	const void *first;
	struct parked *other;
	size_t size;

	if (!record_is_lack_of_memory(record))
		return false;
	list_for_each(other, &probe->parking.parked, link) {
		if (other->tgid == record_tgid(record))
			continue;
		first = backlog_first(&other->backlog, &size);
		if (first && record_time_ns(first) < record_time_ns(record))
			return true;
	}
	return false;
}

static bool probe_parks_failure(struct probe *probe, const void *record, size_t size)
{
	struct parked *parked;

	if (!probe_waits_for_others(probe, record))
		return false;
	parked = probe_park_first(probe, record, size);
	if (parked)
		parked->goes_on = true; /* as soon as they have */
	return parked;
}

static int probe_put(struct probe *probe, struct intake_lane *lane, const void *record, size_t size)
{
	uint64_t time_ns = record_time_ns(record);

	if (!intake_put(lane, time_ns, record, size) || time_ns > probe->now_ns)
		return -ECANCELED;
	return probe->budget && --probe->budget ? 0 : -EAGAIN;
}

/* Not 0: enough for this turn. After a miss the lane may be stalled. */
static int probe_take(struct probe *probe, const void *record, size_t size)
{
	struct parked *parked =
		probe->parking.count ? parking_find(&probe->parking, record_tgid(record)) : NULL;

	if (parked)
		probe_park(probe, parked, record, size);
	else if (((const struct probe_miss *)record)->kind == PROBE_MISS)
		probe_take_miss(probe, record, size);
	else if (!probe_parks_failure(probe, record, size))
		return probe_put(probe, &probe->lane, record, size);
	return 0;
}

/* Of a process that waits no longer. False: it waits again. */
static bool probe_take_parked(struct probe *probe, struct parked *parked, const void *record,
			      size_t size, int *ret)
{
	int r;

	if (!parked->in_vain && probe_waits_for_others(probe, record))
		return false;
	if (((const struct probe_miss *)record)->kind != PROBE_MISS) {
		*ret = probe_put(probe, &parked->lane, record, size);
		return true;
	}
	r = probe->callbacks.miss(probe->data, record, size, parked->in_vain);
	if (r == PROBE_MISS_WAITS) {
		parked->goes_on = false;
		return false;
	}
	intake_lane_stall(&probe->lane, r == PROBE_MISS_ASKED);
	return true;
}

static int probe_take_all_parked(struct probe *probe)
{
	struct parked *parked;
	const void *record;
	size_t size;
	int r = 0;

	parking_look(&probe->parking, probe->now_ns);
	list_for_each(parked, &probe->parking.parked, link) {
		while (r != -EAGAIN && !probe->lane.stalled &&
		       (record = parked_first(parked, &size)) &&
		       probe_take_parked(probe, parked, record, size, &r))
			parked_drop_first(&probe->parking, parked);
		parked_end_if_done(&probe->parking, parked);
	}
	return r == -EAGAIN ? r : 0;
}

/* Behind a stack that is being unwound come many of the same process that will be: they would fill
 * the ring. */
int probe_record(void *data, void *record, size_t size)
{
	struct probe *probe = data;
	int r;

	probe->records++;
	probe->bytes += size;
	if (probe->lane.stalled || !backlog_is_empty(&probe->backlog)) {
		if (backlog_put(&probe->backlog, record, size) < 0)
			probe->unkept++;
		return backlog_is_full(&probe->backlog) ? -EAGAIN : 0;
	}
	r = probe_take(probe, record, size);
	if (parking_is_full(&probe->parking))
		return -EAGAIN;
	return probe->lane.stalled ? 0 : r;
}

/* As far as it may be read. */
static int probe_take_backlog(struct probe *probe)
{
	const void *record;
	size_t size;
	int r = 0;

	while (r == 0 && !probe->lane.stalled && (record = backlog_first(&probe->backlog, &size))) {
		r = probe_take(probe, record, size);
		backlog_drop_first(&probe->backlog);
	}
	return r;
}

/* Less comes than would fill an eighth of the ring until a calm input is read again; should that
 * change, the programs wake us when a quarter is full. */
static bool probe_is_calm(struct probe *probe)
{
	uint64_t passed_ns = probe->now_ns - probe->looked_ns;
	uint64_t bytes = probe->bytes - probe->looked_bytes;

	if (bytes * LIMIT_INTAKE_CALM_MS * NS_PER_MS > probe->config.ring_bytes / 8 * passed_ns)
		probe->busy_ns = probe->now_ns;
	probe->looked_ns = probe->now_ns;
	probe->looked_bytes = probe->bytes;
	return probe->now_ns - probe->busy_ns >= QUIET_NS;
}

/* The ring is empty. */
static enum intake_state probe_rest(struct probe *probe)
{
	intake_lane_done(&probe->lane);
	if (probe->now_ns < probe->heard_ns + QUIET_NS)
		return probe_is_calm(probe) ? INTAKE_CALM : INTAKE_AWAKE;
	if (!probe->idle_ns) {
		probe->idle_ns = probe->now_ns;
		probe->bss->settings.reader_idle = 1;
	}
	return probe->now_ns < probe->idle_ns + IDLE_NS ? INTAKE_AWAKE : INTAKE_ASLEEP;
}

static bool probe_is_roomy(const struct probe *probe)
{
	return probe->written_to &&
	       __atomic_load_n(probe->written_to, __ATOMIC_RELAXED) -
			       __atomic_load_n(probe->read_to, __ATOMIC_RELAXED) <
		       probe->config.ring_bytes / 4;
}

enum intake_state probe_on_turn(void *data, uint64_t now_ns, uint32_t budget)
{
	struct probe *probe = data;
	uint64_t before = probe->records;
	enum intake_state state;
	int r, parked;

	intake_lane_roomy(&probe->lane, probe_is_roomy(probe));
	if (intake_lane_holds(&probe->lane) && !probe->parking.count)
		return INTAKE_AWAKE;
	if (probe->callbacks.turn)
		probe->callbacks.turn(probe->data);
	probe->now_ns = now_ns;
	probe->budget = budget;
	parked = probe_take_all_parked(probe);
	if (intake_lane_holds(&probe->lane))
		return INTAKE_AWAKE;
	r = probe_take_backlog(probe);
	if (r != -ECANCELED && !backlog_is_full(&probe->backlog) &&
	    !parking_is_full(&probe->parking))
		r = ring_buffer__consume(probe->ring);
	if (probe->records != before) {
		probe->heard_ns = now_ns;
		probe->idle_ns = 0;
	}
	if (intake_lane_holds(&probe->lane) || probe->lane.stalled)
		return INTAKE_AWAKE;
	if (r == -EAGAIN || parked == -EAGAIN || !backlog_is_empty(&probe->backlog))
		return INTAKE_MORE;
	if (r < 0)
		return INTAKE_AWAKE;
	state = probe_rest(probe);
	return probe->parking.count && state < INTAKE_AWAKE ? INTAKE_AWAKE : state;
}
