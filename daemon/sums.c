/* Sums: what allocators of frameworks say of themselves without events, once at each checkpoint. */
#include "daemon/daemon_internal.h"

static bool take_sums(void *data, const struct probe_sums_key *key, const struct probe_sums *sums)
{
	const struct core_sums told = {
		.pid = key->tgid,
		.device = (int16_t)key->device,
		.copy = key->copy,
		.bytes = sums->bytes,
		.used_bytes = sums->used_bytes,
		.peak_bytes = sums->peak_bytes,
		.peak_used_bytes = sums->peak_used_bytes,
		.told_ns = sums->told_ns,
	};
	struct daemon *daemon = data;

	return core_allocator_told(daemon->core, &told);
}

void daemon_read_sums(struct daemon *daemon)
{
	probe_read_sums(daemon->probe, take_sums, daemon);
}
