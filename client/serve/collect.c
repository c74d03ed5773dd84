/* Collect: what the daemon's totals, memory and prices are called in metrics. */
#include "client/serve/collect.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/base/complain.h"
#include "client/link/link.h"
#include "client/link/rows.h"
#include "client/serve/family.h"
#include "core/base/array.h"
#include "core/base/clock.h"

#define ROWS_MAX 200000

struct round {
	struct series *series;
	struct part_names *parts;
	struct openmetrics_daemon *daemon;
};

static void copy(char out[SERIES_TEXT], const Tracesmith__V1__Value *value)
{
	const char *text = rows_text(value);

	snprintf(out, SERIES_TEXT, "%s", text ? text : "");
}

static int take_process(void *data, const Tracesmith__V1__Row *row)
{
	struct round *round = data;
	struct series_process process;

	if (row->n_value != 7)
		return -EPROTO;
	process.id = (uint32_t)rows_integer(row->value[0]);
	process.pid = (uint32_t)rows_integer(row->value[1]);
	process.running = rows_integer(row->value[2]);
	copy(process.comm, row->value[3]);
	copy(process.container, row->value[4]);
	copy(process.user, row->value[5]);
	copy(process.tier, row->value[6]);
	round->daemon->processes += process.running;
	series_add_process(round->series, &process);
	return 0;
}

static int add(const struct round *round, uint32_t process, struct series_cell cell)
{
	enum family_type type = families[cell.family].type;

	return series_add(round->series, process, &cell, type == FAMILY_GAUGE);
}

/* A row of `total`. */
struct total {
	uint32_t process;
	int32_t device, part;
	const char *name; /* of the part */
	uint64_t count, ns, bytes;
};

static struct series_cell cell_of(const struct total *total, uint32_t family, int32_t part,
				  uint64_t value)
{
	return (struct series_cell){
		.family = family, .device = total->device, .part = part, .value = value
	};
}

static int put(const struct round *round, const struct total *total, uint32_t family, bool parted,
	       uint64_t value)
{
	int32_t part = parted ? part_number(round->parts, total->name ? total->name : "other") : 0;

	return add(round, total->process, cell_of(total, family, part, value));
}

static int put_calls(const struct round *round, const struct total *total)
{
	struct total all = *total;
	int r;

	all.device = SERIES_NONE;
	r = put(round, &all, FAMILY_OF_CALLS, true, total->count);
	if (r == 0 && total->name && strcmp(total->name, "launch") == 0)
		r = put(round, total, FAMILY_OF_LAUNCHES, false, total->count);
	if (r == 0 && total->name && strcmp(total->name, "sync") == 0)
		r = put(round, &all, FAMILY_OF_SYNC_WAIT, false, total->ns);
	return r;
}

static int put_failed(const struct round *round, const struct total *total)
{
	if (!total->name || strcmp(total->name, "alloc") != 0)
		return 0;
	return put(round, total, FAMILY_OF_ALLOC_FAILURES, false, total->count);
}

static int put_shortages(const struct round *round, const struct total *total)
{
	return put(round, total, FAMILY_OF_SHORTAGES, false, total->count);
}

static int put_errors(const struct round *round, const struct total *total)
{
	return put(round, total, FAMILY_OF_ERRORS, true, total->count);
}

static int put_copies(const struct round *round, const struct total *total)
{
	int r = put(round, total, FAMILY_OF_COPIES, true, total->count);

	return r < 0 ? r : put(round, total, FAMILY_OF_COPIED, true, total->bytes);
}

static int put_kernels(const struct round *round, const struct total *total)
{
	int r = add(round, total->process,
		    cell_of(total, FAMILY_OF_KERNELS, total->part, total->count));

	return r < 0 ? r : put(round, total, FAMILY_OF_KERNEL_TIME, false, total->ns);
}

static int put_delays(const struct round *round, const struct total *total)
{
	return put(round, total, FAMILY_OF_DELAY_TIME, false, total->ns);
}

static int put_starts(const struct round *round, const struct total *total)
{
	return add(round, total->process,
		   cell_of(total, FAMILY_OF_DELAYS, total->part, total->count));
}

static int put_device_copies(const struct round *round, const struct total *total)
{
	return put(round, total, FAMILY_OF_DEVICE_COPY, true, total->ns);
}

static int put_states(const struct round *round, const struct total *total)
{
	const char *name = total->name ? total->name : "";
	bool busy = strcmp(name, "running") == 0 || strcmp(name, "copying") == 0;
	int r = put(round, total, FAMILY_OF_STATE, true, total->ns);

	return r < 0 || !busy ? r : put(round, total, FAMILY_OF_BUSY, false, total->ns);
}

static int put_losses(const struct round *round, const struct total *total)
{
	return put(round, total, FAMILY_OF_LOST, true, total->count);
}

static int put_missed(const struct round *round, const struct total *total)
{
	return put(round, total, FAMILY_OF_MISSED, true, total->count);
}

static const struct {
	const char *what;
	int (*put)(const struct round *round, const struct total *total);
} puts_of[] = {
	{ "calls", put_calls },	    { "failed", put_failed },
	{ "errors", put_errors },   { "copies", put_copies },
	{ "kernels", put_kernels }, { "delays", put_delays },
	{ "states", put_states },   { "device-copies", put_device_copies },
	{ "losses", put_losses },   { "missed", put_missed },
	{ "starts", put_starts },   { "shortages", put_shortages },
};

static int take_total(void *data, const Tracesmith__V1__Row *row)
{
	const char *what;
	struct total total;

	if (row->n_value != 8)
		return -EPROTO;
	what = rows_text(row->value[1]);
	total.process = (uint32_t)rows_integer(row->value[0]);
	total.device = (int32_t)rows_integer(row->value[2]);
	total.part = (int32_t)rows_integer(row->value[3]);
	total.name = rows_text(row->value[4]);
	total.count = (uint64_t)rows_integer(row->value[5]);
	total.ns = (uint64_t)rows_integer(row->value[6]);
	total.bytes = (uint64_t)rows_integer(row->value[7]);
	for (size_t i = 0; what && i < ARRAY_SIZE(puts_of); i++)
		if (strcmp(puts_of[i].what, what) == 0)
			return puts_of[i].put(data, &total);
	return 0; /* of a newer daemon */
}

/* What a row of metrics-memory is about. */
enum holder { HOLDER_KIND, HOLDER_POOL, HOLDER_ALLOCATOR };

static enum holder holder_of(const Tracesmith__V1__Row *row)
{
	const char *name = rows_text(row->value[2]);

	if (!name)
		return HOLDER_POOL;
	return strcmp(name, "allocator") == 0 ? HOLDER_ALLOCATOR : HOLDER_KIND;
}

static int take_memory(void *data, const Tracesmith__V1__Row *row)
{
	static const struct {
		enum holder holder;
		uint32_t family, column;
	} of[] = {
		{ HOLDER_KIND, FAMILY_OF_LIVE, 3 },
		{ HOLDER_KIND, FAMILY_OF_LIVE_COUNT, 4 },
		{ HOLDER_KIND, FAMILY_OF_PEAK, 5 },
		{ HOLDER_POOL, FAMILY_OF_POOL, 6 },
		{ HOLDER_POOL, FAMILY_OF_POOL_USED, 7 },
		{ HOLDER_ALLOCATOR, FAMILY_OF_ALLOCATOR, 6 },
		{ HOLDER_ALLOCATOR, FAMILY_OF_ALLOCATOR_USED, 7 },
	};
	struct total total = { 0 };
	enum holder holder;
	int r = 0;

	if (row->n_value != 8)
		return -EPROTO;
	total.process = (uint32_t)rows_integer(row->value[0]);
	total.device = (int32_t)rows_integer(row->value[1]);
	total.name = rows_text(row->value[2]);
	holder = holder_of(row);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(of); i++)
		if (of[i].holder == holder)
			r = put(data, &total, of[i].family, holder == HOLDER_KIND,
				(uint64_t)rows_integer(row->value[of[i].column]));
	return r;
}

static int take_leaks(void *data, const Tracesmith__V1__Row *row)
{
	struct total total = { 0 };

	if (row->n_value != 3)
		return -EPROTO;
	total.process = (uint32_t)rows_integer(row->value[0]);
	total.device = (int32_t)rows_integer(row->value[1]);
	return put(data, &total, FAMILY_OF_LEAKS, false, (uint64_t)rows_integer(row->value[2]));
}

static int take_price(void *data, const Tracesmith__V1__Row *row)
{
	static const uint32_t of[] = { FAMILY_OF_PRICE, FAMILY_OF_PRICE_HIGH, FAMILY_OF_BUDGET,
				       FAMILY_OF_WATCHED };
	const struct round *round = data;
	struct total total = { .device = SERIES_NONE };
	int r = 0;

	if (row->n_value != 6)
		return -EPROTO;
	total.process = (uint32_t)rows_integer(row->value[0]);
	total.name = rows_text(row->value[1]);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(of); i++)
		if (row->value[i + 2]->value_case == TRACESMITH__V1__VALUE__VALUE_INTEGER &&
		    rows_integer(row->value[i + 2]) >= 0)
			r = put(round, &total, of[i], true,
				(uint64_t)rows_integer(row->value[i + 2]));
	return r;
}

static const struct {
	const char *query;
	rows_fn *take;
} queries[] = {
	{ "metrics-processes", take_process }, { "metrics-totals", take_total },
	{ "metrics-memory", take_memory },     { "metrics-leaks", take_leaks },
	{ "metrics-prices", take_price },
};

static int ask_status(struct link *link, struct openmetrics_daemon *daemon)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	Tracesmith__V1__StatusRequest status = TRACESMITH__V1__STATUS_REQUEST__INIT;
	const struct {
		const char *name;
		uint64_t *value;
	} wanted[] = {
		{ "cpu_ns", &daemon->cpu_ns },
		{ "memory_bytes", &daemon->memory_bytes },
		{ "database_bytes", &daemon->store_bytes },
	};
	int r;

	r = link_single(link, &status.base, TRACESMITH__V1__REPLY__BODY_STATUS, &reply);
	if (r < 0)
		return r;
	for (size_t i = 0; i < reply->status->n_item; i++)
		for (size_t k = 0; k < ARRAY_SIZE(wanted); k++)
			if (strcmp(reply->status->item[i]->name, wanted[k].name) == 0)
				*wanted[k].value = (uint64_t)reply->status->item[i]->number;
	return 0;
}

int collect(const struct options *options, struct fragments *fragments, struct series *series,
	    struct part_names *parts, struct openmetrics_daemon *ret_daemon)
{
	_cleanup_(link_freep) struct link *link = NULL;
	struct round round = { series, parts, ret_daemon };
	int r = link_open(options, &link);

	if (r < 0)
		return r;
	memset(ret_daemon, 0, sizeof(*ret_daemon));
	snprintf(ret_daemon->version, sizeof(ret_daemon->version), "%s", link_hello(link)->version);
	series_begin(series);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(queries); i++)
		r = rows_query(link, queries[i].query, ROWS_MAX, queries[i].take, &round);
	if (r > 0) {
		complain("There are too many processes");
		return -E2BIG;
	}
	r = r < 0 ? r : fragments_put(fragments, series, parts);
	r = r < 0 ? r : ask_status(link, ret_daemon);
	if (r == 0)
		r = series_end(series, clock_ns(CLOCK_MONOTONIC));
	if (r == -ENOMEM)
		complain_memory();
	else if (r == -EPROTO)
		complain("tracesmithd is of another version: restart it if it was upgraded");
	return r;
}
