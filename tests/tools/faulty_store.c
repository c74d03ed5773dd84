/* Faulty store: writes a store, for test_faults_store.py to run while requests of its writer fail.
 * faulty_store PATH: opens the store, adds the same calls to it in each of some commits, of which
 * several come after the fault, stops it, and prints what became of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/invariant.h"
#include "core/model/core.h"
#include "core/store/store.h"

#define SECOND_NS 1000000000ull
#define COMMITS	  24
#define PROCESSES 5
#define OPS	  60 /* of each commit */
#define STEP_S	  40 /* so that seconds become minutes */

static const struct function functions[] = {
	[1] = { .name = "cuLaunchKernel", .kind = OP_LAUNCH, .effect = EFFECT_SUBMIT },
	[2] = { .name = "cuMemAlloc_v2", .kind = OP_ALLOC, .effect = EFFECT_ALLOC },
};

static void add_process(struct store *store, uint32_t id)
{
	struct core_process process = {
		.id = id, .pid = 1000 + id, .first_ns = SECOND_NS, .comm = "program"
	};
	const struct store_process_detail detail = { .command = "program --\xff",
						     .user = "somebody" };

	store_add(store, &process);
	store_add_process_detail(store, id, &detail);
}

static void add_part(struct store *store, uint32_t part)
{
	const struct frame frame = { .address = 16, .module = "/opt/app", .function = "forward" };
	const uint64_t second = 1000 + part * STEP_S;
	const uint32_t process = 1 + part % PROCESSES;

	store_add_stack(store,
			&(struct store_stack){
				.id = 7 + part, .process = process, .frame = &frame, .count = 1 });
	store_add_name(store, 100 + part, "kernel", strlen("kernel"));
	for (uint32_t i = 0; i < OPS; i++)
		store_add_op(store, &(struct op){ .start_ns = second * SECOND_NS + i,
						  .end_ns = second * SECOND_NS + i + 10,
						  .process = process,
						  .stream = 1 + i % 3,
						  .kind = OP_LAUNCH,
						  .fn = 1 });
	store_add(store, &(struct core_rollup){ .second = second,
						.process = process,
						.fn = 1,
						.kind = OP_LAUNCH,
						.calls = OPS });
}

/* Waits until the writer has nothing to do; a batch that it could not take waits for the next
 * commit. Some seconds are enough: the faults may last. */
static void commit(struct store *store, uint64_t now_ns)
{
	struct store_stats stats;
	int tries = 0;

	do {
		if (tries % 100 == 0)
			store_commit(store, now_ns);
		nanosleep(&(const struct timespec){ .tv_nsec = 200000 }, NULL);
		store_stats(store, &stats);
	} while (stats.queued_batches && !stats.last_error && ++tries < 1000);
}

int main(int argc, char **argv)
{
	const struct store_config config = { .path = argv[1],
					     .boot_id = "boot",
					     .functions = { functions, 3 } };
	struct store_stats stats;
	struct store *store;
	int r = store_open(&config, &store);

	if (r < 0) {
		printf("{\"refused\":%d}\n", r);
		return EXIT_FAILURE;
	}
	for (uint32_t i = 1; i <= PROCESSES; i++)
		add_process(store, i);
	for (uint32_t i = 0; i < COMMITS; i++) {
		add_part(store, i);
		commit(store, (1001 + i * STEP_S) * SECOND_NS);
	}
	store_stop(store);
	store_stats(store, &stats);
	store_free(store);
	printf("{\"written\":%lu,\"dropped\":%lu,\"rows_dropped\":%lu,\"held\":%lu,\"error\":%d,"
	       "\"broken\":%lu}\n",
	       stats.ops_written, stats.ops_dropped, stats.rows_dropped, stats.ops_held,
	       stats.last_error, invariant_count());
	return EXIT_SUCCESS;
}
