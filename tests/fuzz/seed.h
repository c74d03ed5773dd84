/* seed.h: inputs that a fuzzer starts with. */
#ifndef TS_TESTS_FUZZ_SEED_H
#define TS_TESTS_FUZZ_SEED_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* An input is the number of what is to be done with the rest, and the rest. */
static inline void write_seed(const char *directory, unsigned int number, uint8_t action,
			      const void *data, size_t size)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/seed-%u", directory, number);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (fd < 0)
		return;
	if (write(fd, &action, 1) == 1 && write(fd, data, size) == (ssize_t)size)
		fsync(fd);
	close(fd);
}

#endif
