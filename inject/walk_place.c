/* Walk, place: what our thread finds out of the process before the others walk: where stacks end,
 * and whether the main thread runs a Python. */
#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "inject/walk.h"

#define DESCRIPTOR_BYTES 0x900 /* of glibc's struct pthread, at least */
#define LINE_SIZE	 512
#define START_STACK	 28 /* field of /proc/self/stat */
#define TYPE_AT		 8  /* of an object of Python, and without the GIL */
#define TYPE_AT_FREE	 24

/* Both words stand side by side. Ours is known, and that of other threads is at the same place. */
static void find_block(struct walk_place *place)
{
	uint64_t base = walk_thread_pointer(), here = (uint64_t)&base, top, block, size;
	pthread_attr_t attr;
	void *low = NULL;
	size_t bytes = 0;
	int r;

	if (pthread_getattr_np(pthread_self(), &attr) != 0)
		return;
	r = pthread_attr_getstack(&attr, &low, &bytes);
	pthread_attr_destroy(&attr);
	if (r != 0)
		return;
	top = (uint64_t)low + bytes;
	for (uint32_t at = 0; at + 16 <= DESCRIPTOR_BYTES && base + at + 16 <= top; at += 8) {
		block = walk_load(base + at);
		size = walk_load(base + at + 8);
		if (block >= here || size > top || block + size != top || base - block > size)
			continue;
		place->block = at;
		place->size = at + 8;
		return;
	}
}

/* By the top, not by the kernel's name: a program may call another one its stack, and what it has
 * made a guard of below is another mapping. */
void walk_find_low(struct walk_place *place)
{
	char line[LINE_SIZE], access;
	uint64_t start, end;
	FILE *maps = fopen("/proc/self/maps", "re");

	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %c", &start, &end, &access) == 3 &&
		    access == 'r' && start < place->main_top && place->main_top <= end)
			__atomic_store_n(&place->main_low, start, __ATOMIC_RELEASE);
	if (maps)
		fclose(maps);
}

/* Where the kernel has put its own part. */
static uint64_t main_top(void)
{
	char text[1024], *at = NULL;
	uint64_t top = 0;
	FILE *stat = fopen("/proc/self/stat", "re");

	if (!stat)
		return 0;
	if (fgets(text, sizeof(text), stat))
		at = strrchr(text, ')');
	for (int field = 2; at && field < START_STACK; field++)
		at = strchr(at + 1, ' ');
	if (at)
		sscanf(at, " %" SCNu64, &top);
	fclose(stat);
	return top;
}

static bool has_address(const struct dl_phdr_info *info, uint64_t address)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_LOAD &&
		    address - info->dlpi_addr - header->p_vaddr < header->p_memsz)
			return true;
	}
	return false;
}

/* Where a tool has arranged the code anew (BOLT), the loop of the interpreter and the rest may lie
 * in several segments. */
static int on_object(struct dl_phdr_info *info, size_t size, void *data)
{
	struct walk_place *place = data;

	if (!has_address(info, (uint64_t)place->initialized))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + header->p_vaddr;
		uint64_t end = start + header->p_memsz;

		if (header->p_type != PT_LOAD || !(header->p_flags & PF_X))
			continue;
		if (!place->code_end || start < place->code_start)
			place->code_start = start;
		if (end > place->code_end)
			place->code_end = end;
	}
	return 1;
}

/* Its main thread ends the interpreter then, after the last frame. */
static bool program_is_python(void)
{
	char path[LINE_SIZE], *name;
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (length <= 0)
		return false;
	path[length] = '\0';
	name = strrchr(path, '/');
	return name && strncmp(name + 1, "python", 6) == 0;
}

static void find_python(struct walk_place *place)
{
	uint64_t type = (uint64_t)dlsym(RTLD_DEFAULT, "PyCode_Type");
	uint64_t type_of_types = (uint64_t)dlsym(RTLD_DEFAULT, "PyType_Type");

	*(void **)&place->initialized = dlsym(RTLD_DEFAULT, "Py_IsInitialized");
	if (!type || !type_of_types || !place->initialized)
		return;
	dl_iterate_phdr(on_object, place);
	place->code_type = type;
	if (walk_load(type + TYPE_AT) == type_of_types)
		place->type_at = TYPE_AT;
	else if (walk_load(type + TYPE_AT_FREE) == type_of_types)
		place->type_at = TYPE_AT_FREE;
	place->is_main = place->type_at && place->code_start && program_is_python();
}

void walk_find_place(struct walk_place *ret)
{
	*ret = (struct walk_place){ .main_tid = (uint32_t)getpid(), .main_top = main_top() };
	find_block(ret);
	walk_find_low(ret);
	find_python(ret);
}
