/* Cupti find: which libcupti to use.
 *
 * A copy that the process has already loaded comes first: two copies would fight over the driver.
 * Otherwise one of the CUDA version of the process: by name, next to other mapped CUDA libraries,
 * in Python's wheels, in the toolkit. It is never closed: CUPTI leaves traces in the driver.
 */
#include "inject/cupti_find.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "inject/internal.h"

#define MAJOR_MIN 12
#define MAJOR_MAX 13

struct search {
	const char *prefix;
	char *path;
	size_t size;
};

static int is_searched(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;
	const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;

	if (!name || strncmp(name + 1, search->prefix, strlen(search->prefix)) ||
	    strlen(info->dlpi_name) >= search->size)
		return 0;
	memcpy(search->path, info->dlpi_name, strlen(info->dlpi_name) + 1);
	return 1;
}

bool mapped_library(const char *prefix, char *path, size_t size)
{
	struct search search = { .prefix = prefix, .path = path, .size = size };

	return dl_iterate_phdr(is_searched, &search);
}

unsigned cuda_major(int driver_version)
{
	char path[PATH_MAX];
	const char *version;

	if (mapped_library("libcudart.so.", path, sizeof(path))) {
		version = strstr(strrchr(path, '/'), ".so.") + strlen(".so.");
		if (atoi(version) >= MAJOR_MIN)
			return (unsigned)atoi(version);
	}
	return (unsigned)driver_version / 1000;
}

static bool resolve(struct cupti *cupti)
{
#define X(need, field, symbol, parameters)                                                         \
	cupti->field = (int(*) parameters)dlsym(cupti->handle, #symbol);                           \
	if ((need) && !cupti->field)                                                               \
		cupti->lacks = #symbol;
	CUPTI_FUNCTIONS(X)
#undef X
	if (!cupti->lacks && cupti->get_version(&cupti->version) != CUPTI_OK)
		cupti->lacks = "a working cuptiGetVersion";
	return !cupti->lacks;
}

static bool try_open(const char *name, int flags, struct cupti *cupti)
{
	struct link_map *map;
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | flags);

	if (!handle)
		return false;
	*cupti = (struct cupti){ .handle = handle };
	if (!dlinfo(handle, RTLD_DI_LINKMAP, &map))
		snprintf(cupti->path, sizeof(cupti->path), "%s", map->l_name);
	if (resolve(cupti))
		return true;
	debug_say("%s has no %s", cupti->path, cupti->lacks);
	dlclose(handle);
	return false;
}

/* `beside`/`under`/libcupti.so.N */
static bool try_beside(const char *beside, size_t length, const char *under, unsigned major,
		       struct cupti *cupti)
{
	char path[PATH_MAX];
	int written = snprintf(path, sizeof(path), "%.*s/%slibcupti.so.%u", (int)length, beside,
			       under, major);

	return written < (int)sizeof(path) && try_open(path, 0, cupti);
}

/* Where the toolkit and Python's wheels install it. */
static bool try_near(const char *prefix, unsigned major, struct cupti *cupti)
{
	static const char *const wheel[] = { "cuda_cupti/lib/", "cu13/lib/", "cu12/lib/" };
	char path[PATH_MAX];
	const char *end;

	if (!mapped_library(prefix, path, sizeof(path)))
		return false;
	end = strrchr(path, '/');
	if (try_beside(path, (size_t)(end - path), "", major, cupti) ||
	    try_beside(path, (size_t)(end - path), "../extras/CUPTI/lib64/", major, cupti))
		return true;
	end = strstr(path, "/nvidia/");
	for (size_t i = 0; end && i < ARRAY_SIZE(wheel); i++)
		if (try_beside(path, (size_t)(end - path) + strlen("/nvidia"), wheel[i], major,
			       cupti))
			return true;
	return false;
}

static bool try_toolkit(unsigned major, struct cupti *cupti)
{
	static const char *const under[] = { "extras/CUPTI/lib64/", "lib64/",
					     "targets/x86_64-linux/lib/" };
	char root[64];

	for (int minor = -2; minor <= 9; minor++) {
		if (minor == -2)
			snprintf(root, sizeof(root), "/usr/local/cuda");
		else if (minor == -1)
			snprintf(root, sizeof(root), "/usr/local/cuda-%u", major);
		else
			snprintf(root, sizeof(root), "/usr/local/cuda-%u.%d", major, minor);
		for (size_t i = 0; i < ARRAY_SIZE(under); i++)
			if (try_beside(root, strlen(root), under[i], major, cupti))
				return true;
	}
	return false;
}

static bool try_name(unsigned major, struct cupti *cupti)
{
	char name[32];

	snprintf(name, sizeof(name), "libcupti.so.%u", major);
	return try_open(name, 0, cupti);
}

static bool try_beside_others(unsigned major, struct cupti *cupti)
{
	static const char *const near[] = { "libcudart.so", "libcublas.so", "libcudnn.so",
					    "libnvrtc.so", "libnccl.so" };

	for (size_t i = 0; i < ARRAY_SIZE(near); i++)
		if (try_near(near[i], major, cupti))
			return true;
	return false;
}

static int find_elsewhere(unsigned major, struct cupti *cupti)
{
	static bool (*const ways[])(
		unsigned major, struct cupti *cupti) = { try_name, try_beside_others, try_toolkit };

	/* A newer driver runs programs built for an older CUDA; what the process was set up with
	 * takes precedence over what happens to be installed. */
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++)
		for (unsigned m = major ? major : MAJOR_MAX; m >= MAJOR_MIN; m--)
			if (ways[i](m, cupti))
				return 0;
	return -ENOENT;
}

int cupti_find(unsigned major, struct cupti *ret, char *why, size_t size)
{
	unsigned wanted = major ? major : MAJOR_MAX;
	char path[PATH_MAX];

	*ret = (struct cupti){ 0 };
	if (mapped_library("libcupti.so", path, sizeof(path)) && try_open(path, RTLD_NOLOAD, ret))
		return 0;
	if (major && (major < MAJOR_MIN || major > MAJOR_MAX)) {
		snprintf(why, size,
			 "the process uses CUDA %u; kernel times need CUDA %d or %d and its CUPTI",
			 major, MAJOR_MIN, MAJOR_MAX);
		return -ENOTSUP;
	}
	if (!ret->lacks && !find_elsewhere(major, ret))
		return 0;
	if (ret->lacks)
		snprintf(why, size,
			 "the CUPTI of the process (%.96s) has no %s and cannot be used; install "
			 "the CUPTI of CUDA %u (cuda-cupti, or the wheel nvidia-cuda-cupti)",
			 ret->path, ret->lacks, wanted);
	else
		snprintf(why, size,
			 "no libcupti.so.%u was found by name, next to the CUDA libraries of the "
			 "process or in /usr/local/cuda*; install the CUPTI of CUDA %u "
			 "(cuda-cupti, or the wheel nvidia-cuda-cupti)",
			 wanted, wanted);
	return -ENOENT;
}
