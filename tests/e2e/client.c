/* Client: a program of somebody else that uses libtracesmith-client as its header says, and writes
 * what it gets for test_client_library to compare. Each step is one argument. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tracesmith/client.h>

static void write_text(const char *text, size_t size)
{
	putchar('"');
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == '"' || text[i] == '\\')
			printf("\\u%04x", text[i]);
		else
			putchar(text[i]);
	putchar('"');
}

static void write_cell(const struct tracesmith_answer *answer, size_t row, size_t column)
{
	struct tracesmith_cell cell;

	switch (tracesmith_answer_cell(answer, row, column, &cell)) {
	case TRACESMITH_INTEGER:
		printf("%" PRId64, cell.integer);
		break;
	case TRACESMITH_REAL:
		printf("%.17g", cell.real);
		break;
	case TRACESMITH_TEXT:
		write_text(cell.text, cell.size);
		break;
	case TRACESMITH_BLOB:
		putchar('"');
		for (size_t i = 0; i < cell.size; i++)
			printf("%02x", ((const unsigned char *)cell.blob)[i]);
		putchar('"');
		break;
	case TRACESMITH_STACK:
		putchar('[');
		for (size_t i = 0; i < cell.size; i++) {
			printf(i ? "," : "");
			write_text(cell.frame[i], strlen(cell.frame[i]));
		}
		putchar(']');
		break;
	default:
		printf("null");
	}
}

/* As `tsctl --json` has it. */
static void write_answer(const struct tracesmith_answer *answer)
{
	const struct tracesmith_loss *loss;

	printf("{\"units\":{");
	for (size_t i = 0; i < tracesmith_answer_columns(answer); i++) {
		enum tracesmith_unit unit;
		const char *name = tracesmith_answer_column(answer, i, &unit);

		printf("%s\"%s\":%d", i ? "," : "", name, unit);
	}
	printf("},\"rows\":[");
	for (size_t row = 0; row < tracesmith_answer_rows(answer); row++) {
		printf(row ? ",{" : "{");
		for (size_t i = 0; i < tracesmith_answer_columns(answer); i++) {
			printf("%s\"%s\":", i ? "," : "",
			       tracesmith_answer_column(answer, i, NULL));
			write_cell(answer, row, i);
		}
		printf("}");
	}
	printf("],\"truncated\":%s,\"loss\":{",
	       tracesmith_answer_truncated(answer) ? "true" : "false");
	for (size_t i = 0; (loss = tracesmith_answer_loss(answer, i)); i++)
		printf("%s\"%s\":%" PRIu64, i ? "," : "", loss->reason, loss->count);
	printf("},\"note\":");
	write_text(tracesmith_answer_note(answer), strlen(tracesmith_answer_note(answer)));
	printf("}\n");
}

static int query(struct tracesmith *ts, char *step, struct tracesmith_answer **ret)
{
	struct tracesmith_query query = { .size = sizeof(query) };

	query.name = strtok(step, " ");
	for (char *word; (word = strtok(NULL, " "));) {
		char *value = strchr(word, '=');

		*value++ = '\0';
		if (strcmp(word, "pid") == 0)
			query.pid = (uint32_t)atoi(value);
		else if (strcmp(word, "sort") == 0)
			query.sort = value;
		else if (strcmp(word, "name") == 0)
			query.match = value;
		else if (strcmp(word, "limit") == 0)
			query.limit = (uint64_t)atoi(value);
		else if (strcmp(word, "since") == 0)
			query.since_ns = atoll(value);
		else if (strcmp(word, "until") == 0)
			query.until_ns = atoll(value);
		else if (strcmp(word, "by") == 0)
			query.by = (uint32_t)atoi(value);
		else if (strcmp(word, "device") == 0)
			query.has_device = 1, query.device = (uint32_t)atoi(value);
		else if (strcmp(word, "size") == 0)
			query.size = (size_t)atoi(value);
		else
			abort();
	}
	return tracesmith_query(ts, &query, ret);
}

static int attach(struct tracesmith *ts, char *step, struct tracesmith_answer **ret)
{
	struct tracesmith_attach attach = { .size = sizeof(attach) };

	attach.pid = (uint32_t)atoi(strtok(step, " "));
	for (char *word; (word = strtok(NULL, " "));) {
		char *value = strchr(word, '=');

		*value++ = '\0';
		if (strcmp(word, "records") == 0)
			attach.records = (uint32_t)strtoul(value, NULL, 0);
		else if (strcmp(word, "stacks") == 0)
			attach.stacks = (uint32_t)strtoul(value, NULL, 0);
		else if (strcmp(word, "size") == 0)
			attach.size = (size_t)atoi(value);
		else
			abort();
	}
	return tracesmith_attach(ts, &attach, ret);
}

/* Follows until the process is there. */
static int follow(struct tracesmith *ts, int pid)
{
	int r = tracesmith_subscribe(ts);

	for (;;) {
		struct pollfd ready = { .fd = tracesmith_fd(ts), .events = POLLIN };
		struct tracesmith_answer *answer = NULL;
		struct tracesmith_cell cell;

		if (r < 0 || poll(&ready, 1, -1) != 1 || (r = tracesmith_next(ts)) < 0 ||
		    (r = tracesmith_live(ts, TRACESMITH_PROCESSES, &answer)) < 0)
			return r;
		for (size_t row = 0; row < tracesmith_answer_rows(answer); row++) {
			for (size_t i = 0; i < tracesmith_answer_columns(answer); i++)
				if (strcmp(tracesmith_answer_column(answer, i, NULL), "pid") == 0)
					tracesmith_answer_cell(answer, row, i, &cell);
			if (cell.integer != pid)
				continue;
			write_answer(answer);
			tracesmith_answer_free(answer);
			for (int what = TRACESMITH_DEVICES; what <= TRACESMITH_USES; what += 2) {
				if ((r = tracesmith_live(ts, what, &answer)) < 0)
					return r;
				write_answer(answer);
				tracesmith_answer_free(answer);
			}
			return tracesmith_status(ts, &answer); /* which a subscription refuses */
		}
		tracesmith_answer_free(answer);
	}
}

static int step(struct tracesmith *ts, char *verb)
{
	struct tracesmith_answer *answer = NULL;
	char *rest = strchr(verb, ' ');
	int r = 0;

	if (rest)
		*rest++ = '\0';
	if (strcmp(verb, "connect") == 0)
		return tracesmith_connect(ts, rest);
	if (strcmp(verb, "open") == 0)
		return tracesmith_open(ts, rest, NULL);
	if (strcmp(verb, "timeout") == 0)
		return tracesmith_set_timeout(ts, strtoull(rest, NULL, 10)), 0;
	if (strcmp(verb, "follow") == 0)
		return follow(ts, atoi(rest));
	if (strcmp(verb, "fork") == 0 && fork() != 0)
		return 0;
	if (strcmp(verb, "query") == 0)
		r = query(ts, rest, &answer);
	else if (strcmp(verb, "sql") == 0)
		r = tracesmith_sql(ts, rest, 0, 0, &answer);
	else if (strcmp(verb, "status") == 0 || strcmp(verb, "fork") == 0)
		r = tracesmith_status(ts, &answer);
	else if (strcmp(verb, "attach") == 0)
		r = attach(ts, rest, &answer);
	else if (strcmp(verb, "detach") == 0)
		r = tracesmith_detach(ts, (uint32_t)atoi(rest), &answer);
	else
		abort();
	if (r == 0)
		write_answer(answer);
	tracesmith_answer_free(answer);
	return r;
}

int main(int argc, char **argv)
{
	struct tracesmith *ts = tracesmith_new();

	for (int i = 1; i < argc; i++) {
		int r = step(ts, argv[i]);

		if (r < 0) {
			printf("{\"error\":%d,\"message\":", r);
			write_text(tracesmith_message(ts), strlen(tracesmith_message(ts)));
			printf("}\n");
		}
		fflush(stdout);
	}
	tracesmith_free(ts);
	return 0;
}
