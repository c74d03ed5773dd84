/* Loss: everything that the model could not follow is counted here, once, and handed over at the
 * next checkpoint with the period in which it happened; what others could not see is handed over at
 * once. Where that hides frees, verdicts on leaks know it. */
#include "core/model/model.h"

void loss_count(struct core *core, struct process *process, enum loss_reason reason)
{
	struct loss *loss = process ? &process->loss : &core->loss;

	if (!loss->of[reason].count++)
		loss->of[reason].first_ns = core->now_ns;
	loss->of[reason].last_ns = core->now_ns;
	loss->any = true;
	core->stats.bad += reason == LOSS_BAD_EVENT;
	core->stats.stray += reason == LOSS_STRAY;
	core->stats.limited += reason == LOSS_LIMIT;
}

void loss_add(struct process *process, enum loss_reason reason, uint64_t count, uint64_t start_ns,
	      uint64_t end_ns)
{
	struct loss *loss = &process->loss;
	uint64_t *sum = &loss->of[reason].count;

	if (!count)
		return;
	if (!*sum || start_ns < loss->of[reason].first_ns)
		loss->of[reason].first_ns = start_ns;
	if (end_ns > loss->of[reason].last_ns)
		loss->of[reason].last_ns = end_ns;
	if (__builtin_add_overflow(*sum, count, sum) || *sum > INT64_MAX)
		*sum = INT64_MAX;
	loss->any = true;
}

void loss_hand_over(struct core *core, struct loss *loss, uint32_t id)
{
	if (!loss->any)
		return;
	for (int reason = 1; reason <= LOSS_REASON_MAX; reason++) {
		if (!loss->of[reason].count)
			continue;
		core_tell(core, &(struct core_loss){
					.start_ns = loss->of[reason].first_ns,
					.end_ns = loss->of[reason].last_ns,
					.process = id,
					.reason = (uint8_t)reason,
					.count = loss->of[reason].count,
				});
	}
	*loss = (struct loss){ 0 };
}

void loss_checkpoint(struct core *core)
{
	struct process *process;

	loss_hand_over(core, &core->loss, 0);
	list_for_each(process, &core->processes, link)
		loss_hand_over(core, &process->loss, process->row.id);
}

static void core_miss(struct core *core, const struct core_loss *loss, uint8_t kind)
{
	struct process *process;

	list_for_each(process, &core->processes, link)
		if (!loss->process || process->row.id == loss->process)
			growing_missed(&process->growing, kind, loss->start_ns, loss->end_ns);
}

void core_miss_frees(struct core *core, const struct core_loss *loss)
{
	core_miss(core, loss, GROWTHS_ALL);
}

void core_lose(struct core *core, const struct core_loss *loss)
{
	static const uint8_t misses[LOSS_REASON_MAX + 1] = {
#define X(number, identifier, counts, alarm, misses, ...) [number] = LOSS_MISSES_##misses,
		LOSS_REASONS(X)
#undef X
	};

	if (misses[loss->reason] == LOSS_MISSES_CALLS)
		core_miss(core, loss, GROWTHS_ALL);
	else if (misses[loss->reason] == LOSS_MISSES_TENSORS)
		core_miss(core, loss, MEMORY_TENSOR);
	core_tell(core, loss);
}
