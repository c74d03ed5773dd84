/* The model's containers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/cleanup.h"
#include "core/base/heap.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/map.h"
#include "core/base/pool.h"
#include "core/base/set.h"
#include "core/base/sums.h"
#include "core/base/vector.h"

#define COUNT 20000

static char value[COUNT];

static struct map_key key(uint64_t i)
{
	return (struct map_key){ i * 4096, i % 3 };
}

static void map_finds_what_is_left_after_removals(void **state)
{
	struct map map = { 0 };

	assert_null(map_get(&map, key(1)));
	assert_null(map_remove(&map, key(1)));
	for (uint64_t i = 0; i < COUNT; i++)
		assert_int_equal(map_put(&map, key(i), &value[i]), 0);
	for (uint64_t i = 0; i < COUNT; i += 2)
		assert_ptr_equal(map_remove(&map, key(i)), &value[i]);
	assert_int_equal(map.count, COUNT / 2);
	for (uint64_t i = 0; i < COUNT; i++)
		assert_ptr_equal(map_get(&map, key(i)), i % 2 ? &value[i] : NULL);
	for (uint64_t i = 1; i < COUNT; i += 2)
		map_remove(&map, key(i));
	assert_int_equal(map.count, 0);
	assert_true(map.size <= 32); /* memory goes back */
	map_clear(&map);
}

static void map_replaces_the_value_of_a_key(void **state)
{
	struct map map = { 0 };

	map_put(&map, key(1), &value[1]);
	map_put(&map, key(1), &value[2]);
	assert_int_equal(map.count, 1);
	assert_ptr_equal(map_get(&map, key(1)), &value[2]);
	map_clear(&map);
}

static void emptied_map_takes_new_keys_and_returns_memory(void **state)
{
	struct map map = { 0 };

	for (uint64_t i = 0; i < COUNT; i++)
		map_put(&map, key(i), &value[i]);
	map_empty(&map);
	assert_int_equal(map.count, 0);
	assert_null(map_get(&map, key(1)));
	for (int i = 0; i < 20; i++) {
		assert_int_equal(map_put(&map, key(7), &value[7]), 0);
		assert_ptr_equal(map_get(&map, key(7)), &value[7]);
		map_empty(&map);
	}
	assert_true(map.size <= 32);
	map_clear(&map);
}

static void key_stands_for_bytes_of_any_size(void **state)
{
	static const char text[] = "void gemm<float, 128>(float const*, float*)";
	struct map_key one = map_key_of(text, sizeof(text), 1);

	for (size_t i = 0; i < sizeof(text); i++) {
		struct map_key part = map_key_of(text, i, 1);

		assert_memory_not_equal(&part, &one, sizeof(one));
	}
	assert_memory_equal(&one, &(struct map_key[]){ map_key_of(text, sizeof(text), 1) },
			    sizeof(one));
	assert_memory_not_equal(&one, &(struct map_key[]){ map_key_of(text, sizeof(text), 2) },
				sizeof(one));
}

struct total {
	uint64_t a, b, c;
	uint64_t count;
};

static void sums_add_up_by_key_until_emptied(void **state)
{
	struct sums sums = SUMS_OF(struct total, count);

	for (int round = 0; round < 3; round++) {
		for (uint64_t i = 0; i < 3ull * COUNT; i++) {
			struct total key = { .a = i % COUNT, .c = 1 }, *row;

			row = sums_get(&sums, &key, COUNT);
			assert_non_null(row);
			row->count++;
		}
		assert_int_equal(sums.count, COUNT);
		assert_null(sums_get(&sums, &(struct total){ .b = 1 }, COUNT));
		for (uint32_t i = 0; i < COUNT; i++) {
			const struct total *row = sums_row(&sums, i);

			assert_int_equal(row->a, i);
			assert_int_equal(row->count, 3);
		}
		sums_empty(&sums);
		assert_int_equal(sums.count, 0);
	}
	sums_release(&sums);
}

static void pool_reuses_and_gives_back(void **state)
{
	struct pool pool = { .object_bytes = 104 };
	void *object[COUNT / 10];
	void *first;

	first = pool_get(&pool);
	pool_put(&pool, first);
	assert_ptr_equal(pool_get(&pool), first);
	for (size_t i = 0; i < COUNT / 10; i++)
		memset(object[i] = pool_get(&pool), 0xff, 104);
	assert_int_equal(pool.used, COUNT / 10 + 1);
	for (size_t i = 0; i < COUNT / 10; i++)
		pool_put(&pool, object[i]);
	assert_true(pool.blocks > 1);
	pool_put(&pool, first);
	assert_true(pool.blocks > 1); /* a few stay for the next ones */
	assert_ptr_equal(pool_get(&pool), first);
	pool_put(&pool, first);
	pool_trim(&pool);
	pool_trim(&pool);
	assert_int_equal(pool.blocks, 0);
	assert_non_null(pool_get(&pool));
	pool_clear(&pool);
}

/* One object stays, so the blocks are not freed with the last one. */
static void pool_trim_frees_what_was_not_needed(void **state)
{
	struct pool pool = { .object_bytes = 104 };
	static void *object[COUNT];
	void *first = pool_get(&pool);
	size_t most;

	for (size_t i = 0; i < COUNT; i++)
		memset(object[i] = pool_get(&pool), 0xff, 104);
	most = pool.blocks;
	assert_true(most > 10);
	for (size_t i = 0; i < COUNT; i++)
		pool_put(&pool, object[i]);
	pool_trim(&pool);
	assert_int_equal(pool.blocks, most); /* they have been needed */

	for (size_t i = 0; i < COUNT / 2; i++)
		object[i] = pool_get(&pool);
	for (size_t i = 0; i < COUNT / 2; i++)
		pool_put(&pool, object[i]);
	assert_int_equal(pool.blocks, most);
	pool_trim(&pool);
	assert_in_range(pool.blocks, most / 2 - 1, most / 2 + 2); /* half of them again */
	pool_trim(&pool);
	assert_int_equal(pool.blocks, 1);
	for (size_t i = 0; i < COUNT; i++)
		memset(object[i] = pool_get(&pool), 0xff, 104);
	for (size_t i = 0; i < COUNT; i++)
		pool_put(&pool, object[i]);
	pool_put(&pool, first);
	assert_int_equal(pool.blocks, 0);
}

/* Objects go and come at random, and are whoever has them's alone. */
static void pool_trims_between_others(void **state)
{
	struct pool pool = { .object_bytes = 104 };
	static uint64_t *object[COUNT];
	uint32_t random = 1;
	size_t used = 0;

	for (int turn = 0; turn < 60; turn++) {
		size_t many = turn % 3 ? COUNT / 20 : COUNT;

		for (size_t i = 0; i < COUNT; i++) {
			bool wanted;

			random = random * 1103515245 + 12345;
			wanted = (random >> 8) % COUNT < many;

			if (object[i]) {
				assert_int_equal(object[i][1], i);
				assert_int_equal(object[i][12], ~i);
			}
			if (wanted && !object[i]) {
				object[i] = pool_get(&pool);
				object[i][1] = i;
				object[i][12] = ~i;
				used++;
			} else if (!wanted && object[i]) {
				pool_put(&pool, object[i]);
				object[i] = NULL;
				used--;
			}
		}
		assert_int_equal(pool.used, used);
		pool_trim(&pool);
	}
	pool_clear(&pool);
}

struct item {
	int number;
	struct list link;
};

static void list_survives_the_removal_of_the_current_item(void **state)
{
	struct item item[5];
	struct list list;
	struct item *at;
	int sum = 0;

	list_init(&list);
	assert_null(list_first(&list, struct item, link));
	for (int i = 0; i < 5; i++) {
		item[i].number = i;
		list_append(&list, &item[i].link);
	}
	list_for_each(at, &list, link)
		if (at->number % 2)
			list_remove(&at->link);
	list_for_each(at, &list, link)
		sum = sum * 10 + at->number;
	assert_int_equal(sum, 24);
	assert_false(list_linked(&item[1].link));
	assert_int_equal(list_last(&list, struct item, link)->number, 4);
}

static void list_takes_over_another(void **state)
{
	struct item item[4];
	struct list list, from;
	struct item *at;
	int sum = 0;

	list_init(&list);
	list_init(&from);
	list_append_all(&list, &from);
	assert_true(list_empty(&list));
	for (int i = 0; i < 4; i++) {
		item[i].number = i + 1;
		list_prepend(i < 2 ? &list : &from, &item[i].link);
	}
	list_append_all(&list, &from);
	assert_true(list_empty(&from));
	list_for_each(at, &list, link)
		sum = sum * 10 + at->number;
	assert_int_equal(sum, 2143);
	list_remove(&item[2].link);
	assert_int_equal(list_last(&list, struct item, link)->number, 4);
}

static bool number_before(const uint32_t *a, const uint32_t *b)
{
	return *a < *b;
}
HEAP_DEFINE(heap, uint32_t, number_before);

static void heap_gives_the_first_of_what_is_left(void **state)
{
	_cleanup_(freep) uint32_t *item = calloc(COUNT, sizeof(*item));
	uint32_t random = 1, last = 0;

	assert_non_null(item);
	for (size_t i = 0; i < COUNT; i++)
		heap_put(item, i, (random = random * 1103515245 + 12345) >> 8);
	for (size_t left = COUNT; left > COUNT / 2; left--) {
		assert_true(item[0] >= last);
		last = heap_take(item, left);
	}
	/* The first one comes later now. */
	item[0] += 1 << 22;
	heap_sink(item, COUNT / 2);
	for (size_t left = COUNT / 2; left > 0; left--) {
		assert_true(item[0] >= last);
		last = heap_take(item, left);
	}
}

static void vector_grows_and_keeps_its_items(void **state)
{
	_cleanup_(freep) uint32_t *item = NULL;
	uint16_t room = 0, before;
	size_t moves = 0;

	for (size_t i = 0; i < COUNT; i++) {
		before = room;
		assert_int_equal(VECTOR_ROOM(item, room, i + 1), 0);
		moves += room != before;
		item[i] = i;
	}
	assert_true(moves < 16);
	assert_int_equal(VECTOR_ROOM(item, room, 5), 0);
	assert_int_equal(VECTOR_ROOM(item, room, UINT16_MAX), 0);
	before = room;
	/* More than the count can hold, or than there is memory. */
	assert_int_equal(VECTOR_ROOM(item, room, UINT16_MAX + 1), -ENOMEM);
	assert_int_equal(room, before);
	for (size_t i = 0; i < COUNT; i++)
		assert_int_equal(item[i], i);
}

static void vector_refuses_what_overflows(void **state)
{
	_cleanup_(freep) uint64_t *item = NULL;
	size_t room = 0;

	assert_int_equal(VECTOR_ROOM(item, room, SIZE_MAX), -ENOMEM);
	assert_int_equal(VECTOR_ROOM(item, room, SIZE_MAX / 8 + 2), -ENOMEM);
	assert_null(item);
	assert_int_equal(room, 0);
}

struct thing {
	struct set_node node;
	uint64_t key;
};

static struct map_key thing_key(const struct set_node *node)
{
	return (struct map_key){ ((const struct thing *)node)->key, 7 };
}

static void set_finds_what_is_left_after_removals(void **state)
{
	struct set set = { .key = thing_key };
	static struct thing thing[5000];
	size_t grown;

	assert_null(set_get(&set, (struct map_key){ 1, 7 }));
	for (uint64_t i = 0; i < 5000; i++) {
		thing[i].key = i * i;
		assert_int_equal(set_add(&set, &thing[i].node), 0);
	}
	grown = set.size;
	for (uint64_t i = 0; i < 5000; i += 2)
		assert_true(set_remove(&set, &thing[i].node));
	assert_false(set_remove(&set, &thing[0].node));
	assert_int_equal(set.count, 2500);
	for (uint64_t i = 0; i < 5000; i++)
		assert_ptr_equal(set_get(&set, (struct map_key){ i * i, 7 }),
				 i % 2 ? &thing[i].node : NULL);
	assert_null(set_get(&set, (struct map_key){ 1, 8 }));
	for (uint64_t i = 1; i < 5000; i += 2)
		assert_true(set_remove(&set, &thing[i].node));
	assert_int_equal(set.count, 0);
	assert_true(set.size < grown / 8);
	set_clear(&set);
}

/* How many of 1000 messages of a user are written. A minute may end meanwhile. */
static int count_allowed(struct log_users *users, unsigned int uid, unsigned long about)
{
	int count = 0;

	for (int i = 0; i < 1000; i++)
		count += log_allowed_user(users, uid, about);
	return count;
}

static void log_of_one_user_leaves_room_for_anothers(void **state)
{
	struct log_users users = { 0 };
	int others = 0;

	assert_in_range(count_allowed(&users, 1000, 0), LOG_USER_BURST, 2 * LOG_USER_BURST);
	assert_in_range(count_allowed(&users, 0, 0), LOG_USER_BURST, 2 * LOG_USER_BURST);
	assert_int_equal(count_allowed(&users, 1001, 7), 1);
	assert_int_equal(count_allowed(&users, 1001, 8), 1);
	assert_int_equal(count_allowed(&users, 1001, 7), 0);
	for (unsigned int uid = 2000; uid < 4000; uid++)
		others += log_allowed_user(&users, uid, 1);
	assert_in_range(others, 1, 2 * LOG_USERS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(map_finds_what_is_left_after_removals),
		cmocka_unit_test(map_replaces_the_value_of_a_key),
		cmocka_unit_test(emptied_map_takes_new_keys_and_returns_memory),
		cmocka_unit_test(set_finds_what_is_left_after_removals),
		cmocka_unit_test(key_stands_for_bytes_of_any_size),
		cmocka_unit_test(sums_add_up_by_key_until_emptied),
		cmocka_unit_test(pool_reuses_and_gives_back),
		cmocka_unit_test(pool_trim_frees_what_was_not_needed),
		cmocka_unit_test(pool_trims_between_others),
		cmocka_unit_test(heap_gives_the_first_of_what_is_left),
		cmocka_unit_test(vector_grows_and_keeps_its_items),
		cmocka_unit_test(vector_refuses_what_overflows),
		cmocka_unit_test(list_survives_the_removal_of_the_current_item),
		cmocka_unit_test(list_takes_over_another),
		cmocka_unit_test(log_of_one_user_leaves_room_for_anothers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
