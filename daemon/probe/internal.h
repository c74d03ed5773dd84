/* internal.h: shared by probe.c (programs and ring) and library.c (attaching). */
#ifndef TS_PROBE_INTERNAL_H
#define TS_PROBE_INTERNAL_H

#include "daemon/probe/probe.h"

struct probe_bpf;
struct ring_buffer;
struct bpf_program;

struct probe {
	struct probe_config config;
	struct probe_callbacks callbacks;
	void *data;
	struct probe_bpf *bpf;
	struct ring_buffer *ring;
	uv_poll_t readable;
	uv_timer_t look; /* runs while events come */
	void (*closed)(void *data);
	int open_handles;
	enum probe_way way;
	uint32_t budget; /* records that this turn may still take */
	uint32_t quiet_looks;
	uint64_t records, bytes;
};

struct bpf_program *probe_program_enter(struct probe *probe);
struct bpf_program *probe_program_leave(struct probe *probe);

/* Whether the kernel has uprobe_multi links and lets us use them. */
bool probe_multi_works(int program_fd);

#endif
