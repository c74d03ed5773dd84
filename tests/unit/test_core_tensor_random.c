/* What is known of a framework's allocator equals its own figures after any number of random steps:
 * blocks of all sizes, split and joined, kept back for other streams, segments got and given back,
 * a device without room; and reports that are lost, in the second story. */
#include <stdlib.h>

#include "core_fixture.h"

#define STEPS	 1000000
#define DEVICES	 2
#define SEGMENTS 24
#define PAGES	 64
#define PAGE	 512ull
#define SEGMENT	 (PAGES * PAGE)
#define LIVE_MAX (SEGMENTS * PAGES)
#define CHECKS	 997 /* steps between two of them */
#define STEP_NS	 5000
#define CUDA	 1
#define EMPTIED	 5000 /* one in this many steps */

enum page { FREE, TAKEN, LATER };

/* The allocator of one device, page by page: neighbours that are free are one by nature. */
static struct reference {
	uint8_t page[SEGMENTS][PAGES];
	bool there[SEGMENTS];
	struct block {
		uint32_t segment, first, count;
		bool lost; /* its report was */
	} block[LIVE_MAX], later[LIVE_MAX];
	size_t live, kept_back, known;
	uint64_t used, held, known_bytes;
	uint64_t told_used, told_held, peak_used, peak_held;
	uint64_t told, no_room;
} reference[DEVICES];

static uint64_t seed, now;
static uint32_t lost_of_1000;

static uint32_t draw(uint32_t below)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % below;
}

static uint64_t address_of(uint32_t device, uint32_t segment, uint32_t page)
{
	return (1 + device) * 0x100000000ull + segment * SEGMENT + page * PAGE;
}

static void report(struct reference *r, struct block *block, bool freed)
{
	uint32_t device = (uint32_t)(r - reference);
	uint64_t bytes = block->count * PAGE;
	struct ts_event event = call_event(FN_TENSOR, now, 0);
	bool lost = draw(1000) < lost_of_1000;

	if (!freed)
		block->lost = lost;
	if (lost)
		return;
	event.flags = 0;
	event.end_ns = 0;
	event.api.address = address_of(device, block->segment, block->first);
	event.api.bytes = freed ? -bytes : bytes;
	event.api.source = r->told_used = r->used;
	event.api.handle = r->told_held = r->held;
	event.api.device = device << 8 | CUDA;
	assert_int_equal(give(&event), INGEST_OK);
	r->peak_used = r->used > r->peak_used ? r->used : r->peak_used;
	r->peak_held = r->held > r->peak_held ? r->held : r->peak_held;
	r->told++;
	if (!freed || !block->lost) {
		r->known += freed ? (size_t)-1 : 1;
		r->known_bytes += freed ? -bytes : bytes;
	}
}

static void mark(struct reference *r, const struct block *block, enum page page)
{
	memset(&r->page[block->segment][block->first], page, block->count);
}

static bool find(struct reference *r, uint32_t count, struct block *ret)
{
	for (uint32_t segment = 0; segment < SEGMENTS; segment++) {
		uint32_t room = 0;

		for (uint32_t page = 0; r->there[segment] && page < PAGES; page++) {
			room = r->page[segment][page] == FREE ? room + 1 : 0;
			if (room < count)
				continue;
			*ret = (struct block){ segment, page + 1 - count, count, false };
			return true;
		}
	}
	return false;
}

static void empty(struct reference *r)
{
	static const uint8_t all_free[PAGES];

	for (uint32_t segment = 0; segment < SEGMENTS; segment++) {
		if (!r->there[segment] || memcmp(r->page[segment], all_free, PAGES) != 0)
			continue;
		r->there[segment] = false;
		r->held -= SEGMENT;
		on_memory(FN_FREE, now, now + 1, address_of((uint32_t)(r - reference), segment, 0),
			  0);
	}
}

static bool grow(struct reference *r)
{
	for (uint32_t segment = 0; segment < SEGMENTS; segment++) {
		if (r->there[segment])
			continue;
		r->there[segment] = true;
		r->held += SEGMENT;
		on_memory(FN_ALLOC, now, now + 1, address_of((uint32_t)(r - reference), segment, 0),
			  SEGMENT);
		return true;
	}
	return false;
}

static void take(struct reference *r)
{
	uint32_t count = draw(10) ? 1 + draw(6) : 1 + draw(PAGES);
	struct block *block = &r->block[r->live];

	if (!find(r, count, block) && (!grow(r) || !find(r, count, block))) {
		r->no_room++;
		empty(r);
		return;
	}
	r->live++;
	mark(r, block, TAKEN);
	r->used += count * PAGE;
	report(r, block, false);
}

static void give_back(struct reference *r)
{
	uint32_t which = draw((uint32_t)r->live);
	struct block block = r->block[which];
	bool later = draw(5) == 0;

	r->block[which] = r->block[--r->live];
	r->used -= block.count * PAGE;
	if (later)
		r->later[r->kept_back++] = block;
	mark(r, &block, later ? LATER : FREE);
	report(r, &block, true);
}

static void synchronize(struct reference *r)
{
	while (r->kept_back > 0)
		mark(r, &r->later[--r->kept_back], FREE);
}

static void forget(void)
{
	seen.ops = seen.states = seen.allocations = seen.memories = seen.rollups = seen.losses = 0;
	seen.pools = seen.works = seen.busies = seen.growths = 0;
}

static void step(void)
{
	struct reference *r = &reference[draw(DEVICES)];
	/* Fuller and emptier by turns, so that there is no room at times. */
	uint32_t wish = now / STEP_NS % 20000 < 10000 ? 55 : 45;

	now += STEP_NS;
	if (draw(EMPTIED) == 0)
		empty(r);
	if (draw(50) == 0)
		synchronize(r);
	if (r->live == 0 || draw(100) < wish)
		take(r);
	else
		give_back(r);
	seen.ops = 0;
}

static const struct core_memory *known(int16_t device, uint8_t kind)
{
	for (size_t i = seen.memories; i-- > 0;)
		if (seen.memory[i].device == device && seen.memory[i].kind == kind)
			return &seen.memory[i];
	return NULL;
}

static void check_sums(const struct reference *r)
{
	const struct core_pool *row = NULL;
	int16_t device = (int16_t)(r - reference);

	for (size_t i = 0; i < seen.pools; i++)
		if (seen.pool[i].device == device)
			row = &seen.pool[i];
	assert_non_null(row);
	assert_int_equal(row->used_bytes, r->told_used);
	assert_int_equal(row->bytes, r->told_held);
	assert_int_equal(row->peak_used_bytes, r->peak_used);
	assert_int_equal(row->peak_bytes, r->peak_held);
}

static void check_blocks(const struct reference *r)
{
	const struct core_memory *row = known((int16_t)(r - reference), MEMORY_TENSOR);

	assert_non_null(row);
	assert_int_equal(row->live_bytes, r->known_bytes);
	assert_int_equal(row->live_bytes, r->used);
	assert_int_equal(row->live_count, r->live);
}

static void walk(void check(const struct reference *r))
{
	struct core_config config = fixture_config();

	memset(reference, 0, sizeof(reference));
	seed = 1;
	now = 1000;
	config.max_allocations = 1 << 14;
	fixture_restart(&config);
	announce();
	for (int i = 1; i <= STEPS; i++) {
		step();
		if (i % CHECKS != 0)
			continue;
		core_checkpoint(core, now);
		for (uint32_t device = 0; device < DEVICES; device++)
			check(&reference[device]);
		forget();
	}
	for (uint32_t device = 0; device < DEVICES; device++) {
		assert_true(reference[device].told > STEPS / 4);
		assert_true(reference[device].no_room > 100);
	}
}

static void check_all(const struct reference *r)
{
	check_sums(r);
	check_blocks(r);
	assert_int_equal(lost(LOSS_LIMIT), 0);
	assert_int_equal(lost(LOSS_UNKNOWN_FREE), 0);
}

static void a_million_steps_end_in_the_allocators_own_figures(void **state)
{
	lost_of_1000 = 0;
	walk(check_all);
}

static void sums_are_right_again_with_the_next_report_after_a_lost_one(void **state)
{
	lost_of_1000 = 20;
	walk(check_sums);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(a_million_steps_end_in_the_allocators_own_figures),
		STORY(sums_are_right_again_with_the_next_report_after_a_lost_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
