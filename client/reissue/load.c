/* Reissue, loading: the plan, the selected part of it, and what the recording says about how to
 * repeat it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/rows.h"
#include "client/reissue/kernel.h"
#include "client/reissue/part.h"
#include "client/reissue/world.h"
#include "client/trace/plan_load.h"

#define NAMES_MAX 65536

static int take_symbol(void *data, const Tracesmith__V1__Row *row)
{
	struct gpu_world *world = data;
	const char *symbol = row->n_value == 2 ? rows_text(row->value[1]) : NULL;
	struct map_key key;
	char *copy;

	if (!symbol || !gpu_kernel_named(symbol))
		return 0;
	key = (struct map_key){ (uint64_t)rows_integer(row->value[0]), 0 };
	copy = strdup(symbol);
	if (!copy || map_put(&world->symbol, key, copy) < 0) {
		free(copy);
		return -ENOMEM;
	}
	return 0;
}

static int by_begin(const void *a, const void *b)
{
	const struct gpu_range *x = a, *y = b;

	return (x->begin > y->begin) - (x->begin < y->begin);
}

static int find_locked(struct gpu_world *world)
{
	const struct plan *plan = world->plan;

	world->locked_range = calloc(plan->call_count + 1, sizeof(*world->locked_range));
	if (!world->locked_range)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->call_count; i++) {
		const struct op *op = &plan->op[plan->call[i].op];

		if (op->kind != OP_ALLOC ||
		    (op->detail != MEMORY_HOST && op->detail != MEMORY_REGISTERED))
			continue;
		world->locked_range[world->locked_count++] = (struct gpu_range){
			op->address,
			op->address + op->bytes,
			op->process,
		};
	}
	qsort(world->locked_range, world->locked_count, sizeof(*world->locked_range), by_begin);
	return 0;
}

bool gpu_world_is_locked(const struct gpu_world *world, uint32_t process, uint64_t address)
{
	size_t low = 0, high = world->locked_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (world->locked_range[middle].begin <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && address < world->locked_range[low - 1].end &&
	       world->locked_range[low - 1].process == process;
}

static int choose(struct gpu_world *world)
{
	const struct plan *plan = world->plan;
	int r = gpu_part_choose(world->options, &world->trace, plan, &world->skip);

	if (r < 0)
		return r;
	world->issued = calloc(plan->call_count + 1, sizeof(*world->issued));
	if (!world->issued) {
		complain_memory();
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < plan->call_count; i++)
		world->issued[i] = world->skip[i];
	return 0;
}

int gpu_world_load(const struct options *options, struct gpu_world *world)
{
	int r;

	world->options = options;
	pthread_mutex_init(&world->lock, NULL);
	r = plan_load(options, &world->trace, &world->plan);
	if (r < 0)
		return r;
	if (world->plan->work_count == 0) {
		complain("Nothing to reissue in this window");
		return -ENODATA;
	}
	r = rows_query(world->trace.link, "kernel-symbols", NAMES_MAX, take_symbol, world);
	if (r >= 0)
		r = find_locked(world);
	if (r == -ENOMEM)
		complain_memory();
	return r < 0 ? r : choose(world);
}
