/* heap.h: a binary heap in an array of its owner, who knows how many items it has and makes room
 * for them (vector.h). The first item is one that no other comes before. */
#ifndef TS_HEAP_H
#define TS_HEAP_H

#include <stddef.h>

/* Makes these, where `bool before(const type *a, const type *b)` is the order:
 *   void NAME_put(type *heap, size_t count, type item): adds to a heap of `count`
 *   type NAME_take(type *heap, size_t count): removes the first of `count`
 *   void NAME_sink(type *heap, size_t count): the first is another one, or comes later now */
#define HEAP_DEFINE(name, type, before)                                                            \
	__attribute__((unused)) static inline void name##_put(type *heap, size_t count, type item) \
	{                                                                                          \
		size_t i = count;                                                                  \
                                                                                                   \
		for (; i > 0 && before(&item, &heap[(i - 1) / 2]); i = (i - 1) / 2)                \
			heap[i] = heap[(i - 1) / 2];                                               \
		heap[i] = item;                                                                    \
	}                                                                                          \
                                                                                                   \
	static inline void name##_sink(type *heap, size_t count)                                   \
	{                                                                                          \
		type item = heap[0];                                                               \
		size_t i = 0;                                                                      \
                                                                                                   \
		for (size_t child = 1; child < count; child = 2 * i + 1) {                         \
			if (child + 1 < count && before(&heap[child + 1], &heap[child]))           \
				child++;                                                           \
			if (!before(&heap[child], &item))                                          \
				break;                                                             \
			heap[i] = heap[child];                                                     \
			i = child;                                                                 \
		}                                                                                  \
		heap[i] = item;                                                                    \
	}                                                                                          \
                                                                                                   \
	__attribute__((unused)) static inline type name##_take(type *heap, size_t count)           \
	{                                                                                          \
		type first = heap[0];                                                              \
                                                                                                   \
		heap[0] = heap[count - 1];                                                         \
		name##_sink(heap, count - 1);                                                      \
		return first;                                                                      \
	}                                                                                          \
	_Static_assert(sizeof(type) > 0, "so that a semicolon follows")

#endif
