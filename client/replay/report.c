/* Replay report: prints the results of an emulation. */
#include "client/replay/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/output/json.h"
#include "client/trace/show.h"
#include "core/base/units.h"
#include "core/base/vector.h"
#include "core/plan/critical.h"

/* --- the critical path --- */

static struct replay_part *part_get(struct replay_report *report, const char *kind,
				    const char *name)
{
	struct replay_part *part;

	for (size_t i = 0; i < report->parts; i++) {
		part = &report->part[i];
		if (part->kind == kind && part->name == name)
			return part;
	}
	if (VECTOR_ROOM(report->part, report->room, report->parts + 1) < 0)
		return NULL;
	part = &report->part[report->parts++];
	*part = (struct replay_part){ .kind = kind, .name = name };
	return part;
}

static const char *work_kind(const struct plan_work *work)
{
	static const char *const kinds[] = { "latency", "kernel", "copy", "copy", "copy" };

	return kinds[work->engine];
}

static int add_piece(struct replay_report *report, const struct plan *plan,
		     const struct critical_piece *piece, int side)
{
	uint64_t ns = piece->end_ns - piece->start_ns;
	const struct meta_text *name = NULL;
	const char *kind = "latency";
	struct replay_part *part;

	if (piece->why == CRITICAL_WORK) {
		const struct op *op = &plan->op[plan->work[piece->work].op];

		kind = op->kind == OP_SET ? "set" : work_kind(&plan->work[piece->work]);
		name = show_work_name(report->meta, op);
	} else if (piece->why == CRITICAL_CALL) {
		kind = "call";
		name = show_call_name(report->meta, &plan->op[plan->call[piece->call].op]);
	} else if (piece->why == CRITICAL_HOST) {
		kind = "host";
	}
	part = part_get(report, kind, NULL);
	if (!part)
		return -ENOMEM;
	part->ns[side] += ns;
	if (!name)
		return 0;
	part = part_get(report, kind, name->text);
	if (!part)
		return -ENOMEM;
	part->ns[side] += ns;
	return 0;
}

int replay_report_path(struct replay_report *report, const struct plan *plan,
		       const struct plan_times *times, int side)
{
	_cleanup_(critical_freep) struct critical *critical = NULL;
	int r = critical_find(plan, times, &critical);

	for (size_t i = 0; r == 0 && i < critical->count; i++)
		r = add_piece(report, plan, &critical->piece[i], side);
	return r;
}

static int part_compare(const void *a, const void *b)
{
	const struct replay_part *x = a, *y = b;
	uint64_t x_ns = x->ns[0] > x->ns[1] ? x->ns[0] : x->ns[1];
	uint64_t y_ns = y->ns[0] > y->ns[1] ? y->ns[0] : y->ns[1];

	if (!x->name != !y->name)
		return x->name ? 1 : -1;
	return x_ns > y_ns ? -1 : x_ns < y_ns;
}

void replay_report_done(struct replay_report *report)
{
	free(report->part);
}

/* --- caveats --- */

static double share(uint64_t part, uint64_t of)
{
	return of ? (double)part / (double)of : 0;
}

static double off(const struct emulate_error *error)
{
	return error->recorded_ns ? (double)error->emulated_ns / (double)error->recorded_ns - 1 : 0;
}

#define CAVEATS_MAX 8
#define CAVEAT_TEXT 256

static int caveats(const struct replay_report *report, char text[CAVEATS_MAX][CAVEAT_TEXT])
{
	int n = 0;

	if (report->untimed)
		snprintf(text[n++], CAVEAT_TEXT,
			 "%" PRIu64 " operations have no exact times and count as 0 here. Record "
			 "with 'tsctl run' or 'tsctl attach'",
			 report->untimed);
	if (report->no_call)
		snprintf(text[n++], CAVEAT_TEXT,
			 "the calls of %" PRIu64 " operations are unknown: these follow the "
			 "previous operation on their stream",
			 report->no_call);
	if (report->contradicted)
		snprintf(text[n++], CAVEAT_TEXT,
			 "%" PRIu64 " dependencies contradict the recorded times, and were ignored",
			 report->contradicted);
	if (report->unknown_devices)
		snprintf(text[n++], CAVEAT_TEXT,
			 "the multiprocessors of %" PRIu64
			 " devices are unknown: no more kernels run at once there than in the "
			 "recording",
			 report->unknown_devices);
	if (report->changes->count)
		snprintf(text[n++], CAVEAT_TEXT,
			 "assumes that a kernel takes as long as recorded whatever runs beside it, "
			 "and that the program makes the same calls");
	return n;
}

/* --- as text --- */

static void text_row(const char *name, uint64_t recorded, uint64_t predicted, bool both)
{
	char text[2][UNITS_TEXT_SIZE];

	printf("  %-28.28s %12s", name, units_nanoseconds(text[0], (int64_t)recorded));
	if (both)
		printf(" %12s", units_nanoseconds(text[1], (int64_t)predicted));
	printf("\n");
}

static void text_share(const char *name, const uint64_t part[2], const uint64_t of[2], bool both)
{
	printf("  %-28.28s %10.1f %%", name, 100 * share(part[0], of[0]));
	if (both)
		printf(" %10.1f %%", 100 * share(part[1], of[1]));
	printf("\n");
}

static const char *const engine_names[PLAN_ENGINE_COUNT] = {
	[PLAN_ENGINE_COMPUTE] = "kernels",
	[PLAN_ENGINE_HTOD] = "copies to device",
	[PLAN_ENGINE_DTOH] = "copies to host",
	[PLAN_ENGINE_DTOD] = "sets, copies on device",
};

/* As the process numbers its devices. */
static uint32_t device_pid(const struct replay_report *report, const struct plan_device *device)
{
	const struct meta_process *process = meta_process(report->meta, device->process);

	return process ? process->pid : 0;
}

static bool is_busy(const struct replay_report *report, uint32_t device)
{
	return report->busy[0].device_ns[device] || report->busy[1].device_ns[device];
}

static void text_device(const struct replay_report *report, uint32_t number, bool both)
{
	const struct plan_device *device = &report->plan->device[number];
	uint64_t ns[2] = { report->busy[0].device_ns[number], report->busy[1].device_ns[number] };
	bool several = false;
	char name[48];

	for (uint32_t i = 0; i < report->devices; i++)
		several |= report->plan->device[i].process != device->process;
	if (several)
		snprintf(name, sizeof(name), "%u: device %d busy", device_pid(report, device),
			 device->ordinal);
	else
		snprintf(name, sizeof(name), "device %d busy", device->ordinal);
	text_share(name, ns, report->makespan_ns, both);
}

static void text_busy(const struct replay_report *report, bool both)
{
	for (uint32_t i = 0; i < report->devices && i < EMULATE_DEVICES_MAX; i++)
		if (is_busy(report, i))
			text_device(report, i, both);
	for (int i = 0; i < PLAN_ENGINE_COUNT; i++) {
		uint64_t ns[2] = { report->busy[0].engine_ns[i], report->busy[1].engine_ns[i] };

		if (ns[0] || ns[1])
			text_share(engine_names[i], ns, report->makespan_ns, both);
	}
}

static void text_path(const struct replay_report *report, bool both)
{
	printf("critical path\n");
	for (size_t i = 0; i < report->parts && i < report->kinds + REPLAY_TOP; i++) {
		const struct replay_part *part = &report->part[i];
		char name[29];

		snprintf(name, sizeof(name), "%s%s", part->name ? "  " : "",
			 part->name ?: part->kind);
		text_share(name, part->ns, report->makespan_ns, both);
	}
}

static void text_speedup(const struct replay_report *report)
{
	printf("predicted: %.2f times as fast",
	       share(report->makespan_ns[0], report->makespan_ns[1]));
	if (report->speedup.confidence > 0)
		printf(" (%.2f to %.2f, judging by the parts of the recording)",
		       report->speedup.low, report->speedup.high);
	printf("\n");
}

static void show_text(const struct replay_report *report)
{
	bool both = report->changes->count > 0;
	char text[CAVEATS_MAX][CAVEAT_TEXT], time[3][UNITS_TEXT_SIZE];
	int n = caveats(report, text);

	printf("emulation of the original: %.3f %% off; starts off by at most %s, 99 %% by at most "
	       "%s; %s\n",
	       100 * off(&report->error), units_nanoseconds(time[0], (int64_t)report->error.max_ns),
	       units_nanoseconds(time[1], (int64_t)report->error.p99_ns),
	       report->error.disorder ? "stream order differs" : "stream order preserved");
	for (uint32_t i = 0; i < report->changes->count; i++)
		printf("changed: %s (%" PRId64 ")\n", report->changes->change[i].text,
		       report->changes->change[i].changed);
	if (both)
		text_speedup(report);
	printf("\n%-30s %12s%s\n", "", "recorded", both ? "    predicted" : "");
	text_row("makespan", report->makespan_ns[0], report->makespan_ns[1], both);
	text_busy(report, both);
	text_path(report, both);
	for (int i = 0; i < n; i++)
		printf("%sNote: %s.\n", i ? "" : "\n", text[i]);
}

/* --- as JSON --- */

static void json_ns(const char *name, uint64_t ns)
{
	printf("\"%s\":%" PRIu64, name, ns);
}

static void json_side(const struct replay_report *report, int side)
{
	printf("{");
	json_ns("makespan_ns", report->makespan_ns[side]);
	printf(",");
	json_ns("busy_ns", report->busy[side].any_ns);
	printf(",\"devices\":[");
	for (uint32_t i = 0; i < report->devices && i < EMULATE_DEVICES_MAX; i++)
		printf("%s{\"pid\":%u,\"device\":%d,\"busy_ns\":%" PRIu64 "}", i ? "," : "",
		       device_pid(report, &report->plan->device[i]),
		       report->plan->device[i].ordinal, report->busy[side].device_ns[i]);
	printf("],\"engine_busy_ns\":{\"kernel\":%" PRIu64 ",\"htod\":%" PRIu64 ",\"dtoh\":%" PRIu64
	       ",\"other\":%" PRIu64 "},\"critical_path\":[",
	       report->busy[side].engine_ns[PLAN_ENGINE_COMPUTE],
	       report->busy[side].engine_ns[PLAN_ENGINE_HTOD],
	       report->busy[side].engine_ns[PLAN_ENGINE_DTOH],
	       report->busy[side].engine_ns[PLAN_ENGINE_DTOD]);
	for (size_t i = 0; i < report->parts && i < report->kinds + REPLAY_TOP; i++) {
		printf("%s{\"kind\":\"%s\",\"name\":", i ? "," : "", report->part[i].kind);
		if (report->part[i].name)
			json_string(stdout, report->part[i].name);
		else
			printf("null");
		printf(",\"ns\":%" PRIu64 "}", report->part[i].ns[side]);
	}
	printf("]}");
}

static void json_speedup(const struct replay_report *report)
{
	if (report->speedup.confidence == 0) {
		printf(",\"speedup_low\":null,\"speedup_high\":null,\"confidence\":null");
		return;
	}
	printf(",\"speedup_low\":");
	json_real(stdout, report->speedup.low);
	printf(",\"speedup_high\":");
	json_real(stdout, report->speedup.high);
	printf(",\"confidence\":");
	json_real(stdout, report->speedup.confidence);
}

static void show_json(const struct replay_report *report)
{
	char text[CAVEATS_MAX][CAVEAT_TEXT];
	int n = caveats(report, text);

	printf("{\"emulated\":{\"recorded_ns\":%" PRIu64 ",\"emulated_ns\":%" PRIu64
	       ",\"start_p50_ns\":%" PRIu64 ",\"start_p99_ns\":%" PRIu64
	       ",\"start_max_ns\":%" PRIu64 ",\"disorder\":%" PRIu32 "},\"changes\":[",
	       report->error.recorded_ns, report->error.emulated_ns, report->error.p50_ns,
	       report->error.p99_ns, report->error.max_ns, report->error.disorder);
	for (uint32_t i = 0; i < report->changes->count; i++) {
		printf("%s{\"option\":", i ? "," : "");
		json_string(stdout, report->changes->change[i].text);
		printf(",\"changed\":%" PRId64 "}", report->changes->change[i].changed);
	}
	printf("],\"recorded\":");
	json_side(report, 0);
	printf(",\"predicted\":");
	json_side(report, 1);
	printf(",\"speedup\":");
	json_real(stdout, report->makespan_ns[1]
				  ? share(report->makespan_ns[0], report->makespan_ns[1])
				  : 1);
	json_speedup(report);
	printf(",\"output\":");
	if (report->output)
		json_string(stdout, report->output);
	else
		printf("null");
	printf(",\"notes\":[");
	for (int i = 0; i < n; i++) {
		printf("%s", i ? "," : "");
		json_string(stdout, text[i]);
	}
	printf("]}\n");
}

void replay_report_show(struct replay_report *report, const struct options *options)
{
	if (report->parts)
		qsort(report->part, report->parts, sizeof(*report->part), part_compare);
	report->kinds = 0;
	while (report->kinds < report->parts && !report->part[report->kinds].name)
		report->kinds++;
	if (options->given & OPTION(JSON))
		show_json(report);
	else
		show_text(report);
}
