/* fuzz_text: texts that other processes or users choose: symbols, functions of stacks, patterns of
 * names, regular expressions, durations and sizes, command lines, what /proc says, and rows of a
 * server of a fleet. */
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/fleet/tsv.h"
#include "client/output/pattern.h"
#include "core/base/demangle.h"
#include "core/base/glob.h"
#include "core/base/units.h"
#include "core/base/utf8.h"
#include "core/limits.h"
#include "core/store/op_name.h"
#include "daemon/maps/proc.h"
#include "daemon/proc/procfs.h"
#include "tests/fuzz/seed.h"

#define SUBJECT_MAX 64 /* of a regular expression: time is not its bound */

enum { SYMBOL, STACK, GLOB, REGEX, UNITS, UTF8, COMMAND, MAPPINGS, TSV, KINDS };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void take_name(char *name, size_t room)
{
	must(name && strlen(name) < room && utf8_valid(name, strlen(name)));
	for (const unsigned char *c = (unsigned char *)name; *c; c++)
		must(*c >= ' ' && *c != 0x7f);
	free(name);
}

static void take_symbol(const char *text)
{
	take_name(demangle(text), LIMIT_SYMBOL_NAME);
	take_name(demangle_long(text), LIMIT_STORE_NAME);
}

/* A function in each line. */
static void take_stack(char *text)
{
	struct op_name op = { .name = "" };
	char out[2 * OP_NAME_MAX + 32], *rest = text, *function;

	while ((function = strsep(&rest, "\n"))) {
		(void)op_name_makes(function, "AddBackward0");
		if (op_name_add(&op, function))
			break;
	}
	op_name_text(&op, "none", out, sizeof(out));
	must(strlen(out) < sizeof(out));
}

static void take_regex(const char *text, size_t size)
{
	char why[PATTERN_WHY_BYTES], subject[SUBJECT_MAX + 1];
	regex_t regex;

	if (pattern_compile(text, 0, &regex, why) < 0) {
		must(strlen(why) < sizeof(why));
		return;
	}
	snprintf(subject, sizeof(subject), "%s", text + size / 2);
	(void)regexec(&regex, subject, 0, NULL, 0);
	regfree(&regex);
}

static void take_units(const char *text)
{
	char out[UNITS_TEXT_SIZE];
	uint64_t number = 0;

	if (units_parse_duration(text, &number) == 0)
		must(strlen(units_nanoseconds(out, (int64_t)number)) < sizeof(out));
	if (units_parse_size(text, &number) == 0)
		must(strlen(units_bytes(out, (int64_t)number)) < sizeof(out));
	(void)units_parse_count(text, &number);
	(void)units_parse_share(text, &number);
	(void)procfs_status_number(text, "Uid", true);
}

static void take_utf8(const char *text, size_t size)
{
	char *out = malloc(3 * size + 1);

	must(out);
	must(utf8_valid(out, utf8_clean(out, text, size)));
	free(out);
}

static int on_mapping(void *data, const struct maps_record *record)
{
	must(record->path && strlen(record->path) <= *(size_t *)data);
	return 0;
}

static void take_mappings(char *text, size_t size)
{
	FILE *file = size ? fmemopen(text, size, "r") : NULL;

	if (file)
		(void)maps_proc_read(file, 1, on_mapping, &size);
}

static void take_rows(char *text)
{
	const size_t size = strlen(text);
	size_t used = 0;
	struct tsv tsv;

	if (tsv_open(&tsv, text) < 0)
		return;
	must(tsv.columns > 0 && tsv.columns <= TSV_COLUMNS_MAX);
	while (tsv_next(&tsv) > 0)
		for (size_t i = 0; i < tsv.columns; i++)
			used += tsv.cell[i] ? strlen(tsv.cell[i]) : 0;
	must(used <= size);
}

static void take(uint8_t kind, char *text, size_t size)
{
	char *end = text + strlen(text);

	switch (kind) {
	case SYMBOL:
		return take_symbol(text);
	case STACK:
		return take_stack(text);
	case GLOB: /* the pattern, and behind a NUL the text */
		(void)glob_find(text, end < text + size ? end + 1 : end);
		return;
	case REGEX:
		return take_regex(text, strlen(text));
	case UNITS:
		return take_units(text);
	case UTF8:
		return take_utf8(text, size);
	case COMMAND:
		return procfs_join(text, size);
	case MAPPINGS:
		return take_mappings(text, size);
	case TSV:
		return take_rows(text);
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const seeds[KINDS] = {
		[SYMBOL] = "_ZN2at6native12_GLOBAL__N_13addIfEEvPT_i@GLIBC_2.2.5",
		[STACK] = "at::_ops::mm::call\nMmBackward0::apply",
		[GLOB] = "gemm*bf16|conv?",
		[REGEX] = "^(a|b[^c]{2,3})+$",
		[UNITS] = "1.5 MiB",
		[UTF8] = "\xf0\x9f\x92\xa9\xc0\x80",
		[COMMAND] = "python\ttrain.py",
		[MAPPINGS] = "7f00-7f10 r-xp 00001000 fd:01 4711   /usr/lib/libcuda.so.1\n",
		[TSV] = "name\tns\nString\tUInt64\ngemm\\n\t7\n\\N\t8\n",
	};
	const char *directory = getenv("TS_FUZZ_SEEDS");

	for (unsigned int i = 0; directory && i < KINDS; i++)
		write_seed(directory, i, (uint8_t)i, seeds[i], strlen(seeds[i]));
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size < 1)
		return 0;
	text = malloc(size);
	must(text);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	take(data[0], text, size - 1);
	free(text);
	return 0;
}
