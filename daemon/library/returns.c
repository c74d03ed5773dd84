/* Returns: the setting, and what a function is to the BPF programs if its return is not probed. */
#include "daemon/library/returns.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#define BETWEEN " ,\t"
#define ALL_BUT "all but"

static bool is_called(const struct library_function *function, const char *pattern)
{
	char name[RETURNS_NAME_SIZE];

	if (fnmatch(pattern, function->model.name, 0) == 0)
		return true;
	for (int i = 0; i < LIBRARY_ALIASES_MAX; i++)
		if (function->alias[i] && fnmatch(pattern, function->alias[i], 0) == 0)
			return true;
	if (!function->per_thread)
		return false;
	snprintf(name, sizeof(name), "%s%s", function->model.name, function->per_thread);
	return fnmatch(pattern, name, 0) == 0;
}

static void leave_out(struct returns *returns, const struct library_function *function)
{
	returns->without[function->number / RETURNS_BITS] |= UINT64_C(1)
							     << function->number % RETURNS_BITS;
}

/* NULL: all. False: no function has such a name. */
static bool leave_out_all(struct returns *returns, const char *pattern)
{
	const struct library_row *row;
	bool found = false;

	for (size_t i = 0; (row = library_get(i)); i++)
		for (size_t k = 0; k < row->count; k++) {
			const struct library_function *function = &row->function[k];

			if (!(function->flags & PROBE_RETURN) ||
			    (pattern && !is_called(function, pattern)))
				continue;
			leave_out(returns, function);
			found = true;
		}
	return found;
}

void returns_none(struct returns *returns)
{
	leave_out_all(returns, NULL);
}

static int parse_names(const char *text, struct returns *returns,
		       char ret_unknown[RETURNS_NAME_SIZE])
{
	uint32_t count = 0;
	size_t length;

	for (const char *at = text; *(at += strspn(at, BETWEEN)); at += length, count++) {
		char name[RETURNS_NAME_SIZE];

		length = strcspn(at, BETWEEN);
		snprintf(name, sizeof(name), "%.*s", (int)length, at);
		if (length < sizeof(name) && leave_out_all(returns, name))
			continue;
		memcpy(ret_unknown, name, sizeof(name));
		return -EINVAL;
	}
	return count ? 0 : -EINVAL;
}

int returns_parse(const char *text, struct returns *ret, char ret_unknown[RETURNS_NAME_SIZE])
{
	const size_t length = strlen(ALL_BUT);
	struct returns returns = { 0 };
	int r = 0;

	*ret_unknown = '\0';
	if (strcmp(text, "no") == 0)
		returns_none(&returns);
	else if (strncmp(text, ALL_BUT, length) == 0 && strchr(BETWEEN, text[length]))
		r = parse_names(text + length, &returns, ret_unknown);
	else if (strcmp(text, "yes") != 0)
		r = -EINVAL;
	if (r == 0)
		*ret = returns;
	return r;
}

bool returns_have(const struct returns *returns, const struct library_function *function)
{
	return function->flags & PROBE_RETURN &&
	       !(returns->without[function->number / RETURNS_BITS] >>
			 function->number % RETURNS_BITS &
		 1);
}

uint32_t returns_without(const struct returns *returns)
{
	uint32_t count = 0;

	for (size_t i = 0; i < PROBE_FUNCTIONS_MAX / RETURNS_BITS; i++)
		count += (uint32_t)__builtin_popcountll(returns->without[i]);
	return count;
}

static bool is_out(const struct probe_desc *desc, const struct probe_slot *slot)
{
	for (uint32_t i = 0; i < desc->out_count; i++)
		if (desc->out[i].to == slot->to)
			return true;
	return false;
}

/* Where the result would come is the program's pointer to it until then, which says nothing. */
static void forget_outs(struct probe_desc *desc)
{
	uint8_t kept = 0;

	for (uint32_t i = 0; i < desc->slot_count; i++)
		if (!is_out(desc, &desc->slot[i]))
			desc->slot[kept++] = desc->slot[i];
	desc->slot_count = kept;
	desc->out_count = 0;
}

void returns_probe_desc(const struct returns *returns, const struct library_function *function,
			struct probe_desc *ret)
{
	library_probe_desc(function, ret);
	if (!(function->flags & PROBE_RETURN) || returns_have(returns, function))
		return;
	ret->flags &= (uint16_t)~PROBE_RETURN;
	forget_outs(ret);
}
