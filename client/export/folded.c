/* Folded export: a line per call stack and what it ran on a GPU, with the microseconds, for flame
 * graph tools. https://github.com/brendangregg/FlameGraph Frames are separated by ';', from the
 * process to what ran, and a space precedes the number: in names, ';' becomes ':', and spaces
 * and control characters become '_'. Lines are sorted. */
#include <string.h>

#include "client/export/fold.h"
#include "client/output/out.h"
#include "core/base/utf8.h"

struct exporter {
	struct fold fold;
	struct out *out;
	uint64_t ns; /* of the lines so far */
};

static const char *const prefixes[] = {
#define X(name, folded) [FOLD_##name] = folded,
	FOLD_KINDS(X)
#undef X
};

/* The next byte of a text as it appears. */
static char plain(const char **at)
{
	char c = **at;
	uint32_t code;
	size_t length = utf8_read(*at, strnlen(*at, UTF8_LENGTH_MAX), &code);

	if (c != ' ' && !utf8_is_control(code))
		length = 1; /* a longer one comes byte by byte */
	*at += length;
	return c == ';' ? ':' : c == ' ' || utf8_is_control(code) ? '_' : c;
}

/* A frame as it appears in its line, byte by byte: prefix, text, and what follows. */
struct cursor {
	const char *part[3];
	uint32_t at;
};

static struct cursor cursor_of(const struct fold_node *node)
{
	return (struct cursor){ { prefixes[node->kind], node->text, node->child ? ";" : " " }, 0 };
}

static unsigned char next_byte(struct cursor *cursor)
{
	while (cursor->at < 3 && *cursor->part[cursor->at] == '\0')
		cursor->at++;
	if (cursor->at == 3)
		return '\0';
	if (cursor->at == 1)
		return plain(&cursor->part[cursor->at]);
	return *cursor->part[cursor->at]++;
}

static int compare(const void *a, const void *b)
{
	struct cursor x = cursor_of(*(struct fold_node *const *)a);
	struct cursor y = cursor_of(*(struct fold_node *const *)b);
	unsigned char c, d;

	do {
		c = next_byte(&x);
		d = next_byte(&y);
	} while (c == d && c != '\0');
	return c - d;
}

static int write_frame(struct out *out, const struct fold_node *node)
{
	int r = out_room(out);

	if (r < 0)
		return r;
	out_text(out, prefixes[node->kind]);
	for (const char *at = node->text; *at;)
		*out->at++ = plain(&at);
	return 0;
}

/* A line rounds the running total, so that the sum is exact to half a microsecond. */
static int write_line(struct exporter *x, const struct fold_node *leaf)
{
	const struct fold_node *frame[FOLD_DEPTH_MAX + 1];
	uint64_t before = (x->ns + 500) / 1000;
	size_t count = 0;

	for (const struct fold_node *node = leaf; node->parent; node = node->parent)
		frame[count++] = node;
	while (count > 0) {
		int r = write_frame(x->out, frame[--count]);

		if (r < 0)
			return r;
		*x->out->at++ = count > 0 ? ';' : ' ';
	}
	x->ns += leaf->ns;
	out_number(x->out, (x->ns + 500) / 1000 - before);
	*x->out->at++ = '\n';
	return 0;
}

static int write_below(struct exporter *x, const struct fold_node *node)
{
	int r = 0;

	for (const struct fold_node *child = node->child; child && r == 0; child = child->next)
		r = child->child ? write_below(x, child) : write_line(x, child);
	return r;
}

static int folded_end(struct exporter *x)
{
	int r = fold_finish(&x->fold, compare);

	return r < 0 ? r : write_below(x, &x->fold.root);
}

static void folded_clear(struct exporter *x)
{
	fold_clear(&x->fold);
}

static int folded_begin(struct exporter *x, const struct meta *meta, struct out *out)
{
	x->fold.meta = meta;
	x->out = out;
	return 0;
}

const struct export_format export_folded = {
	.exporter_bytes = sizeof(struct exporter),
	.begin = folded_begin,
	.op = fold_op,
	.end = folded_end,
	.note = fold_note,
	.clear = folded_clear,
	.exact = true,
};
