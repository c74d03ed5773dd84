/* Meanwhile: for each device, how many spans start less how many end in each piece of the time;
 * once all are known, how many pieces up to each one something ran in. */
#include "core/waste/meanwhile.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/model/op.h"

/* Of an hour, each piece is 27 ms: half a mebibyte a device. */
#define PIECES 131072
/* Devices beyond these count as unknown. */
#define DEVICES 64

/* The last two are of devices that are unknown, and of all. */
enum { UNKNOWN = DEVICES, ALL, ROWS };

struct meanwhile {
	uint64_t since_ns, until_ns;
	bool counted;
	uint32_t *piece[ROWS]; /* PIECES and one; NULL: nothing ran */
};

int meanwhile_new(uint64_t since_ns, uint64_t until_ns, struct meanwhile **ret)
{
	struct meanwhile *meanwhile = calloc(1, sizeof(*meanwhile));

	if (!meanwhile)
		return -ENOMEM;
	meanwhile->since_ns = since_ns;
	meanwhile->until_ns = until_ns > since_ns ? until_ns : since_ns + 1;
	*ret = meanwhile;
	return 0;
}

struct meanwhile *meanwhile_free(struct meanwhile *meanwhile)
{
	if (!meanwhile)
		return NULL;
	for (int row = 0; row < ROWS; row++)
		free(meanwhile->piece[row]);
	free(meanwhile);
	return NULL;
}

static uint32_t piece_of(const struct meanwhile *meanwhile, uint64_t ns)
{
	uint64_t length_ns = meanwhile->until_ns - meanwhile->since_ns;

	if (ns <= meanwhile->since_ns)
		return 0;
	if (ns >= meanwhile->until_ns)
		return PIECES - 1;
	return (uint32_t)((unsigned __int128)(ns - meanwhile->since_ns) * PIECES / length_ns);
}

static int row_of(int16_t device)
{
	return device >= 0 && device < DEVICES ? device : UNKNOWN;
}

static int row_add(struct meanwhile *meanwhile, int row, uint32_t first, uint32_t last)
{
	if (!meanwhile->piece[row])
		meanwhile->piece[row] = calloc(PIECES + 1, sizeof(*meanwhile->piece[row]));
	if (!meanwhile->piece[row])
		return -ENOMEM;
	meanwhile->piece[row][first]++;
	meanwhile->piece[row][last + 1]--;
	return 0;
}

int meanwhile_ran(struct meanwhile *meanwhile, int16_t device, uint64_t start_ns, uint64_t end_ns)
{
	uint32_t first = piece_of(meanwhile, start_ns), last = piece_of(meanwhile, end_ns);
	int r;

	if (end_ns < meanwhile->since_ns || start_ns > meanwhile->until_ns)
		return 0;
	if (last < first)
		last = first;
	r = row_add(meanwhile, row_of(device), first, last);
	return r < 0 ? r : row_add(meanwhile, ALL, first, last);
}

static void row_count(uint32_t *piece)
{
	uint32_t running = 0, pieces = 0;

	for (uint32_t i = 0; i <= PIECES; i++) {
		running += piece[i];
		piece[i] = pieces;
		pieces += running > 0;
	}
}

static bool row_ran(const struct meanwhile *meanwhile, int row, uint32_t first, uint32_t last)
{
	const uint32_t *piece = meanwhile->piece[row];

	return piece && piece[last + 1] > piece[first];
}

enum certainty meanwhile_nothing(struct meanwhile *meanwhile, int16_t device, uint64_t since_ns,
				 uint64_t until_ns)
{
	uint32_t first = piece_of(meanwhile, since_ns), last = piece_of(meanwhile, until_ns);

	for (int row = 0; row < ROWS && !meanwhile->counted; row++)
		if (meanwhile->piece[row])
			row_count(meanwhile->piece[row]);
	meanwhile->counted = true;
	if (last < first)
		last = first;
	if (!row_ran(meanwhile, ALL, first, last))
		return CERTAINTY_CERTAIN;
	/* On an unknown device it may be any of them. */
	if (row_of(device) == UNKNOWN || row_ran(meanwhile, UNKNOWN, first, last) ||
	    row_ran(meanwhile, row_of(device), first, last))
		return CERTAINTY_POSSIBLE;
	return CERTAINTY_LIKELY;
}
