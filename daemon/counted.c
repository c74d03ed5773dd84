/* Counted: what BPF programs and perf have lost, as the model gets it: of each process where it is
 * known whose it is, and the rest of none. */
#include <stddef.h>

#include "core/base/array.h"
#include "daemon/daemon_internal.h"

static const struct {
	size_t counter; /* in struct probe_counters */
	enum loss_reason reason;
	bool of_frees; /* these may be among them, though they have room of their own */
} rows[] = {
	{ offsetof(struct probe_counters, dropped), LOSS_RING_FULL, false },
	{ offsetof(struct probe_counters, dropped_kept), LOSS_RING_FULL, true },
	{ offsetof(struct probe_counters, limited), LOSS_RATE_LIMIT, false },
	{ offsetof(struct probe_counters, lost_calls), LOSS_CALL_STATE, false },
	{ offsetof(struct probe_counters, stacks_lost), LOSS_STACK, false },
	{ offsetof(struct probe_counters, stacks_cut), LOSS_STACK_CUT, false },
	{ offsetof(struct probe_counters, processes_lost), LOSS_PROCESS, false },
	{ offsetof(struct probe_counters, unread), LOSS_UNREAD, false },
};

static __u64 *counter_of(struct probe_counters *counters, size_t row)
{
	return (__u64 *)((char *)counters + rows[row].counter);
}

static void lose(struct daemon *daemon, const struct core_loss *loss, bool of_frees)
{
	if (!loss->count)
		return;
	core_lose(daemon->core, loss);
	if (of_frees)
		core_miss_frees(daemon->core, loss);
}

static struct core_loss loss_since(const struct daemon *daemon, uint32_t process)
{
	return (struct core_loss){
		.start_ns = daemon->counted_ns,
		.end_ns = daemon->counting_ns,
		.process = process,
	};
}

void daemon_ended(struct daemon *daemon, const struct core_process *process)
{
	daemon->ended[daemon->ends++ % DAEMON_ENDED] =
		(struct ended){ process->pid, process->id, process->exit_ns };
}

uint32_t daemon_process_of(const struct daemon *daemon, uint32_t pid, uint64_t since_ns)
{
	const struct core_process *process = core_process_by_pid(daemon->core, pid);

	if (process)
		return process->id;
	for (uint32_t i = 1; i <= DAEMON_ENDED && i <= daemon->ends; i++) {
		const struct ended *ended = &daemon->ended[(daemon->ends - i) % DAEMON_ENDED];

		if (ended->pid == pid && ended->time_ns >= since_ns)
			return ended->id;
	}
	return 0;
}

static void on_lost(void *data, uint32_t pid, const struct probe_counters *lost)
{
	struct daemon *daemon = data;
	struct core_loss loss = loss_since(daemon, daemon_process_of(daemon, pid, 0));
	struct probe_counters own = *lost;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		loss.reason = (uint8_t)rows[i].reason;
		loss.count = *counter_of(&own, i);
		*counter_of(&daemon->counted, i) += loss.count;
		lose(daemon, &loss, rows[i].of_frees);
	}
}

/* What no process has: the programs had no room to say whose it is, or it was lost here. Read
 * before the processes' own, the total may be behind them. */
static void lose_rest(struct daemon *daemon, struct probe_counters *total)
{
	struct core_loss loss = loss_since(daemon, 0);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		__u64 all = *counter_of(total, i), *counted = counter_of(&daemon->counted, i);

		if (all <= *counted)
			continue;
		loss.reason = (uint8_t)rows[i].reason;
		loss.count = all - *counted;
		*counted = all;
		lose(daemon, &loss, rows[i].of_frees);
	}
}

static bool has_grown(const struct daemon *daemon, struct probe_counters *total)
{
	struct probe_counters counted = daemon->counted;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (*counter_of(total, i) != *counter_of(&counted, i))
			return true;
	return false;
}

static void count_maps(struct daemon *daemon)
{
	struct core_loss loss = loss_since(daemon, 0);
	struct maps_stats maps;

	maps_stats(daemon->maps, &maps);
	loss.reason = LOSS_MAPPING;
	loss.count = maps.lost - daemon->maps_lost;
	lose(daemon, &loss, false);
	loss.reason = LOSS_LIMIT;
	loss.count = maps.limited - daemon->maps_limited;
	lose(daemon, &loss, false);
	daemon->maps_lost = maps.lost;
	daemon->maps_limited = maps.limited;
}

void daemon_count_losses(struct daemon *daemon, uint64_t now_ns)
{
	struct probe_stats stats;

	daemon->counting_ns = now_ns;
	probe_stats(daemon->probe, &stats, NULL, 0);
	if (has_grown(daemon, &stats.total)) {
		probe_take_losses(daemon->probe, on_lost, daemon);
		lose_rest(daemon, &stats.total);
	}
	count_maps(daemon);
	daemon->counted_ns = now_ns;
}
