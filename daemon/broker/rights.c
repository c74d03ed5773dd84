/* Rights: capabilities, and system calls: those of libbpf and of libc while it loads the programs,
 * and the few that follow. No other file is written, no socket opened, no process started. */
#include "daemon/broker/rights.h"

#include <linux/capability.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "core/base/array.h"
#include "daemon/helper/confine.h"

#define RIGHT(name) (1ull << (name))

/* DAC_READ_SEARCH is for the files that the settings name. SYS_ADMIN is what kernels before 6.6
 * want for a probe; the unit has it there only. */
#define KEPT                                                                                       \
	(RIGHT(CAP_BPF) | RIGHT(CAP_PERFMON) | RIGHT(CAP_SYS_ADMIN) | RIGHT(CAP_DAC_READ_SEARCH))

static const uint16_t calls[] = {
	CONFINE_READER, SYS_clone, SYS_clone3, SYS_perf_event_open, SYS_writev,
};

int rights_broker(void)
{
	int r = confine_rights_but(KEPT);

	if (r == 0)
		r = confine_opening();
	if (r == 0)
		r = confine_to_itself();
	if (r == 0)
		r = confine_calls(calls, ARRAY_SIZE(calls));
	return r;
}
