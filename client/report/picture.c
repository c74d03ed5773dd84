/* Picture: for each column of pixels, how much of its time a stream was busy, and the most memory
 * that was live. A column in which nothing was allocated or freed shows what was live before. */
#include "client/report/picture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/report/markup.h"
#include "client/trace/show.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/units.h"
#include "core/model/core.h"
#include "core/model/loss_said.h"

#define LANES_MAX    1024 /* kept */
#define LANES_SHOWN  24	  /* the busiest */
#define CURVES_MAX   256
#define CURVES_SHOWN 6
#define LANE_HEIGHT  16
#define LANE_GAP     4
#define GRAPH	     180 /* height of the curves */
#define KEY	     18	 /* height of a line of their legend */
#define LABEL_CHARS  42
#define TICKS	     5
#define SHADES	     8

enum busy { BUSY_KERNEL, BUSY_COPY, BUSY_PENDING, BUSY_KINDS };

static const char *const busy_class[BUSY_KINDS] = { "kernel", "copy", "pending" };

struct picture_lane {
	struct picture_lane *next;
	uint32_t process, stream;
	int16_t device;
	double total[BUSY_KINDS];
	float share[BUSY_KINDS][PICTURE_COLUMNS];
};

struct picture_curve {
	struct picture_curve *next;
	struct op op; /* an example, for its name */
	uint64_t peak;
	uint64_t live[PICTURE_COLUMNS], last_ns[PICTURE_COLUMNS]; /* peak, and time of the last */
	uint64_t last[PICTURE_COLUMNS];
	bool seen[PICTURE_COLUMNS];
};

void picture_init(struct picture *picture, const struct meta *meta, uint64_t from_ns,
		  uint64_t to_ns)
{
	*picture = (struct picture){
		.meta = meta,
		.from_ns = from_ns,
		.to_ns = to_ns > from_ns ? to_ns : from_ns + 1,
	};
}

void picture_init_trace(struct picture *picture, const struct trace *trace, bool recording)
{
	picture_init(picture, trace->meta, recording ? trace->begin_ns : trace->since_ns,
		     trace->end_ns);
}

double picture_column(const struct picture *picture, uint64_t ns)
{
	double span = (double)(picture->to_ns - picture->from_ns);
	double at = ns > picture->from_ns ? (double)(ns - picture->from_ns) : 0;

	return at < span ? at / span * PICTURE_COLUMNS : PICTURE_COLUMNS;
}

static struct picture_lane *lane_of(struct picture *picture, const struct op *op)
{
	const struct map_key key = { op->process, op->stream };
	struct picture_lane *lane = map_get(&picture->lane, key);

	if (lane || picture->lanes == LANES_MAX)
		return lane;
	lane = calloc(1, sizeof(*lane));
	if (!lane || map_put(&picture->lane, key, lane) < 0) {
		free(lane);
		return NULL;
	}
	lane->process = op->process;
	lane->stream = op->stream;
	lane->device = op->device;
	lane->next = picture->first_lane;
	picture->first_lane = lane;
	picture->lanes++;
	return lane;
}

static void fill(struct picture_lane *lane, enum busy kind, double from, double to)
{
	size_t i = (size_t)from;

	lane->total[kind] += to - from;
	for (; i < PICTURE_COLUMNS && (double)i < to; i++) {
		double begin = from > (double)i ? from : (double)i;
		double end = to < (double)(i + 1) ? to : (double)(i + 1);

		lane->share[kind][i] += (float)(end - begin);
	}
}

static int add_busy(struct picture *picture, const struct op *op, enum busy kind, uint64_t from_ns,
		    uint64_t to_ns)
{
	struct picture_lane *lane;

	if (to_ns <= picture->from_ns || from_ns >= picture->to_ns)
		return 0;
	lane = lane_of(picture, op);
	if (lane)
		fill(lane, kind, picture_column(picture, from_ns), picture_column(picture, to_ns));
	else
		picture->left_out++;
	return lane || picture->lanes == LANES_MAX ? 0 : -ENOMEM;
}

static struct picture_curve *curve_of(struct picture *picture, const struct op *op)
{
	const struct map_key key = { op->process,
				     show_is_host(op) ? UINT64_MAX : (uint16_t)op->device };
	struct picture_curve *curve = map_get(&picture->curve, key);

	if (curve || picture->curves == CURVES_MAX)
		return curve;
	curve = calloc(1, sizeof(*curve));
	if (!curve || map_put(&picture->curve, key, curve) < 0) {
		free(curve);
		return NULL;
	}
	curve->op = *op;
	curve->next = picture->first_curve;
	picture->first_curve = curve;
	picture->curves++;
	return curve;
}

static int add_memory(struct picture *picture, const struct op *op)
{
	uint64_t ns = show_end_ns(op);
	struct picture_curve *curve;
	size_t i;

	if (ns < picture->from_ns || ns >= picture->to_ns)
		return 0;
	curve = curve_of(picture, op);
	if (!curve) {
		picture->left_out++;
		return picture->curves == CURVES_MAX ? 0 : -ENOMEM;
	}
	i = (size_t)picture_column(picture, ns);
	if (op->live_bytes > curve->live[i])
		curve->live[i] = op->live_bytes;
	if (op->live_bytes > curve->peak)
		curve->peak = op->live_bytes;
	if (!curve->seen[i] || ns >= curve->last_ns[i]) {
		curve->last_ns[i] = ns;
		curve->last[i] = op->live_bytes;
	}
	curve->seen[i] = true;
	return 0;
}

int picture_op(struct picture *picture, const struct op *op)
{
	int r = 0;

	if (op->kind == OP_STATE)
		return op->stream && op->detail == OP_STATE_PENDING
			       ? add_busy(picture, op, BUSY_PENDING, op->start_ns, op->end_ns)
			       : 0;
	if (show_has_work(op))
		r = add_busy(picture, op,
			     op->kind == OP_COPY || op->kind == OP_SET ? BUSY_COPY : BUSY_KERNEL,
			     op->gpu_start_ns, op->gpu_end_ns);
	return r == 0 && show_has_memory(op) ? add_memory(picture, op) : r;
}

int picture_ops(struct picture *picture, const struct op *op, size_t count)
{
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++)
		r = picture_op(picture, &op[i]);
	if (r < 0)
		complain("Cannot draw the pictures: %s", strerror(-r));
	return r;
}

void picture_write_label(FILE *out, double x, double y, const char *text)
{
	char label[LABEL_CHARS + 4];
	size_t cut = strlen(text) > LABEL_CHARS ? LABEL_CHARS : strlen(text);

	while (cut && ((unsigned char)text[cut] & 0xc0) == 0x80) /* within a code point */
		cut--;
	snprintf(label, sizeof(label), "%.*s%s", (int)cut, text, text[cut] ? "…" : "");
	fprintf(out, "<text x=\"%.0f\" y=\"%.0f\">", x, y);
	markup_text(out, label);
	fputs("</text>\n", out);
}

void picture_write_begin(const struct picture *picture, FILE *out, const char *title, double height)
{
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" role=\"img\" "
		"aria-label=\"%s\">\n",
		PICTURE_LEFT + PICTURE_COLUMNS, height, title);
	if (picture->style)
		fprintf(out,
			"<style>%s</style><rect class=\"paper\" width=\"100%%\" "
			"height=\"100%%\"/>\n",
			picture->style);
	fprintf(out,
		"<defs><pattern id=\"hatch-%c\" width=\"6\" height=\"6\" "
		"patternUnits=\"userSpaceOnUse\">"
		"<path class=\"hatch\" d=\"M0 6L6 0\"/></pattern></defs>\n",
		title[0]);
}

/* Reasons that leave something out; the others only say less of what is there. */
#define IS_LEFT_OUT_MISSING true
#define IS_LEFT_OUT_PERIOD  true
#define IS_LEFT_OUT_NOTE    false
static bool is_left_out(uint32_t reason)
{
	static const bool left_out[] = {
#define X(number, identifier, counts, ...) [number] = IS_LEFT_OUT_##counts,
		LOSS_REASONS(X)
#undef X
	};

	return reason >= ARRAY_SIZE(left_out) || left_out[reason];
}

/* In the words of answers, or what a later version called it. */
static void write_loss(FILE *out, const struct meta_loss *loss)
{
	const struct loss_time time = { .reason = (enum loss_reason)loss->reason,
					.time_ns = loss->end_ns - loss->start_ns };
	_cleanup_(freep) char *said = NULL;

	if (loss_said(&time, &said) < 0)
		complain_memory();
	markup_text(out, said ?: loss->name ? loss->name->text : "lost");
}

/* The times in which something was not seen. */
void picture_write_losses(const struct picture *picture, FILE *out, const char *title,
			  double height)
{
	for (const struct meta_loss *loss = picture->meta->loss; loss; loss = loss->next) {
		double from = picture_column(picture, loss->start_ns);
		double to = picture_column(picture, loss->end_ns);

		if (to - from < 1 || !is_left_out(loss->reason))
			continue;
		fprintf(out,
			"<rect x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"%.0f\" "
			"fill=\"url(#hatch-%c)\"><title>",
			PICTURE_LEFT + from, to - from, height, title[0]);
		write_loss(out, loss);
		fputs("</title></rect>\n", out);
	}
}

void picture_write_axis(const struct picture *picture, FILE *out, double y)
{
	char text[UNITS_TEXT_SIZE];

	for (int i = 0; i <= TICKS; i++) {
		double x = PICTURE_LEFT + (double)PICTURE_COLUMNS * i / TICKS;
		uint64_t ns = (picture->to_ns - picture->from_ns) / TICKS * (uint64_t)i;

		fprintf(out, "<path class=\"tick\" d=\"M%.1f 0V%.0f\"/>", x, y);
		fprintf(out,
			"<text class=\"faint\" x=\"%.1f\" y=\"%.0f\" "
			"text-anchor=\"%s\">%s</text>\n",
			x, y + 16,
			i == 0	     ? "start"
			: i == TICKS ? "end"
				     : "middle",
			units_nanoseconds(text, (int64_t)ns));
	}
}

static int compare_lanes(const void *a, const void *b)
{
	const struct picture_lane *x = *(struct picture_lane *const *)a;
	const struct picture_lane *y = *(struct picture_lane *const *)b;
	double of_x = 0, of_y = 0;

	for (int i = 0; i < BUSY_KINDS; i++) {
		of_x += x->total[i];
		of_y += y->total[i];
	}
	if (of_x != of_y)
		return of_x > of_y ? -1 : 1;
	return x->process != y->process ? (x->process > y->process) - (x->process < y->process)
					: (x->stream > y->stream) - (x->stream < y->stream);
}

static int shade_of(float share)
{
	if (share <= 0)
		return 0;
	return share >= 1 ? SHADES : 1 + (int)(share * (SHADES - 1));
}

/* Neighbours of the same shade are one. */
static void write_busy(const struct picture_lane *lane, enum busy kind, FILE *out, double y)
{
	const float *share = lane->share[kind];

	for (size_t i = 0, end; i < PICTURE_COLUMNS; i = end) {
		int shade = shade_of(share[i]);

		for (end = i + 1; end < PICTURE_COLUMNS && shade_of(share[end]) == shade;)
			end++;
		if (shade)
			fprintf(out,
				"<rect class=\"%s\" x=\"%zu\" y=\"%.0f\" width=\"%zu\" "
				"height=\"%d\" opacity=\"%.2f\"/>\n",
				busy_class[kind], PICTURE_LEFT + i, y, end - i, LANE_HEIGHT,
				0.3 + 0.7 * shade / SHADES);
	}
}

static void write_lane(const struct picture *picture, const struct picture_lane *lane, FILE *out,
		       double y)
{
	const struct meta_process *process = meta_process(picture->meta, lane->process);
	char stream[SHOW_NAME_BYTES], device[16], label[2 * SHOW_NAME_BYTES + 64];

	show_stream_name(stream, picture->meta, lane->stream);
	if (lane->device < 0)
		snprintf(device, sizeof(device), "GPU ?");
	else
		snprintf(device, sizeof(device), "GPU %d", lane->device);
	snprintf(label, sizeof(label), "%.16s %" PRIu32 " · %s · %s",
		 process ? process->name->text : "?", process ? process->pid : 0, device, stream);
	picture_write_label(out, 0, y + 12, label);
	fprintf(out, "<rect class=\"lane\" x=\"%d\" y=\"%.0f\" width=\"%d\" height=\"%d\"/>\n",
		PICTURE_LEFT, y, PICTURE_COLUMNS, LANE_HEIGHT);
	for (int kind = BUSY_KINDS - 1; kind >= 0; kind--)
		write_busy(lane, (enum busy)kind, out, y);
}

int picture_lanes(const struct picture *picture, FILE *out)
{
	_cleanup_(freep) const struct picture_lane **sorted = NULL;
	uint32_t count = 0, shown;
	double height;

	if (picture->lanes == 0)
		return 0;
	sorted = calloc(picture->lanes, sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	for (const struct picture_lane *lane = picture->first_lane; lane; lane = lane->next)
		sorted[count++] = lane;
	qsort(sorted, count, sizeof(*sorted), compare_lanes);
	shown = count < LANES_SHOWN ? count : LANES_SHOWN;
	height = shown * (LANE_HEIGHT + LANE_GAP);
	picture_write_begin(picture, out, "Streams over time", height + PICTURE_AXIS);
	picture_write_axis(picture, out, height);
	for (uint32_t i = 0; i < shown; i++)
		write_lane(picture, sorted[i], out, i * (LANE_HEIGHT + LANE_GAP));
	picture_write_losses(picture, out, "Streams", height);
	fputs("</svg>\n", out);
	return 1;
}

static int compare_curves(const void *a, const void *b)
{
	const struct picture_curve *x = *(struct picture_curve *const *)a;
	const struct picture_curve *y = *(struct picture_curve *const *)b;

	return (x->peak < y->peak) - (x->peak > y->peak);
}

/* As steps, from the first column that is known. */
static void write_curve(const struct picture_curve *curve, FILE *out, int number, uint64_t most)
{
	const char *move = "M";
	uint64_t live = 0;

	fprintf(out, "<path class=\"curve curve%d\" d=\"", number);
	for (size_t i = 0; i < PICTURE_COLUMNS; i++) {
		uint64_t shown = curve->seen[i] ? curve->live[i] : live;

		if (!curve->seen[i] && *move == 'M')
			continue;
		fprintf(out, "%s%zu %.1fH%zu", move, PICTURE_LEFT + i,
			GRAPH - 4 - (double)shown * (GRAPH - 10) / (double)most,
			PICTURE_LEFT + i + 1);
		move = "L";
		if (curve->seen[i])
			live = curve->last[i];
	}
	fputs("\"/>\n", out);
}

static void write_key(const struct picture *picture, const struct picture_curve *curve, FILE *out,
		      int number, double y)
{
	const struct meta_process *process = meta_process(picture->meta, curve->op.process);
	char name[SHOW_NAME_BYTES], peak[UNITS_TEXT_SIZE], label[256];

	show_memory_name(name, &curve->op);
	snprintf(label, sizeof(label), "%.32s %" PRIu32 " · %s · peak %s",
		 process ? process->name->text : "?", process ? process->pid : 0, name,
		 units_bytes(peak, (int64_t)curve->peak));
	fprintf(out, "<path class=\"curve curve%d\" d=\"M%d %.0fh24\"/><text x=\"%d\" y=\"%.0f\">",
		number, PICTURE_LEFT, y - 4, PICTURE_LEFT + 32, y);
	markup_text(out, label);
	fputs("</text>\n", out);
}

int picture_memory(const struct picture *picture, FILE *out)
{
	_cleanup_(freep) const struct picture_curve **sorted = NULL;
	char text[UNITS_TEXT_SIZE];
	uint32_t count = 0, shown;
	uint64_t most;

	if (picture->curves == 0)
		return 0;
	sorted = calloc(picture->curves, sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	for (const struct picture_curve *curve = picture->first_curve; curve; curve = curve->next)
		sorted[count++] = curve;
	qsort(sorted, count, sizeof(*sorted), compare_curves);
	shown = count < CURVES_SHOWN ? count : CURVES_SHOWN;
	most = sorted[0]->peak ? sorted[0]->peak : 1;
	picture_write_begin(picture, out, "Memory over time",
			    GRAPH + PICTURE_AXIS + shown * KEY + 4);
	picture_write_axis(picture, out, GRAPH);
	fprintf(out, "<text class=\"faint\" x=\"%d\" y=\"12\" text-anchor=\"end\">%s</text>\n",
		PICTURE_LEFT - 8, units_bytes(text, (int64_t)most));
	fprintf(out, "<text class=\"faint\" x=\"%d\" y=\"%d\" text-anchor=\"end\">0</text>\n",
		PICTURE_LEFT - 8, GRAPH);
	for (uint32_t i = 0; i < shown; i++) {
		write_curve(sorted[i], out, (int)i, most);
		write_key(picture, sorted[i], out, (int)i,
			  GRAPH + PICTURE_AXIS + (i + 1) * KEY - 2);
	}
	picture_write_losses(picture, out, "Memory", GRAPH);
	fputs("</svg>\n", out);
	return 1;
}

void picture_done(struct picture *picture)
{
	while (picture->first_lane) {
		struct picture_lane *next = picture->first_lane->next;

		free(picture->first_lane);
		picture->first_lane = next;
	}
	while (picture->first_curve) {
		struct picture_curve *next = picture->first_curve->next;

		free(picture->first_curve);
		picture->first_curve = next;
	}
	map_clear(&picture->lane);
	map_clear(&picture->curve);
}
