/* NVTX client: see nvtx.h. The numbers and layouts are those of NVTX 3. */
#include "nvtx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

enum { EXPORT_CALLBACKS = 1, EXPORT_VERSION = 3 };
enum { MODULE_CORE = 1, MODULE_CORE2 = 5 };
enum { NVTX_VERSION = 3, MESSAGE_ASCII = 1, COLOR_ARGB = 1, PAYLOAD_UINT64 = 1 };

typedef void (*nvtx_fn)(void);

struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const char *message;
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
static nvtx_fn unused;
static int taken;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Their places are fixed; what we have no use for gets a place that nobody reads. */
static nvtx_fn *core[] = {
	NULL,
	&unused,
	(nvtx_fn *)&mark_fn,
	&unused,
	&unused,
	(nvtx_fn *)&start_fn,
	&unused,
	(nvtx_fn *)&end_fn,
	&unused,
	(nvtx_fn *)&push_fn,
	&unused,
	(nvtx_fn *)&pop_fn,
	&unused,
	&unused,
	&unused,
	&unused,
	NULL,
};
static nvtx_fn *core2[] = {
	NULL,
	&unused,
	&unused,
	&unused,
	(nvtx_fn *)&domain_push_fn,
	(nvtx_fn *)&domain_pop_fn,
	&unused,
	&unused,
	&unused,
	&unused,
	&unused,
	&unused,
	(nvtx_fn *)&domain_create_fn,
	&unused,
	&unused,
	&unused,
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
		*count = (unsigned int)(sizeof(core) / sizeof(core[0]) - 1);
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
