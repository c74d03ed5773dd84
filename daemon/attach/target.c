/* attach_target: the layout of the process: its loader's list of libraries, functions of its own
 * libc, code in which it must not be disturbed. Everything is read from its memory (not with
 * daemon/elf, which reads files), so it is what is loaded, whatever its files are now. The process
 * may write anything there: reads are bounded, and the results are only ever used to make the
 * process call its own code. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include <dlfcn.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "daemon/attach/internal.h"

#define DYNAMIC_MAX	 128
#define LINK_MAPS_MAX	 8192
#define CHAIN_MAX	 4096
#define ENTRIES_MAX	 8
#define NAME_SIZE	 512
#define TEXT_CHUNK	 (64 << 10)
#define TEXT_MAX	 (16 << 20)
#define INTERNAL_OPEN	 0x80000000u /* of glibc: __libc_dlopen_mode insists on it */
#define MUTEX_WORDS	 5
#define MUTEX_COUNT_MAX	 1000
#define STARTING_MS	 500 /* a loader takes this long at most, on a busy machine */
#define STARTING_STEP_MS 5

/* Start of what the loader keeps for a library, as in <link.h> and r_debug. */
struct link_map_head {
	uint64_t base, name, dynamic, next, previous;
};

struct object {
	uint64_t base;
	uint64_t symbols, strings, hash;
};

struct symbol {
	uint64_t address, size;
};

int attach_target_read(const struct attach_target *target, uint64_t address, void *data,
		       size_t size)
{
	return pread(target->mem, data, size, (off_t)address) == (ssize_t)size ? 0 : -EIO;
}

int attach_target_write(const struct attach_target *target, uint64_t address, const void *data,
			size_t size)
{
	/* Not through /proc: opening that file for writing needs a permission that we can do
	 * without. */
	struct iovec from = { .iov_base = (void *)data, .iov_len = size };
	struct iovec to = { .iov_base = (void *)address, .iov_len = size };

	ssize_t n = process_vm_writev(target->pid, &from, 1, &to, 1, 0);

	if (n < 0)
		return -errno;
	return n == (ssize_t)size ? 0 : -EIO;
}

static void target_read_text(const struct attach_target *target, uint64_t address, char *ret,
			     size_t size)
{
	ssize_t n = pread(target->mem, ret, size - 1, (off_t)address);

	ret[n > 0 ? n : 0] = '\0';
}

/* The loader has added the base to the addresses in it, unless it is read-only. */
static int object_open(const struct attach_target *target, uint64_t base, uint64_t dynamic,
		       struct object *ret)
{
	struct object object = { .base = base };
	Elf64_Dyn entry;

	for (int i = 0; i < DYNAMIC_MAX; i++) {
		uint64_t value;

		if (attach_target_read(target, dynamic + i * sizeof(entry), &entry, sizeof(entry)))
			return -EIO;
		value = entry.d_un.d_ptr < base ? entry.d_un.d_ptr + base : entry.d_un.d_ptr;
		if (entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_SYMTAB)
			object.symbols = value;
		else if (entry.d_tag == DT_STRTAB)
			object.strings = value;
		else if (entry.d_tag == DT_GNU_HASH)
			object.hash = value;
	}
	if (!object.symbols || !object.strings || !object.hash)
		return -ENOENT;
	*ret = object;
	return 0;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

/* Any version of the symbol: the functions looked for here are the same in all. */
static int object_find(const struct attach_target *target, const struct object *object,
		       const char *name, struct symbol *ret)
{
	uint32_t header[4], index, chain, hash = gnu_hash(name);
	uint64_t buckets, chains;
	char text[NAME_SIZE];
	Elf64_Sym symbol;

	if (attach_target_read(target, object->hash, header, sizeof(header)) || !header[0])
		return -ENOENT;
	buckets = object->hash + sizeof(header) + 8ull * header[2];
	chains = buckets + 4ull * header[0];
	if (attach_target_read(target, buckets + 4ull * (hash % header[0]), &index, sizeof(index)))
		return -ENOENT;
	for (int i = 0; index >= header[1] && i < CHAIN_MAX; i++, index++) {
		if (attach_target_read(target, chains + 4ull * (index - header[1]), &chain, 4) ||
		    attach_target_read(target, object->symbols + index * sizeof(symbol), &symbol,
				       sizeof(symbol)))
			return -ENOENT;
		target_read_text(target, object->strings + symbol.st_name, text, sizeof(text));
		if ((chain | 1) == (hash | 1) && symbol.st_shndx && !strcmp(text, name)) {
			ret->address = object->base + symbol.st_value;
			ret->size = symbol.st_size;
			return 0;
		}
		if (chain & 1)
			break;
	}
	return -ENOENT;
}

/* Calls `call` for each library of the loader until it returns nonzero, which is returned. */
static int target_libraries(const struct attach_target *target,
			    int (*call)(const struct attach_target *target, void *data,
					uint64_t handle, const struct link_map_head *map),
			    void *data)
{
	struct link_map_head map;
	uint64_t at;
	int r;

	if (attach_target_read(target, target->link_maps, &at, sizeof(at)))
		return -EIO;
	for (int i = 0; at && i < LINK_MAPS_MAX; i++, at = map.next) {
		if (attach_target_read(target, at, &map, sizeof(map)))
			return -EIO;
		r = call(target, data, at, &map);
		if (r != 0)
			return r;
	}
	return 0;
}

struct find_object {
	const char *prefix;
	struct object object;
	int r;
};

static int find_object(const struct attach_target *target, void *data, uint64_t handle,
		       const struct link_map_head *map)
{
	struct find_object *find = data;
	char name[NAME_SIZE], *slash;

	target_read_text(target, map->name, name, sizeof(name));
	slash = strrchr(name, '/');
	if (strncmp(slash ? slash + 1 : name, find->prefix, strlen(find->prefix)))
		return 0;
	find->r = object_open(target, map->base, map->dynamic, &find->object);
	return 1;
}

static int target_object(const struct attach_target *target, const char *prefix, struct object *ret)
{
	struct find_object find = { .prefix = prefix, .r = -ENOENT };

	if (target_libraries(target, find_object, &find) != 1 || find.r < 0)
		return -ENOENT;
	*ret = find.object;
	return 0;
}

/* The loader itself is found by what the kernel passed to the program. */
static int target_loader(struct attach_target *target)
{
	uint64_t base = attach_auxiliary(target->pid, AT_BASE);
	struct object object;
	struct symbol symbol;
	Elf64_Ehdr header;
	Elf64_Phdr segment = { 0 };

	if (attach_target_read(target, base, &header, sizeof(header)) ||
	    memcmp(header.e_ident, ELFMAG, SELFMAG))
		return -ENOENT;
	for (int i = 0; i < header.e_phnum && i < DYNAMIC_MAX; i++) {
		if (attach_target_read(target, base + header.e_phoff + i * sizeof(segment),
				       &segment, sizeof(segment)))
			return -ENOENT;
		if (segment.p_type == PT_DYNAMIC)
			break;
	}
	if (segment.p_type != PT_DYNAMIC ||
	    object_open(target, base, base + segment.p_vaddr, &object) < 0 ||
	    object_find(target, &object, "_r_debug", &symbol) < 0)
		return -ENOENT;
	target->link_maps = symbol.address + 8;
	if (object_find(target, &object, "_rtld_global", &symbol) == 0) {
		target->loader_state = symbol.address;
		target->loader_state_size = symbol.size;
	}
	return 0;
}

static uint64_t object_address(const struct attach_target *target, const struct object *object,
			       const char *name)
{
	struct symbol symbol;

	return object_find(target, object, name, &symbol) < 0 ? 0 : symbol.address;
}

/* From 2.34 on everything is in libc; before, dlopen is in libdl, which a program need not have. */
static int target_functions(struct attach_target *target, const struct object *libc)
{
	struct object dl = *libc;

	target->errno_location = object_address(target, libc, "__errno_location");
	if (!object_address(target, libc, "dlopen") && target_object(target, "libdl.so", &dl) < 0)
		dl = *libc;
	target->dlopen_flags = RTLD_NOW;
	target->dlopen = object_address(target, &dl, "dlopen");
	target->dlclose = object_address(target, &dl, "dlclose");
	target->dlerror = object_address(target, &dl, "dlerror");
	if (!target->dlopen) {
		target->dlopen_flags |= INTERNAL_OPEN;
		target->dlopen = object_address(target, libc, "__libc_dlopen_mode");
		target->dlclose = object_address(target, libc, "__libc_dlclose");
		target->dlerror = 0;
	}
	return target->dlopen && target->dlclose && target->errno_location ? 0 : -ENOENT;
}

static void target_avoid(struct attach_target *target, uint64_t start, uint64_t end)
{
	if (target->unsafe_count < ATTACH_RANGES_MAX && start < end)
		target->unsafe[target->unsafe_count++] = (struct attach_range){ start, end };
}

/* Functions that hold locks which loading a library and starting a thread take too, and their
 * neighbours in their object files: static functions come before the exported ones. */
static void target_avoid_functions(struct attach_target *target, const struct object *libc)
{
	static const struct {
		const char *first, *last;
		uint32_t before, after;
	} rows[] = {
		{ "malloc", "reallocarray", 0x6000, 0 },
		{ "malloc", "malloc", 0x6000, 0x1000 },
		{ "pthread_create", "pthread_create", 0x2000, 0x400 },
		{ "fork", "fork", 0, 0 },
		{ "_Fork", "_Fork", 0, 0 },
		{ "dl_iterate_phdr", "dl_iterate_phdr", 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct symbol first, last;

		if (object_find(target, libc, rows[i].first, &first) == 0 &&
		    object_find(target, libc, rows[i].last, &last) == 0 &&
		    last.address >= first.address && last.address - first.address < 0x10000)
			target_avoid(target, first.address - rows[i].before,
				     last.address + last.size + rows[i].after);
	}
}

static void target_avoid_libraries(struct attach_target *target, const struct attach_maps *maps)
{
	static const char *const names[] = {
		"ld-linux",    "ld-2.",	   "libcuda.so",  "libjemalloc",  "libtcmalloc",
		"libmimalloc", "libhoard", "libsnmalloc", "libtbbmalloc",
	};

	for (size_t i = 0; i < maps->count; i++)
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			if (!strncmp(attach_map_name(&maps->map[i]), names[k], strlen(names[k])))
				target_avoid(target, maps->map[i].start, maps->map[i].end);
}

static bool search(const uint8_t *text, size_t size, const void *bytes, size_t length,
		   uint64_t address, uint64_t *ret)
{
	const uint8_t *found = memmem(text, size, bytes, length);

	if (found)
		*ret = address + (uint64_t)(found - text);
	return found;
}

/* An instruction is found by its bytes: read, never written. */
static int target_instructions(struct attach_target *target)
{
	static const uint8_t call[] = { 0x0f, 0x05 }, call_return[] = { 0x0f, 0x05, 0xc3 };
	/* mov $15, %rax; syscall: gdb knows a signal frame by it, so glibc never changes it */
	static const uint8_t restorer[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	_cleanup_(freep) uint8_t *text = malloc(TEXT_CHUNK);
	const struct attach_range *libc = &target->libc;

	if (!text)
		return -ENOMEM;
	for (uint64_t at = libc->start; at < libc->end && at - libc->start < TEXT_MAX;
	     at += TEXT_CHUNK - sizeof(restorer)) {
		size_t size = libc->end - at < TEXT_CHUNK ? libc->end - at : TEXT_CHUNK;

		if (attach_target_read(target, at, text, size))
			return -EIO;
		if (!target->returns)
			target->returns = search(text, size, call_return, sizeof(call_return), at,
						 &target->syscall);
		if (!target->syscall)
			search(text, size, call, sizeof(call), at, &target->syscall);
		if (!target->restorer)
			search(text, size, restorer, sizeof(restorer), at, &target->restorer);
		if (target->returns && target->restorer)
			break;
	}
	return target->syscall ? 0 : -ENOENT;
}

static int target_find(struct attach_target *target, const struct attach_maps *maps)
{
	const struct attach_map *text;
	struct object libc;
	int r;

	r = target_loader(target);
	if (r < 0)
		return r;
	if (target_object(target, "libc.so.6", &libc) < 0 &&
	    target_object(target, "libc-2.", &libc) < 0)
		return -ENOENT;
	r = target_functions(target, &libc);
	if (r < 0)
		return r;
	text = attach_maps_find(maps, target->errno_location);
	if (!text)
		return -ENOENT;
	target->libc = (struct attach_range){ text->start, text->end };
	target_avoid_functions(target, &libc);
	target_avoid_libraries(target, maps);
	return target_instructions(target);
}

/* The loader maps libcuda, by which a process is known, before the C library, and relocates both
 * later: a process that has just started gets a moment. */
static int target_find_started(struct attach_target *target)
{
	const struct timespec step = { .tv_nsec = STARTING_STEP_MS * NS_PER_MS };
	struct attach_maps maps;
	int r = -ENOENT;

	for (int ms = 0; r < 0 && ms <= STARTING_MS; ms += STARTING_STEP_MS) {
		if (ms > 0)
			nanosleep(&step, NULL);
		if (attach_maps_read(target->pid, &maps) < 0)
			return -ESRCH;
		*target = (struct attach_target){ .pid = target->pid, .mem = target->mem };
		r = target_find(target, &maps);
		attach_maps_free(&maps);
	}
	return r;
}

int attach_target_open(pid_t pid, struct attach_target *ret, struct remarks *why)
{
	struct attach_target target = { .pid = pid, .mem = -1 };
	char path[32];
	int r = -ESRCH;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	target.mem = open(path, O_RDONLY | O_CLOEXEC);
	if (target.mem >= 0)
		r = target_find_started(&target);
	if (r == -ESRCH) {
		attach_target_close(&target);
		return ATTACH_WHY(why, -ESRCH, PROCESS_ENDED, REMARK_NUMBER(pid));
	}
	if (r < 0) {
		attach_target_close(&target);
		return ATTACH_UNSUPPORTED(
			why,
			"No glibc with dlopen() was found in process %d, or the process "
			"is still starting",
			pid);
	}
	*ret = target;
	return 0;
}

void attach_target_close(struct attach_target *target)
{
	closep(&target->mem);
	target->mem = -1;
}

bool attach_target_unsafe(const struct attach_target *target, uint64_t pc)
{
	for (size_t i = 0; i < target->unsafe_count; i++)
		if (pc >= target->unsafe[i].start && pc < target->unsafe[i].end)
			return true;
	return false;
}

/* Its locks are recursive mutexes: lock, count, owner, users, kind. Their place in the loader's
 * state depends on its version, so they are recognised by how a held one looks. */
static bool lock_is_held(const uint32_t *word)
{
	return (word[0] == 1 || word[0] == 2) && word[1] && word[1] < MUTEX_COUNT_MAX && word[2] &&
	       word[2] <= ATTACH_OWNER_NONE && word[3] <= 1 && word[4] == 1;
}

/* The loader's state, the caller frees *ret; *ret_count words of it, 0: it cannot be read. */
static uint32_t *loader_words(const struct attach_target *target, size_t *ret_count)
{
	size_t count = target->loader_state_size / sizeof(uint32_t);
	uint32_t *word = NULL;

	if (count >= MUTEX_WORDS && target->loader_state_size <= TEXT_CHUNK)
		word = malloc(target->loader_state_size);
	if (!word || attach_target_read(target, target->loader_state, word, count * sizeof(*word)))
		count = 0;
	*ret_count = count;
	return word;
}

size_t attach_target_held(const struct attach_target *target, uint32_t owner,
			  uint64_t ret[ATTACH_LOCKS_MAX])
{
	size_t count, found = 0;
	_cleanup_(freep) uint32_t *word = loader_words(target, &count);

	for (size_t i = 0; i + MUTEX_WORDS <= count; i += 2) {
		if (!lock_is_held(&word[i]) || word[i + 2] != owner)
			continue;
		if (found < ATTACH_LOCKS_MAX)
			ret[found] = target->loader_state + i * sizeof(*word);
		found++;
	}
	return found;
}

enum attach_loader attach_target_loader(const struct attach_target *target, pid_t tid)
{
	enum attach_loader loader = LOADER_FREE;
	struct attach_status status;
	size_t count;
	_cleanup_(freep) uint32_t *word = loader_words(target, &count);

	if (!count || attach_status_read(target->pid, tid, &status) < 0)
		return LOADER_FREE;
	for (size_t i = 0; i + MUTEX_WORDS <= count; i += 2) {
		if (!lock_is_held(&word[i]))
			continue;
		if (word[i + 2] == (uint32_t)status.ns_tid)
			return LOADER_LOADS;
		loader = LOADER_BUSY;
	}
	return loader;
}

struct find_entry {
	uint64_t handle, entry;
	bool ours;
	int looked_at; /* objects with our name: each costs milliseconds to inspect */
};

static int find_entry(const struct attach_target *target, void *data, uint64_t handle,
		      const struct link_map_head *map)
{
	struct find_entry *find = data;
	struct object object;
	struct symbol symbol;
	char name[NAME_SIZE], *slash;

	target_read_text(target, map->name, name, sizeof(name));
	slash = strrchr(name, '/');
	find->ours = !strncmp(name, "/proc/self/", strlen("/proc/self/"));
	if (!find->ours &&
	    strncmp(slash ? slash + 1 : name, "libtracesmith.so", strlen("libtracesmith.so")))
		return 0;
	if (++find->looked_at > ENTRIES_MAX)
		return -ELOOP;
	if (object_open(target, map->base, map->dynamic, &object) < 0 ||
	    object_find(target, &object, TS_INJECT_ATTACH_ENTRY, &symbol) < 0)
		return 0;
	find->handle = handle;
	find->entry = symbol.address;
	return 1;
}

int attach_target_entry(const struct attach_target *target, uint64_t handle, uint64_t *ret)
{
	struct find_entry find = { 0 };
	struct link_map_head map;

	/* Not through the list of all: other threads may be changing it. */
	if (attach_target_read(target, handle, &map, sizeof(map)) < 0 ||
	    find_entry(target, &find, handle, &map) != 1)
		return -ENOENT;
	*ret = find.entry;
	return 0;
}

int attach_target_loaded(const struct attach_target *target, uint64_t *ret_handle,
			 uint64_t *ret_entry, bool *ret_ours)
{
	struct find_entry find = { 0 };

	if (target_libraries(target, find_entry, &find) != 1)
		return -ENOENT;
	*ret_handle = find.handle;
	*ret_entry = find.entry;
	*ret_ours = find.ours;
	return 0;
}
