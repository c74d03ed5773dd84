/* Library: the rows, and what the model and the BPF programs want of them. */
#include "daemon/library/library.h"

#include <fnmatch.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/text.h"

static const struct library_row *const rows[] = {
	&library_cuda, &library_range, &library_torch, &library_torch_cuda, &library_nccl,
};

const struct library_row *library_get(size_t n)
{
	return n < ARRAY_SIZE(rows) ? rows[n] : NULL;
}

static const char *row_files(const struct library_row *row)
{
	return row->files;
}

static const char *row_places(const struct library_row *row)
{
	return row->places;
}

static char *join(const char *(*text)(const struct library_row *row))
{
	char *all = NULL;
	size_t size;
	FILE *out = text_open(&all, &size);

	if (!out)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (!rows[i]->by_choice)
			fprintf(out, "%s%s", i ? " " : "", text(rows[i]));
	if (text_close(out) == 0)
		return all;
	free(all);
	return NULL;
}

char *library_files(void)
{
	return join(row_files);
}

char *library_places(void)
{
	return join(row_places);
}

bool library_matches(const char *path, const char *patterns)
{
	static const char deleted[] = " (deleted)", between[] = " ,\t";
	const size_t tail = sizeof(deleted) - 1;
	const char *base = strrchr(path, '/');
	char name[NAME_MAX + sizeof(deleted)], pattern[NAME_MAX + 1];
	size_t length;

	base = base ? base + 1 : path;
	length = strlen(base);
	if (length >= sizeof(name))
		return false;
	memcpy(name, base, length + 1);
	if (length > tail && strcmp(name + length - tail, deleted) == 0)
		name[length - tail] = '\0';
	for (const char *at = patterns; *(at += strspn(at, between)); at += length) {
		length = strcspn(at, between);
		if (length >= sizeof(pattern))
			continue;
		snprintf(pattern, sizeof(pattern), "%.*s", (int)length, at);
		if (fnmatch(pattern, name, 0) == 0)
			return true;
	}
	return false;
}

const struct library_row *library_of(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (library_matches(path, rows[i]->files))
			return rows[i];
	return NULL;
}

const struct library_function *library_function(uint32_t number)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t k = 0; k < rows[i]->count; k++)
			if (rows[i]->function[k].number == number)
				return &rows[i]->function[k];
	return NULL;
}

static uint8_t size_count(const struct library_function *function)
{
	static const uint8_t size[] = {
		offsetof(struct ts_api, bytes),
		offsetof(struct ts_api, height),
		offsetof(struct ts_api, depth),
	};
	uint8_t count = 0;

	for (size_t i = 0; i < PROBE_SLOTS_MAX && function->slot[i].from != PROBE_END; i++)
		if (memchr(size, function->slot[i].to, sizeof(size)))
			count++;
	return count;
}

bool library_is_hot(const struct library_function *function)
{
	return !(function->flags & (PROBE_RETURN | PROBE_KEEP | PROBE_ALWAYS));
}

enum probe_group library_group(const struct library_function *function)
{
	if (function->flags & PROBE_REPORT)
		return PROBE_REPORTS;
	return library_is_hot(function) ? PROBE_HOT : PROBE_COLD;
}

struct function_table library_functions(void)
{
	static struct function function[PROBE_FUNCTIONS_MAX];
	uint32_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t k = 0; k < rows[i]->count; k++) {
			const struct library_function *from = &rows[i]->function[k];

			function[from->number] = from->model;
			function[from->number].sizes = size_count(from);
			function[from->number].hot = library_is_hot(from);
			function[from->number].returns = from->flags & PROBE_RETURN;
			if (from->number >= count)
				count = from->number + 1;
		}
	return (struct function_table){ function, count };
}

bool library_has_group(const struct library_row *row, enum probe_group group)
{
	for (size_t i = 0; row && i < row->count; i++)
		if (library_group(&row->function[i]) == group)
			return true;
	return !row;
}

static uint8_t copy_slots(struct probe_slot *to, const struct probe_slot *from, uint8_t max)
{
	uint8_t count = 0;

	while (count < max && from[count].from != PROBE_END) {
		to[count] = from[count];
		count++;
	}
	return count;
}

/* What a launch names; its stacks are sampled by that, too. */
static uint8_t kernel_arg(const struct library_function *function)
{
	const struct probe_slot *slot = function->slot;

	if (function->model.kind != OP_LAUNCH)
		return 0;
	for (size_t i = 0; i < PROBE_SLOTS_MAX && slot[i].from != PROBE_END; i++)
		if (slot[i].from == PROBE_ARG && slot[i].to == offsetof(struct ts_api, handle))
			return slot[i].arg + 1;
	return 0;
}

void library_probe_desc(const struct library_function *function, struct probe_desc *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->flags = function->flags;
	ret->slot_count = copy_slots(ret->slot, function->slot, PROBE_SLOTS_MAX);
	ret->kernel_arg = kernel_arg(function);
	ret->device_type = function->device_type;
	ret->id_at = function->id_at;
	if (function->flags & PROBE_REPORT)
		ret->walk = PROBE_WALK_REPORT;
	else if (function->flags & PROBE_STACK)
		ret->walk = PROBE_WALK_ALWAYS;
	ret->out_count = copy_slots(ret->out, function->out, PROBE_OUTS_MAX);
}

size_t library_device_count(void)
{
	size_t count = 0;
	glob_t found;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i]->devices && glob(rows[i]->devices, 0, NULL, &found) == 0) {
			count += found.gl_pathc;
			globfree(&found);
		}
	return count;
}
