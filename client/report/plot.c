/* Plot: draws what a report draws, once, or again every second. */
#include "client/report/plot.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "client/base/argument.h"
#include "client/base/complain.h"
#include "client/output/loss.h"
#include "client/output/outfile.h"
#include "client/report/memory_map.h"
#include "client/report/picture.h"
#include "client/report/raster.h"
#include "client/report/report_text.h"
#include "client/trace/meta_load.h"
#include "core/base/array.h"
#include "core/base/text.h"

#define BLOCKS_SHOWN 8000

static const struct plot {
	const char *name;
	int (*draw)(const struct picture *picture, FILE *out); /* NULL: a map of memory */
	const char *nothing;				       /* why there is nothing to draw */
} plots[] = {
	{ "busy", picture_lanes, "No stream was used" },
	{ "memory", picture_memory, "No memory was allocated or freed" },
	{ "memory-map", NULL, "No memory was held" },
};

static volatile sig_atomic_t stops;

static void on_stop(int number)
{
	stops++;
}

static int take_ops(void *data, struct op *op, size_t count, uint64_t done_ns)
{
	return picture_ops(data, op, count);
}

static int map_ops(void *data, struct op *op, size_t count, uint64_t done_ns)
{
	return memory_map_ops(data, op, count);
}

/* Without a window, a recording is drawn as a whole. */
static const char *time_of(const struct options *options)
{
	return options->file && !(options->given & OPTIONS_WINDOW) ? "in this recording"
								   : "in this time: see --since";
}

static int save(const struct options *options, const struct plot *plot,
		const struct picture *picture, struct address_map *map)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	FILE *out = text_open(&text, &size);
	int r = -ENOMEM;

	if (out)
		r = plot->draw ? plot->draw(picture, out)
			       : memory_map_draw(picture, map, BLOCKS_SHOWN, out);
	if (out && text_close(out) < 0)
		r = -ENOMEM;
	if (r > 0 && raster_is_wanted(options->output)) {
		_cleanup_(freep) char *png = NULL;
		size_t png_size = 0;

		r = raster_png(text, &png, &png_size);
		return r < 0 ? r : outfile_save(options->output, png, png_size);
	}
	if (r > 0)
		return outfile_save(options->output, text, size);
	if (r == 0)
		complain("%s %s", plot->nothing, time_of(options));
	else
		complain("Not enough memory");
	return r == 0 ? -ENODATA : r;
}

static int draw(const struct options *options, const struct plot *plot)
{
	_cleanup_(trace_done) struct trace trace = { 0 };
	_cleanup_(picture_done) struct picture picture = { 0 };
	_cleanup_(address_map_done) struct address_map map = { 0 };
	_cleanup_(reply_freep) Tracesmith__V1__Reply *end = NULL;
	int r = trace_open(options, &trace);

	if (r < 0)
		return r;
	picture_init_trace(&picture, &trace, options->file);
	picture.style = report_css;
	if (!plot->draw)
		r = meta_load_held(trace.link, trace.pid, trace.meta);
	if (r == 0)
		r = plot->draw ? trace_read(&trace, take_ops, &picture, &end)
			       : trace_read(&trace, map_ops, &map, &end);
	if (r < 0)
		return r;
	if (!(options->given & OPTION(FOLLOW)))
		loss_complain(end->done);
	return save(options, plot, &picture, &map);
}

/* Without data, it waits for some. */
static int follow(const struct options *options, const struct plot *plot)
{
	const struct sigaction action = { .sa_handler = on_stop };
	int r;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	do {
		r = draw(options, plot);
		if (!stops)
			sleep(1);
	} while (!stops && (r == 0 || r == -ENODATA));
	return stops ? 0 : r;
}

static const struct plot *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(plots); i++)
		if (strcmp(name, plots[i].name) == 0)
			return &plots[i];
	return NULL;
}

int plot_run(const struct options *options, const char *what)
{
	const struct plot *plot = find(what);
	struct options own = *options;
	int r;

	if (!plot) {
		complain("Unknown picture '%s': give busy, memory or memory-map", what);
		return EXIT_USAGE;
	}
	if (raster_is_wanted(own.output) && raster_check() < 0)
		return EXIT_FAILED; /* before anything is read */
	argument_window(&own);
	r = own.given & OPTION(FOLLOW) ? follow(&own, plot) : draw(&own, plot);
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}
