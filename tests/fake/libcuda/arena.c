/* Arena: slots for one kind of object, so that a handle can be told from garbage.
 * A slot's memory never goes away, so looking at a stale handle is safe; a freed slot rests
 * until many others were freed, so a stale handle is noticed and not taken for a new object. */
#include "fake.h"

#include <string.h>
#include <sys/mman.h>

#define ARENA_REST 256 /* freed slots before the oldest is used again */
#define SLOT_NONE  UINT32_MAX

#define ARENA(bytes, slots)                                                                        \
	{                                                                                          \
		.object_bytes = bytes, .capacity = slots, .lock = PTHREAD_MUTEX_INITIALIZER,       \
		.free_first = SLOT_NONE, .free_last = SLOT_NONE,                                   \
	}

/* Sizes are powers of two: the check of a handle is on the launch path. */
struct arena arena_contexts = ARENA(512, 1 << 12);
struct arena arena_streams = ARENA(512, 1 << 16);
struct arena arena_events = ARENA(256, 1 << 22);
struct arena arena_modules = ARENA(128, 1 << 16);
struct arena arena_functions = ARENA(1024, 1 << 20);
struct arena arena_libraries = ARENA(128, 1 << 16);
struct arena arena_kernels = ARENA(1024, 1 << 20);
struct arena arena_pools = ARENA(128, 1 << 12);
struct arena arena_graphs = ARENA(64, 1 << 20);
struct arena arena_nodes = ARENA(512, 1 << 22);
struct arena arena_execs = ARENA(256, 1 << 20);

_Static_assert(sizeof(struct context) <= 512, "slot of a context");
_Static_assert(sizeof(struct stream) <= 512, "slot of a stream");
_Static_assert(sizeof(struct event) <= 256, "slot of an event");
_Static_assert(sizeof(struct function) <= 1024, "slot of a function");
_Static_assert(sizeof(struct graph) <= 64, "slot of a graph");
_Static_assert(sizeof(struct node) <= 512, "slot of a node");

static struct object *arena_at(const struct arena *arena, char *base, size_t slot)
{
	return (struct object *)(base + slot * arena->object_bytes);
}

static char *arena_map(struct arena *arena)
{
	char *base = atomic_load_explicit(&arena->base, memory_order_relaxed);

	if (base)
		return base;
	base = mmap(NULL, arena->object_bytes * arena->capacity, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return NULL;
	atomic_store_explicit(&arena->base, base, memory_order_release);
	return base;
}

/* A zeroed object that is already live, or NULL. */
void *arena_take(struct arena *arena)
{
	struct object *object = NULL;
	size_t used;
	char *base;

	pthread_mutex_lock(&arena->lock);
	base = arena_map(arena);
	used = atomic_load_explicit(&arena->used, memory_order_relaxed);
	if (base && arena->free_count > ARENA_REST) {
		object = arena_at(arena, base, arena->free_first);
		arena->free_first = object->next_free;
		arena->free_count--;
	} else if (base && used < arena->capacity) {
		object = arena_at(arena, base, used);
		atomic_store_explicit(&arena->used, used + 1, memory_order_release);
	}
	if (object) {
		memset(object + 1, 0, arena->object_bytes - sizeof(*object));
		object->id = ++arena->next_id;
		atomic_store_explicit(&object->state, OBJECT_LIVE, memory_order_release);
	}
	pthread_mutex_unlock(&arena->lock);
	return object;
}

void arena_give(struct arena *arena, void *pointer)
{
	struct object *object = pointer;
	char *base;
	uint32_t slot;

	pthread_mutex_lock(&arena->lock);
	base = arena_map(arena);
	slot = (uint32_t)((size_t)((char *)pointer - base) / arena->object_bytes);
	atomic_store_explicit(&object->state, OBJECT_FREE, memory_order_release);
	object->next_free = SLOT_NONE;
	if (arena->free_count++ == 0)
		arena->free_first = slot;
	else
		arena_at(arena, base, arena->free_last)->next_free = slot;
	arena->free_last = slot;
	pthread_mutex_unlock(&arena->lock);
}

bool arena_owns(const struct arena *arena, const void *handle)
{
	size_t used = atomic_load_explicit(&arena->used, memory_order_acquire);
	char *base = atomic_load_explicit(&arena->base, memory_order_acquire);
	size_t offset = (size_t)((const char *)handle - base);

	return base && offset < used * arena->object_bytes &&
	       (offset & (arena->object_bytes - 1)) == 0;
}
