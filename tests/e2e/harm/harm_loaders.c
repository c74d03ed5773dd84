/* Harm, loaders: how the driver comes into the process and leaves it, constructors that call it,
 * NVTX before anything else, preloaded allocators and auditors. */
#include "harm.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvtx.h"

#define ROUNDS	    200
#define TICK_US	    10000
#define TICKS_STALL 100 /* a second in which the other thread does nothing else than sleep */

static void *load(const char *name)
{
	char path[4096];
	void *library;

	snprintf(path, sizeof(path), "%s/%s", harm_folder, name);
	library = dlopen(path, RTLD_NOW);
	if (!library)
		harm_say("dlopen: %s", dlerror());
	return library;
}

static _Atomic int loaded, ticks;

static void *counts_ticks(void *data)
{
	while (!loaded) {
		harm_nap(TICK_US);
		ticks++;
	}
	return data;
}

/* A library whose constructor calls cuInit() is loaded: the loader's lock is held meanwhile. */
static void constructor(void)
{
	pthread_t thread;
	int *result;

	setenv("HARM_DRIVER", harm_driver, 1);
	harm_start(&thread, counts_ticks, NULL);
	result = dlsym(load("libe2e_harm_constructor.so"), "harm_constructed");
	loaded = 1;
	pthread_join(thread, NULL);
	harm_say("cuInit in a constructor: %d%s", result ? *result : -1,
		 ticks > TICKS_STALL ? ", after a stall of more than a second" : "");
	harm_begin();
	harm_run();
}

/* In the middle, and unloaded again. */
static void loads_and_unloads(void)
{
	harm_begin();
	setenv("HARM_DRIVER", harm_driver, 1);
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		for (int i = 0; i < 20; i++) {
			void *library = load("libe2e_harm_constructor.so");

			harm_light(3);
			if (dlclose(library))
				harm_say("dlclose: %s", dlerror());
		}
		harm_work(ROUNDS);
		harm_hold(place);
	}
}

static void reload(void)
{
	void *library = dlopen(harm_driver, RTLD_NOW | RTLD_LOCAL);

	harm_bind(library);
	harm_begin();
	harm_work(ROUNDS);
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		harm_hold(place);
		dlclose(library);
		library = dlopen(harm_driver, RTLD_NOW | RTLD_LOCAL);
		if (!library) {
			harm_say("dlopen: %s", dlerror());
			return;
		}
		harm_bind(library);
		harm_work(ROUNDS);
	}
}

/* In a namespace of the loader of its own, with a C library of its own. */
static void other_namespace(void)
{
	void *library = dlmopen(LM_ID_NEWLM, harm_driver, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		harm_skip("dlmopen: %s", dlerror());
	harm_bind(library);
	harm_begin();
	harm_run();
}

static void ranges(int count)
{
	for (int i = 0; i < count; i++) {
		nvtx_push("outer");
		nvtx_mark("mark");
		nvtx_push("inner");
		nvtx_pop();
		nvtx_pop();
	}
}

/* Before the driver is even loaded. */
static void nvtx_first(void)
{
	ranges(3);
	harm_begin();
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		ranges(ROUNDS);
		harm_work(ROUNDS);
		harm_hold(place);
	}
}

static void nvtx_later(void)
{
	harm_begin();
	harm_work(ROUNDS);
	harm_hold(HARM_MIDDLE);
	ranges(3);
	harm_work(ROUNDS);
	harm_hold(HARM_LATE);
	ranges(3);
	harm_work(ROUNDS);
	harm_hold(HARM_LAST);
}

static void nvtx_last(void)
{
	harm_begin();
	harm_run();
	ranges(3);
}

/* NVTX alone: no call of CUDA at all. */
static void nvtx_only(void)
{
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		ranges(ROUNDS);
		harm_hold(place);
	}
}

static _Atomic int stop;

static void *loads(void *data)
{
	while (!stop) {
		void *library = load("libe2e_harm_plain.so");

		if (library)
			dlclose(library);
	}
	return data;
}

/* A thread that does nothing but load and unload: the loader's lock is mostly taken. */
static void busy_loader(void)
{
	pthread_t thread;

	harm_begin();
	harm_start(&thread, loads, NULL);
	harm_run();
	stop = 1;
	pthread_join(thread, NULL);
}

static int on_module(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	if (strstr(info->dlpi_name, "e2e_harm_plain"))
		(*(int *)data)++;
	return 0;
}

/* Walks the modules, as unwinders and crash reporters do. */
static void walks_modules(void)
{
	int found = 0;

	load("libe2e_harm_plain.so");
	harm_begin();
	for (enum harm_place place = HARM_MIDDLE; place <= HARM_LAST; place++) {
		for (int i = 0; i < ROUNDS; i++)
			dl_iterate_phdr(on_module, &found);
		harm_work(ROUNDS);
		harm_hold(place);
	}
	harm_say("found: %d", found);
}

const struct harm_case harm_loaders[] = {
	{ "constructor", constructor },
	{ "loads-and-unloads", loads_and_unloads },
	{ "reload", reload },
	{ "other-namespace", other_namespace },
	{ "nvtx-first", nvtx_first },
	{ "nvtx-later", nvtx_later },
	{ "nvtx-last", nvtx_last },
	{ "nvtx-only", nvtx_only },
	{ "busy-loader", busy_loader },
	{ "walks-modules", walks_modules },
	{ NULL, NULL },
};
