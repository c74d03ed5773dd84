/* NVTX client: see nvtx.h. The numbers and layouts are those of NVTX 3. */
#include "core/base/array.h"
#include "nvtx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

enum { EXPORT_CALLBACKS = 1, EXPORT_VERSION = 3 };
enum { MODULE_CORE = 1, MODULE_CORE2 = 5 };
enum {
	NVTX_VERSION = 3,
	MESSAGE_ASCII = 1,
	MESSAGE_UNICODE = 2,
	MESSAGE_STRING = 3,
	COLOR_ARGB = 1,
	PAYLOAD_UINT64 = 1
};

typedef void (*nvtx_fn)(void);

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

struct callbacks {
	size_t size;
	int (*table)(uint32_t module, nvtx_fn ***table, unsigned int *count);
};

struct version {
	size_t size;
	uint32_t version, reserved;
	void (*set)(uint32_t version);
};

static void (*mark_fn)(const char *);
static uint64_t (*start_fn)(const char *);
static void (*end_fn)(uint64_t);
static int (*push_fn)(const char *);
static int (*pop_fn)(void);
static int (*domain_push_fn)(void *, const struct attributes *);
static int (*domain_pop_fn)(void *);
static void *(*domain_create_fn)(const char *);
static void (*mark_wide_fn)(const wchar_t *);
static uint64_t (*start_wide_fn)(const wchar_t *);
static int (*push_wide_fn)(const wchar_t *);
static int (*push_ex_fn)(const struct attributes *);
static void *(*register_wide_fn)(void *, const wchar_t *);
static void *(*domain_create_wide_fn)(const wchar_t *);
static nvtx_fn unused[32];
static int taken;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Their places are fixed; what we have no use for gets a place that nobody reads. */
static nvtx_fn *core[] = {
	NULL,
	&unused[1],
	(nvtx_fn *)&mark_fn,
	(nvtx_fn *)&mark_wide_fn,
	&unused[4],
	(nvtx_fn *)&start_fn,
	(nvtx_fn *)&start_wide_fn,
	(nvtx_fn *)&end_fn,
	(nvtx_fn *)&push_ex_fn,
	(nvtx_fn *)&push_fn,
	(nvtx_fn *)&push_wide_fn,
	(nvtx_fn *)&pop_fn,
	&unused[12],
	&unused[13],
	&unused[14],
	&unused[15],
	NULL,
};
static nvtx_fn *core2[] = {
	NULL,
	&unused[17],
	&unused[18],
	&unused[19],
	(nvtx_fn *)&domain_push_fn,
	(nvtx_fn *)&domain_pop_fn,
	&unused[22],
	&unused[23],
	&unused[24],
	&unused[25],
	&unused[26],
	(nvtx_fn *)&register_wide_fn,
	(nvtx_fn *)&domain_create_fn,
	(nvtx_fn *)&domain_create_wide_fn,
	&unused[30],
	&unused[31],
	NULL,
};

/* The count is one less than the table's, whose last entry is empty. */
static int get_table(uint32_t module, nvtx_fn ***table, unsigned int *count)
{
	if (module != MODULE_CORE && module != MODULE_CORE2)
		return 0;
	if (table)
		*table = module == MODULE_CORE ? core : core2;
	if (count)
		*count = (unsigned int)(ARRAY_SIZE(core) - 1);
	return 1;
}

static void set_version(uint32_t version)
{
	(void)version;
}

static const void *get_export(uint32_t id)
{
	static const struct callbacks callbacks = { sizeof(callbacks), get_table };
	static const struct version version = { sizeof(version), NVTX_VERSION, 0, set_version };

	return id == EXPORT_CALLBACKS ? (const void *)&callbacks
	       : id == EXPORT_VERSION ? (const void *)&version
				      : NULL;
}

static void initialize(void)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");
	void *library = path && *path ? dlopen(path, RTLD_LAZY) : NULL;
	int (*inject)(const void *(*)(uint32_t));

	if (!library)
		return;
	inject = (int (*)(const void *(*)(uint32_t)))dlsym(library, "InitializeInjectionNvtx2");
	taken = inject && inject(get_export);
}

int nvtx_taken(void)
{
	pthread_once(&once, initialize);
	return taken;
}

int nvtx_push(const char *text)
{
	return nvtx_taken() && push_fn ? push_fn(text) : -1;
}

int nvtx_pop(void)
{
	return nvtx_taken() && pop_fn ? pop_fn() : -1;
}

void nvtx_mark(const char *text)
{
	if (nvtx_taken() && mark_fn)
		mark_fn(text);
}

uint64_t nvtx_start(const char *text)
{
	return nvtx_taken() && start_fn ? start_fn(text) : 0;
}

void nvtx_end(uint64_t id)
{
	if (nvtx_taken() && end_fn)
		end_fn(id);
}

void *nvtx_domain(const char *name)
{
	return nvtx_taken() && domain_create_fn ? domain_create_fn(name) : NULL;
}

int nvtx_domain_push(void *domain, const char *text, uint32_t color, uint64_t payload)
{
	struct attributes a = {
		.version = NVTX_VERSION,
		.size = sizeof(a),
		.color_type = COLOR_ARGB,
		.color = color,
		.payload_type = PAYLOAD_UINT64,
		.payload = payload,
		.message_type = MESSAGE_ASCII,
		.message = text,
	};

	return nvtx_taken() && domain_push_fn ? domain_push_fn(domain, &a) : -1;
}

int nvtx_domain_pop(void *domain)
{
	return nvtx_taken() && domain_pop_fn ? domain_pop_fn(domain) : -1;
}

int nvtx_push_wide(const wchar_t *text)
{
	return nvtx_taken() && push_wide_fn ? push_wide_fn(text) : -1;
}

void nvtx_mark_wide(const wchar_t *text)
{
	if (nvtx_taken() && mark_wide_fn)
		mark_wide_fn(text);
}

uint64_t nvtx_start_wide(const wchar_t *text)
{
	return nvtx_taken() && start_wide_fn ? start_wide_fn(text) : 0;
}

void *nvtx_domain_wide(const wchar_t *name)
{
	return nvtx_taken() && domain_create_wide_fn ? domain_create_wide_fn(name) : NULL;
}

static struct attributes attributes_of(int32_t type, const void *message)
{
	return (struct attributes){
		.version = NVTX_VERSION,
		.size = sizeof(struct attributes),
		.message_type = type,
		.message = message,
	};
}

int nvtx_domain_push_wide(void *domain, const wchar_t *text)
{
	struct attributes a = attributes_of(MESSAGE_UNICODE, text);

	return nvtx_taken() && domain_push_fn ? domain_push_fn(domain, &a) : -1;
}

int nvtx_domain_push_registered(void *domain, const wchar_t *text)
{
	struct attributes a = attributes_of(MESSAGE_STRING, NULL);

	if (!nvtx_taken() || !register_wide_fn || !domain_push_fn)
		return -1;
	a.message = register_wide_fn(domain, text);
	return domain_push_fn(domain, &a);
}

int nvtx_push_ex_wide(const wchar_t *text)
{
	struct attributes a = attributes_of(MESSAGE_UNICODE, text);

	return nvtx_taken() && push_ex_fn ? push_ex_fn(&a) : -1;
}
