/* Allocator: PyTorch's caching allocator, as far as its reports go. It gets segments from the
 * driver, splits them into blocks, joins free neighbours again, keeps free segments until it is
 * asked to give them back or the device has no room, and reports each block to the function that
 * real ones report it to, with its lock held. */
#include "allocator.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include <cuda.h>

#define EXPORT		__attribute__((visibility("default"), noinline))
#define ROUND		512
#define SMALL_BYTES	(1ul << 20) /* and what a segment of such blocks has: */
#define SMALL_SEGMENT	(2ul << 20)
#define LARGE_SEGMENT	(20ul << 20)
#define HUGE_BYTES	(10ul << 20)
#define CUDA_DEVICE	1 /* c10::DeviceType, with the number 0 above it */
#define LEFT_OVER_BYTES 512

/* Neighbours in a segment are linked; the first one has the segment's address. */
struct block {
	struct block *before, *after; /* in its segment */
	struct block *next;	      /* of all */
	uintptr_t address;
	size_t bytes;
	bool taken, later;
};

#define REPORT "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
void report(void *address, int64_t bytes, size_t now, size_t held, uint16_t device) __asm__(REPORT);
#define REPORT_OOM "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"
void report_oom(int64_t bytes, size_t now, size_t held, uint16_t device) __asm__(REPORT_OOM);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks;
static size_t allocated, reserved;

static __attribute__((noinline)) bool a_profiler_runs(void)
{
	__asm__ volatile("");
	return false;
}

EXPORT void report(void *address, int64_t bytes, size_t now, size_t held, uint16_t device)
{
	if (a_profiler_runs())
		abort();
	(void)address, (void)bytes, (void)now, (void)held, (void)device;
}

EXPORT void report_oom(int64_t bytes, size_t now, size_t held, uint16_t device)
{
	if (a_profiler_runs())
		abort();
	(void)bytes, (void)now, (void)held, (void)device;
}

static size_t round_up(size_t bytes, size_t to)
{
	return (bytes + to - 1) / to * to;
}

static struct block *block_new(uintptr_t address, size_t bytes)
{
	struct block *block = calloc(1, sizeof(*block));

	if (!block)
		abort();
	block->address = address;
	block->bytes = bytes;
	block->next = blocks;
	blocks = block;
	return block;
}

static void block_forget(struct block *block)
{
	struct block **at = &blocks;

	while (*at != block)
		at = &(*at)->next;
	*at = block->next;
	free(block);
}

static struct block *block_find(size_t bytes)
{
	struct block *best = NULL;

	for (struct block *block = blocks; block; block = block->next)
		if (!block->taken && !block->later && block->bytes >= bytes &&
		    (!best || block->bytes < best->bytes))
			best = block;
	return best;
}

static void block_split(struct block *block, size_t bytes)
{
	struct block *rest;

	if (block->bytes - bytes < LEFT_OVER_BYTES)
		return;
	rest = block_new(block->address + bytes, block->bytes - bytes);
	rest->before = block;
	rest->after = block->after;
	if (rest->after)
		rest->after->before = rest;
	block->after = rest;
	block->bytes = bytes;
}

static bool block_is_free(const struct block *block)
{
	return block && !block->taken && !block->later;
}

/* Into the one before it. */
static void block_join(struct block *block)
{
	struct block *before = block->before;

	before->bytes += block->bytes;
	before->after = block->after;
	if (block->after)
		block->after->before = before;
	block_forget(block);
}

static void block_merge(struct block *block)
{
	if (block_is_free(block->after))
		block_join(block->after);
	if (block_is_free(block->before))
		block_join(block);
}

static void cache_empty(void)
{
	struct block *next;

	for (struct block *block = blocks; block; block = next) {
		next = block->next;
		if (!block_is_free(block) || block->before || block->after)
			continue;
		cuMemFree_v2(block->address);
		reserved -= block->bytes;
		block_forget(block);
	}
}

static struct block *segment_new(size_t bytes)
{
	size_t size = bytes <= SMALL_BYTES ? SMALL_SEGMENT
		      : bytes < HUGE_BYTES ? LARGE_SEGMENT
					   : round_up(bytes, SMALL_SEGMENT);
	CUdeviceptr address;

	if (cuMemAlloc_v2(&address, size) != CUDA_SUCCESS) {
		cache_empty();
		if (cuMemAlloc_v2(&address, size) != CUDA_SUCCESS)
			return NULL;
	}
	reserved += size;
	return block_new((uintptr_t)address, size);
}

/* As the real one does before it throws. */
static void tell_oom(size_t bytes)
{
	size_t left, total;

	cuMemGetInfo_v2(&left, &total);
	report_oom((int64_t)bytes, allocated, reserved, CUDA_DEVICE);
}

EXPORT void *c10_malloc(size_t bytes)
{
	size_t size = round_up(bytes, ROUND);
	struct block *block;
	void *address = NULL;

	pthread_mutex_lock(&lock);
	block = block_find(size) ?: segment_new(size);
	if (block) {
		block_split(block, size);
		block->taken = true;
		allocated += block->bytes;
		address = (void *)block->address;
		report(address, (int64_t)block->bytes, allocated, reserved, CUDA_DEVICE);
	} else {
		tell_oom(size);
	}
	pthread_mutex_unlock(&lock);
	return address;
}

static void give_back(void *address, bool later)
{
	struct block *block = blocks;

	pthread_mutex_lock(&lock);
	while (block->address != (uintptr_t)address || !block->taken)
		block = block->next;
	block->taken = false;
	block->later = later;
	allocated -= block->bytes;
	report(address, -(int64_t)block->bytes, allocated, reserved, CUDA_DEVICE);
	if (!later)
		block_merge(block);
	pthread_mutex_unlock(&lock);
}

EXPORT void c10_free(void *address)
{
	give_back(address, false);
}

EXPORT void c10_free_later(void *address)
{
	give_back(address, true);
}

EXPORT void c10_synchronize(void)
{
	struct block *block;

	pthread_mutex_lock(&lock);
	do {
		for (block = blocks; block && !block->later; block = block->next)
			;
		if (block) {
			block->later = false;
			block_merge(block);
		}
	} while (block);
	pthread_mutex_unlock(&lock);
}

EXPORT void c10_empty_cache(void)
{
	pthread_mutex_lock(&lock);
	cache_empty();
	pthread_mutex_unlock(&lock);
}

EXPORT size_t c10_allocated(void)
{
	return allocated;
}

EXPORT size_t c10_reserved(void)
{
	return reserved;
}

static void add_piece(struct c10_free *ret, size_t bytes, double *squares)
{
	ret->pieces += bytes > 0;
	ret->bytes += bytes;
	ret->largest = bytes > ret->largest ? bytes : ret->largest;
	*squares += (double)bytes * (double)bytes;
}

static size_t segment_bytes(const struct block *block)
{
	size_t bytes = 0;

	for (; block; block = block->after)
		bytes += block->bytes;
	return bytes;
}

/* Adds the share of its free bytes that are in one piece; returns those. */
static size_t segment_measure(const struct block *block, struct c10_free *ret, double *one_piece)
{
	size_t piece = 0, before = ret->bytes, free_bytes;
	bool taken = false;
	double squares = 0;

	for (; block; block = block->after) {
		ret->held += block->bytes;
		taken |= block->taken;
		if (!block->taken) {
			piece += block->bytes;
			continue;
		}
		add_piece(ret, piece, &squares);
		piece = 0;
	}
	add_piece(ret, piece, &squares);
	free_bytes = ret->bytes - before;
	if (!taken || !free_bytes)
		return 0;
	*one_piece += squares / (double)free_bytes;
	return free_bytes;
}

EXPORT void c10_measure(int small, struct c10_free *ret)
{
	double one_piece = 0;
	size_t bytes = 0;

	*ret = (struct c10_free){ 0 };
	pthread_mutex_lock(&lock);
	for (const struct block *block = blocks; block; block = block->next) {
		if (block->before || (segment_bytes(block) == SMALL_SEGMENT) != (small != 0))
			continue;
		ret->segments++;
		bytes += segment_measure(block, ret, &one_piece);
	}
	pthread_mutex_unlock(&lock);
	if (bytes)
		ret->index = 1 - one_piece / (double)bytes;
}
