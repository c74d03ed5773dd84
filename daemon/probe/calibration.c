/* Probe calibration: our enter program on one function of one process that is our own child. Its
 * events have a number of their own, no stack, and are counted nowhere. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "daemon/probe/internal.h"
#include "daemon/probe/remover.h"

/* It needs the types of the former. */
#include "bpf/probe.skel.h"

#define TEMPLATE "cuLaunchKernel" /* most hits are its, and it has the most arguments */

struct probe_calibration {
	struct removal removal;
	struct probe *probe;
	int link;		/* the multi way, or -1 */
	struct bpf_link *event; /* the perf way */
};

static const struct library_function *find_template(void)
{
	const struct library_row *row;

	for (size_t i = 0; (row = library_get(i)); i++)
		for (size_t k = 0; k < row->count; k++)
			if (strcmp(row->function[k].model.name, TEMPLATE) == 0)
				return &row->function[k];
	return NULL;
}

/* A lost event would be counted as the program's: so none may be. */
static int put_desc(struct probe *probe)
{
	const struct library_function *function = find_template();
	uint32_t number = PROBE_CALIBRATION;
	struct probe_desc desc;

	if (!function)
		return -ENOENT;
	library_probe_desc(function, &desc);
	desc.flags = (desc.flags & PROBE_SPILLED) | PROBE_KEEP;
	desc.kernel_arg = 0;
	if (bpf_map_update_elem(bpf_map__fd(probe->bpf->maps.descs), &number, &desc, BPF_ANY))
		return -errno;
	return 0;
}

static int attach_event(struct probe *probe, const char *path, uint64_t offset, uint32_t pid,
			struct bpf_link **ret)
{
	LIBBPF_OPTS(bpf_uprobe_opts, options, .bpf_cookie = PROBE_COOKIE(PROBE_CALIBRATION, 0));

	*ret = bpf_program__attach_uprobe_opts(probe_program_enter(probe), (pid_t)pid, path, offset,
					       &options);
	return *ret ? 0 : -errno;
}

int probe_calibrate(struct probe *probe, const char *path, uint64_t offset, uint32_t pid,
		    struct probe_calibration **ret)
{
	_cleanup_(freep) struct probe_calibration *calibration = calloc(1, sizeof(*calibration));
	int r;

	if (!calibration)
		return -ENOMEM;
	calibration->probe = probe;
	calibration->link = -1;
	r = put_desc(probe);
	if (r < 0)
		return r;
	probe->bpf->bss->settings.calibrated = pid;
	if (probe->way == PROBE_WAY_MULTI)
		r = calibration->link =
			probe_link_function(bpf_program__fd(probe_program_enter(probe)), path,
					    offset, PROBE_COOKIE(PROBE_CALIBRATION, 0), pid);
	else
		r = attach_event(probe, path, offset, pid, &calibration->event);
	if (r < 0) {
		probe->bpf->bss->settings.calibrated = 0;
		return r;
	}
	*ret = TAKE(calibration);
	return 0;
}

static void calibration_take_off(struct removal *removal)
{
	struct probe_calibration *calibration =
		list_item(removal, struct probe_calibration, removal);

	closep(&calibration->link);
	bpf_link__destroy(calibration->event);
	free(calibration);
}

void probe_calibration_end(struct probe_calibration *calibration, struct remover *remover)
{
	/* Another process may have that pid one day. */
	calibration->probe->bpf->bss->settings.calibrated = 0;
	remover_add(remover, &calibration->removal, calibration_take_off);
}
