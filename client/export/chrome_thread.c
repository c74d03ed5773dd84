/* Chrome export, threads: those of programs keep their ids, all others get ids above. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "client/export/chrome.h"
#include "client/output/json.h"

#define FIRST_ID_DEVICE (1u << 23) /* the kernel's are below 1 << 22 */
#define PID_LOSS	(1u << 24) /* of losses without a process */
#define FIRST_ID_STREAM (1u << 25)
#define FIRST_ID_LANE	(1u << 26)
#define EXACT		(1u << 30) /* added for a device or stream with exact states */

int chrome_event_open(struct exporter *x, const char *phase, uint32_t pid, uint32_t tid)
{
	int r = out_room(x->out);

	if (r < 0)
		return r;
	out_text(x->out, x->comma ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
	x->comma = true;
	out_text(x->out, phase);
	json_member(x->out, "\",\"pid\":", pid);
	json_member(x->out, ",\"tid\":", tid);
	return 0;
}

/* `what`: process_name, process_labels, thread_name. */
static int write_label(struct exporter *x, uint32_t pid, uint32_t tid, const char *what,
		       const char *member, const char *value)
{
	int r = chrome_event_open(x, "M", pid, tid);

	if (r < 0)
		return r;
	out_text(x->out, ",\"name\":\"");
	out_text(x->out, what);
	out_text(x->out, "\",\"args\":{\"");
	out_text(x->out, member);
	out_text(x->out, "\":");
	json_quoted(x->out, value);
	out_text(x->out, "}}");
	return 0;
}

static int name_process(struct exporter *x, uint32_t id, uint32_t *ret_pid)
{
	const struct meta_process *process = meta_process(x->meta, id);
	int r;

	if (!process)
		return -ENOENT;
	*ret_pid = process->pid;
	r = export_first(&x->seen, WHAT_PROCESS, id);
	if (r <= 0)
		return r;
	r = write_label(x, process->pid, process->pid, "process_name", "name", process->name->text);
	if (r < 0)
		return r;
	return write_label(x, process->pid, process->pid, "process_labels", "labels",
			   process->command->text);
}

static int name_thread(struct exporter *x, uint32_t process, uint32_t pid, uint32_t tid,
		       const char *name)
{
	uint64_t key = (uint64_t)process << 32 | tid;
	int r = export_first(&x->seen, WHAT_THREAD, key);

	return r <= 0 ? r : write_label(x, pid, tid, "thread_name", "name", name);
}

int chrome_call_thread(struct exporter *x, const struct op *op, uint32_t *ret_pid)
{
	const struct meta_process *process = meta_process(x->meta, op->process);
	char name[SHOW_NAME_BYTES];
	uint64_t key = (uint64_t)op->process << 32 | op->tid;
	int r = 0;

	if (!process)
		return -ENOENT;
	*ret_pid = process->pid;
	if (key == x->thread)
		return 0;
	x->thread = key;
	r = name_process(x, op->process, ret_pid);
	if (r < 0)
		return r;
	show_thread_name(name, process, op->tid);
	return name_thread(x, op->process, *ret_pid, op->tid, name);
}

/* A lane is a thread. 1: it is new and needs a name. */
static int take_lane(struct exporter *x, struct lanes *lanes, uint64_t start_ns, uint64_t end_ns,
		     bool nest, uint32_t *ret_tid)
{
	struct lane *lane = lanes ? lanes_take(lanes, start_ns, end_ns, nest) : NULL;
	bool new;

	if (!lane)
		return -ENOMEM;
	new = lane->track == 0;
	if (new)
		lane->track = FIRST_ID_LANE + ++x->lane_count;
	*ret_tid = (uint32_t)lane->track;
	return new;
}

/* The second and later lanes of a row have their number in the name. */
static int name_lane(struct exporter *x, const struct lanes *lanes, uint32_t process, uint32_t pid,
		     uint32_t tid, const char *name)
{
	char numbered[3 * SHOW_NAME_BYTES];

	snprintf(numbered, sizeof(numbered), lanes->count > 1 ? "%s (%u)" : "%s", name,
		 lanes->count);
	return name_thread(x, process, pid, tid, numbered);
}

int chrome_work_thread(struct exporter *x, const struct op *op, uint32_t *ret_pid,
		       uint32_t *ret_tid)
{
	bool copies = op->kind == OP_COPY || op->kind == OP_SET;
	uint64_t id = op->stream ? op->stream : show_device_key(op);
	struct lanes *lanes = rows_get(&x->rows, copies ? WHAT_COPIES : WHAT_KERNELS, id);
	char name[2 * SHOW_NAME_BYTES + 16], part[SHOW_NAME_BYTES] = "unknown stream";
	int r = name_process(x, op->process, ret_pid);

	if (r == 0)
		r = take_lane(x, lanes, op->gpu_start_ns, op->gpu_end_ns, false, ret_tid);
	if (r <= 0)
		return r;
	show_gpu_name(name, x->meta, op);
	if (op->stream)
		show_stream_name(part, x->meta, op->stream);
	strcat(strcat(name, " "), part);
	return name_lane(x, lanes, op->process, *ret_pid, *ret_tid,
			 copies ? strcat(name, " copies") : name);
}

int chrome_range_thread(struct exporter *x, const struct op *op, uint32_t *ret_pid,
			uint32_t *ret_tid)
{
	bool overhead = op->kind == OP_OVERHEAD;
	struct lanes *lanes = rows_get(&x->rows, overhead ? WHAT_OVERHEAD : WHAT_RANGES,
				       (uint64_t)op->process << 32 | op->tid);
	char name[SHOW_NAME_BYTES + 16];
	int r = name_process(x, op->process, ret_pid);

	if (r == 0)
		r = take_lane(x, lanes, op->start_ns, show_end_ns(op), true, ret_tid);
	if (r <= 0)
		return r;
	show_thread_name(name, meta_process(x->meta, op->process), op->tid);
	strcat(name, overhead ? " CUPTI overhead" : " NVTX");
	return name_lane(x, lanes, op->process, *ret_pid, *ret_tid, name);
}

int chrome_state_thread(struct exporter *x, const struct op *op, uint32_t *ret_pid,
			uint32_t *ret_tid)
{
	char name[SHOW_NAME_BYTES + 32], part[SHOW_NAME_BYTES];
	bool exact = op->flags & OP_EXACT;
	int length, r = name_process(x, op->process, ret_pid);

	if (r < 0)
		return r;
	*ret_tid =
		op->stream ? FIRST_ID_STREAM + op->stream : FIRST_ID_DEVICE + (uint16_t)op->device;
	if (exact)
		*ret_tid += EXACT;
	show_device_name(part, op->device, exact ? " state" : " (bounds)");
	length = snprintf(name, sizeof(name), "%.31s", part);
	if (op->stream) {
		show_stream_name(part, x->meta, op->stream);
		snprintf(name + length, sizeof(name) - length, " %s", part);
	}
	return name_thread(x, op->process, *ret_pid, *ret_tid, name);
}

int chrome_loss_thread(struct exporter *x, const struct meta_loss *loss, uint32_t *ret_pid,
		       uint32_t *ret_tid)
{
	struct lanes *lanes =
		rows_get(&x->rows, WHAT_LOSS, (uint64_t)loss->process << 32 | loss->reason);
	char name[SHOW_NAME_BYTES];
	int r;

	*ret_pid = PID_LOSS;
	if (meta_process(x->meta, loss->process))
		r = name_process(x, loss->process, ret_pid);
	else if ((r = export_first(&x->seen, WHAT_PROCESS, 0)) > 0)
		r = write_label(x, PID_LOSS, PID_LOSS, "process_name", "name", "TraceSmith loss");
	if (r >= 0)
		r = take_lane(x, lanes, loss->start_ns, loss->end_ns, false, ret_tid);
	if (r <= 0)
		return r;
	snprintf(name, sizeof(name), "TraceSmith loss: %.40s", loss->name->text);
	return name_lane(x, lanes, loss->process, *ret_pid, *ret_tid, name);
}
