/* Addresses: asks for allocations and frees, and sends the blocks that held most, for longest.
 * Times are sent in units of a part of the window, places in bytes above the lowest address. */
#include "client/serve/addresses.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/rows.h"
#include "client/serve/held.h"
#include "client/serve/label.h"
#include "client/trace/address_map.h"
#include "core/base/cleanup.h"
#include "core/model/core.h"

#define UNITS	   50000 /* of the window */
#define BLOCKS_MAX 2800	 /* with these the answer is short enough, whatever is in it */
#define BANDS_MAX  400
#define FAILED_MAX 100
#define STACKS_MAX 32
#define FRAMES_MAX 10
#define ROW_SIZE   9
#define OTHER	   (-1)
#define SEGMENT	   (-2)

struct addresses {
	struct link *link;
	struct address_map map;
	int64_t pid;
	uint64_t unit_ns;
};

static void addresses_done(struct addresses *addresses)
{
	address_map_done(&addresses->map);
}

static int read_window(const struct web_request *request, struct addresses *addresses)
{
	uint64_t now_ns = link_hello(addresses->link)->now_ns;
	struct address_map *map = &addresses->map;
	int r;

	map->from_ns = 1;
	map->to_ns = now_ns;
	r = web_period(request, now_ns, &map->from_ns, &map->to_ns);
	if (r == 0)
		r = web_number(request, "pid", &addresses->pid);
	if (r < 0)
		return r;
	map->to_ns = map->to_ns < now_ns ? map->to_ns : now_ns;
	if (addresses->pid >= 0 && addresses->pid <= INT32_MAX && map->from_ns < map->to_ns) {
		addresses->unit_ns = (map->to_ns - map->from_ns) / UNITS + 1;
		return 0;
	}
	complain("Memory is shown of a time that ends after its start");
	return -EINVAL;
}

static int take_size(void *data, const Tracesmith__V1__Row *row)
{
	int64_t *ret = data;

	*ret = row->n_value ? rows_integer(row->value[0]) : 0;
	return 0;
}

static int take_change(void *data, const Tracesmith__V1__Row *row)
{
	struct address_change change;
	int64_t at_ns;

	if (row->n_value != ROW_SIZE)
		return -EPROTO;
	at_ns = rows_integer(row->value[0]);
	change = (struct address_change){
		.at_ns = at_ns > 0 ? (uint64_t)at_ns : 0,
		.process = (uint32_t)rows_integer(row->value[1]),
		.device = (int16_t)rows_integer(row->value[2]),
		.address = (uint64_t)rows_integer(row->value[3]),
		.bytes = (uint64_t)rows_integer(row->value[4]),
		.stack_id = (uint64_t)rows_integer(row->value[5]),
		.kind = rows_integer(row->value[6]) ? MEMORY_TENSOR : MEMORY_DEVICE,
		.freed = rows_integer(row->value[7]),
		.failed = rows_integer(row->value[8]),
	};
	return address_map_add(data, &change);
}

static int ask(struct addresses *addresses, const char *name, rows_fn *row, void *data)
{
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;

	query.name = (char *)name;
	query.pid = (uint32_t)addresses->pid;
	query.since_ns = addresses->map.from_ns;
	query.until_ns = addresses->map.to_ns;
	return rows_ask(addresses->link, &query, row, data);
}

static int read_changes(struct addresses *addresses)
{
	int64_t size = 0;
	int r = ask(addresses, "page-held-size", take_size, &size);

	if (r >= 0 && size <= HELD_EVENTS_MAX)
		r = ask(addresses, "page-addresses", take_change, &addresses->map);
	if (r < 0 && r != -E2BIG)
		return r;
	if (r == 0 && size <= HELD_EVENTS_MAX)
		return address_map_arrange(&addresses->map);
	complain("There are more than %d allocations and frees: choose a process, or a shorter "
		 "window",
		 HELD_EVENTS_MAX);
	return -E2BIG;
}

static uint64_t units(const struct addresses *addresses, uint64_t ns)
{
	const struct address_map *map = &addresses->map;

	ns = ns < map->from_ns ? map->from_ns : ns > map->to_ns ? map->to_ns : ns;
	return (ns - map->from_ns) / addresses->unit_ns;
}

static int stack_of(const struct address_panel *panel, size_t stacks,
		    const struct address_block *block)
{
	size_t i = 0;

	if (!address_map_is_filled(panel, block))
		return SEGMENT;
	while (i < stacks && panel->stack[i] != block->made->stack_id)
		i++;
	return i < stacks ? (int)i : OTHER;
}

static size_t count_segments(const struct address_panel *panel)
{
	size_t count = 0;

	for (size_t i = 0; i < panel->blocks; i++)
		count += !address_map_is_filled(panel, &panel->block[i]);
	return count;
}

/* Those which others lie in last, so that they are drawn above; a part of the room is theirs. */
static void write_blocks(const struct addresses *addresses, const struct address_panel *panel,
			 size_t stacks, FILE *out)
{
	const size_t all = BLOCKS_MAX / addresses->map.panels, segments = count_segments(panel);
	size_t most = all - (segments < all / 4 ? segments : all / 4), written = 0;

	fputs("\"blocks\":[", out);
	for (int filled = 1; filled >= 0; filled--, most = all)
		for (size_t i = 0; i < panel->blocks && written < most; i++) {
			const struct address_block *block = &panel->block[i];
			const struct address_change *made = block->made;
			const struct address_band *band =
				&panel->band[address_map_band(panel, made->address)];

			if (address_map_is_filled(panel, block) != (filled != 0))
				continue;
			fprintf(out, "%s%" PRIu64 ",%" PRIu64 ",%.0f,%" PRIu64 ",%d",
				written++ ? "," : "", units(addresses, block->from_ns),
				units(addresses, block->to_ns),
				band->below + (double)(made->address - band->address), made->bytes,
				stack_of(panel, stacks, block));
		}
	fprintf(out, "],\"blocks_left_out\":%zu,", panel->blocks - written);
}

/* Addresses are texts: a number of JavaScript has no room for them. */
static void write_bands(const struct address_panel *panel, FILE *out)
{
	fputs("\"bands\":[", out);
	for (size_t i = 0; i < panel->bands && i < BANDS_MAX; i++)
		fprintf(out, "%s[\"%" PRIu64 "\",%.0f]", i ? "," : "", panel->band[i].address,
			panel->band[i].below);
	fputs("],", out);
}

static void write_failed(const struct addresses *addresses, const struct address_panel *panel,
			 FILE *out)
{
	const struct address_map *map = &addresses->map;
	size_t written = 0;

	fputs("\"failed\":[", out);
	for (size_t i = 0; i < panel->changes && written < FAILED_MAX; i++) {
		const struct address_change *change = &panel->change[i];

		if (change->failed && change->at_ns >= map->from_ns && change->at_ns <= map->to_ns)
			fprintf(out, "%s%" PRIu64 ",%" PRIu64, written++ ? "," : "",
				units(addresses, change->at_ns), change->bytes);
	}
	fputs("]}", out);
}

static int write_panel(const struct addresses *addresses, const struct address_panel *panel,
		       FILE *out)
{
	size_t most = STACKS_MAX / addresses->map.panels;
	size_t stacks = panel->stacks < most ? panel->stacks : most;
	int r = 0;

	fprintf(out,
		"{\"process\":%" PRIu32 ",\"device\":%d,\"tensors\":%s,\"bytes\":%.0f,\"stacks\":[",
		panel->block->made->process, panel->block->made->device,
		panel->tensors ? "true" : "false", panel->bytes);
	for (size_t i = 0; i < stacks && r >= 0; i++) {
		fputs(i ? ",\n{" : "{", out);
		r = label_stack(addresses->link, (int64_t)panel->stack[i], FRAMES_MAX, out);
		fprintf(out, "\"path\":\"%" PRId64 "\"}", (int64_t)panel->stack[i]);
	}
	fputs("],\n", out);
	write_bands(panel, out);
	write_blocks(addresses, panel, stacks, out);
	write_failed(addresses, panel, out);
	return r;
}

static bool is_shown(const void *data, uint32_t process)
{
	const struct address_map *map = data;
	size_t i = 0;

	while (i < map->panels && map->panel[i].block->made->process != process)
		i++;
	return i < map->panels;
}

static int write_addresses(const struct web_request *request, struct link *link, FILE *out)
{
	_cleanup_(addresses_done) struct addresses addresses = { .link = link };
	const struct address_map *map = &addresses.map;
	int r = read_window(request, &addresses);

	if (r == 0)
		r = read_changes(&addresses);
	if (r < 0)
		return r;
	fprintf(out,
		"{\"since\":%" PRIu64 ",\"until\":%" PRIu64 ",\"unit_ns\":%" PRIu64
		",\"left_out\":%" PRIu64 ",",
		map->from_ns, map->to_ns, addresses.unit_ns, map->left_out);
	r = label_processes(link, map->from_ns, map->to_ns, is_shown, map, out);
	fputs("\"panels\":[", out);
	for (size_t i = 0; i < map->panels && r >= 0; i++) {
		fputs(i ? ",\n" : "", out);
		r = write_panel(&addresses, &map->panel[i], out);
	}
	fputs("]}\n", out);
	return r < 0 ? r : 0;
}

void addresses_map(const struct web_request *request, struct web_answer *answer)
{
	web_relay(request, answer, write_addresses);
}
