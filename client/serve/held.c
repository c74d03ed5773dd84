/* Held: goes through the events twice, first to see which layers hold the most in the window, then
 * to draw these. */
#include "client/serve/held.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/vector.h"

static int find_layer(struct held *held, const struct held_event *event, uint32_t *ret)
{
	struct map_key key = { event->process, held->by_process ? 0 : (uint64_t)event->path };
	uintptr_t at = (uintptr_t)map_get(&held->known, key);

	if (!at) {
		if (VECTOR_ROOM(held->layer, held->layers_room, held->layers + 1) < 0 ||
		    map_put(&held->known, key, (void *)(uintptr_t)(held->layers + 1)) < 0)
			return -ENOMEM;
		held->layer[held->layers++] =
			(struct held_layer){ .process = event->process, .path = (int64_t)key.b };
		at = held->layers;
	}
	*ret = (uint32_t)(at - 1);
	return 0;
}

int held_add(struct held *held, const struct held_event *event)
{
	uint32_t layer;
	int r;

	if (held->events >= HELD_EVENTS_MAX)
		return -E2BIG;
	r = find_layer(held, event, &layer);
	if (r == 0)
		r = VECTOR_ROOM(held->event, held->events_room, held->events + 1);
	if (r < 0)
		return r;
	held->event[held->events] = *event;
	held->event[held->events++].path = layer; /* found once */
	return 0;
}

static void begin(struct held *held)
{
	for (uint32_t i = 0; i < held->layers; i++)
		held->layer[i].bytes = 0;
}

/* Numbers of a recording may be anything. */
static int64_t plus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static struct held_layer *step(struct held *held, const struct held_event *event)
{
	struct held_layer *layer = &held->layer[event->path];

	layer->bytes = plus(layer->bytes, event->bytes);
	return layer;
}

/* By the most that each held in the window. */
static void measure(struct held *held, uint64_t since_ns, uint64_t until_ns)
{
	uint32_t i = 0;

	begin(held);
	for (; i < held->events && held->event[i].at_ns < since_ns; i++)
		step(held, &held->event[i]);
	for (uint32_t k = 0; k < held->layers; k++)
		held->layer[k].most = held->layer[k].bytes;
	for (; i < held->events && held->event[i].at_ns < until_ns; i++) {
		struct held_layer *layer = step(held, &held->event[i]);

		layer->most = layer->bytes > layer->most ? layer->bytes : layer->most;
	}
}

static void choose(struct held *held, struct held_picture *picture)
{
	picture->layers = picture->others = 0;
	for (uint32_t i = 0; i < held->layers; i++) {
		struct held_layer *layer = &held->layer[i];
		uint32_t at = picture->layers;

		layer->place = HELD_LAYERS_MAX;
		if (layer->most <= 0)
			continue;
		while (at > 0 && picture->layer[at - 1]->most < layer->most)
			at--;
		if (picture->layers == HELD_LAYERS_MAX)
			picture->others++;
		if (at == HELD_LAYERS_MAX)
			continue;
		picture->layers += picture->layers < HELD_LAYERS_MAX;
		memmove(&picture->layer[at + 1], &picture->layer[at],
			(picture->layers - at - 1) * sizeof(picture->layer[0]));
		picture->layer[at] = layer;
	}
	for (uint32_t i = 0; i < picture->layers; i++)
		held->layer[picture->layer[i] - held->layer].place = i;
}

struct now {
	int64_t bytes[HELD_LAYERS_MAX + 1], count[HELD_LAYERS_MAX + 1], all;
};

static void change(struct now *now, const struct held_layer *layer, const struct held_event *event)
{
	now->bytes[layer->place] = plus(now->bytes[layer->place], event->bytes);
	now->count[layer->place] = plus(now->count[layer->place], event->count);
	now->all = plus(now->all, event->bytes);
}

static void keep(struct held_picture *picture, uint32_t column, const struct now *now,
		 uint64_t at_ns)
{
	memcpy(picture->bytes[column], now->bytes, sizeof(now->bytes));
	memcpy(picture->count[column], now->count, sizeof(now->count));
	if (now->all > picture->most) {
		picture->most = now->all;
		picture->most_ns = at_ns;
	}
}

static void fill(struct held *held, uint64_t since_ns, uint64_t step_ns, uint32_t columns,
		 struct held_picture *picture)
{
	struct now now = { 0 };
	uint32_t i = 0;

	for (; i < held->events && held->event[i].at_ns < since_ns; i++)
		change(&now, &held->layer[held->event[i].path], &held->event[i]);
	for (uint32_t column = 0; column < columns; column++) {
		uint64_t end_ns = since_ns + (column + 1) * step_ns;
		int64_t most = now.all;

		keep(picture, column, &now, since_ns + column * step_ns);
		for (; i < held->events && held->event[i].at_ns < end_ns; i++) {
			change(&now, &held->layer[held->event[i].path], &held->event[i]);
			if (now.all <= most)
				continue;
			most = now.all;
			keep(picture, column, &now, held->event[i].at_ns);
		}
	}
}

void held_draw(struct held *held, uint64_t since_ns, uint64_t step_ns, uint32_t columns,
	       struct held_picture *ret)
{
	ret->most = 0;
	ret->most_ns = since_ns;
	measure(held, since_ns, since_ns + columns * step_ns);
	choose(held, ret);
	fill(held, since_ns, step_ns, columns, ret);
}

void held_done(struct held *held)
{
	free(held->event);
	free(held->layer);
	map_clear(&held->known);
}
