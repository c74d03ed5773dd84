/* Hits: what the programs count beside events: how often each process runs into probes, what
 * its allocators hold, and how long work waits for the kernel's workers. */
#include "daemon/probe/internal.h"

#include <bpf/bpf.h>
#include <errno.h>

#define BATCH 256

int probe_read_hits(struct probe *probe,
		    void (*each)(void *data, uint32_t pid, const struct probe_hits *hits),
		    void *data)
{
	int map = probe->map[BROKER_HITS], r;
	struct probe_hits hits[BATCH];
	uint32_t pid[BATCH], at = 0;
	bool first = true;

	do {
		uint32_t count = BATCH;

		r = bpf_map_lookup_batch(map, first ? NULL : &at, &at, pid, hits, &count, NULL);
		if (r < 0 && errno != ENOENT)
			return -errno;
		for (uint32_t i = 0; i < count; i++)
			each(data, pid[i], &hits[i]);
		first = false;
	} while (r == 0);
	return 0;
}

/* A process that has ended is known no more, so its sums go. */
int probe_read_sums(struct probe *probe,
		    bool (*each)(void *data, const struct probe_sums_key *key,
				 const struct probe_sums *sums),
		    void *data)
{
	int map = probe->map[BROKER_SUMS], r;
	struct probe_sums_key key[BATCH];
	struct probe_sums sums[BATCH];
	uint32_t at = 0;
	bool first = true;

	if (probe->config.tensor_bytes == 0)
		return 0;
	do {
		uint32_t count = BATCH;

		r = bpf_map_lookup_batch(map, first ? NULL : &at, &at, key, sums, &count, NULL);
		if (r < 0 && errno != ENOENT)
			return -errno;
		for (uint32_t i = 0; i < count; i++)
			if (!each(data, &key[i], &sums[i]))
				bpf_map_delete_elem(map, &key[i]);
		first = false;
	} while (r == 0);
	return 0;
}

bool probe_watch_workers(struct probe *probe, bool on)
{
	if (!probe->programs.workers)
		return false;
	probe->bss->settings.workers = on;
	return true;
}

void probe_read_workers(struct probe *probe, uint64_t now_ns,
			void (*each)(void *data, uint64_t waited_ns, uint64_t hits), void *data)
{
	for (uint32_t i = 0; i < PROBE_WORKERS_MAX; i++) {
		struct probe_worker *worker = &probe->bss->workers[i];
		uint64_t since_ns = __atomic_load_n(&worker->waiting_ns, __ATOMIC_RELAXED);
		uint64_t hits = worker->longest_hits;
		uint64_t waited_ns = __atomic_exchange_n(&worker->longest_ns, 0, __ATOMIC_RELAXED);

		if (since_ns && now_ns > since_ns && now_ns - since_ns > waited_ns) {
			waited_ns = now_ns - since_ns;
			hits = worker->hits - worker->hits_before;
		}
		if (waited_ns)
			each(data, waited_ns, hits);
	}
}
