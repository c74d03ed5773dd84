/* Pin: a reference to our own library, held while one of our threads runs in it.
 *
 * Whoever loaded us may close us at any time. A thread cannot drop the last reference to the code
 * that it runs, so libc does that for it once it has left our code, as the destructor of a
 * thread-local value. If nobody else holds a reference by then, we are unloaded there.
 */
#include "inject/pin.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

static void *held;
static bool has_key;
static pthread_key_t key;

/* By the name that the loader knows us by, so that it searches for no file. */
static int pin_open(void)
{
	struct link_map *ours, *opened = NULL;
	Dl_info info;
	void *handle;

	if (!dladdr1((const void *)pin_open, &info, (void **)&ours, RTLD_DL_LINKMAP))
		return -ENOENT;
	handle = dlopen(ours->l_name, RTLD_LAZY | RTLD_NOLOAD);
	if (!handle)
		return -ENOENT;
	if (dlinfo(handle, RTLD_DI_LINKMAP, &opened) || opened != ours) {
		dlclose(handle);
		return -ENOENT;
	}
	held = handle;
	return 0;
}

int pin_take(void)
{
	/* Matches the type of a destructor; the result of dlclose() is not needed. */
	void (*give)(void *) = (void (*)(void *))(void (*)(void))dlclose;
	int r;

	if (held)
		return 0;
	if (!__atomic_load_n(&has_key, __ATOMIC_ACQUIRE)) {
		r = pthread_key_create(&key, give);
		if (r)
			return -r;
		__atomic_store_n(&has_key, true, __ATOMIC_RELEASE);
	}
	return pin_open();
}

void pin_give(void)
{
	void *handle = held;

	held = NULL;
	if (handle)
		dlclose(handle);
}

void pin_give_at_end(void)
{
	if (held && pthread_setspecific(key, held) == 0)
		held = NULL;
}

__attribute__((destructor)) static void pin_unloaded(void)
{
	if (__atomic_exchange_n(&has_key, false, __ATOMIC_ACQ_REL))
		pthread_key_delete(key);
}
