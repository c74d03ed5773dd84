/* Loss: the line at the end of an incomplete answer: first what was not watched, as the daemon says
 * it, then what is counted. It is short so that people read it; the query `loss` has the details.
 */
#include "client/output/loss.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/units.h"
#include "core/base/utf8.h"

#define REASONS_SHOWN 4

static void write_visible(FILE *out, const char *text)
{
	char visible[UTF8_LENGTH_MAX];
	uint32_t code;

	for (size_t size = strlen(text), read; size > 0; text += read, size -= read) {
		read = utf8_read(text, size, &code);
		if (utf8_is_control(code))
			code = UTF8_REPLACEMENT;
		fwrite(visible, 1, utf8_write(visible, code), out);
	}
}

static void write_loss(FILE *out, const Tracesmith__V1__Loss *loss)
{
	const char *noun = loss->noun && loss->noun[0] ? loss->noun : "thing";
	char time[UNITS_TEXT_SIZE];

	fprintf(out, "%" PRIu64 " ", loss->count);
	write_visible(out, noun);
	fputs(loss->count == 1 ? "" : "s", out);
	if (loss->time_ns)
		fprintf(out, " of %s", units_nanoseconds(time, (int64_t)loss->time_ns));
	if (strcmp(noun, loss->reason) == 0)
		return;
	fputs(" (", out);
	write_visible(out, loss->reason);
	fputs(")", out);
}

static bool is_said(const Tracesmith__V1__Loss *loss)
{
	return loss->said && loss->said[0];
}

static void write_counted(FILE *out, const Tracesmith__V1__Done *done, size_t count)
{
	size_t shown = count <= REASONS_SHOWN ? count : REASONS_SHOWN - 1, written = 0;

	fputs("lost: ", out);
	for (size_t i = 0; i < done->n_loss && written < shown; i++) {
		if (is_said(done->loss[i]))
			continue;
		fputs(written++ ? ", " : "", out);
		write_loss(out, done->loss[i]);
	}
	if (shown < count)
		fprintf(out, " and %zu other reasons", count - shown);
	fputs("; see 'tsctl query loss'", out);
}

void loss_write_line(FILE *out, const Tracesmith__V1__Done *done)
{
	const char *separator = "";
	size_t counted = 0;

	for (size_t i = 0; i < done->n_loss; i++) {
		if (!is_said(done->loss[i])) {
			counted++;
			continue;
		}
		fputs(separator, out);
		write_visible(out, done->loss[i]->said);
		separator = " · ";
	}
	if (!counted)
		return;
	fputs(separator, out);
	write_counted(out, done, counted);
}

void loss_write(FILE *out, const Tracesmith__V1__Done *done)
{
	if (!done->n_loss)
		return;
	loss_write_line(out, done);
	fputc('\n', out);
}

void loss_complain(const Tracesmith__V1__Done *done)
{
	if (!done->n_loss)
		return;
	fputs("tsctl: ", stderr);
	loss_write(stderr, done);
}
