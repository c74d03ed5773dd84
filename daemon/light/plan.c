/* Plan: finds the driver's library in a process, its hot functions and their first instructions,
 * and makes what goes into the region. The instructions are the file's: in the process there may be
 * breakpoints of the kernel. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cleanup.h"
#include "daemon/attach/internal.h"
#include "daemon/light/internal.h"
#include "daemon/maps/file.h"
#include "daemon/maps/proc.h"
#include "daemon/probe/site.h"
#include "daemon/proc/procfs.h"

#define NAMES_SIZE     128
#define FUNCTION_ALIGN 16

struct finding {
	struct light_plan *plan;
	const struct library_row *row;
	dev_t device;
	uint64_t inode;
	int fd;	      /* of the library, or why it could not be opened */
	bool several; /* copies of the library */
	bool region;  /* is there, and nobody else's */
	bool hook;    /* is code of our library */
	uint64_t hook_at;
};

static int on_mapping(void *data, const struct maps_record *record)
{
	struct finding *finding = data;
	struct light_plan *plan = finding->plan;
	uint64_t code = plan->region + TS_LIGHT_DATA_BYTES;
	const struct library_row *row;

	if (!record->inode && record->start <= code && record->end >= code + TS_LIGHT_CODE_BYTES)
		finding->region = true;
	if (attach_map_is_ours(&(struct attach_map){ .path = (char *)record->path }) &&
	    finding->hook_at >= record->start && finding->hook_at < record->end)
		finding->hook = true;
	row = record->inode ? library_of(record->path) : NULL;
	if (row != &library_cuda)
		return 0;
	if (finding->row && (finding->device != record->device || finding->inode != record->inode))
		finding->several = true;
	else if (plan->ranges == LIGHT_RANGES_MAX)
		return -E2BIG;
	else
		plan->range[plan->ranges++] =
			(struct light_range){ record->start, record->end, record->offset };
	if (!finding->row)
		finding->fd = maps_record_open(record);
	finding->row = row;
	finding->device = record->device;
	finding->inode = record->inode;
	return 0;
}

static int plan_find(struct finding *finding, struct remarks *why)
{
	struct light_plan *plan = finding->plan;
	int r = maps_proc_mappings((uint32_t)plan->pid, on_mapping, finding);

	if (r < 0)
		return r == -E2BIG
			       ? ATTACH_UNSUPPORTED(why, "the driver's library is in pieces")
			       : ATTACH_WHY(why, -ESRCH, PROCESS_ENDED, REMARK_NUMBER(plan->pid));
	if (!finding->row)
		return ATTACH_WHY(why, -ENODEV, NO_CUDA, REMARK_NUMBER(plan->pid));
	if (finding->several)
		return ATTACH_UNSUPPORTED(why, "the process has several copies of the driver's "
					       "library");
	if (!finding->hook)
		return ATTACH_UNSUPPORTED(why, "what its calls are to be led to is not our "
					       "library");
	if (!finding->region)
		return ATTACH_UNSUPPORTED(why, "the memory that our library offers is not there");
	return 0;
}

static uint64_t plan_address(const struct light_plan *plan, uint64_t offset)
{
	for (size_t i = 0; i < plan->ranges; i++) {
		const struct light_range *range = &plan->range[i];

		if (offset >= range->offset &&
		    offset - range->offset + PROLOGUE_MAX <= range->end - range->start)
			return range->start + (offset - range->offset);
	}
	return 0;
}

static void plan_call(const struct site *site, const struct prologue *prologue, uint64_t entry,
		      struct ts_light_call *ret)
{
	struct probe_desc desc;

	_Static_assert((int)PROBE_ARG == (int)TS_LIGHT_ARG &&
			       (int)PROBE_FIELD == (int)TS_LIGHT_FIELD &&
			       PROBE_SLOTS_MAX <= TS_LIGHT_SLOTS,
		       "both describe calls alike");
	library_probe_desc(site->function, &desc);
	*ret = (struct ts_light_call){
		.fn = site->function->number,
		.flags = site->event_flags,
		.slot_count = desc.slot_count,
		.frame = (uint8_t)(TS_LIGHT_SAVED + prologue->words),
		.sampled = (desc.flags & PROBE_SAMPLE) != 0,
		.kernel_arg = desc.kernel_arg,
		.entry = entry,
	};
	for (size_t i = 0; i < desc.slot_count; i++)
		ret->slot[i] = (struct ts_light_slot){
			.from = desc.slot[i].from,
			.arg = desc.slot[i].arg,
			.width = desc.slot[i].width,
			.to = desc.slot[i].to,
			.offset = desc.slot[i].offset,
		};
}

/* Memory that the process itself may not write to is written by ptrace, eight bytes at a time. The
 * kernel changes the places of probes whenever it likes, so none may be among them: not the byte
 * before the jump, and not one of the next function. 0: there are no such eight. */
static uint64_t plan_word(const struct site *from, const struct prologue *prologue, uint64_t probe)
{
	uint64_t entry = probe - from->passed, jump = probe + prologue->start;
	uint64_t end = jump + prologue->moved;

	/* Functions begin at such places if this one does. */
	if (entry % FUNCTION_ALIGN == 0)
		end = (end + FUNCTION_ALIGN - 1) / FUNCTION_ALIGN * FUNCTION_ALIGN;
	if (jump + sizeof(uint64_t) <= end)
		return jump;
	return end - sizeof(uint64_t) > probe ? end - sizeof(uint64_t) : 0;
}

/* -ENOTSUP, -ERANGE: it cannot be led there. */
static int plan_add(struct light_plan *plan, int fd, const struct site *from)
{
	struct light_site *site = &plan->site[plan->sites];
	size_t call = sizeof(struct ts_light_head) + plan->sites * sizeof(struct ts_light_call);
	size_t code = TS_LIGHT_DATA_BYTES + plan->sites * TS_LIGHT_CODE;
	uint8_t start[2 * PROLOGUE_MAX];
	struct detour detour;
	uint64_t address = plan_address(plan, from->offset);
	int r;

	if (plan->sites == TS_LIGHT_SITES || !address ||
	    pread(fd, start, sizeof(start), (off_t)from->offset) != sizeof(start))
		return -ENOTSUP;
	r = prologue_read(start, sizeof(start), &site->prologue);
	if (r < 0)
		return r;
	memcpy(site->code, start + site->prologue.start, sizeof(site->code));
	site->jump = address + site->prologue.start;
	site->word = plan_word(from, &site->prologue, address);
	if (!site->word)
		return -ENOTSUP;
	site->detour = plan->region + code;
	detour = (struct detour){
		.jump = site->jump,
		.code = site->detour,
		.call = plan->region + call,
		.hook = plan->region + offsetof(struct ts_light_head, hook),
	};
	plan_call(from, &site->prologue, address, (struct ts_light_call *)(plan->content + call));
	r = detour_write(&detour, &site->prologue, site->code, plan->content + code);
	if (r == 0)
		r = detour_jump(site->jump, detour.code, site->to);
	plan->sites += r == 0;
	return r;
}

static int plan_sites(struct light_plan *plan, const struct finding *finding, struct remarks *why)
{
	_cleanup_(freep) struct site *site = NULL;
	int fd = finding->fd;
	char names[NAMES_SIZE] = "";
	size_t count = 0, length = 0;
	unsigned int refused = 0;

	if (fd < 0 || site_find(fd, finding->row, &site, &count) < 0)
		return ATTACH_UNSUPPORTED(why, "the driver's library cannot be read");
	for (size_t i = 0; i < count; i++) {
		if (!library_is_hot(site[i].function) || plan_add(plan, fd, &site[i]) == 0)
			continue;
		refused++;
		if (length < sizeof(names))
			length +=
				(size_t)snprintf(names + length, sizeof(names) - length, "%s%s",
						 length ? ", " : "", site[i].function->model.name);
	}
	if (refused)
		return ATTACH_UNSUPPORTED(why,
					  "%u functions of the driver do not begin in a way that "
					  "leaves room for a jump (%s%s): attach without --light",
					  refused, names, length >= sizeof(names) ? " ..." : "");
	return plan->sites ? 0
			   : ATTACH_UNSUPPORTED(why, "the driver's library has no hot function");
}

void light_plan_release(struct light_plan *plan)
{
	closep(&plan->mem);
	free(plan->content);
}

int light_plan_make(const struct light_request *request, struct light_plan *ret,
		    struct remarks *why)
{
	struct finding *finding = calloc(1, sizeof(*finding));
	struct ts_light_head *head;
	char path[32];
	uint64_t ticks;
	int r;

	*ret = (struct light_plan){ .pid = request->pid,
				    .mem = -1,
				    .region = request->told.region,
				    .content = calloc(1, TS_LIGHT_BYTES) };
	head = (struct ts_light_head *)ret->content;
	if (!finding || !ret->content) {
		free(finding);
		return -ENOMEM;
	}
	finding->plan = ret;
	finding->hook_at = request->told.hook;
	finding->fd = -ENOENT;
	head->hook = request->told.hook;
	snprintf(path, sizeof(path), "/proc/%d/mem", request->pid);
	ret->mem = open(path, O_RDONLY | O_CLOEXEC);
	if (ret->mem < 0 && (errno == EACCES || errno == EPERM))
		r = ATTACH_WHY(why, -EPERM, TRACE_REFUSED, REMARK_NUMBER(request->pid));
	/* Its memory is held now: a later process with the same pid cannot be mistaken for it. */
	else if (ret->mem < 0 || procfs_started_ticks((uint32_t)request->pid, &ticks) < 0 ||
		 ticks != request->started_ticks)
		r = ATTACH_WHY(why, -ESRCH, PROCESS_ENDED, REMARK_NUMBER(request->pid));
	else
		r = plan_find(finding, why);
	if (r == 0)
		r = plan_sites(ret, finding, why);
	head->sites = (uint32_t)ret->sites;
	closep(&finding->fd);
	free(finding);
	return r;
}
