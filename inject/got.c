/* Got: walks the relocations of each module for slots that hold the address of a hooked symbol.
 *
 * All work is done inside dl_iterate_phdr(), which keeps modules from disappearing. A module is in
 * its list before the loader has filled in its slots, and would add an address to what is written
 * there then: so slots are redirected when a call of the loader that was under way before has
 * ended. A slot is restored only while its module is still there and the slot still holds what we
 * wrote. Memory that the loader made read-only is writable only during the write.
 */
#include "inject/got.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS_MAX 1024
#define FOUND_MAX 64

#if defined(__x86_64__)
#define RELOCATION_SLOT	  R_X86_64_JUMP_SLOT
#define RELOCATION_GLOBAL R_X86_64_GLOB_DAT
#define RELOCATION_PLAIN  R_X86_64_64
#elif defined(__aarch64__)
#define RELOCATION_SLOT	  R_AARCH64_JUMP_SLOT
#define RELOCATION_GLOBAL R_AARCH64_GLOB_DAT
#define RELOCATION_PLAIN  R_AARCH64_ABS64
#endif

static struct {
	void **at;
	void *was, *ours;
} slot[SLOTS_MAX];
static size_t slots;
static unsigned long long seen_adds, looked_adds;
static uintptr_t found[FOUND_MAX]; /* modules that were reported; places are used in turn */
static size_t founds;

struct turn {
	const struct got_hook *hook;
	size_t count;
	const void *except;
	unsigned long long adds; /* modules loaded so far, when the loader was last known idle */
	bool late;		 /* another one came since */
	size_t turned;
};

struct find {
	const struct turn *turn;
	bool again; /* also those that were reported before */
	char *name;
	size_t size;
};

static bool module_holds(const struct dl_phdr_info *info, const void *address)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

		if (info->dlpi_phdr[i].p_type == PT_LOAD && (uintptr_t)address >= start &&
		    (uintptr_t)address < start + info->dlpi_phdr[i].p_memsz)
			return true;
	}
	return false;
}

/* Whether the loader made the address read-only after writing to it. */
static bool is_relro(const struct dl_phdr_info *info, const void *address)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	for (int i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		uintptr_t end = start + info->dlpi_phdr[i].p_memsz;

		if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO &&
		    (uintptr_t)address >= (start & -page) && (uintptr_t)address < (end & -page))
			return true;
	}
	return false;
}

static bool slot_write(const struct dl_phdr_info *info, void **at, void *value)
{
	uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *page = (void *)((uintptr_t)at & -size);
	bool relro = is_relro(info, at);

	if (relro && mprotect(page, size, PROT_READ | PROT_WRITE))
		return false;
	__atomic_store_n(at, value, __ATOMIC_RELEASE);
	if (relro)
		mprotect(page, size, PROT_READ);
	return true;
}

static void *hook_of(const struct turn *turn, const char *symbol)
{
	/* Most symbols are not hooked. */
	if (symbol[0] != turn->hook[0].symbol[0])
		return NULL;
	for (size_t i = 0; i < turn->count; i++)
		if (!strcmp(symbol, turn->hook[i].symbol))
			return turn->hook[i].ours;
	return NULL;
}

/* What the loader knows about a module. */
struct dynamic {
	const ElfW(Sym) * symbol;
	const char *text;
	const ElfW(Rela) * rela[2];
	size_t bytes[2];
};

static bool dynamic_read(const struct dl_phdr_info *info, struct dynamic *ret)
{
	const ElfW(Dyn) *entry = NULL;

	*ret = (struct dynamic){ 0 };
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			entry = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	for (; entry && entry->d_tag != DT_NULL; entry++) {
		/* glibc has already added the module's address, except for the kernel's module. */
		uintptr_t at = entry->d_un.d_ptr;

		at += at < info->dlpi_addr ? info->dlpi_addr : 0;
		switch (entry->d_tag) {
		case DT_SYMTAB:
			ret->symbol = (const void *)at;
			break;
		case DT_STRTAB:
			ret->text = (const void *)at;
			break;
		case DT_RELA:
			ret->rela[0] = (const void *)at;
			break;
		case DT_RELASZ:
			ret->bytes[0] = entry->d_un.d_val;
			break;
		case DT_JMPREL:
			ret->rela[1] = (const void *)at;
			break;
		case DT_PLTRELSZ:
			ret->bytes[1] = entry->d_un.d_val;
			break;
		default:
			break;
		}
	}
	return ret->symbol && ret->text;
}

/* The hook for what the slot of a relocation leads to; NULL: none, or it leads there already. */
static void *slot_hook(const struct dl_phdr_info *info, const struct dynamic *dynamic,
		       const ElfW(Rela) * rela, const struct turn *turn)
{
	unsigned type = (unsigned)ELF64_R_TYPE(rela->r_info);
	void **at = (void **)(info->dlpi_addr + rela->r_offset);
	void *ours;

	if (type != RELOCATION_SLOT && type != RELOCATION_GLOBAL &&
	    (type != RELOCATION_PLAIN || rela->r_addend))
		return NULL;
	ours = hook_of(turn, dynamic->text + dynamic->symbol[ELF64_R_SYM(rela->r_info)].st_name);
	return ours && __atomic_load_n(at, __ATOMIC_ACQUIRE) != ours ? ours : NULL;
}

/* The next relocation of a slot to be redirected, and where to; NULL: none is left. */
static const ElfW(Rela) * slot_next(const struct dl_phdr_info *info, const struct dynamic *dynamic,
				    const struct turn *turn, size_t *at, void **ret_ours)
{
	size_t first = dynamic->rela[0] ? dynamic->bytes[0] / sizeof(ElfW(Rela)) : 0;
	size_t all = first + (dynamic->rela[1] ? dynamic->bytes[1] / sizeof(ElfW(Rela)) : 0);

	while (*at < all) {
		size_t i = (*at)++;
		const ElfW(Rela) *rela =
			i < first ? &dynamic->rela[0][i] : &dynamic->rela[1][i - first];

		*ret_ours = slot_hook(info, dynamic, rela, turn);
		if (*ret_ours)
			return rela;
	}
	return NULL;
}

static void slot_turn(const struct dl_phdr_info *info, const ElfW(Rela) * rela, void *ours,
		      struct turn *turn)
{
	void **at = (void **)(info->dlpi_addr + rela->r_offset);
	void *was = __atomic_load_n(at, __ATOMIC_ACQUIRE);

	if (slots == SLOTS_MAX || !was || !slot_write(info, at, ours))
		return;
	slot[slots].at = at;
	slot[slots].was = was;
	slot[slots].ours = ours;
	slots++;
	turn->turned++;
}

/* Another module than ours and that of the hooked functions. */
static bool module_is_other(const struct dl_phdr_info *info, const struct turn *turn,
			    struct dynamic *ret)
{
	return !module_holds(info, (const void *)got_turn) && !module_holds(info, turn->except) &&
	       dynamic_read(info, ret);
}

static int module_turn(struct dl_phdr_info *info, size_t size, void *data)
{
	struct turn *turn = data;
	const ElfW(Rela) * rela;
	struct dynamic dynamic;
	size_t at = 0;
	void *ours;

	turn->late = info->dlpi_adds != turn->adds;
	if (turn->late || !module_is_other(info, turn, &dynamic))
		return turn->late;
	while ((rela = slot_next(info, &dynamic, turn, &at, &ours)))
		slot_turn(info, rela, ours, turn);
	return 0;
}

static bool found_before(uintptr_t address)
{
	for (size_t i = 0; i < FOUND_MAX; i++)
		if (found[i] == address)
			return true;
	found[founds++ % FOUND_MAX] = address;
	return false;
}

/* Only reads, so it does not matter whether its slots are filled in. */
static int module_find(struct dl_phdr_info *info, size_t size, void *data)
{
	const struct find *find = data;
	const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
	struct dynamic dynamic;
	size_t at = 0;
	void *ours;

	if (!module_is_other(info, find->turn, &dynamic) ||
	    !slot_next(info, &dynamic, find->turn, &at, &ours) ||
	    (!find->again && found_before(info->dlpi_addr)))
		return 0;
	if (find->size)
		snprintf(find->name, find->size, "%s", name ? name + 1 : "the program");
	return 1;
}

static int adds_of(struct dl_phdr_info *info, size_t size, void *data)
{
	*(unsigned long long *)data = info->dlpi_adds;
	return 1;
}

/* Waits until another thread's call of the loader has ended. */
static void loader_pass(void)
{
	void *program = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);

	if (program)
		dlclose(program);
}

size_t got_turn(const struct got_hook *hook, size_t count, const void *except)
{
	struct turn turn = { .hook = hook, .count = count, .except = except };
	struct find find = { .turn = &turn, .again = true };

	dl_iterate_phdr(adds_of, &turn.adds);
	if (turn.adds == seen_adds)
		return 0;
	if (dl_iterate_phdr(module_find, &find)) {
		loader_pass();
		dl_iterate_phdr(module_turn, &turn);
	}
	if (!turn.late)
		seen_adds = turn.adds;
	return turn.turned;
}

bool got_finds(const struct got_hook *hook, size_t count, const void *except, char *name,
	       size_t size)
{
	const struct turn turn = { .hook = hook, .count = count, .except = except };
	struct find find = { .turn = &turn, .name = name, .size = size };
	unsigned long long adds = 0;

	dl_iterate_phdr(adds_of, &adds);
	if (adds == looked_adds)
		return false;
	if (dl_iterate_phdr(module_find, &find))
		return true;
	looked_adds = adds;
	return false;
}

static int module_is(struct dl_phdr_info *info, size_t size, void *data)
{
	const char *prefix = data, *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;

	if (!name || strncmp(name + 1, prefix, strlen(prefix)))
		return 0;
	for (size_t i = 0; i < slots; i++)
		if (slot[i].at && module_holds(info, slot[i].at))
			return 1;
	return 0;
}

bool got_is_in(const char *prefix)
{
	return dl_iterate_phdr(module_is, (void *)prefix);
}

static int module_restore(struct dl_phdr_info *info, size_t size, void *data)
{
	for (size_t i = 0; i < slots; i++)
		if (slot[i].at && module_holds(info, slot[i].at) &&
		    __atomic_load_n(slot[i].at, __ATOMIC_ACQUIRE) == slot[i].ours &&
		    slot_write(info, slot[i].at, slot[i].was))
			slot[i].at = NULL;
	return 0;
}

void got_restore(void)
{
	dl_iterate_phdr(module_restore, NULL);
	slots = 0;
	seen_adds = looked_adds = 0;
	founds = 0;
	memset(found, 0, sizeof(found));
}
