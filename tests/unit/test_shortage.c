/* What would have sufficed: a sentence that says only what is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/leak/shortage.h"

#define MIB (1ll << 20)
#define GIB (1ll << 30)

static void says(const struct shortage *shortage, const char *want)
{
	char text[SHORTAGE_TEXT_SIZE];

	assert_string_equal(shortage_text(shortage, text), want);
}

static void shortage_of_a_device_that_is_full(void **state)
{
	says(&(struct shortage){ .bytes = 32 * MIB, .free_known = true, .free_bytes = MIB },
	     "31.0 MiB more of the device's memory (1.00 MiB were free)");
	says(&(struct shortage){ .bytes = 32 * MIB },
	     "up to 32.0 MiB more of the device's memory (how much was free is unknown)");
	says(&(struct shortage){ 0 }, "more of the device's memory: how much is unknown");
}

static void shortage_by_fragmentation(void **state)
{
	struct shortage shortage = {
		.bytes = 2 * GIB,
		.wanted_bytes = 2 * GIB,
		.free_known = true,
		.free_bytes = 2 * GIB - 31 * MIB,
		.live_bytes = GIB,
		.reserved_bytes = 3 * GIB + 100 * MIB,
		.pieces = 64,
		.pieces_bytes = 2 * GIB + 100 * MIB,
		.piece_bytes = 40 * MIB,
	};

	says(&shortage, "31.0 MiB more of the device's memory (1.97 GiB were free), or no "
			"fragmentation: 2.10 GiB lie free in 64 pieces of at most 40.0 MiB");
	shortage.pieces = 0;
	says(&shortage, "31.0 MiB more of the device's memory (1.97 GiB were free), or no "
			"fragmentation: 2.10 GiB are reserved and not live, in pieces that are "
			"too small");
	shortage.pieces = 64;
	shortage.pieces_bytes = GIB;
	says(&shortage, "31.0 MiB more of the device's memory (1.97 GiB were free)");
}

static void shortage_by_others(void **state)
{
	says(&(struct shortage){ .bytes = 32 * MIB,
				 .free_known = true,
				 .held_bytes = 100 * MIB,
				 .own_bytes = 20 * MIB },
	     "32.0 MiB more of the device's memory (0 B were free); other processes hold 80.0 MiB");
	says(&(struct shortage){ .bytes = 32 * MIB,
				 .free_known = true,
				 .held_bytes = 100 * MIB,
				 .own_bytes = 95 * MIB },
	     "32.0 MiB more of the device's memory (0 B were free)");
}

static void shortage_where_enough_was_free(void **state)
{
	says(&(struct shortage){ .bytes = 32 * MIB, .free_known = true, .free_bytes = 40 * MIB },
	     "32.0 MiB in one piece, or without a limit of the program's: 40.0 MiB of the "
	     "device's memory were free");
}

/* Numbers of a recording, whose sums must not overflow. */
static void shortage_of_any_numbers(void **state)
{
	static const int64_t odd[] = { INT64_MIN, -1, 0, 1, INT64_MAX };
	char text[SHORTAGE_TEXT_SIZE];

	for (int i = 0; i < 5 * 5 * 5 * 5; i++) {
		const struct shortage shortage = {
			.bytes = odd[i % 5],
			.wanted_bytes = odd[i / 5 % 5],
			.free_bytes = odd[i / 25 % 5],
			.free_known = i % 2,
			.held_bytes = odd[i / 125],
			.own_bytes = odd[i % 5],
			.live_bytes = odd[i / 25 % 5],
			.reserved_bytes = odd[i / 5 % 5],
			.pieces = odd[i / 125],
			.pieces_bytes = odd[i / 25 % 5],
			.piece_bytes = odd[i % 5],
		};

		assert_true(strlen(shortage_text(&shortage, text)) < SHORTAGE_TEXT_SIZE - 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shortage_of_a_device_that_is_full),
		cmocka_unit_test(shortage_by_fragmentation),
		cmocka_unit_test(shortage_by_others),
		cmocka_unit_test(shortage_where_enough_was_free),
		cmocka_unit_test(shortage_of_any_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
