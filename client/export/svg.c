/* SVG export: a flame graph of GPU time in one file, processes on top and what ran at the bottom.
 * It is a picture by itself; in a browser, its script (flame.js) adds zoom and search. Names come
 * from other people's programs: they are written only as text, never as markup or script. Frames
 * narrower than a tenth of a pixel are merged into one frame of their parent. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/export/flame_text.h"
#include "client/export/fold.h"
#include "client/output/json.h"
#include "core/base/array.h"
#include "core/base/units.h"
#include "core/base/utf8.h"

#define WIDTH	   1200
#define MARGIN	   8
#define HEAD	   84 /* height of the part above the frames */
#define ROW	   18
#define PAD	   4	/* beside a frame's text */
#define CHAR	   6.63 /* width of a character in it */
#define NARROW	   0.1
#define WIDE_FIRST 0x1100 /* code points from here are two characters wide */
#define LABEL_MAX  (WIDTH / 6)

/* The prefix of a frame's text, its class, how many shades the class has (a digit after it), and
 * its word in the legend. */
static const struct {
	const char *shown, *word, *class;
	uint32_t shades;
} looks[] = {
	[FOLD_ALL] = { "all", "", "all", 0 },
	[FOLD_PROCESS] = { "", "process", "process", 0 },
	[FOLD_HOST] = { "", "host", "h", 3 },
	[FOLD_PYTHON] = { "", "Python", "y", 3 },
	[FOLD_NO_STACK] = { "[no stack]", "no stack", "none", 0 },
	[FOLD_KERNEL] = { "", "kernel", "k", 3 },
	[FOLD_COPY] = { "memcpy ", "copy", "copy", 0 },
	[FOLD_SET] = { "memset", "set", "set", 0 },
	[FOLD_GRAPH] = { "graph", "graph", "graph", 0 },
};
#define LOOKS ARRAY_SIZE(looks)

struct exporter {
	struct fold fold;
	struct out *out;
	uint64_t narrow_ns; /* shorter ones are not drawn */
	uint32_t bottom;    /* depth of the lowest frame */
	bool drawn[LOOKS];
};

/* Largest first. */
static int compare(const void *a, const void *b)
{
	const struct fold_node *x = *(struct fold_node *const *)a;
	const struct fold_node *y = *(struct fold_node *const *)b;

	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return strcmp(x->text, y->text);
}

/* XML cannot represent all code points. */
static bool writable(uint32_t code)
{
	return !utf8_is_control(code) && code != 0xfffe && code != 0xffff;
}

static void write_code(struct out *out, uint32_t code)
{
	char bytes[UTF8_LENGTH_MAX];

	if (code == '&')
		out_text(out, "&amp;");
	else if (code == '<')
		out_text(out, "&lt;");
	else if (code == '>')
		out_text(out, "&gt;");
	else if (code == '"')
		out_text(out, "&quot;");
	else if (code == '\'')
		out_text(out, "&#39;");
	else
		out_bytes(out, bytes, utf8_write(bytes, writable(code) ? code : UTF8_REPLACEMENT));
}

static void write_escaped(struct out *out, const char *text)
{
	size_t size = strlen(text);
	uint32_t code;

	while (size > 0) {
		size_t length = utf8_read(text, size, &code);

		write_code(out, code);
		text += length;
		size -= length;
	}
}

/* As much as fits, cut as flame.js does. */
static void write_cut(struct out *out, const char *prefix, const char *text, double room)
{
	char whole[LABEL_MAX * UTF8_LENGTH_MAX];
	size_t size = snprintf(whole, sizeof(whole), "%s%s", prefix, text);
	uint32_t code, used = 0, most = (uint32_t)(room / CHAR);
	const char *at = whole;

	if (size >= sizeof(whole))
		size = sizeof(whole) - 1;
	while (size > 0) {
		size_t length = utf8_read(at, size, &code);
		uint32_t wide = code >= WIDE_FIRST ? 2 : 1;

		if (used + wide + (length < size) > most) {
			out_text(out, "…");
			return;
		}
		used += wide;
		write_code(out, code);
		at += length;
		size -= length;
	}
}

/* A number with one or two decimals, in any locale. */
static void write_hundredths(struct out *out, double value)
{
	uint64_t hundredths = (uint64_t)(value * 100 + 0.5);

	out_number(out, hundredths / 100);
	*out->at++ = '.';
	*out->at++ = (char)('0' + hundredths / 10 % 10);
	*out->at++ = (char)('0' + hundredths % 10);
}

static double pixels(const struct exporter *x, uint64_t ns)
{
	return (double)ns * (WIDTH - 2 * MARGIN) / (double)x->fold.root.ns;
}

static uint32_t shade(const char *text)
{
	uint32_t hash = 2166136261;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 16777619;
	return hash >> 16;
}

static void write_class(struct out *out, const struct fold_node *node)
{
	out_text(out, looks[node->kind].class);
	if (looks[node->kind].shades > 0)
		out_number(out, shade(node->text) % looks[node->kind].shades);
}

static void write_title(const struct exporter *x, const struct fold_node *node, const char *word)
{
	char text[UNITS_TEXT_SIZE];
	struct out *out = x->out;

	write_escaped(out, looks[node->kind].shown);
	write_escaped(out, node->text);
	*out->at++ = '\n';
	out_text(out, word);
	out_text(out, *word ? " · " : "");
	out_text(out, node->depth > 1 && node->scaled > 0 ? "about " : "");
	out_text(out, units_nanoseconds(text, (int64_t)node->ns));
	out_text(out, " · ");
	write_hundredths(out, 100.0 * (double)node->ns / (double)x->fold.root.ns);
	out_text(out, " % · ");
	out_number(out, node->count);
	out_text(out, " ×");
}

static int write_frame(struct exporter *x, const struct fold_node *node, uint64_t start_ns,
		       const char *class, const char *word)
{
	double left = MARGIN + pixels(x, start_ns), width = pixels(x, node->ns);
	uint32_t top = HEAD + node->depth * ROW;
	struct out *out = x->out;
	int r = out_room(out);

	if (r < 0)
		return r;
	out_text(out, "<g class=\"");
	if (class)
		out_text(out, class);
	else
		write_class(out, node);
	json_member(out, "\" data-x=\"", start_ns);
	json_member(out, "\" data-n=\"", node->ns);
	out_text(out, "\"><title>");
	write_title(x, node, word);
	out_text(out, "</title><rect x=\"");
	write_hundredths(out, left);
	json_member(out, "\" y=\"", top);
	out_text(out, "\" width=\"");
	write_hundredths(out, width > 3 ? width - 0.6 : width < NARROW ? NARROW : width);
	json_member(out, "\" height=\"", ROW - 1);
	out_text(out, "\" rx=\"2\"/>");
	if (width >= 3 * CHAR + 2 * PAD) {
		out_text(out, "<text x=\"");
		write_hundredths(out, left + PAD);
		json_member(out, "\" y=\"", top + 12);
		out_text(out, ".5\">");
		write_cut(out, looks[node->kind].shown, node->text, width - 2 * PAD);
		out_text(out, "</text>");
	}
	out_text(out, "</g>\n");
	return 0;
}

/* Children are sorted by size, so those too small for a frame are the rest. */
static int write_rest(struct exporter *x, const struct fold_node *parent,
		      const struct fold_node *first, uint64_t start_ns)
{
	struct fold_node rest = { .kind = FOLD_PROCESS, .depth = parent->depth + 1 };
	uint32_t count = 0;
	char text[48];

	for (; first; first = first->next) {
		rest.ns += first->ns;
		rest.count += first->count;
		rest.scaled += first->scaled;
		count++;
	}
	if (count == 0 || rest.ns == 0 || rest.ns < x->narrow_ns)
		return 0;
	snprintf(text, sizeof(text), "(%" PRIu32 " smaller)", count);
	rest.text = text;
	return write_frame(x, &rest, start_ns, "rest", "");
}

static int write_tree(struct exporter *x, const struct fold_node *node, uint64_t start_ns)
{
	const struct fold_node *child;
	int r = write_frame(x, node, start_ns, NULL, looks[node->kind].word);

	for (child = node->child; child && r == 0; child = child->next) {
		if (child->ns == 0 || child->ns < x->narrow_ns)
			break;
		r = write_tree(x, child, start_ns);
		start_ns += child->ns;
	}
	return r < 0 ? r : write_rest(x, node, child, start_ns);
}

/* Finds the depth, and which kinds occur. */
static void look(struct exporter *x, const struct fold_node *node)
{
	x->drawn[node->kind] = true;
	if (node->depth > x->bottom)
		x->bottom = node->depth;
	for (const struct fold_node *child = node->child; child; child = child->next)
		if (child->ns >= x->narrow_ns)
			look(x, child);
}

static void write_legend(struct exporter *x)
{
	uint32_t left = 262;

	for (uint32_t kind = FOLD_HOST; kind < LOOKS; kind++) {
		if (!x->drawn[kind])
			continue;
		out_text(x->out, "<rect class=\"legend ");
		out_text(x->out, looks[kind].class);
		json_member(x->out, "\" x=\"", left);
		out_text(x->out, "\" y=\"16\" width=\"12\" height=\"12\" rx=\"3\"/>");
		json_member(x->out, "<text class=\"faint\" x=\"", left + 17);
		out_text(x->out, "\" y=\"26\">");
		out_text(x->out, looks[kind].word);
		out_text(x->out, "</text>\n");
		left += 34 + 7 * (uint32_t)strlen(looks[kind].word);
	}
}

static void write_summary(struct exporter *x)
{
	const struct fold *fold = &x->fold;
	int64_t wall_ns = fold->meta->wall_offset_ns;
	char text[UNITS_TEXT_SIZE];
	struct out *out = x->out;

	out_text(out, "<text class=\"faint\" x=\"8\" y=\"48\">");
	out_text(out, units_nanoseconds(text, (int64_t)fold->root.ns));
	out_text(out, " on the GPU · ");
	out_number(out, fold->root.count);
	out_text(out, " operations · ");
	out_text(out, units_time(text, (int64_t)fold->first_ns + wall_ns));
	out_text(out, " to ");
	out_text(out, units_time(text, (int64_t)fold->last_ns + wall_ns));
	out_text(out, "</text>\n");
}

/* It comes after the frames, since it stays visible when they scroll. */
static void write_head(struct exporter *x)
{
	char note[EXPORT_NOTE_BYTES];
	struct out *out = x->out;

	out_text(out, "<g id=\"head\"><rect id=\"paper\" class=\"wide\" width=\"1200\"");
	json_member(out, " height=\"", HEAD - 5);
	out_text(out, "\"/>\n<text id=\"title\" x=\"8\" y=\"28\">GPU time by call stack</text>\n");
	write_legend(x);
	write_summary(x);
	out_text(out, "<text id=\"found\" class=\"faint\" x=\"1192\" y=\"52\" text-anchor=\"end\">"
		      "</text>\n<text id=\"details\" class=\"faint\" x=\"8\" y=\"69\">"
		      "Click a frame to zoom, / to search, Esc to reset");
	fold_note(x, note);
	out_text(out, *note ? " · " : "");
	write_escaped(out, note);
	out_text(out, "</text>\n"
		      "<line id=\"rule\" class=\"wide\" x2=\"1200\"");
	json_member(out, " y1=\"", HEAD - 6);
	json_member(out, "\" y2=\"", HEAD - 6);
	out_text(out, "\"/></g>\n");
}

static int write_begin(struct exporter *x)
{
	uint32_t height = HEAD + (x->bottom + 1) * ROW + MARGIN;
	int r = out_room(x->out);

	if (r < 0)
		return r;
	out_text(x->out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
			 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\"");
	json_member(x->out, " height=\"", height);
	json_member(x->out, "\" viewBox=\"0 0 1200 ", height);
	out_text(x->out, "\">\n<title>GPU time by call stack</title>\n<style><![CDATA[\n");
	out_text(x->out, flame_css);
	out_text(x->out, "]]></style>\n<g id=\"frames\">\n");
	return 0;
}

static int write_end(struct exporter *x)
{
	int r = out_room(x->out);

	if (r < 0)
		return r;
	out_text(x->out, "</g>\n");
	write_head(x);
	out_text(x->out, "<script><![CDATA[\n");
	out_text(x->out, flame_js);
	out_text(x->out, "]]></script>\n</svg>\n");
	return 0;
}

static int svg_end(struct exporter *x)
{
	int r = fold_finish(&x->fold, compare);

	if (r < 0)
		return r;
	x->fold.root.text = "";
	x->narrow_ns = (uint64_t)((double)x->fold.root.ns * NARROW / (WIDTH - 2 * MARGIN));
	look(x, &x->fold.root);
	r = write_begin(x);
	if (r == 0 && x->fold.root.ns > 0)
		r = write_tree(x, &x->fold.root, 0);
	return r < 0 ? r : write_end(x);
}

static void svg_clear(struct exporter *x)
{
	fold_clear(&x->fold);
}

static int svg_begin(struct exporter *x, const struct meta *meta, struct out *out)
{
	x->fold.meta = meta;
	x->out = out;
	return 0;
}

const struct export_format export_svg = {
	.exporter_bytes = sizeof(struct exporter),
	.begin = svg_begin,
	.op = fold_op,
	.end = svg_end,
	.note = fold_note,
	.clear = svg_clear,
	.exact = true,
};
