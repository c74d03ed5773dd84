/* Memfd: nothing but what each of them needs. */
#include "core/base/memfd.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/cleanup.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

int memfd_make(const char *name, size_t size)
{
	const unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	_cleanup_(closep) int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL) /* a kernel before 6.3 */
		fd = memfd_create(name, flags);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return -errno;
	return TAKE_FD(fd);
}
