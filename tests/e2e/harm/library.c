/* Library: what harm programs load or have preloaded, one of these by its macro:
 * HARM_CONSTRUCTOR calls cuInit() while it is loaded; HARM_AUDIT is for LD_AUDIT; HARM_SHIM stands
 * in front of malloc(); without any it does nothing. */
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef HARM_CONSTRUCTOR
__attribute__((visibility("default"))) int harm_constructed;

__attribute__((constructor)) static void construct(void)
{
	const char *path = getenv("HARM_DRIVER");
	void *driver = path ? dlopen(path, RTLD_NOW) : NULL;
	int (*init)(unsigned int) = driver ? (int (*)(unsigned int))dlsym(driver, "cuInit") : NULL;

	harm_constructed = init ? init(0) : -1;
}
#endif

#ifdef HARM_AUDIT
#define EXPORT __attribute__((visibility("default")))
EXPORT unsigned int la_version(unsigned int version);
EXPORT unsigned int la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie);
EXPORT unsigned int la_objclose(uintptr_t *cookie);

static int opened;

unsigned int la_version(unsigned int version)
{
	return version;
}

unsigned int la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
	(void)space;
	*cookie = (uintptr_t)map;
	opened++;
	return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

unsigned int la_objclose(uintptr_t *cookie)
{
	opened -= *cookie != 0;
	return 0;
}
#endif

#ifdef HARM_SHIM
/* Each block has its size before it, and is checked when it is freed. */
#define MAGIC 0x6861726d6d616c6cul
extern void *__libc_malloc(size_t size);
extern void __libc_free(void *block);
extern void *__libc_memalign(size_t align, size_t size);

struct head {
	size_t magic, size, base, room;
};

static void *place(size_t align, size_t size)
{
	size_t at, wide = align < 16 ? 16 : align;
	char *block = __libc_malloc(size + wide + sizeof(struct head));

	if (!block)
		return NULL;
	at = ((size_t)block + sizeof(struct head) + wide - 1) & ~(wide - 1);
	((struct head *)at)[-1] = (struct head){ MAGIC, size, (size_t)block, 0 };
	return (void *)at;
}

__attribute__((visibility("default"))) void *malloc(size_t size)
{
	return place(16, size);
}

__attribute__((visibility("default"))) void free(void *block)
{
	struct head *head = (struct head *)block - 1;

	if (!block)
		return;
	if (head->magic != MAGIC)
		abort();
	head->magic = 0;
	__libc_free((void *)head->base);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size)
{
	char *block = place(16, count * size);

	for (size_t i = 0; block && i < count * size; i++)
		((volatile char *)block)[i] = 0;
	return block;
}

__attribute__((visibility("default"))) void *realloc(void *old, size_t size)
{
	char *block = place(16, size);
	size_t before = old ? ((struct head *)old)[-1].size : 0;

	for (size_t i = 0; block && i < (before < size ? before : size); i++)
		((volatile char *)block)[i] = ((char *)old)[i];
	free(old);
	return block;
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t align, size_t size)
{
	return place(align, size);
}

__attribute__((visibility("default"))) void *memalign(size_t align, size_t size)
{
	return place(align, size);
}

__attribute__((visibility("default"))) int posix_memalign(void **ret, size_t align, size_t size)
{
	*ret = place(align, size);
	return *ret ? 0 : 12;
}
#endif
