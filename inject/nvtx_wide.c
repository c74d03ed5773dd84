/* Nvtx wide: CUPTI ignores wide texts from NVTX: ranges that have one are missing or unnamed, and
 * the end of such a range ends another. So our functions replace those with wide texts in NVTX's
 * tables; they convert to UTF-8 and call CUPTI's function for that. They run on the program's
 * threads. NVTX has loaded us and never unloads us, so they stay as long as the tables.
 */
#include "inject/nvtx_wide.h"

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#include "core/base/array.h"
#include "proto/event.h"

/* Numbers of NVTX 3. */
#define EXPORT_CALLBACKS 1
#define MODULE_CORE	 1
#define MODULE_CORE2	 5
#define MESSAGE_ASCII	 1
#define MESSAGE_UNICODE	 2
#define REPLACEMENT	 0xfffd

typedef void (*nvtx_fn)(void);

struct callbacks {
	size_t size;
	int (*table)(uint32_t module, nvtx_fn ***table, unsigned int *count);
};

struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const void *message;
};

struct text {
	char utf8[TS_NAME_MAX + 1];
};

/* CUPTI's, the same in all tables. */
static struct {
	void (*mark)(const char *);
	uint64_t (*start)(const char *);
	int (*push)(const char *);
	void (*mark_ex)(const struct attributes *);
	uint64_t (*start_ex)(const struct attributes *);
	int (*push_ex)(const struct attributes *);
	void (*domain_mark)(void *, const struct attributes *);
	uint64_t (*domain_start)(void *, const struct attributes *);
	int (*domain_push)(void *, const struct attributes *);
	void *(*register_string)(void *, const char *);
	void *(*domain_create)(const char *);
} cupti;

static size_t put_character(char *to, uint32_t c)
{
	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		c = REPLACEMENT;
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 0x3f));
		to[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	to[0] = (char)(0xf0 | c >> 18);
	to[1] = (char)(0x80 | (c >> 12 & 0x3f));
	to[2] = (char)(0x80 | (c >> 6 & 0x3f));
	to[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* As much of it as fits in a name. */
static const char *narrow(struct text *text, const wchar_t *wide)
{
	size_t used = 0;

	if (!wide)
		return NULL;
	while (*wide && used + 4 < sizeof(text->utf8))
		used += put_character(text->utf8 + used, (uint32_t)*wide++);
	text->utf8[used] = '\0';
	return text->utf8;
}

static const struct attributes *narrow_message(struct text *text, struct attributes *copy,
					       const struct attributes *a)
{
	if (!a || a->size < sizeof(*a) || a->message_type != MESSAGE_UNICODE || !a->message)
		return a;
	*copy = *a;
	copy->size = sizeof(*copy);
	copy->message_type = MESSAGE_ASCII;
	copy->message = narrow(text, a->message);
	return copy;
}

static void mark_wide(const wchar_t *wide)
{
	struct text text;

	cupti.mark(narrow(&text, wide));
}

static uint64_t start_wide(const wchar_t *wide)
{
	struct text text;

	return cupti.start(narrow(&text, wide));
}

static int push_wide(const wchar_t *wide)
{
	struct text text;

	return cupti.push(narrow(&text, wide));
}

static void mark_ex(const struct attributes *a)
{
	struct attributes copy;
	struct text text;

	cupti.mark_ex(narrow_message(&text, &copy, a));
}

static uint64_t start_ex(const struct attributes *a)
{
	struct attributes copy;
	struct text text;

	return cupti.start_ex(narrow_message(&text, &copy, a));
}

static int push_ex(const struct attributes *a)
{
	struct attributes copy;
	struct text text;

	return cupti.push_ex(narrow_message(&text, &copy, a));
}

static void domain_mark(void *domain, const struct attributes *a)
{
	struct attributes copy;
	struct text text;

	cupti.domain_mark(domain, narrow_message(&text, &copy, a));
}

static uint64_t domain_start(void *domain, const struct attributes *a)
{
	struct attributes copy;
	struct text text;

	return cupti.domain_start(domain, narrow_message(&text, &copy, a));
}

static int domain_push(void *domain, const struct attributes *a)
{
	struct attributes copy;
	struct text text;

	return cupti.domain_push(domain, narrow_message(&text, &copy, a));
}

static void *register_wide(void *domain, const wchar_t *wide)
{
	struct text text;

	return cupti.register_string(domain, narrow(&text, wide));
}

static void *domain_create_wide(const wchar_t *wide)
{
	struct text text;

	return cupti.domain_create(narrow(&text, wide));
}

/* The slot of our function in its module, and that of CUPTI's, which it calls. */
static const struct row {
	uint32_t module, place, theirs;
	nvtx_fn ours;
	nvtx_fn *to;
} rows[] = {
	{ MODULE_CORE, 3, 2, (nvtx_fn)mark_wide, (nvtx_fn *)&cupti.mark },
	{ MODULE_CORE, 6, 5, (nvtx_fn)start_wide, (nvtx_fn *)&cupti.start },
	{ MODULE_CORE, 10, 9, (nvtx_fn)push_wide, (nvtx_fn *)&cupti.push },
	{ MODULE_CORE, 1, 1, (nvtx_fn)mark_ex, (nvtx_fn *)&cupti.mark_ex },
	{ MODULE_CORE, 4, 4, (nvtx_fn)start_ex, (nvtx_fn *)&cupti.start_ex },
	{ MODULE_CORE, 8, 8, (nvtx_fn)push_ex, (nvtx_fn *)&cupti.push_ex },
	{ MODULE_CORE2, 1, 1, (nvtx_fn)domain_mark, (nvtx_fn *)&cupti.domain_mark },
	{ MODULE_CORE2, 2, 2, (nvtx_fn)domain_start, (nvtx_fn *)&cupti.domain_start },
	{ MODULE_CORE2, 4, 4, (nvtx_fn)domain_push, (nvtx_fn *)&cupti.domain_push },
	{ MODULE_CORE2, 11, 10, (nvtx_fn)register_wide, (nvtx_fn *)&cupti.register_string },
	{ MODULE_CORE2, 13, 12, (nvtx_fn)domain_create_wide, (nvtx_fn *)&cupti.domain_create },
};

void nvtx_widen(void *get_export_table)
{
	const void *(*get)(uint32_t) = (const void *(*)(uint32_t))get_export_table;
	const struct callbacks *callbacks = get(EXPORT_CALLBACKS);

	if (!callbacks || callbacks->size < sizeof(*callbacks))
		return;
	for (const struct row *row = rows; row < rows + ARRAY_SIZE(rows); row++) {
		nvtx_fn **table = NULL, theirs;
		unsigned int count = 0;

		if (!callbacks->table(row->module, &table, &count) || !table ||
		    row->place >= count || row->theirs >= count || !table[row->place] ||
		    !table[row->theirs])
			continue;
		theirs = *table[row->theirs];
		if (!theirs || theirs == row->ours)
			continue;
		__atomic_store_n(row->to, theirs, __ATOMIC_RELAXED);
		__atomic_store_n(table[row->place], row->ours, __ATOMIC_RELEASE);
	}
}
