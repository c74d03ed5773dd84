/* Loss: the line at the end of an incomplete answer. It is short so that people read it; the query
 * `loss` has the details. */
#include "client/output/loss.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/units.h"
#include "core/base/utf8.h"

#define REASONS_SHOWN 4

static void write_visible(FILE *out, const char *text)
{
	size_t size = strlen(text);
	_cleanup_(freep) char *visible = malloc(3 * size + 1);

	if (!visible)
		return;
	utf8_visible(visible, text, size);
	fputs(visible, out);
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

void loss_write(FILE *out, const Tracesmith__V1__Done *done)
{
	size_t shown = done->n_loss <= REASONS_SHOWN ? done->n_loss : REASONS_SHOWN - 1;

	if (!done->n_loss)
		return;
	fputs("lost: ", out);
	for (size_t i = 0; i < shown; i++) {
		fputs(i ? ", " : "", out);
		write_loss(out, done->loss[i]);
	}
	if (shown < done->n_loss)
		fprintf(out, " and %zu other reasons", done->n_loss - shown);
	fputs("; see 'tsctl query loss'\n", out);
}

void loss_complain(const Tracesmith__V1__Done *done)
{
	if (!done->n_loss)
		return;
	fputs("tsctl: ", stderr);
	loss_write(stderr, done);
}
