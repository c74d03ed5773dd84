/* Stacked: what a stack request asks of the probes and of the model. */
#include "core/model/open.h"
#include "daemon/daemon_internal.h"
#include "daemon/library/library.h"

static int daemon_open_map(void *data, struct probe_open_place *ret)
{
	const struct daemon *daemon = data;

	return probe_open_map(daemon->probe, ret);
}

static size_t daemon_open_work(void *data, uint32_t pid, struct stack_work *ret, size_t max)
{
	const struct function_table table = library_functions();
	struct core_open open[LIMIT_STACK_STREAMS];
	const struct daemon *daemon = data;
	size_t count = core_open_work(daemon->core, pid, open,
				      max < LIMIT_STACK_STREAMS ? max : LIMIT_STACK_STREAMS);

	for (size_t i = 0; i < count; i++)
		ret[i] = (struct stack_work){
			.call = !open[i].waits && open[i].fn < table.count
					? table.row[open[i].fn].name
					: NULL,
			.start_ns = open[i].start_ns,
			.stream = open[i].handle,
			.count = open[i].count,
			.device = open[i].device,
			.waits = open[i].waits,
		};
	return count;
}

int daemon_start_stacks(struct daemon *daemon)
{
	const struct stacks_config config = {
		.broker = daemon->broker,
		.open = daemon_open_map,
		.helpers = daemon->helpers,
		.kind = daemon_stack_kind(),
		.work = daemon_open_work,
		.data = daemon,
	};

	return stacks_new(&daemon->loop, &config, &daemon->stacks);
}

void daemon_stack(void *data, struct api_ticket *ticket, const struct api_target *target,
		  const struct api_stack *wanted)
{
	struct daemon *daemon = data;

	stacks_read(daemon->stacks, ticket, target, wanted);
}
