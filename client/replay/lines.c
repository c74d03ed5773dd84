/* Replay lines: prints each change as a line of text or a JSON object. */
#include <errno.h>
#include <stdlib.h>

#include "client/output/json.h"
#include "client/output/out.h"
#include "client/replay/view.h"
#include "core/base/time.h"

#define PUT(out, literal) out_bytes(out, literal, sizeof(literal) - 1)
#define TIME_BYTES	  48
#define TIME_WIDTH	  18 /* of text */

/* The longest line has a name in which each byte is escaped. */
_Static_assert(OUT_ROOM > 6 * META_TEXT_BYTES + 1024, "a line fits");

struct lines {
	struct out *out;
	bool json;
	uint64_t begin_ns;
	uint64_t time_ns; /* of the last line, and often of the next */
	char time[TIME_BYTES];
	const char *time_at; /* position of its end */
};

static int write_all(void *data, const void *bytes, size_t size)
{
	const char *at = bytes;
	ssize_t n;

	for (; size > 0; at += n, size -= (size_t)n) {
		n = write(STDOUT_FILENO, at, size);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n < 0)
			n = 0;
	}
	return 0;
}

static void put_text(struct out *out, const char *text)
{
	size_t size = strlen(text);

	out_bytes(out, text, size);
}

static void put_padded(struct out *out, const uint8_t *from, size_t width)
{
	while ((size_t)(out->at - from) < width)
		*out->at++ = ' ';
	*out->at++ = ' ';
}

/* At least `width` digits, or a placeholder. */
static char *number_before(char *end, uint64_t value, int width, char pad)
{
	for (; value > 0 || width > 0; value /= 10, width--)
		*--end = value > 0 ? (char)('0' + value % 10) : pad;
	return end;
}

static void set_time(struct lines *lines, uint64_t time_ns)
{
	static const char key[] = "{\"time_ns\":";
	uint64_t ns = time_ns > lines->begin_ns ? time_ns - lines->begin_ns : 0;
	char *end = lines->time + TIME_BYTES, *at = end;

	if (lines->time_at && time_ns == lines->time_ns)
		return;
	if (lines->json) {
		at = number_before(end, time_ns, 1, '0') - (sizeof(key) - 1);
		memcpy(at, key, sizeof(key) - 1);
	} else {
		*--at = ' ';
		*--at = ' ';
		at = number_before(at, ns % NS_PER_S, 9, '0');
		*--at = '.';
		at = number_before(at, ns / NS_PER_S, 1, '0');
		while (end - at < TIME_WIDTH)
			*--at = ' ';
	}
	lines->time_at = at;
	lines->time_ns = time_ns;
}

static void put_json(struct out *out, const struct replay_shown *shown)
{
	const struct replay_change *change = shown->change;

	PUT(out, ",\"machine\":\"");
	put_text(out, replay_machine_name(change->machine));
	PUT(out, "\",\"pid\":");
	out_number(out, shown->pid);
	PUT(out, ",\"stream\":");
	out_number(out, change->stream);
	PUT(out, ",\"device\":");
	out_signed(out, change->device);
	PUT(out, ",\"from\":\"");
	put_text(out, replay_state_name(change->from));
	PUT(out, "\",\"to\":\"");
	put_text(out, replay_state_name(change->to));
	*out->at++ = '"';
	if (change->op) {
		PUT(out, ",\"op\":");
		out_number(out, change->number);
		PUT(out, ",\"kind\":\"");
		put_text(out, replay_kind_name(change->op));
		PUT(out, "\",\"name\":");
		out_bytes(out, shown->name->text, shown->name->size);
		PUT(out, ",\"tid\":");
		out_number(out, change->op->tid);
		if (change->bounds)
			PUT(out, ",\"bounds\":true");
	}
	PUT(out, "}\n");
}

static void put_plain(struct out *out, const struct replay_shown *shown)
{
	const struct replay_change *change = shown->change;
	const uint8_t *begin = out->at;

	put_text(out, replay_machine_name(change->machine));
	*out->at++ = ' ';
	if (change->machine == REPLAY_DEVICE)
		out_signed(out, change->device);
	else
		out_number(out, change->op ? change->number : change->stream);
	put_padded(out, begin, 12);
	put_text(out, replay_state_name(change->from));
	PUT(out, " -> ");
	put_text(out, replay_state_name(change->to));
	put_padded(out, begin, 33);
	PUT(out, "pid ");
	out_number(out, shown->pid);
	if (change->op) {
		if (change->stream) {
			PUT(out, " stream ");
			out_number(out, change->stream);
		}
		PUT(out, "  ");
		put_text(out, replay_kind_name(change->op));
		*out->at++ = ' ';
		out_bytes(out, shown->name->text, shown->name->size);
	}
	*out->at++ = '\n';
}

static int lines_change(void *view, const struct replay_shown *shown)
{
	struct lines *lines = view;
	int r = out_room(lines->out);

	if (r < 0)
		return r;
	set_time(lines, shown->change->time_ns);
	out_bytes(lines->out, lines->time_at, (size_t)(lines->time + TIME_BYTES - lines->time_at));
	if (lines->json)
		put_json(lines->out, shown);
	else
		put_plain(lines->out, shown);
	return 0;
}

static int lines_flush(void *view)
{
	struct lines *lines = view;

	return out_flush(lines->out);
}

/* The last object tells a reader of JSON that it has everything, and what is missing. */
static int lines_end(void *view, const Tracesmith__V1__Done *done, uint64_t changes)
{
	struct lines *lines = view;
	struct out *out = lines->out;

	if (done && lines->json && out_room(out) == 0) {
		PUT(out, "{\"changes\":");
		out_number(out, changes);
		PUT(out, ",\"loss\":{");
		for (size_t i = 0; i < done->n_loss; i++) {
			if (i > 0)
				*out->at++ = ',';
			json_quoted(out, done->loss[i]->reason);
			*out->at++ = ':';
			out_number(out, done->loss[i]->count);
		}
		PUT(out, "}}\n");
	}
	return out_flush(out);
}

static void lines_free(void *view)
{
	struct lines *lines = view;

	out_free(lines->out);
	free(lines);
}

int replay_lines_new(bool json, uint64_t begin_ns, struct replay_view *ret)
{
	_cleanup_(freep) struct lines *lines = calloc(1, sizeof(*lines));
	int r = lines ? out_new(&(struct out_sink){ .write = write_all }, &lines->out) : -ENOMEM;

	if (r < 0)
		return r;
	lines->json = json;
	lines->begin_ns = begin_ns;
	*ret = (struct replay_view){
		.flush = lines_flush,
		.change = lines_change,
		.end = lines_end,
		.free = lines_free,
		.view = TAKE(lines),
	};
	return 0;
}
