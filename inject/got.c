/* Got: walks the relocations of each module for slots that hold the address of a hooked symbol.
 *
 * All work is done inside dl_iterate_phdr(), which keeps modules from disappearing. A slot is
 * restored only while its module is still there and the slot still holds what we wrote. Memory that
 * the loader made read-only is writable only during the write.
 */
#include "inject/got.h"

#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS_MAX 1024

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
static unsigned long long seen_adds;

struct turn {
	const struct got_hook *hook;
	size_t count;
	const void *except;
	size_t turned;
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

static void slot_turn(const struct dl_phdr_info *info, const struct dynamic *dynamic,
		      const ElfW(Rela) * rela, struct turn *turn)
{
	unsigned type = (unsigned)ELF64_R_TYPE(rela->r_info);
	void **at = (void **)(info->dlpi_addr + rela->r_offset);
	void *ours, *was;

	if (type != RELOCATION_SLOT && type != RELOCATION_GLOBAL &&
	    (type != RELOCATION_PLAIN || rela->r_addend))
		return;
	ours = hook_of(turn, dynamic->text + dynamic->symbol[ELF64_R_SYM(rela->r_info)].st_name);
	if (!ours || slots == SLOTS_MAX)
		return;
	was = __atomic_load_n(at, __ATOMIC_ACQUIRE);
	if (!was || was == ours || !slot_write(info, at, ours))
		return;
	slot[slots].at = at;
	slot[slots].was = was;
	slot[slots].ours = ours;
	slots++;
	turn->turned++;
}

static int module_turn(struct dl_phdr_info *info, size_t size, void *data)
{
	struct turn *turn = data;
	struct dynamic dynamic;

	if (module_holds(info, (const void *)got_turn) || module_holds(info, turn->except) ||
	    !dynamic_read(info, &dynamic))
		return 0;
	for (unsigned which = 0; which < 2; which++)
		for (size_t i = 0;
		     dynamic.rela[which] && i < dynamic.bytes[which] / sizeof(ElfW(Rela)); i++)
			slot_turn(info, &dynamic, &dynamic.rela[which][i], turn);
	return 0;
}

static int adds_of(struct dl_phdr_info *info, size_t size, void *data)
{
	*(unsigned long long *)data = info->dlpi_adds;
	return 1;
}

size_t got_turn(const struct got_hook *hook, size_t count, const void *except)
{
	struct turn turn = { .hook = hook, .count = count, .except = except };
	unsigned long long adds = 0;

	dl_iterate_phdr(adds_of, &adds);
	if (adds == seen_adds)
		return 0;
	seen_adds = adds;
	dl_iterate_phdr(module_turn, &turn);
	return turn.turned;
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
	seen_adds = 0;
}
