/* Module: images, libraries and the functions in them.
 * An image is any bytes: a module has every function whose name is an identifier. */
#include "fake.h"

#include <ctype.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GLOBAL_BYTES   256
#define IMAGE_TEXT_MAX (64 << 20)

struct module {
	struct object object;
	struct context *context;
	struct module *next;
	struct function *functions;
	CUdeviceptr global; /* the one variable that every name finds */
	struct library *library;
	bool timed;
};

struct library {
	struct object object;
	struct function *kernels;
	unsigned int kernels_count;
};

_Static_assert(sizeof(struct module) <= 128, "slot of a module");
_Static_assert(sizeof(struct library) <= 128, "slot of a library");

static pthread_mutex_t module_lock = PTHREAD_MUTEX_INITIALIZER;

static const struct {
	const char *word;
	uint32_t weight;
} function_weights[] = {
	{ "gemm", 8 },	  { "matmul", 8 },     { "conv", 8 }, { "attention", 6 },
	{ "softmax", 2 }, { "layer_norm", 2 }, { "adam", 3 }, { "reduce", 2 },
};

/* "copy_us250" takes 250 µs, "tick_ns80" takes 80 ns, whatever the grid. */
static uint64_t function_fixed_ns(const char *name)
{
	const char *us = strstr(name, "_us"), *ns = strstr(name, "_ns");

	if (us && isdigit((unsigned char)us[3]))
		return strtoull(us + 3, NULL, 10) * 1000;
	if (ns && isdigit((unsigned char)ns[3]))
		return strtoull(ns + 3, NULL, 10);
	return 0;
}

uint64_t function_cost(const struct function *function, uint64_t blocks, uint64_t threads)
{
	/* 1.5 µs to get going, then 50 threads a nanosecond for the lightest kind of work. */
	if (function->fixed_ns)
		return function->fixed_ns;
	return 1500 + blocks * threads / 50 * function->weight;
}

static bool function_name_valid(const char *name)
{
	if (!isalpha((unsigned char)*name) && *name != '_' && *name != '$')
		return false;
	for (const char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '_' && *c != '$' && *c != '.')
			return false;
	return strlen(name) < NAME_MAX_BYTES;
}

/* With module_lock held. One name has one handle. */
static CUresult function_intern(struct function **ret, struct function **list, struct arena *arena,
				const char *name)
{
	struct function *f;

	for (f = *list; f; f = f->next)
		if (strcmp(f->name, name) == 0)
			break;
	if (!f) {
		f = arena_take(arena);
		if (!f)
			return CUDA_ERROR_OUT_OF_MEMORY;
		strcpy(f->name, name);
		f->fixed_ns = function_fixed_ns(name);
		f->weight = 1;
		for (size_t i = 0; i < ARRAY_SIZE(function_weights); i++)
			if (strstr(name, function_weights[i].word))
				f->weight = function_weights[i].weight;
		f->next = *list;
		*list = f;
	}
	*ret = f;
	return CUDA_SUCCESS;
}

static void function_free_list(struct function *list, struct arena *arena)
{
	while (list) {
		struct function *next = list->next;

		arena_give(arena, list);
		list = next;
	}
}

struct function *function_check(CUfunction handle)
{
	struct function *f = arena_check(&arena_functions, handle);

	/* A CUkernel may stand for a function in a launch. */
	return f ? f : arena_check(&arena_kernels, handle);
}

static size_t image_size(const void *image)
{
	const Elf64_Ehdr *elf = image;
	const unsigned char *bytes = image;

	if (memcmp(bytes, ELFMAG, SELFMAG) == 0)
		return elf->e_shoff + (size_t)elf->e_shnum * elf->e_shentsize;
	if (bytes[0] == '/' || bytes[0] == '.')
		return strnlen(image, IMAGE_TEXT_MAX);
	return 0;
}

static CUresult module_new(struct module **ret, const void *image)
{
	struct context *context = context_current();
	struct module *module = arena_take(&arena_modules);

	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	module->context = context;
	pthread_mutex_lock(&context->lock);
	module->next = context->modules;
	context->modules = module;
	pthread_mutex_unlock(&context->lock);
	HOOK(module_loaded, (uint32_t)context->object.id, (CUmodule)module, image,
	     image ? image_size(image) : 0);
	*ret = module;
	return CUDA_SUCCESS;
}

static void module_delete(struct module *module)
{
	HOOK(module_unloaded, (uint32_t)module->context->object.id, (CUmodule)module);
	pthread_mutex_lock(&module_lock);
	function_free_list(module->functions, &arena_functions);
	pthread_mutex_unlock(&module_lock);
	if (module->global)
		memory_release(module->global, 1u << BLOCK_MODULE);
	arena_give(&arena_modules, module);
}

void module_unload_all(struct context *context)
{
	while (context->modules) {
		struct module *module = context->modules;

		context->modules = module->next;
		module_delete(module);
	}
}

/* The kernels of 'tsctl replay --on-gpu': they take as long as their first argument says. */
static bool image_is_timed(const void *image)
{
	static const char head[] = "// TraceSmith timed kernels";

	return strncmp(image, head, strlen(head)) == 0;
}

CUresult module_load(CUmodule *ret, const void *image)
{
	struct module *module;
	CUresult r;

	if (!ret || !image)
		return CUDA_ERROR_INVALID_VALUE;
	r = module_new(&module, image);
	if (r != CUDA_SUCCESS)
		return r;
	module->timed = image_is_timed(image);
	*ret = (CUmodule)module;
	return CUDA_SUCCESS;
}

CUresult module_load_file(CUmodule *ret, const char *path)
{
	struct module *module;
	CUresult r;

	if (!ret || !path)
		return CUDA_ERROR_INVALID_VALUE;
	if (access(path, R_OK) != 0)
		return CUDA_ERROR_FILE_NOT_FOUND;
	r = module_new(&module, NULL);
	if (r == CUDA_SUCCESS)
		*ret = (CUmodule)module;
	return r;
}

CUresult module_unload(CUmodule handle)
{
	struct module *module = arena_check(&arena_modules, handle);
	struct module **link;

	if (!module || module->library)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&module->context->lock);
	for (link = &module->context->modules; *link && *link != module; link = &(*link)->next)
		;
	if (*link)
		*link = module->next;
	pthread_mutex_unlock(&module->context->lock);
	context_drain(module->context);
	module_delete(module);
	return CUDA_SUCCESS;
}

CUresult module_get_mode(CUmoduleLoadingMode *mode)
{
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = CU_MODULE_EAGER_LOADING;
	return CUDA_SUCCESS;
}

CUresult module_get_function(CUfunction *ret, CUmodule handle, const char *name)
{
	struct module *module = arena_check(&arena_modules, handle);
	struct function *f;
	CUresult r;

	if (!ret || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!function_name_valid(name))
		return CUDA_ERROR_NOT_FOUND;
	pthread_mutex_lock(&module_lock);
	r = function_intern(&f, &module->functions, &arena_functions, name);
	if (r == CUDA_SUCCESS) {
		f->module = module;
		f->context = module->context;
		f->timed = module->timed;
		*ret = (CUfunction)f;
	}
	pthread_mutex_unlock(&module_lock);
	return r;
}

CUresult module_get_global(CUdeviceptr *ptr, size_t *bytes, CUmodule handle, const char *name)
{
	struct module *module = arena_check(&arena_modules, handle);
	CUresult r = CUDA_SUCCESS;

	if (!name || (!ptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (!module)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!function_name_valid(name))
		return CUDA_ERROR_NOT_FOUND;
	pthread_mutex_lock(&module_lock);
	if (!module->global)
		r = memory_take(&module->global, BLOCK_MODULE, GLOBAL_BYTES, NULL);
	if (r == CUDA_SUCCESS && ptr)
		*ptr = module->global;
	pthread_mutex_unlock(&module_lock);
	if (bytes)
		*bytes = GLOBAL_BYTES;
	return r;
}

CUresult library_load(CUlibrary *ret, const void *code)
{
	struct library *library;

	if (!ret || !code)
		return CUDA_ERROR_INVALID_VALUE;
	library = arena_take(&arena_libraries);
	if (!library)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = (CUlibrary)library;
	return CUDA_SUCCESS;
}

CUresult library_load_file(CUlibrary *ret, const char *path)
{
	if (!ret || !path)
		return CUDA_ERROR_INVALID_VALUE;
	if (access(path, R_OK) != 0)
		return CUDA_ERROR_FILE_NOT_FOUND;
	return library_load(ret, path);
}

CUresult library_unload(CUlibrary handle)
{
	struct library *library = arena_check(&arena_libraries, handle);

	if (!library)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&module_lock);
	function_free_list(library->kernels, &arena_kernels);
	pthread_mutex_unlock(&module_lock);
	arena_give(&arena_libraries, library);
	return CUDA_SUCCESS;
}

CUresult library_get_kernel(CUkernel *ret, CUlibrary handle, const char *name)
{
	struct library *library = arena_check(&arena_libraries, handle);
	struct function *f;
	CUresult r;

	if (!ret || !name)
		return CUDA_ERROR_INVALID_VALUE;
	if (!library)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!function_name_valid(name))
		return CUDA_ERROR_NOT_FOUND;
	pthread_mutex_lock(&module_lock);
	r = function_intern(&f, &library->kernels, &arena_kernels, name);
	if (r == CUDA_SUCCESS) {
		library->kernels_count += !f->library;
		f->library = library;
		*ret = (CUkernel)f;
	}
	pthread_mutex_unlock(&module_lock);
	return r;
}

CUresult library_get_count(unsigned int *count, CUlibrary handle)
{
	struct library *library = arena_check(&arena_libraries, handle);

	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	if (!library)
		return CUDA_ERROR_INVALID_HANDLE;
	*count = library->kernels_count;
	return CUDA_SUCCESS;
}

/* With module_lock not held: a library has one module in each context, made when asked for. */
static CUresult library_module(struct module **ret, struct library *library)
{
	struct context *context = context_current();
	struct module *module;
	CUresult r;

	pthread_mutex_lock(&context->lock);
	for (module = context->modules; module; module = module->next)
		if (module->library == library)
			break;
	pthread_mutex_unlock(&context->lock);
	if (!module) {
		r = module_new(&module, NULL);
		if (r != CUDA_SUCCESS)
			return r;
		module->library = library;
	}
	*ret = module;
	return CUDA_SUCCESS;
}

CUresult library_get_module(CUmodule *ret, CUlibrary handle)
{
	struct library *library = arena_check(&arena_libraries, handle);
	struct module *module;
	CUresult r;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!library)
		return CUDA_ERROR_INVALID_HANDLE;
	r = library_module(&module, library);
	if (r == CUDA_SUCCESS)
		*ret = (CUmodule)module;
	return r;
}

CUresult library_get_global(CUdeviceptr *ptr, size_t *bytes, CUlibrary handle, const char *name)
{
	CUmodule module;
	CUresult r = library_get_module(&module, handle);

	return r == CUDA_SUCCESS ? module_get_global(ptr, bytes, module, name) : r;
}

CUresult kernel_get_function(CUfunction *ret, CUkernel handle)
{
	struct function *kernel = arena_check(&arena_kernels, handle);
	struct module *module;
	CUresult r;

	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!kernel)
		return CUDA_ERROR_INVALID_HANDLE;
	r = library_module(&module, kernel->library);
	return r == CUDA_SUCCESS ? module_get_function(ret, (CUmodule)module, kernel->name) : r;
}
