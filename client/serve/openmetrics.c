/* Openmetrics: a family's head, then its samples. Times are written as exact decimal numbers. */
#include "client/serve/openmetrics.h"

#include <inttypes.h>
#include <string.h>

#include "client/serve/family.h"
#include "client/ship/status.h"
#include "core/base/array.h"
#include "core/base/time.h"
#include "core/base/utf8.h"

#define PREFIX "tracesmith_"

/* Powers of two of nanoseconds at which buckets end: 1 us to 17 s, and 4 us to 1 s. */
#define EDGE_STEP 2
static const struct {
	int first, last;
} edges[FAMILY_NUMBERS] = { [FAMILY_OF_KERNELS] = { 10, 34 }, [FAMILY_OF_DELAYS] = { 12, 30 } };

#define X(identifier, of_type, of_unit, of_name, of_part, of_help)                                 \
	[FAMILY_OF_##                                                                              \
		identifier] = { FAMILY_##of_type, FAMILY_##of_unit, of_name, of_part, of_help },
const struct family families[FAMILY_NUMBERS] = { FAMILIES(X) };
#undef X

int32_t part_number(struct part_names *names, const char *text)
{
	uint32_t i = 0;

	while (i < names->count && strcmp(names->name[i], text) != 0)
		i++;
	if (i == names->count && i == OPENMETRICS_PARTS - 1)
		text = "other";
	if (i == names->count && i < OPENMETRICS_PARTS) {
		snprintf(names->name[i], OPENMETRICS_PART, "%s", text);
		names->count++;
	}
	return (int32_t)(i < OPENMETRICS_PARTS ? i + 1 : OPENMETRICS_PARTS);
}

static void write_label(FILE *out, const char **before, const char *name, const char *value)
{
	char clean[3 * SERIES_TEXT + 1];

	if (!*value)
		return; /* it is the same without */
	utf8_visible(clean, value, strnlen(value, SERIES_TEXT));
	fprintf(out, "%s%s=\"", *before, name);
	for (const char *p = clean; *p; p++) {
		if (*p == '"' || *p == '\\')
			fputc('\\', out);
		fputc(*p, out);
	}
	fputc('"', out);
	*before = ",";
}

static void write_owner(FILE *out, const char **before, const struct series_process *process)
{
	char pid[16] = "other";

	if (process)
		snprintf(pid, sizeof(pid), "%" PRIu32, process->pid);
	write_label(out, before, "pid", pid);
	write_label(out, before, "comm", process ? process->comm : "other");
	write_label(out, before, "container", process ? process->container : "other");
}

static void write_device(FILE *out, const char **before, int32_t device)
{
	char text[16] = "other";

	if (device == SERIES_NONE)
		return;
	if (device != SERIES_REST)
		snprintf(text, sizeof(text), "%" PRId32, device);
	write_label(out, before, "device", text);
}

static const char *unit_of(enum family_unit unit)
{
	static const char *const units[] = {
		[FAMILY_BYTES] = "_bytes",
		[FAMILY_NS] = "_seconds",
		[FAMILY_PPM] = "_ratio",
	};

	return unit == FAMILY_COUNT ? "" : units[unit];
}

static void write_value(FILE *out, enum family_unit unit, uint64_t value)
{
	if (unit == FAMILY_NS)
		fprintf(out, "%" PRIu64 ".%09" PRIu64 "\n", value / NS_PER_S, value % NS_PER_S);
	else if (unit == FAMILY_PPM)
		fprintf(out, "%" PRIu64 ".%06" PRIu64 "\n", value / 1000000, value % 1000000);
	else
		fprintf(out, "%" PRIu64 "\n", value);
}

/* The older format has no units, and a counter's name there is that of its samples. */
static void write_head(FILE *out, const char *name, const char *unit, const char *type,
		       const char *help, bool classic)
{
	const char *total = classic && strcmp(type, "counter") == 0 ? "_total" : "";

	fprintf(out, "# HELP " PREFIX "%s%s%s %s\n", name, unit, total, help);
	fprintf(out, "# TYPE " PREFIX "%s%s%s %s\n", name, unit, total, type);
	if (*unit && !classic)
		fprintf(out, "# UNIT " PREFIX "%s%s %s\n", name, unit, unit + 1);
}

/* A name with its labels up to where the value stands; `end` is what follows the family's name. */
static void write_name(FILE *out, const struct openmetrics *metrics, const struct series_cell *cell,
		       const char *end, const char *edge)
{
	const struct family *family = &families[cell->family];
	const char *before = "{";

	fprintf(out, PREFIX "%s%s%s", family->name, unit_of(family->unit), end);
	write_owner(out, &before, series_owner(metrics->series, cell->owner));
	write_device(out, &before, cell->device);
	if (*family->part)
		write_label(out, &before, family->part, metrics->parts->name[cell->part - 1]);
	if (edge)
		write_label(out, &before, "le", edge);
	fputs("} ", out);
}

static bool is_same_but_part(const struct series_cell *a, const struct series_cell *b)
{
	return a->family == b->family && a->owner == b->owner && a->device == b->device;
}

/* It stands behind it, in the family that follows. */
static uint64_t time_of(const struct openmetrics *metrics, const struct series_cell *of)
{
	const struct series_cell *cell, *end;
	struct series_cell key = *of;
	uint32_t count;

	key.family++;
	end = series_cells(metrics->series, &count);
	end += count;
	for (cell = of; cell < end && cell->family <= key.family; cell++)
		if (is_same_but_part(cell, &key))
			return cell->value;
	return 0;
}

/* One for all cells of an owner and device, each of which counts durations of at least a power of
 * two. Returns how many cells it took. */
static uint32_t write_histogram(FILE *out, const struct openmetrics *metrics,
				const struct series_cell *cell, uint32_t count)
{
	uint64_t below = 0, all = 0;
	uint32_t taken = 0, cells = 0;
	char edge[32];

	for (; cells < count && is_same_but_part(cell, &cell[cells]); cells++)
		all += cell[cells].value;
	for (int power = edges[cell->family].first; power <= edges[cell->family].last;
	     power += EDGE_STEP) {
		for (; taken < cells && cell[taken].part < power; taken++)
			below += cell[taken].value;
		snprintf(edge, sizeof(edge), "%.10g", (double)(UINT64_C(1) << power) / NS_PER_S);
		write_name(out, metrics, cell, "_bucket", edge);
		write_value(out, FAMILY_COUNT, below);
	}
	write_name(out, metrics, cell, "_bucket", "+Inf");
	write_value(out, FAMILY_COUNT, all);
	write_name(out, metrics, cell, "_count", NULL);
	write_value(out, FAMILY_COUNT, all);
	write_name(out, metrics, cell, "_sum", NULL);
	write_value(out, FAMILY_NS, time_of(metrics, cell));
	return cells;
}

/* What others hold at their peaks, or pay, adds up to nothing that means something. */
static bool is_shown(const struct openmetrics *metrics, const struct series_cell *cell)
{
	const struct series_process *owner = series_owner(metrics->series, cell->owner);
	bool adds = cell->family != FAMILY_OF_PEAK && families[cell->family].unit != FAMILY_PPM;

	if (families[cell->family].type != FAMILY_GAUGE)
		return true;
	return owner ? owner->running : adds;
}

static void write_family(FILE *out, const struct openmetrics *metrics, uint32_t number,
			 const struct series_cell *cell, uint32_t count)
{
	static const char *const types[] = {
		[FAMILY_COUNTER] = "counter",
		[FAMILY_GAUGE] = "gauge",
		[FAMILY_HISTOGRAM] = "histogram",
	};
	const struct family *family = &families[number];
	bool counter = family->type == FAMILY_COUNTER;

	if (family->type == FAMILY_SUM)
		return;
	write_head(out, family->name, unit_of(family->unit), types[family->type], family->help,
		   metrics->classic);
	for (uint32_t i = 0, taken; i < count; i += taken) {
		taken = 1;
		if (family->type == FAMILY_HISTOGRAM) {
			taken = write_histogram(out, metrics, &cell[i], count - i);
		} else if (is_shown(metrics, &cell[i])) {
			write_name(out, metrics, &cell[i], counter ? "_total" : "", NULL);
			write_value(out, family->unit, cell[i].value);
		}
	}
}

static void write_processes(FILE *out, const struct openmetrics *metrics)
{
	fprintf(out, "# HELP " PREFIX "process%s Processes that have series of their own\n",
		metrics->classic ? "_info" : "");
	fprintf(out, "# TYPE " PREFIX "process%s\n", metrics->classic ? "_info gauge" : " info");
	for (uint32_t i = 1; i <= SERIES_OWNERS; i++) {
		const struct series_process *process = series_owner(metrics->series, i);
		const char *before = "{";

		if (!process || !process->running)
			continue;
		fputs(PREFIX "process_info", out);
		write_owner(out, &before, process);
		write_label(out, &before, "user", process->user);
		write_label(out, &before, "tier", process->tier);
		fputs("} 1\n", out);
	}
}

/* One without labels but for what a scrape gives it. */
struct lone {
	const char *name, *type, *help;
	enum family_unit unit;
	uint64_t value;
};

static void write_lone(FILE *out, const struct openmetrics *metrics, const struct lone *rows,
		       size_t count)
{
	for (size_t i = 0; i < count; i++) {
		write_head(out, rows[i].name, unit_of(rows[i].unit), rows[i].type, rows[i].help,
			   metrics->classic);
		fprintf(out, PREFIX "%s%s%s ", rows[i].name, unit_of(rows[i].unit),
			*rows[i].type == 'c' ? "_total" : "");
		write_value(out, rows[i].unit, rows[i].value);
	}
}

static void write_daemon(FILE *out, const struct openmetrics *metrics)
{
	const struct openmetrics_daemon *daemon = metrics->daemon;
	const struct lone rows[] = {
		{ "processes", "gauge", "Processes that use CUDA now", FAMILY_COUNT,
		  daemon->processes },
		{ "daemon_cpu", "counter", "CPU time of tracesmithd", FAMILY_NS, daemon->cpu_ns },
		{ "daemon_memory", "gauge", "Memory of tracesmithd", FAMILY_BYTES,
		  daemon->memory_bytes },
		{ "store", "gauge", "Size of the database", FAMILY_BYTES, daemon->store_bytes },
	};
	const char *before = "{";

	write_lone(out, metrics, rows, ARRAY_SIZE(rows));
	fprintf(out, "# HELP " PREFIX "daemon%s The daemon that was asked\n",
		metrics->classic ? "_info" : "");
	fprintf(out, "# TYPE " PREFIX "daemon%s\n", metrics->classic ? "_info gauge" : " info");
	fputs(PREFIX "daemon_info", out);
	write_label(out, &before, "version", daemon->version);
	fputs("} 1\n", out);
}

static void write_ship(FILE *out, const struct openmetrics *metrics)
{
	const struct status *ship = metrics->ship;
	uint64_t lag_s = ship ? status_lag_s(ship, metrics->now_s) : 0;
	const struct lone rows[] = {
		{ "ship_lag", "gauge", "How far what has arrived at the fleet is behind", FAMILY_NS,
		  lag_s * NS_PER_S },
		{ "ship_backlog_minutes", "gauge", "Minutes that are to be shipped", FAMILY_COUNT,
		  lag_s / 60 },
		{ "ship_failing", "gauge", "Whether shipping fails now", FAMILY_COUNT,
		  ship && *ship->trouble },
		{ "ship_rows", "counter", "Rows shipped", FAMILY_COUNT, ship ? ship->rows : 0 },
		{ "ship_sent", "counter", "Their size, as sent", FAMILY_BYTES,
		  ship ? ship->bytes : 0 },
		{ "ship_lost", "counter", "Time deleted before it was shipped", FAMILY_NS,
		  ship ? ship->lost_s * NS_PER_S : 0 },
	};

	if (ship)
		write_lone(out, metrics, rows, ARRAY_SIZE(rows));
}

void openmetrics_write(FILE *out, const struct openmetrics *metrics)
{
	const struct series_cell *cell;
	uint32_t count, from = 0, to;

	cell = series_cells(metrics->series, &count);
	for (uint32_t number = 0; number < FAMILY_NUMBERS; number++) {
		for (to = from; to < count && cell[to].family == number;)
			to++;
		write_family(out, metrics, number, &cell[from], to - from);
		from = to;
	}
	write_processes(out, metrics);
	write_daemon(out, metrics);
	write_ship(out, metrics);
	if (!metrics->classic)
		fputs("# EOF\n", out);
}
