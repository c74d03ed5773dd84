/* Debug_file: looked for where gdb does. The directories are others': what is opened there is never
 * outside of their root, and must have the same build id. */
#include "daemon/symbol/debug_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/elf/build_id.h"
#include "daemon/elf/elf.h"

#define DEBUG_DIRECTORY "/usr/lib/debug"
#define LINK_MAX	256

struct wanted {
	uint8_t id[ELF_BUILD_ID_MAX];
	size_t id_size;
	char link[LINK_MAX];	  /* "" without one */
	char directory[PATH_MAX]; /* of the file, as its process sees it */
};

/* The section's name is at most as long as this one, which nothing else has. */
static void read_link(const struct elf *elf, char link[LINK_MAX])
{
	static const char name[] = ".gnu_debuglink";
	const Elf64_Shdr *names;
	char text[sizeof(name)];

	link[0] = '\0';
	if (!elf->section || elf->header.e_shstrndx >= elf->header.e_shnum)
		return;
	names = &elf->section[elf->header.e_shstrndx];
	for (unsigned int i = 0; i < elf->header.e_shnum; i++) {
		const Elf64_Shdr *section = &elf->section[i];
		size_t size = section->sh_size < LINK_MAX ? section->sh_size : LINK_MAX - 1;

		if (section->sh_name >= names->sh_size ||
		    elf_read(elf, names->sh_offset + section->sh_name, text, sizeof(text)) < 0 ||
		    memcmp(text, name, sizeof(name)) != 0)
			continue;
		if (elf_read(elf, section->sh_offset, link, size) < 0)
			size = 0;
		link[size] = '\0';
		if (strchr(link, '/'))
			link[0] = '\0';
		return;
	}
}

static int want(int fd, const char *path, struct wanted *ret)
{
	_cleanup_(elf_close) struct elf elf = { .section = NULL };
	int r = elf_open(&elf, fd);
	char *slash;

	if (r < 0)
		return r;
	ret->id_size = elf_build_id(&elf, ret->id);
	read_link(&elf, ret->link);
	snprintf(ret->directory, sizeof(ret->directory), "%s", path);
	slash = strrchr(ret->directory, '/');
	if (slash)
		*slash = '\0';
	else
		ret->link[0] = '\0';
	return ret->id_size < 2 ? -ENOENT : 0;
}

static bool is_it(const struct wanted *wanted, int fd)
{
	_cleanup_(elf_close) struct elf elf = { .section = NULL };
	uint8_t id[ELF_BUILD_ID_MAX];
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && elf_open(&elf, fd) == 0 &&
	       elf_build_id(&elf, id) == wanted->id_size &&
	       memcmp(id, wanted->id, wanted->id_size) == 0;
}

static int open_in(int root, const struct wanted *wanted, const char *path)
{
	const struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
				      .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	_cleanup_(closep) int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));

	return fd >= 0 && is_it(wanted, fd) ? TAKE_FD(fd) : -ENOENT;
}

static int open_by_link(int root, const struct wanted *wanted)
{
	static const struct {
		const char *before, *after;
	} places[] = { { "", "" }, { "", "/.debug" }, { DEBUG_DIRECTORY, "" } };
	char path[PATH_MAX + 2 * LINK_MAX];
	int fd = -ENOENT;

	for (size_t i = 0; wanted->link[0] && fd < 0 && i < ARRAY_SIZE(places); i++) {
		snprintf(path, sizeof(path), "%s%s%s/%s", places[i].before, wanted->directory,
			 places[i].after, wanted->link);
		fd = open_in(root, wanted, path);
	}
	return fd;
}

static int open_by_id(int root, const struct wanted *wanted)
{
	char path[PATH_MAX], hex[2 * ELF_BUILD_ID_MAX + 1] = "";

	for (size_t i = 0; i < wanted->id_size; i++)
		snprintf(hex + 2 * i, 3, "%02x", wanted->id[i]);
	snprintf(path, sizeof(path), DEBUG_DIRECTORY "/.build-id/%.2s/%s.debug", hex, hex + 2);
	return open_in(root, wanted, path);
}

int debug_file_open(int fd, uint32_t pid, const char *path)
{
	struct wanted wanted;
	char root_path[32];
	int r = want(fd, path, &wanted), found = -ENOENT;

	snprintf(root_path, sizeof(root_path), "/proc/%u/root", pid);
	for (int ours = 0; r == 0 && found < 0 && ours < 2; ours++) {
		_cleanup_(closep) int root =
			open(ours ? "/" : root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (root < 0)
			continue;
		found = open_by_id(root, &wanted);
		if (found < 0)
			found = open_by_link(root, &wanted);
	}
	return r < 0 ? r : found;
}
