/* Correlate: matches a call with the device's records of what it submitted. A launch is in exactly
 * one place: waiting, answered, or counted as lost.
 *
 * A record of a call (CALL) has CUPTI's correlation id and the thread; it belongs to the call that
 * the thread was in when it started, if that is a call of the same function. The device's records
 * have the id. A ticket holds what is known of an id. Any of the three may come first: a CALL is
 * not matched before all calls of its time must have arrived, device records wait for the CALL,
 * calls wait in the timeline. Nothing waits forever, and nothing else is matched by time.
 *
 * A CALL of a runtime function belongs to the last call that its thread made in it.
 *
 * One case cannot be resolved: if the event of a call was lost, and the thread's previous call is
 * of the same function and its CALL was lost or comes later, then the CALL is matched to the
 * previous call.
 */
#include "core/model/correlate.h"

#include "core/base/array.h"
#include "core/base/invariant.h"
#include "core/model/answer.h"
#include "core/model/call.h"
#include "core/model/caller.h"

/* Calls older than this have arrived: the ring of the probes holds less. */
#define CORRELATE_SETTLE_NS 100000000ull
/* How long the two sides wait for each other, and how long a ticket is kept for further records. */
#define CORRELATE_WAIT_NS 3000000000ull
#define CORRELATE_DONE_NS 500000000ull
/* A launch none of whose parts came for this long is over, as far as states go: nobody knows how
 * many there are. */
#define CORRELATE_REST_NS 5000000000ull
/* How many CALLs are tried with a new call of the thread. */
#define CORRELATE_TRIES 8

static struct map_key ticket_key(uint32_t correlation)
{
	return (struct map_key){ correlation, 0 };
}

void correlate_init(struct exact *exact)
{
	list_init(&exact->fresh);
	list_init(&exact->waiting);
	list_init(&exact->joined);
	list_init(&exact->done);
	list_init(&exact->awaiting);
	list_init(&exact->resting);
}

static struct ticket *ticket_find(const struct exact *exact, uint32_t correlation)
{
	return map_get(&exact->ticket_by_correlation, ticket_key(correlation));
}

static void ticket_list(struct core *core, struct ticket *ticket, struct list *list)
{
	list_remove(&ticket->link);
	list_append(list, &ticket->link);
	ticket->since_ns = core->now_ns;
}

/* All parts of a graph's launch that arrived are known now. */
static void ticket_count_graph(struct core *core, const struct exact *exact,
			       const struct ticket *ticket)
{
	const struct ticket_call *call = &ticket->call;
	struct op op = {
		.start_ns = call->start_ns,
		.gpu_start_ns = ticket->first_ns,
		.gpu_end_ns = ticket->last_ns,
		.process = exact->process->row.id,
		.stream = call->stream,
		.kind = OP_GRAPH,
		.detail = WORK_GRAPH_PARTS,
		.device = ticket->device,
		.stack_id = call->stack_id,
		.graph = ticket->graph,
	};

	if (ticket->graph && core->config.functions.row[call->fn].graph)
		rollup_add_work(core, &op);
}

static void ticket_tell_graph(const struct ticket *ticket, struct pending *pending)
{
	if (ticket->graph)
		pending->op.graph = ticket->graph;
	pending->ticket = NULL;
}

/* Its answers have left. */
static void ticket_free(struct core *core, struct exact *exact, struct ticket *ticket)
{
	ticket_count_graph(core, exact, ticket);
	if (ticket->pending)
		ticket_tell_graph(ticket, ticket->pending);
	map_remove(&exact->ticket_by_correlation, ticket_key(ticket->correlation));
	list_remove(&ticket->link);
	list_remove(&ticket->in_caller);
	pool_put(&core->ticket_pool, ticket);
	exact_let_go(core, exact);
}

static void answer_free(struct core *core, struct exact *exact, struct answer *answer)
{
	list_remove(&answer->link);
	pool_put(&core->answer_pool, answer);
	exact_let_go(core, exact);
}

/* No call was found: what waits for it leaves without. */
static void ticket_expire(struct core *core, struct exact *exact, struct ticket *ticket)
{
	struct answer *answer;

	while ((answer = list_first(&ticket->answers, struct answer, link))) {
		answer_stray(core, exact, &answer->event, answer->swept);
		answer_free(core, exact, answer);
	}
	ticket_free(core, exact, ticket);
}

/* Who has to make room for one more of a process, NULL: nobody. No process gets more than half;
 * when all is full, the user who has most pays. */
static struct exact *correlate_payer(struct core *core, struct exact *exact)
{
	uint32_t max = core->config.max_waiting;
	struct exact *biggest;

	if (exact->held >= (max + 1) / 2)
		return exact;
	if (core->waiting < max)
		return NULL;
	biggest = exact_biggest(core, CORE_SHARE_WAITING);
	return biggest && exact_victim(biggest) ? biggest : exact;
}

/* `spare` is not evicted. */
static bool correlate_make_room(struct core *core, struct exact *exact, const struct ticket *spare)
{
	struct exact *payer;

	while ((payer = correlate_payer(core, exact))) {
		struct ticket *victim = exact_victim(payer);

		if (!victim || victim == spare || victim->link.prev != &payer->done)
			loss_count(core, payer->process, LOSS_LIMIT);
		if (!victim || victim == spare)
			return false;
		ticket_expire(core, payer, victim);
	}
	return true;
}

static struct ticket *ticket_add(struct core *core, struct exact *exact, uint32_t correlation)
{
	struct ticket *ticket = NULL;

	if (!correlate_make_room(core, exact, NULL) || exact_hold(core, exact) < 0)
		return NULL;
	ticket = pool_get(&core->ticket_pool);
	if (!ticket ||
	    map_put(&exact->ticket_by_correlation, ticket_key(correlation), ticket) < 0) {
		if (ticket)
			pool_put(&core->ticket_pool, ticket);
		exact_let_go(core, exact);
		return NULL;
	}
	*ticket = (struct ticket){ .correlation = correlation };
	list_init(&ticket->link);
	list_init(&ticket->in_caller);
	list_init(&ticket->answers);
	return ticket;
}

static void ticket_take_answers(struct core *core, struct exact *exact, struct ticket *ticket)
{
	struct answer *answer;

	while ((answer = list_first(&ticket->answers, struct answer, link))) {
		answer_ticket(core, exact, ticket, &answer->event, answer->swept);
		answer_free(core, exact, answer);
	}
}

/* The return of launches is not watched: the record says what became of them. */
static void ticket_tell_call(struct core *core, const struct ticket *ticket,
			     struct pending *pending)
{
	struct op *op = &pending->op;

	op->correlation = ticket->correlation;
	if (!(op->flags & OP_RETURNED) && ticket->end_ns) {
		op->flags |= OP_RETURNED;
		op->end_ns = ticket->end_ns;
		op->result = ticket->result;
		pending->failed = op->result != 0;
	}
	if (pending->uncounted)
		rollup_add_call(core, op);
	pending->uncounted = false;
}

static void ticket_join(struct core *core, struct exact *exact, struct ticket *ticket,
			struct pending *pending)
{
	const struct op *op = &pending->op;

	ticket_list(core, ticket, &exact->joined);
	list_remove(&ticket->in_caller);
	caller_forget(pending->caller, pending);
	pending->caller = NULL;
	pending->ticket = ticket;
	pending->await &= (uint8_t)~AWAIT_CALL;
	ticket->pending = pending;
	ticket->joined = true;
	ticket_tell_call(core, ticket, pending);
	ticket->call = (struct ticket_call){
		.start_ns = op->start_ns,
		.end_ns = op->end_ns,
		.stack_id = op->stack_id,
		.seq = pending->seq,
		.stream = op->stream,
		.tid = op->tid,
		.result = op->result,
		.fn = op->fn,
		.flags = op->flags & (OP_RETURNED | OP_PER_THREAD | OP_STACK_LOST),
	};
	if (pending->failed)
		timeline_answered(core, pending);
	ticket_take_answers(core, exact, ticket);
	if (ticket->pending)
		timeline_answered(core, ticket->pending);
}

static bool ticket_is_of(const struct core *core, const struct ticket *ticket,
			 const struct pending *pending)
{
	const uint16_t *activity = core->config.functions.row[pending->op.fn].activity;

	if (ticket->around)
		return pending->start_ns >= ticket->start_ns;
	if (activity[0] != ticket->activity && activity[1] != ticket->activity)
		return false;
	return !(pending->op.flags & OP_RETURNED) || ticket->end_ns <= pending->op.end_ns;
}

static bool ticket_match(struct core *core, struct exact *exact, struct ticket *ticket)
{
	const struct caller *caller = caller_find(exact, ticket->ns_tid);
	struct pending *pending = caller ? caller_call_at(caller, ticket->at_ns) : NULL;

	if (!pending || !ticket_is_of(core, ticket, pending))
		return false;
	ticket_join(core, exact, ticket, pending);
	return true;
}

/* How many were handed over from a call of that time. */
static uint32_t correlate_records(const struct exact *exact, uint64_t start_ns)
{
	if (start_ns < exact->former.until_ns)
		return exact->former.records;
	return exact->on ? exact->row.records : 0;
}

/* The device reports nothing for an empty copy or set; but a report is accepted. */
static uint8_t correlate_wants_copy(const struct op *op, const struct function *function)
{
	return AWAIT_CALL | (call_does_nothing(op, function) ? AWAIT_NODES : AWAIT_WORK);
}

static uint8_t correlate_wants(const struct exact *exact, const struct pending *pending,
			       const struct function *function)
{
	uint32_t records = correlate_records(exact, pending->start_ns);

	if (!function->activity[0] || !(records & TS_RECORD_CALLS))
		return 0;
	if (function->kind == OP_COPY || function->kind == OP_SET)
		return records & TS_RECORD_COPIES ? correlate_wants_copy(&pending->op, function)
						  : 0;
	if (function->kind != OP_LAUNCH)
		return AWAIT_CALL;
	if (!(records & TS_RECORD_KERNELS))
		return 0;
	if (function->graph && (records & TS_RECORD_NODES))
		return AWAIT_CALL | AWAIT_NODES;
	return AWAIT_CALL | AWAIT_WORK;
}

static bool correlate_await(struct core *core, struct exact *exact, struct pending *pending,
			    uint32_t ns_tid)
{
	const struct function *function = &core->config.functions.row[pending->op.fn];
	uint8_t await = correlate_wants(exact, pending, function);
	struct caller *caller = await ? caller_get(core, exact, ns_tid) : NULL;

	if (!caller)
		return false;
	caller->tid = pending->op.tid;
	if (caller_note(caller, pending->start_ns, pending) < 0) {
		loss_count(core, exact->process, LOSS_LIMIT);
		return false;
	}
	pending->caller = caller;
	pending->await = await;
	timeline_await(core, pending);
	return true;
}

/* A CALL whose call had not come may be of one before the latest. */
static void correlate_retry(struct core *core, struct exact *exact, struct caller *caller)
{
	struct ticket *ticket;
	int tries = 0;

	list_for_each(ticket, &caller->unmatched, in_caller) {
		if (tries++ == CORRELATE_TRIES)
			break;
		if (ticket->at_ns < caller->last_ns)
			ticket_match(core, exact, ticket);
	}
}

void correlate_submitted(struct call *call, struct pending *pending)
{
	struct exact *exact = call->process->exact;

	sweep_submit(call->core, exact, call->stream, pending->seq, pending->start_ns);
	if (correlate_await(call->core, exact, pending, pending->ns_tid))
		pending->uncounted = call->noted = true;
}

void correlate_called(struct call *call)
{
	struct exact *exact = call->process->exact;
	struct caller *caller = caller_find(exact, call_ns_tid(call->event));

	if (!caller)
		return;
	if (!call->noted && caller_note(caller, call->op->start_ns, NULL) < 0)
		loss_count(call->core, call->process, LOSS_LIMIT);
	correlate_retry(call->core, exact, caller);
}

/* Without a record, work is over when it was seen to be. Failed calls submitted none, nor did empty
 * ones. */
static void correlate_finish(struct core *core, struct exact *exact, const struct pending *pending)
{
	const struct stream *stream = stream_by_id(core, pending->op.stream);
	const struct op *op = &pending->op;
	struct lane *lane = stream ? stream->lane : sweep_find_lane(exact, op->stream);

	if (pending->failed || call_does_nothing(op, &core->config.functions.row[op->fn]))
		sweep_never(core, exact, lane, pending->seq);
	else
		sweep_finish(core, exact, lane, pending->seq,
			     op->gpu_end_ns ? op->gpu_end_ns : core->now_ns);
}

void correlate_leave(struct core *core, struct pending *pending)
{
	struct exact *exact = pending->process->exact;
	struct ticket *ticket = pending->ticket;

	if ((pending->await & (AWAIT_CALL | AWAIT_WORK)) && !pending->failed && !pending->part_ns)
		loss_count(core, pending->process, LOSS_NO_RECORD);
	list_remove(&pending->awaiting);
	if (pending->launched)
		collective_ran(core, pending);
	if (pending->caller)
		caller_forget(pending->caller, pending);
	if (pending->uncounted)
		rollup_add_call(core, &pending->op);
	if (!(pending->op.flags & OP_EXACT))
		correlate_finish(core, exact, pending);
	if (!ticket)
		return;
	ticket_tell_graph(ticket, pending);
	ticket->pending = NULL;
	ticket->call.seen_ns = pending->covered_ns;
	ticket_list(core, ticket, &exact->done);
}

int correlate_call(struct core *core, struct process *process, const struct ts_event *event)
{
	struct exact *exact = exact_get(core, process);
	uint32_t correlation = event->call.correlation;
	struct ticket *ticket;
	struct caller *caller;
	uint64_t over_ns;

	if (!exact || !exact->on)
		return INGEST_OK;
	ticket = ticket_find(exact, correlation);
	if (ticket && ticket->called) {
		if (ticket->start_ns == event->start_ns) {
			loss_count(core, process, LOSS_DUPLICATE);
			return INGEST_OK;
		}
		/* The id is in use again. */
		ticket_expire(core, exact, ticket);
		ticket = NULL;
	}
	caller = caller_get(core, exact, call_ns_tid(event));
	if (caller && !ticket)
		ticket = ticket_add(core, exact, correlation);
	if (!caller || !ticket)
		return INGEST_OK;
	if (!exact->first_correlation || (int32_t)(correlation - exact->first_correlation) < 0)
		exact->first_correlation = correlation;
	ticket->called = true;
	ticket->around = event->call.around;
	ticket->ns_tid = caller->ns_tid;
	ticket->activity = event->fn;
	ticket->start_ns = event->start_ns;
	ticket->end_ns = event->end_ns;
	ticket->at_ns = ticket->around ? event->end_ns : event->start_ns;
	ticket->result = event->result;
	over_ns = event->end_ns ? event->end_ns : event->start_ns;
	if (caller->last_ns > ticket->at_ns || core->now_ns > over_ns + CORRELATE_SETTLE_NS) {
		if (ticket_match(core, exact, ticket))
			return INGEST_OK;
		ticket_list(core, ticket, &exact->waiting);
	} else {
		ticket_list(core, ticket, &exact->fresh);
	}
	list_append(&caller->unmatched, &ticket->in_caller);
	return INGEST_OK;
}

/* Whether its call may still become known, and there is room to wait for it. */
static bool correlate_wait(struct core *core, struct exact *exact, struct ticket *ticket,
			   const struct ts_event *event)
{
	struct answer *answer;

	if (!event->work.correlation || !exact->on || !(exact->row.records & TS_RECORD_CALLS))
		return false;
	if (!ticket) {
		ticket = ticket_add(core, exact, event->work.correlation);
		if (!ticket)
			return false;
		ticket_list(core, ticket, &exact->waiting);
	}
	if (!correlate_make_room(core, exact, ticket) || exact_hold(core, exact) < 0)
		return false;
	answer = pool_get(&core->answer_pool);
	if (!answer) {
		exact_let_go(core, exact);
		return false;
	}
	answer->event = *event;
	answer->swept = answer_sweep_early(core, exact, event);
	list_append(&ticket->answers, &answer->link);
	return true;
}

int correlate_work(struct core *core, struct process *process, const struct ts_event *event)
{
	struct exact *exact = exact_get(core, process);
	struct ticket *ticket;

	if (!exact)
		return INGEST_LIMIT;
	if (answer_is_duplicate(exact, event)) {
		loss_count(core, process, LOSS_DUPLICATE);
		return INGEST_OK;
	}
	ticket = ticket_find(exact, event->work.correlation);
	if (ticket && ticket->joined)
		answer_ticket(core, exact, ticket, event, false);
	else if (!correlate_wait(core, exact, ticket, event))
		answer_stray(core, exact, event, false);
	return INGEST_OK;
}

void correlate_begin(struct core *core, struct exact *exact, uint64_t since_ns)
{
	struct context *context;
	struct pending *pending;
	struct stream *stream;

	exact->first_correlation = 0;
	list_for_each(context, &exact->process->contexts, link)
		list_for_each(stream, &context->active, active)
			list_for_each(pending, &stream->pending, in_stream)
				if (!pending->source && pending->start_ns >= since_ns)
					correlate_await(core, exact, pending, pending->ns_tid);
}

/* It must do without the exact tier. */
static void correlate_give_up(struct core *core, struct pending *pending)
{
	if (pending->caller)
		caller_forget(pending->caller, pending);
	pending->caller = NULL;
	if (pending->uncounted)
		rollup_add_call(core, &pending->op);
	pending->uncounted = false;
	timeline_give_up(core, pending);
}

void correlate_change(struct core *core, struct exact *exact, uint64_t since_ns)
{
	const struct function *row = core->config.functions.row;
	struct pending *pending;

	list_for_each(pending, &exact->awaiting, awaiting)
		if (pending->start_ns >= since_ns && !pending->ticket &&
		    !correlate_wants(exact, pending, &row[pending->op.fn]))
			correlate_give_up(core, pending);
}

/* Whether records are to come; an empty copy may have none. */
static bool pending_lacks_records(const struct pending *pending)
{
	bool wanted = pending->await & (AWAIT_CALL | AWAIT_WORK) || pending->op.kind == OP_LAUNCH;

	return wanted && !pending->part_ns && !pending->failed;
}

/* Work without a record, with no later work or wait: what the device did from then on is
 * unknown. */
static uint64_t correlate_known_until(const struct exact *exact, uint64_t until_ns)
{
	const struct pending *pending;

	list_for_each(pending, &exact->awaiting, awaiting) {
		uint64_t over_ns = pending->covered_ns ? pending->covered_ns : pending->over_ns;

		if (pending->start_ns < until_ns && pending_lacks_records(pending) &&
		    (!over_ns || over_ns >= until_ns))
			until_ns = pending->start_ns;
	}
	return until_ns;
}

uint64_t correlate_end(struct core *core, struct exact *exact, uint64_t until_ns)
{
	uint64_t known_ns;
	struct pending *pending;
	struct ticket *ticket;

	list_for_each(ticket, &exact->fresh, link)
		ticket_match(core, exact, ticket);
	list_for_each(ticket, &exact->waiting, link)
		if (ticket->called)
			ticket_match(core, exact, ticket);
	while ((ticket = exact_victim(exact)))
		ticket_expire(core, exact, ticket);
	while ((ticket = list_first(&exact->joined, struct ticket, link)))
		ticket_free(core, exact, ticket);
	known_ns = correlate_known_until(exact, until_ns);
	while ((pending = list_first(&exact->resting, struct pending, awaiting)))
		timeline_expire(core, pending, core->now_ns);
	while ((pending = list_first(&exact->awaiting, struct pending, awaiting))) {
		if (pending->part_ns) {
			timeline_expire(core, pending, core->now_ns);
			continue;
		}
		if (pending->await & (AWAIT_CALL | AWAIT_WORK) && pending->start_ns < until_ns)
			loss_count(core, exact->process, LOSS_NO_RECORD);
		correlate_give_up(core, pending);
	}
	caller_free_all(exact);
	return known_ns;
}

static void correlate_rest(struct core *core, struct exact *exact, uint64_t now_ns)
{
	struct pending *pending;

	while ((pending = list_first(&exact->awaiting, struct pending, awaiting)) &&
	       pending->part_ns && pending->part_ns + CORRELATE_REST_NS <= now_ns) {
		list_remove(&pending->awaiting);
		list_append(&exact->resting, &pending->awaiting);
		correlate_finish(core, exact, pending);
	}
}

void correlate_tick(struct core *core, struct exact *exact, uint64_t now_ns)
{
	struct ticket *ticket;

	while ((ticket = list_first(&exact->fresh, struct ticket, link)) &&
	       ticket->since_ns + CORRELATE_SETTLE_NS <= now_ns)
		if (!ticket_match(core, exact, ticket))
			ticket_list(core, ticket, &exact->waiting);
	while ((ticket = list_first(&exact->waiting, struct ticket, link)) &&
	       ticket->since_ns + CORRELATE_WAIT_NS <= now_ns)
		if (!ticket->called || !ticket_match(core, exact, ticket))
			ticket_expire(core, exact, ticket);
	while ((ticket = list_first(&exact->done, struct ticket, link)) &&
	       ticket->since_ns + CORRELATE_DONE_NS <= now_ns)
		ticket_free(core, exact, ticket);
	correlate_rest(core, exact, now_ns);
	caller_tick(core, exact, now_ns);
}
