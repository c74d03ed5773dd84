/* Buffer: a pool of mappings with a cap.
 *
 * A slot of the pool is empty, ours or CUPTI's, and changes hands by an exchange of its state, so
 * no thread of the program ever waits here. What CUPTI holds is never unmapped, whatever happens.
 * The more CUPTI holds, the smaller the buffers that it gets: it keeps one per thread. A returned
 * buffer is cleared on a thread that nobody waits for and handed out as zeros: CUPTI is told
 * so, and neither clears it on the program's time nor touches what it does not need.
 */
#include "inject/buffer.h"

#include <string.h>
#include <sys/mman.h>

#define PLACES		4096
#define SIZE_FULL	(4u << 20) /* cost a launch-bound program 3 % less than SIZE_MORE */
#define SIZE_MORE	(256u << 10)
#define SIZE_FEWER	(64u << 10)
#define SIZE_LEAST	(16u << 10)
#define SIZE_OVER_CAP	(4u << 10)
#define READY_WANTED	2
#define READY_BYTES_MAX (12u << 20)
#define PAGE		4096
#define UNUSED_PAGES	64 /* zeros found: CUPTI has not written beyond them */

enum place_state { EMPTY, BUSY, READY, OUT };

static struct place {
	uint32_t state;
	uint32_t size;
	uint8_t *at;
} place[PLACES];
static struct {
	uint64_t cap;
	bool may_refuse;
	uint32_t used; /* slots below it may be in use */
	uint64_t bytes, out_bytes, refused;
	uint32_t out;
} pool = { .cap = BUFFER_CAP_DEFAULT };

void buffer_set(uint64_t cap_bytes, bool may_refuse)
{
	pool.cap = cap_bytes ? cap_bytes : BUFFER_CAP_DEFAULT;
	pool.may_refuse = may_refuse;
}

static bool place_take(struct place *p, enum place_state from, enum place_state to)
{
	uint32_t is = from;

	return __atomic_load_n(&p->state, __ATOMIC_RELAXED) == from &&
	       __atomic_compare_exchange_n(&p->state, &is, to, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

static void place_set(struct place *p, enum place_state state)
{
	__atomic_store_n(&p->state, state, __ATOMIC_RELEASE);
}

static bool is_full_size_fine(uint64_t out_bytes)
{
	return out_bytes + SIZE_FULL <= pool.cap / 2;
}

/* 0: none is available. */
static uint32_t size_now(void)
{
	uint64_t out = __atomic_load_n(&pool.out_bytes, __ATOMIC_RELAXED);
	uint32_t size = is_full_size_fine(out)	 ? SIZE_FULL
			: out < pool.cap / 2	 ? SIZE_MORE
			: out < pool.cap / 4 * 3 ? SIZE_FEWER
						 : SIZE_LEAST;

	if (out + size <= pool.cap)
		return size;
	/* Older CUPTI versions cannot handle a refusal. */
	return pool.may_refuse ? 0 : SIZE_OVER_CAP;
}

/* Maps a buffer into an empty slot, which then belongs to the caller. */
static struct place *place_make(uint32_t size, int flags)
{
	for (uint32_t i = 0; i < PLACES; i++) {
		uint32_t used = __atomic_load_n(&pool.used, __ATOMIC_RELAXED);
		struct place *p = &place[i];
		uint8_t *at;

		if (!place_take(p, EMPTY, BUSY))
			continue;
		at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags,
			  -1, 0);
		if (at == MAP_FAILED) {
			place_set(p, EMPTY);
			return NULL;
		}
		__atomic_store_n(&p->at, at, __ATOMIC_RELAXED);
		p->size = size;
		__atomic_fetch_add(&pool.bytes, size, __ATOMIC_RELAXED);
		while (used <= i &&
		       !__atomic_compare_exchange_n(&pool.used, &used, i + 1, false,
						    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			;
		return p;
	}
	return NULL;
}

static struct place *place_ready(uint32_t size)
{
	uint32_t used = __atomic_load_n(&pool.used, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < used; i++) {
		if (!place_take(&place[i], READY, BUSY))
			continue;
		if (place[i].size == size)
			return &place[i];
		place_set(&place[i], READY);
	}
	return NULL;
}

uint8_t *buffer_take(size_t *ret_size)
{
	uint32_t size = size_now();
	struct place *p = size ? place_ready(size) : NULL;

	if (size && !p)
		p = place_make(size, 0);
	if (!p) {
		__atomic_fetch_add(&pool.refused, 1, __ATOMIC_RELAXED);
		*ret_size = 0;
		return NULL;
	}
	__atomic_fetch_add(&pool.out_bytes, p->size, __ATOMIC_RELAXED);
	__atomic_fetch_add(&pool.out, 1, __ATOMIC_RELAXED);
	*ret_size = p->size;
	place_set(p, OUT);
	return p->at;
}

static struct place *place_of(const uint8_t *buffer)
{
	uint32_t used = __atomic_load_n(&pool.used, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < used; i++)
		if (__atomic_load_n(&place[i].state, __ATOMIC_ACQUIRE) == OUT &&
		    __atomic_load_n(&place[i].at, __ATOMIC_RELAXED) == buffer)
			return &place[i];
	return NULL;
}

bool buffer_is_ours(const uint8_t *buffer)
{
	return place_of(buffer);
}

static void place_unmap(struct place *p)
{
	munmap(p->at, p->size);
	__atomic_fetch_sub(&pool.bytes, p->size, __ATOMIC_RELAXED);
	place_set(p, EMPTY);
}

static bool is_zero(const uint8_t *page)
{
	return !page[0] && !memcmp(page, page + 1, PAGE - 1);
}

/* CUPTI may have started records after those that it finished; it fills a buffer from its start. */
static void clear(struct place *p, size_t written)
{
	size_t at = (written + PAGE - 1) / PAGE * PAGE, zeros = 0;

	at = at < p->size ? at : p->size;
	memset(p->at, 0, at);
	for (; at < p->size && zeros < UNUSED_PAGES; at += PAGE) {
		if (is_zero(p->at + at)) {
			zeros++;
			continue;
		}
		memset(p->at + at, 0, PAGE);
		zeros = 0;
	}
}

void buffer_give(uint8_t *buffer, size_t written)
{
	struct place *p = place_of(buffer);

	if (!p || !place_take(p, OUT, BUSY))
		return;
	__atomic_fetch_sub(&pool.out_bytes, p->size, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&pool.out, 1, __ATOMIC_RELAXED);
	if (p->size < SIZE_MORE) {
		place_unmap(p);
		return;
	}
	clear(p, written);
	place_set(p, READY);
}

void buffer_stats(struct buffer_stats *ret)
{
	*ret = (struct buffer_stats){
		.out = __atomic_load_n(&pool.out, __ATOMIC_RELAXED),
		.out_bytes = __atomic_load_n(&pool.out_bytes, __ATOMIC_RELAXED),
		.bytes = __atomic_load_n(&pool.bytes, __ATOMIC_RELAXED),
		.refused = __atomic_load_n(&pool.refused, __ATOMIC_RELAXED),
	};
}

void buffer_tend(void)
{
	uint64_t out = __atomic_load_n(&pool.out_bytes, __ATOMIC_RELAXED);
	uint64_t bytes = __atomic_load_n(&pool.bytes, __ATOMIC_RELAXED), ready = bytes - out;

	if (ready < READY_WANTED * SIZE_FULL && is_full_size_fine(out)) {
		struct place *p = place_make(SIZE_FULL, MAP_POPULATE);

		if (p)
			place_set(p, READY);
	} else if (bytes > out && ready > READY_BYTES_MAX) {
		struct place *p = place_ready(SIZE_MORE);

		if (!p)
			p = place_ready(SIZE_FULL);
		if (p)
			place_unmap(p);
	}
}

void buffer_release(void)
{
	for (uint32_t i = 0; i < PLACES; i++)
		if (place_take(&place[i], READY, BUSY))
			place_unmap(&place[i]);
}
