/* Fragments: the rows of the last look, which the next one replaces. A look that took long is not
 * followed by another one soon. */
#include "client/serve/fragments.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/base/complain.h"
#include "client/link/link.h"
#include "client/link/rows.h"
#include "client/serve/family.h"
#include "core/base/clock.h"
#include "core/base/time.h"

#define ROWS_MAX   2000
#define EVERY_NS   (15 * NS_PER_S)
#define REST_TIMES 50 /* of what a look took */
#define POOL_BYTES 16

struct fragment_row {
	uint32_t process;
	int32_t device;
	char pool[POOL_BYTES];
	uint64_t index_ppm, unusable_bytes;
};

struct fragment_rows {
	uint32_t count;
	struct fragment_row row[ROWS_MAX];
};

struct fragments {
	uint64_t next_ns; /* of the one who looks */
	pthread_mutex_t lock;
	/* Under the lock: */
	struct fragment_rows *rows; /* NULL: none */
	bool wanted;
};

struct fragments *fragments_new(void)
{
	struct fragments *fragments = calloc(1, sizeof(*fragments));

	if (fragments)
		pthread_mutex_init(&fragments->lock, NULL);
	return fragments;
}

struct fragments *fragments_free(struct fragments *fragments)
{
	if (!fragments)
		return NULL;
	pthread_mutex_destroy(&fragments->lock);
	free(fragments->rows);
	free(fragments);
	return NULL;
}

static int take(void *data, const Tracesmith__V1__Row *row)
{
	struct fragment_rows *rows = data;
	struct fragment_row *next;
	const char *pool;

	if (row->n_value != 5)
		return -EPROTO;
	if (rows->count == ROWS_MAX)
		return 0;
	next = &rows->row[rows->count++];
	next->process = (uint32_t)rows_integer(row->value[0]);
	next->device = (int32_t)rows_integer(row->value[1]);
	pool = rows_text(row->value[2]);
	snprintf(next->pool, sizeof(next->pool), "%s", pool ? pool : "other");
	next->index_ppm = (uint64_t)rows_integer(row->value[3]);
	next->unusable_bytes = (uint64_t)rows_integer(row->value[4]);
	return 0;
}

static struct fragment_rows *look(const struct options *options)
{
	_cleanup_(link_freep) struct link *link = NULL;
	_cleanup_(freep) struct fragment_rows *rows = calloc(1, sizeof(*rows));
	char why[COMPLAINT_BYTES];
	int r = -ENOMEM;

	complain_into(why);
	if (rows)
		r = link_open(options, &link);
	if (r == 0)
		r = rows_query(link, "metrics-fragmentation", ROWS_MAX, take, rows);
	complain_into(NULL);
	return r < 0 ? NULL : TAKE(rows);
}

void fragments_look(struct fragments *fragments, const struct options *options, uint64_t now_ns)
{
	struct fragment_rows *rows, *old;
	uint64_t took_ns;
	bool wanted;

	pthread_mutex_lock(&fragments->lock);
	wanted = fragments->wanted;
	pthread_mutex_unlock(&fragments->lock);
	if (!wanted || now_ns < fragments->next_ns)
		return;
	rows = look(options);
	took_ns = clock_ns(CLOCK_MONOTONIC) - now_ns;
	fragments->next_ns = now_ns + EVERY_NS + REST_TIMES * took_ns;
	pthread_mutex_lock(&fragments->lock);
	old = fragments->rows;
	fragments->rows = rows;
	fragments->wanted = false;
	pthread_mutex_unlock(&fragments->lock);
	free(old);
}

static int put(const struct fragment_row *row, struct series *series, struct part_names *parts)
{
	struct series_cell cell = {
		.family = FAMILY_OF_FRAGMENTED,
		.device = row->device,
		.part = part_number(parts, row->pool),
		.value = row->index_ppm,
	};
	int r = series_add(series, row->process, &cell, true);

	cell.family = FAMILY_OF_UNUSABLE;
	cell.value = row->unusable_bytes;
	return r < 0 ? r : series_add(series, row->process, &cell, true);
}

int fragments_put(struct fragments *fragments, struct series *series, struct part_names *parts)
{
	int r = 0;

	pthread_mutex_lock(&fragments->lock);
	fragments->wanted = true;
	for (uint32_t i = 0; fragments->rows && i < fragments->rows->count && r == 0; i++)
		r = put(&fragments->rows->row[i], series, parts);
	pthread_mutex_unlock(&fragments->lock);
	return r;
}
