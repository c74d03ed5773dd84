/* Report: asks everything first, then writes, since what stands out comes before the tables. */
#include "client/report/report.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "client/base/argument.h"
#include "client/base/complain.h"
#include "client/export/export.h"
#include "client/output/outfile.h"
#include "client/replay/whatif.h"
#include "client/report/answer.h"
#include "client/report/finding.h"
#include "client/report/memory_map.h"
#include "client/report/page.h"
#include "client/report/picture.h"
#include "client/report/section.h"
#include "client/trace/meta_load.h"
#include "client/trace/trace.h"
#include "core/base/array.h"
#include "core/base/text.h"
#include "core/base/units.h"

#define OPS_EMULATED 2000000 /* more take the emulator more than seconds */
#define BLOCKS_SHOWN 1500    /* of memory, so that the file stays small */
#define TEXT_BYTES   1024

struct report {
	struct options options;
	const struct page_form *form;
	struct report_answer answer[SECTION_COUNT];
	struct trace trace;
	struct picture picture;
	struct address_map map;
	struct export_run *flame;
	char *svg; /* of the flame graph */
	size_t svg_size;
	FILE *svg_file, *out;
	uint64_t exact; /* ops with times of the device */
	struct replay_gain gain;
};

static void report_done(struct report *report)
{
	for (size_t i = 0; i < SECTION_COUNT; i++)
		report_answer_done(&report->answer[i]);
	export_free(report->flame);
	if (report->svg_file)
		fclose(report->svg_file);
	free(report->svg);
	address_map_done(&report->map);
	picture_done(&report->picture);
	trace_done(&report->trace);
}

static int ask_all(struct report *report)
{
	_cleanup_(link_freep) struct link *link = NULL;
	int r = link_open(&report->options, &link);

	for (size_t i = 0; i < SECTION_COUNT && r == 0; i++) {
		const struct section *section = &sections[i];
		struct options options = report->options;

		if (options.file && !section->recorded)
			continue;
		if (!section->windowed)
			options.given &= ~OPTIONS_WINDOW;
		r = report_ask(link, &options, section->query, section->limit, section->by,
			       &report->answer[i]);
	}
	return r;
}

static int write_svg(void *data, const void *bytes, size_t size)
{
	return fwrite(bytes, 1, size, data) == size ? 0 : -ENOMEM;
}

static int take_ops(void *data, struct op *op, size_t count, uint64_t done_ns)
{
	struct report *report = data;
	int r = export_ops(report->flame, op, count);

	if (r < 0) {
		complain("Cannot draw the pictures: %s", strerror(-r));
		return r;
	}
	for (size_t i = 0; i < count; i++)
		report->exact += show_has_work(&op[i]);
	r = memory_map_ops(&report->map, op, count);
	return r < 0 ? r : picture_ops(&report->picture, op, count);
}

static int draw(struct report *report)
{
	struct trace *trace = &report->trace;
	struct out_sink sink = { .write = write_svg };
	int r = trace_open(&report->options, trace);

	if (r < 0)
		return r;
	picture_init_trace(&report->picture, trace, report->options.file);
	r = meta_load_held(trace->link, trace->pid, trace->meta);
	if (r < 0)
		return r;
	report->svg_file = text_open(&report->svg, &report->svg_size);
	sink.data = report->svg_file;
	r = report->svg_file ? export_new(&export_svg, trace->meta, &sink, &report->flame)
			     : -ENOMEM;
	if (r < 0)
		return complain("Cannot draw the pictures: %s", strerror(-r)), r;
	r = trace_read(trace, take_ops, report, NULL);
	if (r == 0)
		r = export_end(report->flame);
	if (r == 0 && (fflush(report->svg_file) != 0 || ferror(report->svg_file)))
		r = -ENOMEM;
	if (r == -ENOMEM)
		complain_memory();
	return r;
}

/* Where nothing is launched often, there is nothing to gain. */
static void predict(struct report *report)
{
	const struct report_answer *kernels = &report->answer[SECTION_KERNELS];

	if (answer_sum(kernels, "count") >= FINDING_TINY_COUNT &&
	    report->trace.op_count <= OPS_EMULATED)
		replay_predict_graph(&report->options, &report->gain);
}

/* The columns of a section that say anything in its rows. */
static size_t choose(const struct report_answer *answer, const char *listed, size_t *column)
{
	size_t count = 0;

	while (*listed) {
		size_t length = strcspn(listed, " "), i = 0, row = 0;

		while (i < answer->columns && (strncmp(answer->column[i], listed, length) != 0 ||
					       answer->column[i][length]))
			i++;
		while (i < answer->columns && row < answer->rows && !answer->row[row].known[i])
			row++;
		if (row < answer->rows && i < answer->columns)
			column[count++] = i;
		listed += length + (listed[length] == ' ');
	}
	return count;
}

static void write_tables(const struct report *report)
{
	size_t column[ANSWER_COLUMNS_MAX];

	for (size_t i = 0; i < SECTION_COUNT; i++) {
		const struct report_answer *answer = &report->answer[i];

		if (answer->rows == 0)
			continue;
		report->form->heading(report->out, sections[i].title);
		report->form->table(report->out, answer, column,
				    choose(answer, sections[i].columns, column));
		if (*answer->note)
			report->form->text(report->out, answer->note);
		if (*answer->loss && i != SECTION_LOSS)
			report->form->text(report->out, answer->loss);
	}
	if (report->answer[SECTION_LOSS].rows == 0)
		report->form->text(report->out, "Nothing is missing from this report.");
}

typedef int draw_fn(struct report *report, FILE *out);

static int draw_lanes(struct report *report, FILE *out)
{
	return picture_lanes(&report->picture, out);
}

static int draw_memory(struct report *report, FILE *out)
{
	return picture_memory(&report->picture, out);
}

static int draw_map(struct report *report, FILE *out)
{
	return memory_map_draw(&report->picture, &report->map, BLOCKS_SHOWN, out);
}

static int write_picture(struct report *report, const char *title, draw_fn *write)
{
	_cleanup_(freep) char *svg = NULL;
	size_t size = 0;
	FILE *file = text_open(&svg, &size);
	int r;

	if (!file)
		return -ENOMEM;
	r = write(report, file);
	if (text_close(file) < 0)
		return -ENOMEM;
	if (r > 0)
		report->form->picture(report->out, title, svg);
	return r;
}

static int write_pictures(struct report *report)
{
	static const struct {
		const char *title;
		draw_fn *draw;
	} pictures[] = {
		{ "Streams over time", draw_lanes },
		{ "Memory over time", draw_memory },
		{ "Addresses over time", draw_map },
	};
	int r = 0;

	if (!report->form->picture)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(pictures) && r >= 0; i++)
		r = write_picture(report, pictures[i].title, pictures[i].draw);
	if (r >= 0 && report->exact)
		report->form->document(report->out, "GPU time by call stack", report->svg,
				       report->svg_size);
	return r < 0 ? r : 0;
}

/* For the shell, so that a command can be copied. */
static void say_where(const struct options *options, bool replays, char text[TEXT_BYTES])
{
	size_t n = 0;

	if (options->file)
		n = (size_t)snprintf(text, TEXT_BYTES, "%s'%s'", replays ? "" : "--file ",
				     options->file);
	else if (options->given & OPTION(PID))
		n = (size_t)snprintf(text, TEXT_BYTES, "--pid %" PRIu64, options->pid);
	if (n == 0)
		text[0] = '\0';
}

static void write_begin(const struct report *report)
{
	const struct options *options = &report->options;
	const struct report_answer *processes = &report->answer[SECTION_PROCESSES];
	const int64_t wall_ns = link_hello(report->trace.link)->wall_offset_ns;
	const struct picture *picture = &report->picture;
	char title[TEXT_BYTES], about[TEXT_BYTES], from[UNITS_TEXT_SIZE], length[UNITS_TEXT_SIZE];

	if (options->file)
		snprintf(title, sizeof(title), "%s", options->file);
	else if (options->given & OPTION(PID))
		snprintf(title, sizeof(title), "%s (%" PRIu64 ")",
			 answer_cell(processes, 0, "comm"), options->pid);
	else
		snprintf(title, sizeof(title), "All processes");
	snprintf(about, sizeof(about), "%s from %s on, %" PRIu64 " operations, %zu processes.",
		 units_nanoseconds(length, (int64_t)(picture->to_ns - picture->from_ns)),
		 units_time(from, (int64_t)picture->from_ns + wall_ns), report->trace.op_count,
		 processes->rows);
	report->form->begin(report->out, title, about);
}

static int write_all(struct report *report)
{
	char where[TEXT_BYTES], replay[TEXT_BYTES];
	const struct finding_facts facts = {
		.answer = report->answer,
		.where = where,
		.file = report->options.file ? where : "",
		.replay = replay,
		.window_ns = report->picture.to_ns - report->picture.from_ns,
		.recorded_ns = report->gain.recorded_ns,
		.predicted_ns = report->gain.predicted_ns,
	};
	int r;

	say_where(&report->options, false, where);
	say_where(&report->options, true, replay);
	write_begin(report);
	report->form->heading(report->out, "What stands out");
	findings_write(&facts, report->form, report->out);
	r = write_pictures(report);
	if (r < 0)
		return r;
	write_tables(report);
	report->form->end(report->out, TS_VERSION);
	return 0;
}

static int save(struct report *report, const char *output)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	int r = -ENOMEM;

	report->out = text_open(&text, &size);
	if (report->out)
		r = write_all(report);
	if (report->out && text_close(report->out) < 0 && r == 0)
		r = -ENOMEM;
	if (r == 0)
		return outfile_save(output, text, size);
	complain("Cannot write the report: %s", strerror(-r));
	return r;
}

int report_run(const struct options *options, bool markdown)
{
	_cleanup_(report_done) struct report report = {
		.options = *options,
		.form = markdown ? &page_markdown : &page_html,
	};

	argument_window(&report.options);
	if (ask_all(&report) < 0 || draw(&report) < 0)
		return EXIT_FAILED;
	predict(&report);
	return save(&report, options->output) < 0 ? EXIT_FAILED : EXIT_DONE;
}
