/* fuzz_reply: whatever a server sends to tsctl, or to a program with the client library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/library/answer.h"
#include "client/link/wording.h"
#include "client/output/table.h"
#include "core/base/array.h"
#include "tests/fuzz/seed.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct table_writer *const writers[] = { &table_text_writer, &table_json_writer,
						      &table_csv_writer };

static FILE *nowhere;

static void put_seed(const char *directory)
{
	Tracesmith__V1__Columns__Column column = TRACESMITH__V1__COLUMNS__COLUMN__INIT;
	Tracesmith__V1__Columns columns = TRACESMITH__V1__COLUMNS__INIT;
	Tracesmith__V1__Reply reply = TRACESMITH__V1__REPLY__INIT;
	Tracesmith__V1__Columns__Column *list[] = { &column };
	uint8_t packed[64], seed[1 + sizeof(packed)];
	size_t size;

	column.name = (char *)"name";
	columns.n_column = 1;
	columns.column = list;
	reply.body_case = TRACESMITH__V1__REPLY__BODY_COLUMNS;
	reply.columns = &columns;
	size = tracesmith__v1__reply__pack(&reply, packed);
	seed[0] = (uint8_t)size;
	memcpy(seed + 1, packed, size);
	for (uint8_t i = 0; i < ARRAY_SIZE(writers); i++)
		write_seed(directory, i, i, seed, 1 + size);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *directory = getenv("TS_FUZZ_SEEDS");

	nowhere = fopen("/dev/null", "w");
	if (!nowhere)
		abort();
	if (directory)
		put_seed(directory);
	return 0;
}

/* As a verb of tsctl does. */
static int show(struct table *table, const Tracesmith__V1__Reply *reply)
{
	int r = 0;

	switch (reply->body_case) {
	case TRACESMITH__V1__REPLY__BODY_COLUMNS:
		return table->column ? -1 : table_columns(table, reply->columns);
	case TRACESMITH__V1__REPLY__BODY_ROWS:
		for (size_t i = 0; r == 0 && i < reply->rows->n_row; i++)
			r = table->column ? table_row(table, reply->rows->row[i]) : -1;
		return r;
	case TRACESMITH__V1__REPLY__BODY_DONE:
		return table->column ? table_end(table, reply->done) : -1;
	default:
		return -1;
	}
}

/* What a program does with an answer: looks at every cell. */
static void read_answer(const struct tracesmith_answer *answer)
{
	size_t rows = tracesmith_answer_rows(answer), columns = tracesmith_answer_columns(answer);
	const struct tracesmith_loss *loss;
	struct tracesmith_cell cell;
	enum tracesmith_unit unit;
	size_t bytes = strlen(tracesmith_answer_note(answer));

	for (size_t column = 0; column < columns; column++)
		bytes += strlen(tracesmith_answer_column(answer, column, &unit));
	for (size_t row = 0; row < rows; row++)
		for (size_t column = 0; column < columns; column++)
			if (tracesmith_answer_cell(answer, row, column, &cell) == TRACESMITH_STACK)
				for (size_t i = 0; i < cell.size; i++)
					bytes += strlen(cell.frame[i]);
	for (size_t i = 0; (loss = tracesmith_answer_loss(answer, i)); i++)
		bytes += strlen(loss->reason) + strlen(loss->text) + strlen(loss->noun);
	if (bytes > 1 << 24)
		abort();
}

/* The first byte is the form; then come replies, each behind its size. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct options options = { .given = 0 };
	struct tracesmith_answer *answer;
	struct table table;
	int r = 0, took = 0;

	if (size < 2)
		return 0;
	answer = answer_new();
	if (!answer)
		abort();
	table_init(&table, &options, "ps", 0);
	table.writer = writers[data[0] % ARRAY_SIZE(writers)];
	table.out = table.notes = nowhere;
	data++;
	size--;
	while (size > 1 && r == 0) {
		size_t part = data[0] < size - 1 ? data[0] : size - 1;
		Tracesmith__V1__Reply *reply = tracesmith__v1__reply__unpack(NULL, part, data + 1);

		data += 1 + part;
		size -= 1 + part;
		if (!reply)
			continue;
		(void)wording_apply(reply, (enum wording_place)(part % 4));
		r = show(&table, reply);
		if (took == 0 && (reply->body_case == TRACESMITH__V1__REPLY__BODY_COLUMNS ||
				  reply->body_case == TRACESMITH__V1__REPLY__BODY_ROWS ||
				  reply->body_case == TRACESMITH__V1__REPLY__BODY_DONE))
			took = answer_take(answer, reply);
		else
			reply_free(reply);
	}
	if (took >= 0)
		read_answer(answer);
	tracesmith_answer_free(answer);
	table_done(&table);
	return 0;
}
