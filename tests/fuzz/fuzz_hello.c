/* fuzz_hello: whatever a library says over its connection, in whatever order, and puts into its
 * ring. The first byte of a step is the size of a message, or says that the ring is written to. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "core/base/cleanup.h"
#include "core/base/utf8.h"
#include "daemon/inject/internal.h"
#include "daemon/intake/turn.h"
#include "tests/fuzz/seed.h"

#define SLOTS	   1024
#define STEPS	   32
#define RING_STEP  255
#define HELLO_STEP 254 /* a right one */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uv_loop_t loop;
static struct turn turn;
static struct inject *inject;

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void check_text(const char *text, size_t size)
{
	must(memchr(text, '\0', size) && utf8_valid(text, strlen(text)));
	for (; *text; text++)
		must((unsigned char)*text >= ' ' && *text != 0x7f);
}

static int on_hello(void *data, uint32_t pid, uint32_t uid, const struct ts_hello *hello,
		    struct ts_settings *ret_settings, char *why)
{
	check_text(hello->version, sizeof(hello->version));
	must(pid == (uint32_t)getpid());
	*ret_settings = hello->wanted;
	return 0;
}

static void on_record(void *data, uint32_t pid, const void *record, size_t size)
{
	const struct ts_event *event = record;

	must(size % TS_EVENT_SIZE == 0 && size <= TS_RING_COPY_MAX && event->tgid == pid);
}

static void on_state(void *data, uint32_t pid, const struct ts_state *state)
{
	check_text(state->text, sizeof(state->text));
}

static void on_light(void *data, uint32_t pid, const struct ts_light *light)
{
	check_text(light->text, sizeof(light->text));
}

static void on_pid(void *data, uint32_t pid)
{
}

static void on_lost(void *data, uint32_t pid, uint64_t no_room, uint64_t stuck)
{
}

static void on_stacks(void *data, uint32_t pid, uint32_t stacks)
{
}

static void on_walks(void *data, uint32_t pid, const struct ts_light_walks *walks)
{
}

static const struct inject_callbacks callbacks = {
	on_hello, on_record, on_state, on_pid, on_pid, on_lost, on_light, on_stacks, on_walks,
};

/* The ring that came with the welcome, if one did. */
static uint8_t *map_ring(int fd, size_t *ret_size)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
	struct ts_welcome welcome;
	struct iovec part = { &welcome, sizeof(welcome) };
	struct msghdr header = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(fd, &header, MSG_DONTWAIT);
	struct cmsghdr *rights = n > 0 ? CMSG_FIRSTHDR(&header) : NULL;
	int ring[2];
	void *memory;

	if (!rights)
		return NULL;
	memcpy(ring, CMSG_DATA(rights), sizeof(ring));
	*ret_size = ts_ring_bytes(welcome.slots);
	memory = mmap(NULL, *ret_size, PROT_READ | PROT_WRITE, MAP_SHARED, ring[0], 0);
	close(ring[0]);
	close(ring[1]);
	return memory == MAP_FAILED ? NULL : memory;
}

static void run(void)
{
	uv_run(&loop, UV_RUN_NOWAIT);
	turn_look(&turn);
}

static void say_hello(int fd)
{
	const struct ts_hello hello = { .message = TS_MESSAGE_HELLO,
					.protocol = TS_HELLO_PROTOCOL,
					.version = "fuzz" };

	(void)send(fd, &hello, sizeof(hello), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void talk(int fd, const uint8_t *data, size_t size)
{
	size_t ring_size = 0;
	uint8_t *ring = NULL;

	for (int i = 0; i < STEPS && size > 1; i++) {
		size_t part = data[0];

		data++;
		size--;
		if (part == HELLO_STEP) {
			say_hello(fd);
		} else if (part == RING_STEP) {
			part = size < 64 ? size : 64;
			if (ring)
				memcpy(ring + data[0] * UINT64_C(37) % (ring_size - 64), data,
				       part);
			data += part;
			size -= part;
		} else {
			/* Messages are longer than a byte can say. */
			part = part * 4 < size ? part * 4 : size;
			(void)send(fd, data, part, MSG_DONTWAIT | MSG_NOSIGNAL);
			data += part;
			size -= part;
		}
		run();
		if (!ring)
			ring = map_ring(fd, &ring_size);
	}
	if (ring)
		munmap(ring, ring_size);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const struct inject_config config = { .fd = -1, .slots = SLOTS };
	static const struct ts_state state = { .message = TS_MESSAGE_STATE, .text = "fine" };
	const char *directory = getenv("TS_FUZZ_SEEDS");
	uint8_t seed[1 + sizeof(state)] = { sizeof(state) / 4 };

	must(uv_loop_init(&loop) == 0 &&
	     turn_init(&turn, &loop, intake_sources, INTAKE_SOURCES) == 0 &&
	     inject_new(&loop, turn.intake, &config, &callbacks, NULL, &inject) == 0);
	if (directory) {
		memcpy(seed + 1, &state, sizeof(state));
		write_seed(directory, 0, HELLO_STEP, seed, sizeof(seed));
		memset(seed, RING_STEP, sizeof(seed));
		write_seed(directory, 1, HELLO_STEP, seed, sizeof(seed));
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int pair[2];

	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	if (inject_adopt(inject, pair[0], (uint32_t)getpid()) < 0)
		abort();
	talk(pair[1], data, size);
	close(pair[1]);
	/* Its end is reported when the ring is empty. */
	for (int i = 0; i < 100000 && inject_find(inject, (uint32_t)getpid()); i++)
		run();
	must(!inject_find(inject, (uint32_t)getpid()));
	return 0;
}
