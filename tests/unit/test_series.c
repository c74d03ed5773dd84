/* Series: whoever starts, ends, and gets a series, each count is shown once and none falls; and
 * what they look like as text, whatever names programs give themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/serve/family.h"
#include "client/serve/listen.h"
#include "client/serve/openmetrics.h"
#include "client/serve/token.h"
#include "client/ship/status.h"
#include "core/model/core.h"

#define SECOND_NS UINT64_C(1000000000)
#define PROCESSES 1000

/* What a daemon has: process 0 gets what the others had when they are forgotten. */
struct world {
	struct series *series;
	uint64_t now_ns, seed, hidden;
	uint32_t next, forgotten;
	struct {
		uint64_t count, ended_ns;
		uint32_t pid;
	} process[PROCESSES];
	/* What was shown by pid; of series that are gone, all together. */
	uint64_t shown[PROCESSES], other, gone;
};

static uint64_t dice(struct world *world, uint64_t sides)
{
	world->seed ^= world->seed << 13;
	world->seed ^= world->seed >> 7;
	world->seed ^= world->seed << 17;
	return world->seed % sides;
}

static void tell(struct world *world, uint32_t id)
{
	struct series_process process = {
		.id = id,
		.pid = world->process[id].pid,
		.running = !world->process[id].ended_ns,
		.comm = "job",
	};

	series_add_process(world->series, &process);
}

static void count(struct world *world, uint32_t id)
{
	struct series_cell cell = { .family = FAMILY_OF_LAUNCHES,
				    .device = SERIES_NONE,
				    .value = world->process[id].count };

	assert_int_equal(series_add(world->series, id, &cell, false), 0);
}

static uint64_t all_counts(const struct world *world)
{
	uint64_t sum = 0;

	for (uint32_t id = 0; id < world->next; id++)
		sum += world->process[id].count;
	return sum;
}

/* Each series was at most this before; the sum of all, and of what they were when they went, is
 * what was counted. */
static void look(struct world *world)
{
	uint64_t before[PROCESSES], sum = 0;
	const struct series_cell *cell;
	uint32_t cells;

	memcpy(before, world->shown, sizeof(before));
	memset(world->shown, 0, sizeof(world->shown));
	cell = series_cells(world->series, &cells);
	assert_in_range(cells, 0, SERIES_OWNERS + 1);
	for (uint32_t i = 0; i < cells; i++) {
		const struct series_process *owner = series_owner(world->series, cell[i].owner);

		sum += cell[i].value;
		if (!owner) {
			assert_in_range(cell[i].value, world->other, UINT64_MAX);
			world->other = cell[i].value;
			continue;
		}
		assert_int_equal(world->shown[owner->pid], 0);
		assert_in_range(cell[i].value, before[owner->pid], UINT64_MAX);
		world->shown[owner->pid] = cell[i].value;
	}
	for (uint32_t pid = 1; pid < PROCESSES; pid++)
		if (!world->shown[pid])
			world->gone += before[pid];
	assert_int_equal(sum + world->gone, all_counts(world) - world->hidden);
}

static void play_round(struct world *world)
{
	series_begin(world->series);
	for (int running = 1; running >= 0; running--)
		for (uint32_t id = world->forgotten + 1; id < world->next; id++)
			if ((world->process[id].ended_ns == 0) == running)
				tell(world, id);
	count(world, 0);
	for (uint32_t id = world->forgotten + 1; id < world->next; id++)
		count(world, id);
	assert_int_equal(series_end(world->series, world->now_ns), 0);
}

static void start(struct world *world)
{
	world->process[world->next].pid = world->next;
	world->process[world->next++].count = 1 + dice(world, 100);
}

static void live(struct world *world)
{
	for (uint64_t n = dice(world, 6); n && world->next < PROCESSES; n--)
		start(world);
	for (uint32_t id = world->forgotten + 1; id < world->next; id++) {
		bool early = id % 7 && dice(world, 30) == 0;

		if (world->process[id].ended_ns)
			continue;
		world->process[id].count += dice(world, 50);
		if (early || dice(world, 200) == 0)
			world->process[id].ended_ns = world->now_ns;
	}
	while (world->forgotten + 1 < world->next &&
	       world->process[world->forgotten + 1].ended_ns &&
	       world->now_ns - world->process[world->forgotten + 1].ended_ns >
		       2 * SERIES_ENDED_NS) {
		world->process[0].count += world->process[++world->forgotten].count;
		world->process[world->forgotten].count = 0;
	}
	world->now_ns += dice(world, 30) * SECOND_NS;
}

static void counts_are_shown_once_and_never_fall(void **state)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct world world = {
			.series = series_new(),
			.now_ns = SECOND_NS,
			.seed = 88172645463325252ull * seed,
			.next = 1,
		};

		assert_non_null(world.series);
		/* More than have room were there before us, and one ended. */
		world.process[0].count = world.hidden = 500;
		for (int i = 0; i < SERIES_OWNERS + 20; i++)
			start(&world);
		play_round(&world);
		for (uint32_t id = SERIES_OWNERS + 1; id < world.next; id++)
			world.hidden += world.process[id].count;
		look(&world);
		while (world.next < PROCESSES) {
			live(&world);
			play_round(&world);
			look(&world);
		}
		series_free(world.series);
	}
}

static void a_new_process_takes_over_the_name_of_its_pid(void **state)
{
	struct world world = { .series = series_new(), .now_ns = 1, .seed = 1, .next = 1 };
	uint32_t cells;

	start(&world);
	play_round(&world);
	world.process[1].ended_ns = 2;
	start(&world);
	world.process[2].pid = 1;
	play_round(&world);
	assert_int_equal(series_cells(world.series, &cells)[1].value, world.process[2].count);
	assert_int_equal(cells, 2);
	series_free(world.series);
}

static void a_database_that_was_replaced_starts_anew(void **state)
{
	struct world world = { .series = series_new(), .now_ns = 1, .seed = 1, .next = 1 };
	uint32_t cells;

	world.process[0].count = 1000;
	play_round(&world);
	world.process[0].count = 1500;
	play_round(&world);
	assert_int_equal(series_cells(world.series, &cells)->value, 500);
	world.process[0].count = 10;
	play_round(&world);
	assert_int_equal(series_cells(world.series, &cells)->value, 0);
	world.process[0].count = 30;
	play_round(&world);
	assert_int_equal(series_cells(world.series, &cells)->value, 20);
	series_free(world.series);
}

/* tracesmith-ship runs where the text is classic. */
static char *text_of(struct series *series, struct part_names *parts, bool classic)
{
	const struct openmetrics_daemon daemon = { .version = "1.2", .cpu_ns = 1500000000 };
	const struct status ship = { .until_time = 1000, .rows = 7, .trouble = "It is full" };
	const struct openmetrics metrics = { .series = series,
					     .parts = parts,
					     .daemon = &daemon,
					     .ship = classic ? &ship : NULL,
					     .now_s = 1185,
					     .classic = classic };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	openmetrics_write(out, &metrics);
	fclose(out);
	return text;
}

static void add(struct series *series, uint32_t family, int32_t device, int32_t part,
		uint64_t value)
{
	struct series_cell cell = {
		.family = family, .device = device, .part = part, .value = value
	};

	assert_int_equal(series_add(series, 1, &cell, families[family].type == FAMILY_GAUGE), 0);
}

#define OWNER "{pid=\"7\",comm=\"a\\\"b\\\\c\xef\xbf\xbd\""

static void samples_are_text(void **state)
{
	static const char *const wanted[] = {
		"# TYPE tracesmith_launches counter\n",
		"tracesmith_launches_total" OWNER ",device=\"other\"} 12\n",
		"# UNIT tracesmith_sync_wait_seconds seconds\n",
		"tracesmith_sync_wait_seconds_total" OWNER "} 18446744073.709551615\n",
		"tracesmith_copied_bytes_total" OWNER ",device=\"1\",direction=\"HtoD\"} 4096\n",
		"tracesmith_kernel_seconds_bucket" OWNER ",device=\"0\",le=\"1.024e-06\"} 3\n",
		"tracesmith_kernel_seconds_bucket" OWNER ",device=\"0\",le=\"4.096e-06\"} 8\n",
		"tracesmith_kernel_seconds_bucket" OWNER ",device=\"0\",le=\"17.17986918\"} 8\n",
		"tracesmith_kernel_seconds_bucket" OWNER ",device=\"0\",le=\"+Inf\"} 9\n",
		"tracesmith_kernel_seconds_count" OWNER ",device=\"0\"} 9\n",
		"tracesmith_kernel_seconds_sum" OWNER ",device=\"0\"} 40.000000001\n",
		"# TYPE tracesmith_launch_delay_seconds histogram\n",
		"tracesmith_launch_delay_seconds_bucket" OWNER
		",device=\"0\",le=\"4.096e-06\"} 5\n",
		"tracesmith_launch_delay_seconds_bucket" OWNER
		",device=\"0\",le=\"1.6384e-05\"} 7\n",
		"tracesmith_launch_delay_seconds_bucket" OWNER
		",device=\"0\",le=\"1.073741824\"} 7\n",
		"tracesmith_launch_delay_seconds_count" OWNER ",device=\"0\"} 8\n",
		"tracesmith_launch_delay_seconds_sum" OWNER ",device=\"0\"} 18.000000000\n",
		"tracesmith_price_ratio" OWNER ",part=\"probes\"} 0.012345\n",
		"# TYPE tracesmith_process info\ntracesmith_process_info" OWNER "} 1\n",
		"tracesmith_daemon_cpu_seconds_total 1.500000000\n",
		"tracesmith_daemon_info{version=\"1.2\"} 1\n# EOF\n",
	};
	const struct series_process process = {
		.id = 1, .pid = 7, .running = true, .comm = "a\"b\\c\n"
	};
	struct part_names *parts = calloc(1, sizeof(*parts));
	struct series *series = series_new();
	char *text;

	series_begin(series);
	series_add_process(series, &process);
	add(series, FAMILY_OF_LAUNCHES, 5000, 0, 12);
	add(series, FAMILY_OF_SYNC_WAIT, SERIES_NONE, 0, UINT64_MAX);
	add(series, FAMILY_OF_COPIED, 1, part_number(parts, "HtoD"), 4096);
	add(series, FAMILY_OF_KERNELS, 0, 9, 3);
	add(series, FAMILY_OF_KERNELS, 0, 10, 4);
	add(series, FAMILY_OF_KERNELS, 0, 11, 1);
	add(series, FAMILY_OF_KERNELS, 0, 35, 1);
	add(series, FAMILY_OF_KERNEL_TIME, 0, 0, 40 * SECOND_NS + 1);
	add(series, FAMILY_OF_DELAYS, 0, (int32_t)work_delay_power(work_delay(4095)), 5);
	add(series, FAMILY_OF_DELAYS, 0, (int32_t)work_delay_power(work_delay(4096)), 1);
	add(series, FAMILY_OF_DELAYS, 0, (int32_t)work_delay_power(work_delay(16383)), 1);
	add(series, FAMILY_OF_DELAYS, 0, (int32_t)work_delay_power(work_delay(UINT64_MAX)), 1);
	add(series, FAMILY_OF_DELAY_TIME, 0, 0, 18 * SECOND_NS);
	add(series, FAMILY_OF_PRICE, SERIES_NONE, part_number(parts, "probes"), 12345);
	assert_int_equal(series_end(series, 1), 0);
	text = text_of(series, parts, false);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
		if (!strstr(text, wanted[i]))
			fail_msg("'%s' is not in:\n%s", wanted[i], text);
	free(text);
	text = text_of(series, parts, true);
	assert_non_null(strstr(text, "# TYPE tracesmith_launches_total counter\n"));
	assert_non_null(strstr(text, "\ntracesmith_ship_lag_seconds 185.000000000\n"));
	assert_non_null(strstr(text, "\ntracesmith_ship_backlog_minutes 3\n"));
	assert_non_null(strstr(text, "\ntracesmith_ship_failing 1\n"));
	assert_non_null(strstr(text, "\ntracesmith_ship_rows_total 7\n"));
	assert_null(strstr(text, "# UNIT"));
	assert_null(strstr(text, "# EOF"));
	free(text);
	series_free(series);
	free(parts);
}

/* A family's cells: with as many parts as a busy process has, and all buckets of a histogram. */
static void add_all(struct series *series, struct part_names *parts, uint32_t process,
		    struct series_cell cell)
{
	static const char *const names[] = { "launch",	"copy",	   "alloc", "free",
					     "waiting", "pending", "event", "running" };
	static const int32_t most[FAMILY_NUMBERS] = {
		[FAMILY_OF_CALLS] = 8,	  [FAMILY_OF_STATE] = 4,  [FAMILY_OF_ERRORS] = 1,
		[FAMILY_OF_LOST] = 1,	  [FAMILY_OF_MISSED] = 1, [FAMILY_OF_FRAGMENTED] = 3,
		[FAMILY_OF_UNUSABLE] = 3,
	};
	const struct family *family = &families[cell.family];
	const bool histogram = family->type == FAMILY_HISTOGRAM;
	const int32_t some = most[cell.family] ? most[cell.family] : 2;
	const int32_t count = histogram ? 35 : *family->part ? some : 1;

	for (int32_t i = 0; i < count; i++) {
		cell.part = histogram ? i : *family->part ? part_number(parts, names[i]) : 0;
		assert_int_equal(series_add(series, process, &cell, family->type == FAMILY_GAUGE),
				 0);
	}
}

static void a_hundred_processes_fit_in_an_answer(void **state)
{
	struct part_names *parts = calloc(1, sizeof(*parts));
	struct series_cell cell = { .value = 123456789 };
	struct series *series = series_new();
	char *text;

	series_begin(series);
	for (uint32_t process = 1; process <= SERIES_OWNERS; process++)
		series_add_process(series, &(struct series_process){ .id = process,
								     .pid = 4000000 + process,
								     .running = true,
								     .comm = "python3 train.p",
								     .container = "0123456789ab",
								     .user = "researcher",
								     .tier = "exact" });
	for (uint32_t process = 1; process <= SERIES_OWNERS; process++)
		for (cell.family = 0; cell.family < FAMILY_NUMBERS; cell.family++)
			add_all(series, parts, process, cell);
	assert_int_equal(series_end(series, 1), 0);
	text = text_of(series, parts, false);

	print_message("%zu KiB\n", strlen(text) >> 10);
	assert_in_range(strlen(text), 500 << 10, 1 << 20);
	free(text);
	series_free(series);
	free(parts);
}

static void there_are_only_so_many_parts(void **state)
{
	struct part_names *parts = calloc(1, sizeof(*parts));
	char name[16];

	for (int i = 0; i < 2 * OPENMETRICS_PARTS; i++) {
		snprintf(name, sizeof(name), "part %d", i);
		assert_in_range(part_number(parts, name), 1, OPENMETRICS_PARTS);
	}
	assert_int_equal(part_number(parts, "part 5"), 6);
	assert_int_equal(part_number(parts, "part 1500"), OPENMETRICS_PARTS);
	assert_string_equal(parts->name[OPENMETRICS_PARTS - 1], "other");
	free(parts);
}

static void only_our_own_names_are_local(void **state)
{
	static const char *const others[] = {
		"",	    "evil.example", "127.0.0.1.evil.example", "localhost.evil.example",
		"10.0.0.1", "[::2]:80"
	};

	assert_true(listen_is_local_name("127.0.0.1:9640"));
	assert_true(listen_is_local_name("LOCALHOST"));
	assert_true(listen_is_local_name("[::1]:1"));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_false(listen_is_local_name(others[i]));
}

static void only_the_whole_token_is_the_token(void **state)
{
	char token[TOKEN_MAX + 1], second[TOKEN_MAX + 1];

	assert_int_equal(token_get(NULL, token), 0);
	assert_int_equal(token_get(NULL, second), 0);
	assert_string_not_equal(token, second);
	assert_int_equal(strlen(token), 32);
	assert_true(token_is(token, token));
	assert_false(token_is(token, second));
	assert_false(token_is(token, ""));
	token[31] = '\0';
	assert_false(token_is(second, token));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_are_shown_once_and_never_fall),
		cmocka_unit_test(a_new_process_takes_over_the_name_of_its_pid),
		cmocka_unit_test(a_database_that_was_replaced_starts_anew),
		cmocka_unit_test(samples_are_text),
		cmocka_unit_test(a_hundred_processes_fit_in_an_answer),
		cmocka_unit_test(there_are_only_so_many_parts),
		cmocka_unit_test(only_our_own_names_are_local),
		cmocka_unit_test(only_the_whole_token_is_the_token),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
