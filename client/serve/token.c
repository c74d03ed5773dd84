/* Token: read from a file that only its owner can read, or made of the kernel's random numbers. */
#include "client/serve/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/base/complain.h"
#include "core/base/cleanup.h"

#define TOKEN_CHARACTERS                                                                           \
	"abcdefghijklmnopqrstuvwxyz"                                                               \
	"ABCDEFGHIJKLMNOPQRSTUVWXYZ"                                                               \
	"0123456789-_.~"
#define RANDOM_BYTES 16

static int make(char token[TOKEN_MAX + 1])
{
	uint8_t random[RANDOM_BYTES];

	if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
		complain("Cannot get random numbers: %s", strerror(errno));
		return -EIO;
	}
	for (int i = 0; i < RANDOM_BYTES; i++)
		snprintf(token + 2 * i, 3, "%02x", random[i]);
	return 0;
}

static int make_file(const char *path, char token[TOKEN_MAX + 1])
{
	_cleanup_(closep) int fd = -1;
	int r = make(token);

	if (r < 0)
		return r;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || dprintf(fd, "%s\n", token) < 0) {
		complain("Cannot write %s: %s", path, strerror(errno));
		return -EIO;
	}
	return 0;
}

static int check(const char *path, int fd, const char *token)
{
	size_t size = strlen(token);
	struct stat st;

	if (fstat(fd, &st) < 0 || (st.st_mode & (S_IROTH | S_IWOTH))) {
		complain("Others can read the token in %s: chmod o= it", path);
		return -EPERM;
	}
	if (size < TOKEN_MIN || size > TOKEN_MAX || token[strspn(token, TOKEN_CHARACTERS)]) {
		complain("%s must have a token of %d to %d letters, digits or -_.~ in its first "
			 "line",
			 path, TOKEN_MIN, TOKEN_MAX);
		return -EINVAL;
	}
	return 0;
}

int token_get(const char *path, char token[TOKEN_MAX + 1])
{
	_cleanup_(closep) int fd = -1;
	char text[TOKEN_MAX + 3];
	ssize_t size;
	int r;

	if (!path)
		return make(token);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 && errno == ENOENT)
		return make_file(path, token);
	size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (size < 0) {
		complain("Cannot read %s: %s", path, strerror(errno));
		return -EIO;
	}
	text[size] = '\0';
	text[strcspn(text, "\r\n")] = '\0';
	r = check(path, fd, text);
	if (r == 0)
		memcpy(token, text, strlen(text) + 1);
	return r;
}

bool token_is(const char *token, const char *given)
{
	size_t size = strlen(token);
	uint8_t differs = 0;

	if (strlen(given) != size)
		return false;
	for (size_t i = 0; i < size; i++)
		differs |= (uint8_t)(token[i] ^ given[i]);
	return !differs;
}
