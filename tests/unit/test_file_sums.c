/* Sums of recordings that were cut off before their sums: computed from the operations. */
#include "tests/unit/file_fixture.h"

#define LAUNCHES 3000
#define BEGIN_S	 1000
#define MS	 1000000ull

static struct op launch(uint32_t stream, uint64_t number)
{
	uint64_t start_ns = BEGIN_S * SECOND_NS + number * MS;

	return (struct op){
		.start_ns = start_ns,
		.end_ns = start_ns + 5000,
		.gpu_start_ns = start_ns + 10000,
		.gpu_end_ns = start_ns + 110000,
		.process = 1,
		.stream = stream,
		.tid = 77,
		.fn = FN_LAUNCH,
		.flags = OP_EXACT | OP_RETURNED,
		.kind = OP_LAUNCH,
		.name = 5,
	};
}

static struct op memory(uint8_t kind, uint64_t number, uint64_t address, uint64_t bytes)
{
	struct op op = launch(0, number);

	op.gpu_start_ns = op.gpu_end_ns = op.name = 0;
	op.flags = OP_RETURNED;
	op.kind = kind;
	op.fn = kind == OP_ALLOC ? FN_ALLOC : FN_FREE;
	op.detail = MEMORY_DEVICE;
	op.address = address;
	op.bytes = bytes;
	return op;
}

/* Three seconds of launches on two streams, in chunks that overlap, and some memory. */
static void made_ops(struct made *made, const struct fixture *fixture)
{
	struct op op[2][LAUNCHES / 2], held[2][2];

	made_begin(made, fixture);
	made_row(made, "boot", NAMES("id", "boot_id", "wall_offset_ns"), INTEGER(1), TEXT(BOOT),
		 INTEGER(0));
	made_row(made, "process", NAMES("id", "boot", "pid", "first_ns"), INTEGER(1), INTEGER(1),
		 INTEGER(77), INTEGER(BEGIN_S * SECOND_NS));
	made_row(made, "name", NAMES("id", "text", "symbol", "boot", "told_ns"), INTEGER(5),
		 TEXT("scale"), TEXT("scale"), INTEGER(1), INTEGER(1));
	for (size_t i = 0; i < LAUNCHES; i++)
		op[i % 2][i / 2] = launch(1 + i % 2, i);
	made_chunk(made, op[1], LAUNCHES / 2);
	made_chunk(made, op[0], LAUNCHES / 2);
	held[0][0] = memory(OP_ALLOC, 1, 0x1000, 100);
	held[0][1] = memory(OP_ALLOC, 3, 0x2000, 50);
	held[1][0] = memory(OP_FREE, 2, 0x1000, 100);
	held[1][1] = memory(OP_FREE, 4, 0x9000, 0);
	made_chunk(made, held[0], 2);
	made_chunk(made, held[1], 2);
}

static void made_told(struct made *made, int64_t second, int64_t calls)
{
	made_row(made, "rollup",
		 NAMES("boot", "second", "process", "kind", "fn", "detail", "device", "stream",
		       "result", "stack", "freed", "calls", "timed", "total_ns", "min_ns", "max_ns",
		       "bytes"),
		 INTEGER(1), INTEGER(second), INTEGER(1), INTEGER(OP_LAUNCH), INTEGER(FN_LAUNCH),
		 INTEGER(0), INTEGER(0), INTEGER(1), INTEGER(0), INTEGER(0), INTEGER(0),
		 INTEGER(calls), INTEGER(0), INTEGER(0), INTEGER(0), INTEGER(0), INTEGER(0));
}

#define LAUNCHED                                                                                   \
	"SELECT sum(calls) AS n, sum(total_ns) AS t FROM rollup WHERE kind ="                      \
	" (SELECT id FROM kind WHERE name = 'launch')"

static struct link *open_made(const struct made *made)
{
	struct options options = { .file = made->path, .files = &file_serve };
	struct link *link;

	said_begin();
	assert_int_equal(link_open(&options, &link), 0);
	said_end();
	return link;
}

static void expect_query(struct link *link, const char *name, const char *part)
{
	Tracesmith__V1__QueryRequest request = QUERY(.name = (char *)name, .since_ns = 1);
	_cleanup_(freep) char *text = NULL;

	if (!strcmp(name, "memory"))
		request.since_ns = 0;
	text = ask_query_of(link, &request);
	if (!strstr(text, part) || !strstr(text, "\"loss\":{\"cut-off\":1}"))
		fail_msg("'%s' is not in the answer to %s: %s", part, name, text);
}

static void test_sums_that_were_not_told_are_counted(void **state)
{
	_cleanup_(link_freep) struct link *link = NULL;
	struct made made;

	made_ops(&made, *state);
	made_end(&made, false);
	link = open_made(&made);
	expect_query(link, "kernels", "\"count\":3000,\"plus_minus\":null,\"total_ns\":300000000");
	expect_query(link, "apis",
		     "\"calls\":3000,\"plus_minus\":null,\"watched\":null,\"errors\":0,\"total_"
		     "ns\":15000000");
	expect_query(link, "memory", "\"live_bytes\":50,\"live_count\":1,\"peak_bytes\":100");
	expect_query(link, "overlap", "\"kernels_ns\":300000000");
	expect_sql(link, LAUNCHED, "\"n\":3000,\"t\":15000000}");
	expect_sql(link, "SELECT sum(calls) AS n FROM RollUp WHERE freed", "\"n\":1}");
	expect_sql(link, "SELECT address AS a FROM allocation", "{\"a\":8192}\n]");
	expect_sql(link, "SELECT count(DISTINCT second) AS n FROM work", "\"n\":3}");
}

static void test_sums_that_were_told_stay(void **state)
{
	_cleanup_(link_freep) struct link *link = NULL;
	struct made made;

	made_ops(&made, *state);
	made_told(&made, BEGIN_S + 1, 7);
	made_end(&made, false);
	link = open_made(&made);
	expect_sql(link, LAUNCHED, "\"n\":1007,");
	/* Of another table nothing was. */
	expect_sql(link, "SELECT sum(count) AS n FROM work", "\"n\":3000}");
}

static void test_a_minute_that_was_told_is_told_as_a_whole(void **state)
{
	_cleanup_(link_freep) struct link *link = NULL;
	struct made made;

	made_ops(&made, *state);
	made_told(&made, BEGIN_S - BEGIN_S % 60, 7);
	made_fact(&made, "told_ns", INTEGER((BEGIN_S + 1000) * SECOND_NS));
	made_end(&made, false);
	link = open_made(&made);
	expect_sql(link, LAUNCHED, "\"n\":7,");
}

static void test_what_has_its_end_lacks_nothing(void **state)
{
	_cleanup_(link_freep) struct link *link = NULL;
	struct made made;

	made_ops(&made, *state);
	made_end(&made, true);
	link = open_made(&made);
	expect_sql(link, "SELECT count(*) AS n FROM rollup", "\"n\":0}");
}

static void test_what_a_process_held_is_gone_with_it(void **state)
{
	_cleanup_(link_freep) struct link *link = NULL;
	struct made made;

	made_ops(&made, *state);
	made_row(&made, "process", NAMES("id", "boot", "pid", "first_ns", "exit_ns"), INTEGER(1),
		 INTEGER(1), INTEGER(77), INTEGER(1), INTEGER((BEGIN_S + 5) * SECOND_NS));
	made_end(&made, false);
	link = open_made(&made);
	expect_sql(link, "SELECT live_bytes, peak_bytes FROM memory",
		   "{\"live_bytes\":0,\"peak_bytes\":100}\n]");
	expect_sql(link, "SELECT count(*) AS n FROM allocation", "\"n\":0}");
}

/* Each device of a process takes room: no more than a machine could have. */
static void test_nonsense_takes_no_room(void **state)
{
	_cleanup_(link_freep) struct link *link = NULL;
	struct op op[5] = { launch(1, 0), launch(1, 1), launch(1, 2), launch(2, 3), launch(2, 4) };
	struct made made;

	op[1].device = INT16_MAX;
	op[2].device = INT16_MIN;
	op[2].detail = 255;
	op[2].gpu_end_ns = op[2].end_ns = UINT64_MAX;
	op[4].start_ns = UINT64_MAX - 1;
	made_ops(&made, *state);
	made_chunk(&made, op, 3);
	made_chunk(&made, op + 3, 2);
	op[0].process = 0;
	op[0].kind = OP_ALLOC;
	op[0].detail = 200;
	made_chunk(&made, op, 1);
	op[0].process = 9;
	op[0].stream = 1;
	made_chunk(&made, op, 1);
	made_end(&made, false);
	link = open_made(&made);
	expect_sql(link, "SELECT count(*) > 0 AS n FROM rollup", "\"n\":1}");
	expect_sql(link, "SELECT 1", "\"limit\":4");
	expect_sql(link, "SELECT count(*) > 0 AS n FROM busy, work, memory", "\"n\":1}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums_that_were_not_told_are_counted),
		cmocka_unit_test(test_sums_that_were_told_stay),
		cmocka_unit_test(test_a_minute_that_was_told_is_told_as_a_whole),
		cmocka_unit_test(test_what_has_its_end_lacks_nothing),
		cmocka_unit_test(test_what_a_process_held_is_gone_with_it),
		cmocka_unit_test(test_nonsense_takes_no_room),
	};

	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
