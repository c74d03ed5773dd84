/* Owner: most processes are in the host's user namespace, which their map of uids tells everybody.
 * What another one is, is asked of the opener. */
#include "daemon/proc/owner.h"

#include <stdbool.h>
#include <stdio.h>

#include "daemon/proc/opener.h"
#include "daemon/proc/procfs.h"

/* Only root makes another one with such a map, and that makes nobody root. */
static bool is_of_the_host(uint32_t pid)
{
	unsigned int inside, outside, count;
	char text[256];

	return procfs_file(pid, "uid_map", text, sizeof(text)) > 0 &&
	       sscanf(text, "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 &&
	       outside == 0 && count == UINT32_MAX;
}

uint32_t owner_of(uint32_t pid, uint32_t uid)
{
	const struct opener_request request = { .kind = OPENER_OWNER, .pid = pid, .start = uid };
	uint32_t owner;

	return is_of_the_host(pid) || opener_ask(&request, &owner) < 0 ? uid : owner;
}

uint32_t owner_of_process(uint32_t pid)
{
	struct ts_process process;

	return procfs_identity(pid, &process) == 0 ? owner_of(pid, process.uid) : 0;
}

int owner_announcement(uint32_t pid, uint64_t time_ns, struct ts_event *ret)
{
	int r;

	*ret = (struct ts_event){
		.kind = TS_EVENT_PROCESS,
		.tgid = pid,
		.tid = pid,
		.start_ns = time_ns,
	};
	r = procfs_identity(pid, &ret->process);
	if (r == 0)
		ret->process.owner = owner_of(pid, ret->process.uid);
	return r;
}
