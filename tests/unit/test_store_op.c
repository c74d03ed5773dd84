/* The table `op`: every column says what was stored, and a constraint that leaves out chunks gives
 * the same answer as looking at every op. */
#include "core/base/array.h"
#include "core/store/page_sum.h"
#include "tests/unit/store_fixture.h"

#define OPS	 30000
#define BATCHES	 40
#define FIRST_NS (100 * SECOND_NS)

struct story {
	struct fixture *fixture;
	struct op op[OPS];
	sqlite3 *db;
	uint64_t seed;
};

static struct op make_op(struct story *s, uint64_t now_ns)
{
	static const struct {
		uint8_t kind, fn, detail;
	} forms[] = { { OP_LAUNCH, 1, 0 },
		      { OP_ALLOC, 2, MEMORY_DEVICE },
		      { OP_COPY, 4, COPY_HTOD },
		      { OP_STATE, 0, OP_STATE_RUNNING } };
	size_t form = fixture_random(&s->seed) % 4;
	struct op op = fixture_launch(1 + fixture_random(&s->seed) % 3,
				      fixture_random(&s->seed) % 4, now_ns, &s->seed);

	op.kind = forms[form].kind;
	op.fn = forms[form].fn;
	op.detail = forms[form].detail;
	op.device = (int16_t)(fixture_random(&s->seed) % 3 - 1);
	op.bytes = fixture_random(&s->seed) % 100000;
	if (op.kind == OP_LAUNCH)
		return op;
	op.end_ns = now_ns + fixture_random(&s->seed) % SECOND_NS;
	op.flags |= OP_RETURNED;
	op.result = fixture_random(&s->seed) % 50 ? 0 : 2;
	return op;
}

static int setup_ops(void **state)
{
	struct story *s = calloc(1, sizeof(*s));
	struct fixture *f;
	uint64_t now_ns = FIRST_NS;

	fixture_setup((void **)&s->fixture);
	f = s->fixture;
	s->seed = 42;
	*state = s;
	if (fixture_open(f) < 0)
		return -1;
	for (uint32_t i = 1; i <= 3; i++)
		store_add(f->store, &(struct core_process){ .id = i, .pid = 1000 + i });
	for (int i = 0; i < OPS; i++) {
		now_ns += fixture_random(&s->seed) % 10000000;
		s->op[i] = make_op(s, now_ns);
		store_add_op(f->store, &s->op[i]);
		if (i % (OPS / BATCHES) == 0)
			fixture_commit(f, now_ns);
	}
	fixture_commit(f, now_ns);
	return store_reader_open(f->path, 0, &s->db);
}

static int teardown_ops(void **state)
{
	struct story *s = *state;

	sqlite3_close(s->db);
	fixture_teardown((void **)&s->fixture);
	free(s);
	return 0;
}

static void sums_are_those_of_the_ops(void **state)
{
	struct story *s = *state;
	int64_t bytes = 0, ends = 0, ended = 0, handles = 0, failed = 0;

	for (int i = 0; i < OPS; i++) {
		bytes += (int64_t)s->op[i].bytes;
		ended += s->op[i].end_ns != 0;
		ends += s->op[i].end_ns ? (int64_t)(s->op[i].end_ns - s->op[i].start_ns) : 0;
		handles += (int64_t)s->op[i].handle;
		failed += s->op[i].result == 2;
	}
	assert_int_equal(ask(s->db, "SELECT count(*) FROM op"), OPS);
	assert_int_equal(ask(s->db, "SELECT sum(bytes) FROM op"), bytes);
	assert_int_equal(ask(s->db, "SELECT count(end_ns) FROM op"), ended);
	assert_int_equal(ask(s->db, "SELECT sum(duration_ns) FROM op"), ends);
	assert_int_equal(ask(s->db, "SELECT sum(handle) FROM op"), handles);
	assert_int_equal(ask(s->db, "SELECT count(*) FROM op WHERE result = 2"), failed);
}

static void names_are_text(void **state)
{
	struct story *s = *state;

	assert_int_equal(ask(s->db, "SELECT count(*) FROM op WHERE CASE kind"
				    " WHEN 'launch' THEN fn='cuLaunchKernel' AND detail IS NULL"
				    " WHEN 'alloc' THEN fn='cuMemAlloc_v2' AND detail='device'"
				    " WHEN 'copy' THEN fn='cuMemcpyHtoD_v2' AND detail='HtoD'"
				    " WHEN 'state' THEN fn IS NULL AND detail='running'"
				    " ELSE 0 END"),
			 OPS);
	assert_int_equal(ask(s->db, "SELECT count(*) FROM op WHERE pid = 1000 + process"), OPS);
	assert_int_equal(ask(s->db, "SELECT count(*) FROM state WHERE state = 'running'"),
			 ask(s->db, "SELECT count(*) FROM op WHERE kind = 'state'"));
}

/* Every column of an op with a value of its own in each field. */
static void every_column_says_its_field(void **state)
{
	struct fixture *f = *state;
	struct op op = {
		.start_ns = 100,
		.end_ns = 150,
		.gpu_start_ns = 110,
		.gpu_end_ns = 145,
		.process = 7,
		.stream = 8,
		.tid = 9,
		.fn = 4,
		.flags = OP_RETURNED | OP_EXACT | OP_CAPTURED,
		.kind = OP_COPY,
		.detail = COPY_DTOH,
		.device = -1,
		.result = -3,
		.address = UINT64_MAX,
		.source = 12,
		.bytes = 13,
		.handle = 14,
		.stack_id = 15,
		.live_bytes = 16,
		.correlation = 17,
		.grid = { 18, 19, 20 },
		.block = { 21, 22, 23 },
		.shared_bytes = 24,
		.seen_ns = 160,
		.name = UINT64_MAX,
		.node = 26,
		.graph = 27,
		.static_bytes = 28,
		.local_bytes = 29,
		.registers = 30,
	};

	assert_int_equal(fixture_open(f), 0);
	store_add(f->store, &(struct core_process){ .id = 7, .pid = 70 });
	store_add_name(f->store, UINT64_MAX, "_Z3addPfi", 9);
	store_add_op(f->store, &op);
	fixture_commit(f, 200);
	assert_int_equal(
		fixture_ask(f, "SELECT (process, pid, tid, start_ns, end_ns, duration_ns,"
			       " gpu_start_ns, gpu_end_ns, device, stream, result, bytes, address,"
			       " source, handle, stack, live_bytes, correlation, grid_x, grid_y,"
			       " grid_z, block_x, block_y, block_z, shared_bytes, bounds, exact,"
			       " captured, boot, kind, fn, detail, seen_ns, name, node, graph,"
			       " static_bytes, local_bytes, registers, no_call, untimed) = (7, 70, "
			       "9, 100, 150, 50, 110,"
			       " 145, -1, 8, -3, 13, -1, 12, 14, 15, 16, 17, 18, 19, 20, 21, 22,"
			       " 23, 24, 0, 1, 1, 1, 'copy', 'cuMemcpyHtoD_v2', 'DtoH', 160,"
			       " 'add(float*, int)', 26, 27, 28, 29, 30, 0, 0) FROM op"),
		1);
}

static void names_of_ops_are_those_of_their_ids(void **state)
{
	struct fixture *f = *state;
	char text[32];

	assert_int_equal(fixture_open(f), 0);
	store_add(f->store, &(struct core_process){ .id = 7, .pid = 70 });
	/* More than are remembered at one time, some without a text, one op without a name. */
	for (uint64_t i = 0; i < 10000; i++) {
		struct op op = { .start_ns = 1 + i, .process = 7, .kind = OP_KERNEL, .name = i };

		op.flags = i % 2 ? OP_NO_CALL : OP_UNTIMED;
		snprintf(text, sizeof(text), "kernel %d", (int)i);
		if (i && i % 10)
			store_add_name(f->store, i, text, strlen(text));
		store_add_op(f->store, &op);
	}
	fixture_commit(f, 20000);
	assert_int_equal(fixture_ask(f, "SELECT count(name) FROM op"), 9000);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM op WHERE name ="
					" 'kernel ' || (start_ns - 1)"),
			 9000);
	assert_int_equal(fixture_ask(f, "SELECT count(*) FROM op WHERE no_call AND NOT untimed"
					" AND (start_ns - 1) % 2"),
			 5000);
}

static const char *const terms[] = {
	"process = 2",
	"process = 2.5",
	"process IN (1, 3, 99)",
	"stream = 0",
	"pid = 1003",
	"pid = 5",
	"kind = 'copy'",
	"kind = 'COPY' COLLATE nocase",
	"kind IN ('alloc', 'launch')",
	"kind = 4",
	"boot = 1",
	"boot = 2",
	"start_ns >= 120000000000",
	"start_ns > 170000000000",
	"start_ns < 180000000000",
	"start_ns <= 130000000000.5",
	"start_ns BETWEEN 150000000000 AND 151000000000",
	"start_ns < 'text'",
	"start_ns = (SELECT max(start_ns) FROM op)",
	"end_ns >= 160000000000",
	"end_ns < 140000000000",
	"end_ns IS NULL",
	"result <> 0",
	"device = -1",
};

#define TERMS ARRAY_SIZE(terms)

/* A unary plus keeps SQLite from handing the constraint to the table. */
static void check_terms(struct story *s, size_t a, size_t b, size_t c)
{
	static const char *const plus[] = { "", "+" };
	char sql[2][1024], clause[3][256];

	for (int i = 0; i < 2; i++) {
		size_t number[] = { a, b, c };

		for (int k = 0; k < 3; k++)
			snprintf(clause[k], sizeof(clause[k]), "%s%s", plus[i], terms[number[k]]);
		snprintf(sql[i], sizeof(sql[i]),
			 "SELECT count(*) + coalesce(sum(start_ns %% 1000003), 0) FROM op"
			 " WHERE %s AND %s AND %s",
			 clause[0], clause[1], clause[2]);
	}
	if (ask(s->db, sql[0]) != ask(s->db, sql[1]))
		fail_msg("%s\n differs from\n%s", sql[0], sql[1]);
}

static void constraints_answer_as_brute_force_does(void **state)
{
	struct story *s = *state;

	for (size_t i = 0; i < TERMS; i++)
		check_terms(s, i, i, i);
	for (int i = 0; i < 150; i++)
		check_terms(s, fixture_random(&s->seed) % TERMS, fixture_random(&s->seed) % TERMS,
			    fixture_random(&s->seed) % TERMS);
}

static void constraints_mean_what_they_mean_elsewhere(void **state)
{
	struct story *s = *state;
	int64_t count = ask(s->db, "SELECT count(*) FROM op WHERE process = 2");

	assert_true(count > 0 && count < OPS);
	assert_int_equal(ask(s->db, "SELECT count(*) FROM op WHERE process = '2'"), count);
	assert_int_equal(ask(s->db, "SELECT count(*) FROM op WHERE process = 2.0"), count);
	assert_int_equal(ask(s->db, "SELECT count(*) FROM op WHERE process = NULL"), 0);
	assert_int_equal(ask(s->db, "SELECT count(*) FROM op WHERE process = 'x'"), 0);
}

static void joins_ask_the_table_again_and_again(void **state)
{
	struct story *s = *state;

	assert_int_equal(ask(s->db, "SELECT count(*) FROM process p JOIN op ON op.process = p.id"
				    " JOIN kind k ON k.name = op.kind"),
			 OPS);
}

static void chunks_out_of_the_window_are_not_read(void **state)
{
	struct fixture *f = ((struct story *)*state)->fixture;
	struct story *s = *state;
	sqlite3 *db;
	int64_t of_two;

	/* A chunk that cannot be read is counted by the statement that reads it. */
	f->store = store_free(f->store);
	assert_int_equal(sqlite3_open_v2(f->path, &db, SQLITE_OPEN_READWRITE, page_sum_vfs()),
			 SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "UPDATE chunk SET data = 'gone' WHERE process <> 2", NULL,
				      NULL, NULL),
			 SQLITE_OK);
	sqlite3_close(db);
	assert_true(ask(s->db, "SELECT sum(bytes) FROM op WHERE process = 2") > 0);
	assert_true(ask(s->db, "SELECT sum(bytes) FROM op WHERE pid = 1002") > 0);
	assert_int_equal(ask(s->db, "SELECT damaged_ops()"), 0);
	of_two = ask(s->db, "SELECT count(stack) FROM op WHERE process = 2");
	for (int again = 0; again < 2; again++) {
		assert_int_equal(ask(s->db, "SELECT count(stack) FROM op"), of_two);
		assert_int_equal(ask(s->db, "SELECT damaged_ops()"), OPS - of_two);
	}
}

#define TEST(name)     cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
#define OPS_TEST(name) cmocka_unit_test_setup_teardown(name, setup_ops, teardown_ops)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_column_says_its_field),
		TEST(names_of_ops_are_those_of_their_ids),
		OPS_TEST(sums_are_those_of_the_ops),
		OPS_TEST(names_are_text),
		OPS_TEST(constraints_answer_as_brute_force_does),
		OPS_TEST(constraints_mean_what_they_mean_elsewhere),
		OPS_TEST(joins_ask_the_table_again_and_again),
		OPS_TEST(chunks_out_of_the_window_are_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
