/* Starved: the log says when a process got no memory, a few times a minute for each user. */
#include "core/base/log.h"
#include "core/base/units.h"
#include "core/base/utf8.h"
#include "daemon/daemon_internal.h"

void daemon_tell_oom(struct daemon *daemon, const struct core_oom *oom)
{
	static struct log_users limit;
	const struct core_process *process = core_process_by_id(daemon->core, oom->process);
	char comm[3 * TS_COMM_SIZE + 1], bytes[UNITS_TEXT_SIZE] = "memory", device[32] = "";

	if (!oom->news || !process || !log_allowed_user(&limit, process->user, oom->id))
		return;
	utf8_visible(comm, process->comm, strnlen(process->comm, sizeof(process->comm)));
	if (oom->device >= 0)
		snprintf(device, sizeof(device), " on device %d", oom->device);
	if (oom->wanted_bytes || oom->bytes)
		units_bytes(bytes, (int64_t)(oom->wanted_bytes ?: oom->bytes));
	log_info("%s (%u) asked for %s%s and got none: see 'tsctl oom show %u'", comm, process->pid,
		 bytes, device, oom->id);
}
