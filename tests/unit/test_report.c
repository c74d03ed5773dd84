/* Report: its pictures, its escaping, and its findings, without a daemon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/report/finding.h"
#include "client/report/markup.h"
#include "client/report/page.h"
#include "client/report/picture.h"
#include "client/report/raster.h"
#include "client/report/section.h"
#include "core/base/array.h"

#define MS UINT64_C(1000000)

static char text[1 << 20];

static const char *written(void (*write)(FILE *out, const char *given), const char *given)
{
	FILE *out = fmemopen(text, sizeof(text), "w");

	assert_non_null(out);
	write(out, given);
	fclose(out);
	return text;
}

static void names_of_others_are_never_markup(void **state)
{
	assert_string_equal(written(markup_text, "<script>\"a\" & 'b'"),
			    "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;");
	assert_string_equal(written(markup_text, "\x1b[2Jx\xe2\x80\xaey\xff"), "�[2Jx�y�");
	assert_string_equal(written(markup_cell, "a|b<i>*c* [d](e)"),
			    "a\\|b&lt;i&gt;\\*c\\* \\[d\\](e)");
	assert_string_equal(written(markup_code, "f `rm` \n"), "`f 'rm' �`");
}

struct scene {
	struct meta *meta;
	struct picture picture;
};

static void scene_new(struct scene *scene)
{
	const struct meta_stream stream = { .id = 5, .process = 1, .handle = 0x10, .device = 0 };
	const struct meta_loss losses[] = {
		{ .start_ns = 200 * MS, .end_ns = 300 * MS, .reason = 13, .count = 1 },
		{ .start_ns = 400 * MS, .end_ns = 900 * MS, .reason = 5, .count = 9 },
	};

	assert_int_equal(meta_new(&scene->meta), 0);
	assert_int_equal(meta_add_process(scene->meta, 1, 42, "<train>", "train"), 0);
	assert_int_equal(meta_add_stream(scene->meta, &stream), 0);
	assert_int_equal(meta_add_loss(scene->meta, &losses[0], "gap"), 0);
	assert_int_equal(meta_add_loss(scene->meta, &losses[1], "stack-sampled"), 0);
	picture_init(&scene->picture, scene->meta, 0, 900 * MS);
}

static void scene_done(struct scene *scene)
{
	picture_done(&scene->picture);
	meta_free(scene->meta);
}

static void add(struct scene *scene, uint8_t kind, uint64_t from_ms, uint64_t to_ms)
{
	const struct op op = {
		.kind = kind,
		.process = 1,
		.stream = 5,
		.flags = OP_EXACT | OP_RETURNED,
		.start_ns = from_ms * MS,
		.end_ns = from_ms * MS,
		.gpu_start_ns = from_ms * MS,
		.gpu_end_ns = to_ms * MS,
	};

	assert_int_equal(picture_op(&scene->picture, &op), 0);
}

static void allocate(struct scene *scene, uint8_t kind, uint64_t at_ms, uint64_t live_bytes)
{
	const struct op op = {
		.kind = kind,
		.process = 1,
		.detail = MEMORY_DEVICE,
		.flags = OP_RETURNED,
		.start_ns = at_ms * MS,
		.end_ns = at_ms * MS,
		.bytes = 1,
		.live_bytes = live_bytes,
	};

	assert_int_equal(picture_op(&scene->picture, &op), 0);
}

static int draw(const struct scene *scene, int (*write)(const struct picture *picture, FILE *out))
{
	FILE *out = fmemopen(text, sizeof(text), "w");
	int r;

	assert_non_null(out);
	r = write(&scene->picture, out);
	fclose(out);
	return r;
}

/* 900 columns of a millisecond each. */
static void lanes_have_each_stream_when_it_was_busy(void **state)
{
	struct scene scene;

	scene_new(&scene);
	assert_int_equal(draw(&scene, picture_lanes), 0);
	add(&scene, OP_LAUNCH, 100, 150);
	add(&scene, OP_LAUNCH, 150, 200);
	add(&scene, OP_COPY, 800, 2000); /* beyond the end */
	assert_int_equal(draw(&scene, picture_lanes), 1);
	assert_non_null(strstr(text, "&lt;train&gt; 42"));
	assert_non_null(strstr(text, "class=\"kernel\" x=\"380\" y=\"0\" width=\"100\""));
	assert_non_null(strstr(text, "class=\"copy\" x=\"1080\" y=\"0\" width=\"100\""));
	/* Only what leaves something out is hatched. */
	assert_non_null(strstr(text, "x=\"480.0\" y=\"0\" width=\"100.0\""));
	assert_non_null(strstr(
		text, "<title>not watched for 100 ms (probes were not attached yet)</title>"));
	assert_null(strstr(text, "stack-sampled"));
	scene_done(&scene);
}

static void memory_stays_until_it_changes(void **state)
{
	struct scene scene;

	scene_new(&scene);
	assert_int_equal(draw(&scene, picture_memory), 0);
	allocate(&scene, OP_ALLOC, 100, 1000);
	allocate(&scene, OP_FREE, 500, 0);
	assert_int_equal(draw(&scene, picture_memory), 1);
	assert_non_null(strstr(text, "d=\"M380 6.0H381L381 6.0H382"));
	assert_non_null(strstr(text, "L779 6.0H780L780 176.0H781"));
	assert_null(strstr(text, "M280 176.0")); /* what was live before is not known */
	assert_non_null(strstr(text, "peak 1000 B"));
	scene_done(&scene);
}

/* An answer with one row of these. */
struct value {
	const char *column, *cell;
	int64_t number;
};

static void put_row(struct report_answer *answer, struct answer_row *row, const struct value *value,
		    size_t count)
{
	*answer = (struct report_answer){ .columns = count, .rows = 1, .row = row };
	for (size_t i = 0; i < count; i++) {
		answer->column[i] = value[i].column;
		row->cell[i] = value[i].cell;
		row->number[i] = value[i].number;
		row->known[i] = true;
	}
}

static void find(const struct finding_facts *facts, const struct page_form *form)
{
	FILE *out = fmemopen(text, sizeof(text), "w");

	assert_non_null(out);
	findings_write(facts, form, out);
	fclose(out);
}

static void what_stands_out_is_said_with_its_command(void **state)
{
	static const struct value leak[] = {
		{ "pid", "42", 42 },
		{ "comm", "<b>", 0 },
		{ "bytes", "9 MiB", 9 },
		{ "count", "8", 8 },
		{ "verdict", "leak", 0 },
		{ "why", "8 blocks live", 0 },
		{ "where", "keep (a.py:3)", 0 },
	};
	static struct answer_row row;
	static struct report_answer answer[SECTION_COUNT];
	struct finding_facts facts = {
		.answer = answer,
		.where = "--pid 42",
		.replay = "--pid 42",
		.window_ns = 1000 * MS,
	};

	find(&facts, &page_markdown);
	assert_string_equal(text, "Nothing stands out.\n\n");
	put_row(&answer[SECTION_LEAKS], &row, leak, ARRAY_SIZE(leak));
	find(&facts, &page_html);
	assert_non_null(strstr(text, "&lt;b&gt; (42) leaks memory: 9 MiB in 8 allocations"));
	assert_non_null(strstr(text, "in keep (a.py:3)"));
	assert_non_null(strstr(text, "<code>tsctl query leaks --pid 42</code>"));
	assert_null(strstr(text, "lost:"));
	answer[SECTION_LEAKS].loss = "lost: 3 <i> (full)";
	find(&facts, &page_html);
	assert_non_null(strstr(text, "<p class=\"faint\">lost: 3 &lt;i&gt; (full)</p></div>"));
	find(&facts, &page_markdown);
	assert_non_null(strstr(text, "lost: 3 &lt;i&gt; (full)"));
	row.cell[4] = "held";
	find(&facts, &page_html);
	assert_null(strstr(text, "leak"));
}

static const struct finding_facts of_recording = {
	.where = "--file 'a.sbt'",
	.file = "--file 'a.sbt'",
	.replay = "'a.sbt'",
	.window_ns = 1000 * MS,
};

static void what_ran_out_of_memory_is_a_finding_unless_it_recovered(void **state)
{
	static const struct value oom[] = {
		{ "pid", "42", 42 },
		{ "comm", "train", 0 },
		{ "oom", "7", 7 },
		{ "bytes", "9 MiB", 9 << 20 },
		{ "outcome", "failed", 0 },
		{ "where", "load (a.py:3)", 0 },
		{ "enough", "4 MiB more", 0 },
	};
	static struct answer_row row;
	static struct report_answer answer[SECTION_COUNT];
	struct finding_facts facts = of_recording;

	facts.answer = answer;
	put_row(&answer[SECTION_OOM], &row, oom, ARRAY_SIZE(oom));
	find(&facts, &page_markdown);
	assert_non_null(strstr(text, "train (42) got no memory: it asked for 9 MiB, in load "
				     "(a.py:3). Enough was: 4 MiB more."));
	assert_non_null(strstr(text, "`tsctl oom show 7 --file 'a.sbt'`"));
	row.cell[4] = "recovered";
	find(&facts, &page_markdown);
	assert_string_equal(text, "Nothing stands out.\n\n");
}

static void fragmentation_is_a_finding_if_much_is_of_no_use(void **state)
{
	static const struct value pool[] = {
		{ "pid", "42", 42 },
		{ "comm", "train", 0 },
		{ "pool", "large", 0 },
		{ "index", "50 %", 500000 },
		{ "reserved_bytes", "64 MiB", 64 << 20 },
		{ "free_bytes", "16 MiB", 16 << 20 },
		{ "pieces", "30", 30 },
		{ "largest_bytes", "1 MiB", 1 << 20 },
		{ "unusable", "10 %", 100000 },
	};
	static struct answer_row row;
	static struct report_answer answer[SECTION_COUNT];
	struct finding_facts facts = of_recording;

	facts.answer = answer;
	put_row(&answer[SECTION_FRAGMENTATION], &row, pool, ARRAY_SIZE(pool));
	find(&facts, &page_markdown);
	assert_non_null(strstr(text, "Memory of train (42) is fragmented: of 64 MiB in its large "
				     "pool 16 MiB are free, in 30 pieces of at most 1 MiB, and "
				     "10 % is of no use for what it asked for lately."));
	assert_non_null(strstr(text, "`tsctl query fragmentation --by-place --file 'a.sbt'`"));
	row.number[8]--;
	find(&facts, &page_markdown);
	assert_string_equal(text, "Nothing stands out.\n\n");
}

/* Not the process that did nothing at all. */
static void an_idle_device_is_that_of_who_ran_most(void **state)
{
	static const struct value row_of[][6] = {
		{ { "pid", "1", 1 },
		  { "comm", "asleep", 0 },
		  { "device", "0", 0 },
		  { "state", "idle", 0 },
		  { "total_ns", "1 s", 1000 * MS },
		  { "share", "100 %", 1000000 } },
		{ { "pid", "2", 2 },
		  { "comm", "train", 0 },
		  { "device", "0", 0 },
		  { "state", "running", 0 },
		  { "total_ns", "0.1 s", 100 * MS },
		  { "share", "10 %", 100000 } },
		{ { "pid", "2", 2 },
		  { "comm", "train", 0 },
		  { "device", "0", 0 },
		  { "state", "syncing", 0 },
		  { "total_ns", "0.9 s", 900 * MS },
		  { "share", "90 %", 900000 } },
	};
	static struct answer_row row[ARRAY_SIZE(row_of)];
	static struct report_answer answer[SECTION_COUNT];
	struct finding_facts facts = of_recording;

	facts.answer = answer;
	for (size_t i = 0; i < ARRAY_SIZE(row_of); i++)
		put_row(&answer[SECTION_IDLE], &row[i], row_of[i], ARRAY_SIZE(row_of[i]));
	answer[SECTION_IDLE].row = row;
	answer[SECTION_IDLE].rows = ARRAY_SIZE(row_of);
	find(&facts, &page_markdown);
	assert_non_null(strstr(text,
			       "Device 0 ran kernels of train (2) for 10 % of the time. Most of "
			       "the rest is 'syncing', 90 %"));
}

static void copies_of_pageable_memory_are_a_finding(void **state)
{
	static const struct value pageable[] = {
		{ "pid", "42", 42 },
		{ "comm", "train", 0 },
		{ "kind", "HtoD", 0 },
		{ "count", "300", 300 },
		{ "total_ns", "1 ms", 1 * MS },
		{ "bytes", "9 MiB", 9 << 20 },
		{ "call_ns", "20 ms", 20 * MS },
		{ "where", "load (a.py:3)", 0 },
	};
	static struct answer_row row;
	static struct report_answer answer[SECTION_COUNT];
	struct finding_facts facts = {
		.answer = answer,
		.where = "--file 'a.sbt'",
		.replay = "'a.sbt'",
		.window_ns = 1000 * MS,
	};

	put_row(&answer[SECTION_PAGEABLE], &row, pageable, ARRAY_SIZE(pageable));
	answer[SECTION_PAGEABLE].loss = "lost: 3 (full)";
	find(&facts, &page_markdown);
	assert_non_null(strstr(text, "train (42) made 300 copies (HtoD, 9 MiB) from or to pageable "
				     "memory, in load (a.py:3): 1 ms on the device, 20 ms in the "
				     "calls."));
	assert_non_null(strstr(text, "`tsctl query pageable --file 'a.sbt'`"));
	assert_non_null(strstr(text, "lost: 3 (full)"));
	facts.window_ns = 1001 * MS; /* less than a fiftieth of it */
	find(&facts, &page_markdown);
	assert_string_equal(text, "Nothing stands out.\n\n");
}

static void waste_is_a_finding_if_it_is_much(void **state)
{
	static const struct value waste[] = {
		{ "pid", "42", 42 },
		{ "comm", "train", 0 },
		{ "pattern", "allocated again", 0 },
		{ "certainty", "certain", 0 },
		{ "fn", "cuMemAlloc_v2", 0 },
		{ "count", "300", 300 },
		{ "bytes", "9 MiB", 9 << 20 },
		{ "lost_ns", "20 ms", 20 * MS },
		{ "where", "load (a.py:3)", 0 },
		{ "advice", "keep it", 0 },
	};
	static struct answer_row row;
	static struct report_answer answer[SECTION_COUNT];
	struct finding_facts facts = {
		.answer = answer,
		.where = "--file 'a.sbt'",
		.replay = "'a.sbt'",
		.window_ns = 1000 * MS,
	};

	put_row(&answer[SECTION_WASTE], &row, waste, ARRAY_SIZE(waste));
	find(&facts, &page_markdown);
	assert_non_null(strstr(text,
			       "train (42): 300 times 'allocated again' (cuMemAlloc\\_v2, 9 MiB), "
			       "in load (a.py:3), which took 20 ms, and is certain. Advice: "
			       "keep it."));
	assert_non_null(strstr(text, "`tsctl query waste --file 'a.sbt'`"));
	facts.window_ns = 1001 * MS; /* less than a fiftieth of it */
	find(&facts, &page_markdown);
	assert_string_equal(text, "Nothing stands out.\n\n");
}

static void short_kernels_are_a_finding_with_the_gain(void **state)
{
	static const struct value kernels[] = {
		{ "count", "5000", 5000 },
		{ "total_ns", "10 ms", 10 * MS },
	};
	static struct answer_row row;
	static struct report_answer answer[SECTION_COUNT];
	struct finding_facts facts = {
		.answer = answer,
		.where = "",
		.replay = "'a.sbt'",
		.recorded_ns = 100,
		.predicted_ns = 75,
	};

	put_row(&answer[SECTION_KERNELS], &row, kernels, ARRAY_SIZE(kernels));
	find(&facts, &page_markdown);
	assert_non_null(strstr(text, "5000 kernels took 2.00 µs on average"));
	assert_non_null(strstr(text, "25.0 % less time"));
	assert_non_null(strstr(text, "`tsctl replay --graph 'a.sbt'`"));
	facts.predicted_ns = 99;
	find(&facts, &page_markdown);
	assert_non_null(strstr(text, "no gain worth mentioning"));
}

/* librsvg knows no variables. */
static void colours_of_a_picture_stand_for_themselves(void **state)
{
	size_t size = 0;
	char *plain =
		raster_plain("<style>:root { --ink: #111; --line: red; } @media (dark) { :root { "
			     "--ink: #eee } } .a { fill: var(--ink) } .b { stroke:var(--line); "
			     "fill: var(--none) }</style> var(--ink",
			     &size);

	assert_non_null(plain);
	assert_int_equal(size, strlen(plain));
	assert_non_null(strstr(plain, ".a { fill: #111 } .b { stroke:red; fill:  }</style> #111"));
	free(plain);
	assert_true(raster_is_wanted("a.png") && raster_is_wanted("/tmp/.x.png"));
	assert_false(raster_is_wanted(".png") || raster_is_wanted("png") ||
		     raster_is_wanted("a.png.svg") || raster_is_wanted("-"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_of_others_are_never_markup),
		cmocka_unit_test(lanes_have_each_stream_when_it_was_busy),
		cmocka_unit_test(memory_stays_until_it_changes),
		cmocka_unit_test(what_stands_out_is_said_with_its_command),
		cmocka_unit_test(what_ran_out_of_memory_is_a_finding_unless_it_recovered),
		cmocka_unit_test(fragmentation_is_a_finding_if_much_is_of_no_use),
		cmocka_unit_test(an_idle_device_is_that_of_who_ran_most),
		cmocka_unit_test(copies_of_pageable_memory_are_a_finding),
		cmocka_unit_test(waste_is_a_finding_if_it_is_much),
		cmocka_unit_test(short_kernels_are_a_finding_with_the_gain),
		cmocka_unit_test(colours_of_a_picture_stand_for_themselves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
