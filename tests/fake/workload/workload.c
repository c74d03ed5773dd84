/* Workload: counting, options, waiting and talking for the workload programs. */
#include "workload.h"

#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RESULT_MAX 1000

static const char *const tally_names[] = {
#define F(since, name, need, params, args, call) #name,
#define S(since, name, need, params, args, call) #name, #name "_ptsz",
#define D(since, name, need, params, args, call) #name, #name "_ptds",
#include "api.def"
};

static _Atomic uint64_t tally[TALLY_COUNT];
static _Atomic uint64_t tally_errors[TALLY_COUNT][RESULT_MAX];

CUresult tally_note(enum tally_function function, CUresult result)
{
	atomic_fetch_add_explicit(&tally[function], 1, memory_order_relaxed);
	if (result != CUDA_SUCCESS && (unsigned int)result < RESULT_MAX)
		atomic_fetch_add_explicit(&tally_errors[function][result], 1, memory_order_relaxed);
	return result;
}

void tally_add(enum tally_function function, uint64_t calls)
{
	atomic_fetch_add(&tally[function], calls);
}

uint64_t tally_calls(enum tally_function function)
{
	return atomic_load(&tally[function]);
}

const char *tally_name(enum tally_function function)
{
	return tally_names[function];
}

void tally_reset(void)
{
	for (size_t f = 0; f < TALLY_COUNT; f++) {
		atomic_store(&tally[f], 0);
		for (size_t e = 0; e < RESULT_MAX; e++)
			atomic_store(&tally_errors[f][e], 0);
	}
}

static void tally_print_function(FILE *out, size_t f)
{
	const char *comma = "";

	fprintf(out, "{\"pid\":%d,\"fn\":\"%s\",\"calls\":%lu,\"errors\":{", (int)getpid(),
		tally_names[f], (unsigned long)atomic_load(&tally[f]));
	for (size_t e = 0; e < RESULT_MAX; e++) {
		uint64_t count = atomic_load(&tally_errors[f][e]);

		if (!count)
			continue;
		fprintf(out, "%s\"%zu\":%lu", comma, e, (unsigned long)count);
		comma = ",";
	}
	fprintf(out, "}}\n");
}

static void write_all(const char *text, size_t length)
{
	while (length) {
		ssize_t n = write(STDOUT_FILENO, text, length);

		if (n < 0)
			return;
		text += n;
		length -= (size_t)n;
	}
}

void tally_print(void)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		abort();
	for (size_t f = 0; f < TALLY_COUNT; f++)
		if (atomic_load(&tally[f]))
			tally_print_function(out, f);
	fclose(out);
	write_all(text, length);
	free(text);
}

void workload_say(const char *format, ...)
{
	char *text = NULL;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vasprintf(&text, format, ap);
	va_end(ap);
	if (n < 0)
		abort();
	write_all(text, (size_t)n);
	free(text);
}

void workload_die(const char *what, CUresult result, const char *file, int line)
{
	fprintf(stderr, "%s:%d: %s gave %d\n", file, line, what, (int)result);
	exit(2);
}

uint64_t workload_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

void workload_sleep_until(uint64_t when_ns)
{
	struct timespec ts = { (time_t)(when_ns / 1000000000), (long)(when_ns % 1000000000) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) != 0)
		;
}

void workload_hold(double seconds)
{
	struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
	char c = 0;

	if (seconds >= 0) {
		workload_sleep_until(workload_now() + (uint64_t)(seconds * 1e9));
		return;
	}
	while (c != '\n' && poll(&in, 1, -1) >= 0)
		if (read(STDIN_FILENO, &c, 1) <= 0)
			return;
}

static void options_help(const char *program, const struct option_row *rows, size_t count, int code)
{
	static const char *const kinds[] = { "", " N", " X", " TEXT" };

	printf("usage: %s [options]\n", program);
	for (size_t i = 0; i < count; i++)
		printf("  --%s%s\t%s\n", rows[i].name, kinds[rows[i].kind], rows[i].help);
	exit(code);
}

void workload_options(int argc, char **argv, const struct option_row *rows, size_t count)
{
	for (int i = 1; i < argc; i++) {
		const struct option_row *row = NULL;

		for (size_t j = 0; j < count; j++)
			if (strncmp(argv[i], "--", 2) == 0 &&
			    strcmp(argv[i] + 2, rows[j].name) == 0)
				row = &rows[j];
		if (!row || (row->kind != OPTION_FLAG && i + 1 == argc))
			options_help(argv[0], rows, count, strcmp(argv[i], "--help") ? 2 : 0);
		switch (row->kind) {
		case OPTION_FLAG:
			*(bool *)row->where = true;
			break;
		case OPTION_NUMBER:
			*(uint64_t *)row->where = strtoull(argv[++i], NULL, 0);
			break;
		case OPTION_REAL:
			*(double *)row->where = strtod(argv[++i], NULL);
			break;
		case OPTION_TEXT:
			*(const char **)row->where = argv[++i];
			break;
		}
	}
}
