/* Attaches to a program that does all that is in the way of it, and takes the library out again,
 * N times: `stress_attach [N [MODE]]`. Prints how long the program was stopped. */
#include "tests/unit/attach_fixture.h"

#include <inttypes.h>

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void show(const char *what, uint64_t *ns, int count)
{
	qsort(ns, (size_t)count, sizeof(*ns), compare);
	printf("%s: median %.0f us, p99 %.0f us, max %.0f us\n", what, (double)ns[count / 2] / 1e3,
	       (double)ns[count * 99 / 100] / 1e3, (double)ns[count - 1] / 1e3);
}

/* 0, or how often it did not work. -1: the program is broken. */
static int cycle(struct victim *victim, struct attach_result *result)
{
	_cleanup_(remarks_clear) struct remarks why = { 0 };
	int r = victim_attach(victim, ENTRY_STARTS, result, &why);
	bool ok;

	if (r < 0) {
		fprintf(stderr, "attach: %s (%s)\n", remarks_text(&why), strerror(-r));
		return r == -ESRCH ? -1 : 1;
	}
	ok = fixture_hears(result->socket, TS_MESSAGE_HELLO) && fixture_dismiss(result->socket);
	close(result->socket);
	if (!ok) {
		fprintf(stderr, "the library does not answer\n");
		return -1;
	}
	r = victim_unload(victim, result->handle, &why);
	if (r < 0)
		fprintf(stderr, "unload: %s (%s)\n", remarks_text(&why), strerror(-r));
	return r < 0;
}

int main(int argc, char **argv)
{
	int cycles = argc > 1 ? atoi(argv[1]) : 500, failed = 0, done = 0, r = 0, status;
	struct victim victim =
		victim_start(argc > 2 ? argv[2] : "chaos", argc > 3 ? argv[3] : NULL);
	uint64_t *stop = calloc((size_t)cycles, sizeof(*stop));
	uint64_t *total = calloc((size_t)cycles, sizeof(*total));
	struct residue before = residue_of(victim.pid), after;

	while (done < cycles && r >= 0) {
		struct attach_result result = { 0 };

		r = cycle(&victim, &result);
		if (r != 0) {
			failed++;
			cycles--;
			continue;
		}
		stop[done] = result.stopped_ns;
		total[done++] = result.total_ns;
	}
	after = residue_of(victim.pid);
	status = victim_end(&victim);
	fixture_end();
	printf("%d cycles, %d failed, program ended with %d\n", done, failed, status);
	printf("before: %s\nafter: %s\n", residue_text(before), residue_text(after));
	if (done) {
		show("longest stop", stop, done);
		show("whole attach", total, done);
	}
	free(stop);
	free(total);
	return status || failed || after.ours;
}
