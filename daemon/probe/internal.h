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
	struct intake *intake;
	struct intake_lane lane;
	uv_poll_t readable; /* off from a wake-up until the ring is empty, or it would go on */
	void (*closed)(void *data);
	enum probe_way way;
	bool single; /* links to one process see all of its threads */
	/* Of this turn: records that it may still take, and when it started. */
	uint32_t budget;
	uint64_t now_ns;
	uint64_t heard_ns; /* the last turn with a record */
	uint64_t idle_ns;  /* since then the programs wake us, 0: they do not */
	uint64_t records, bytes;
	uint64_t secret;   /* so that no process can predict where its rules are */
	bool waiting;	   /* a stack is being unwound: what follows it stays in the ring */
	uint32_t mappings; /* how often rules became void */
};

struct bpf_program *probe_program_enter(struct probe *probe);
struct bpf_program *probe_program_leave(struct probe *probe);
struct bpf_program *probe_program_inside(struct probe *probe);

/* The number of its links that count. */
uint8_t *probe_epoch_of(struct probe *probe, enum probe_group group, uint32_t copy);

/* A uprobe_multi link to one place of a file, in one process. */
int probe_link_function(int program_fd, const char *path, uint64_t offset, uint64_t cookie,
			uint32_t pid);

/* Whether the kernel has uprobe_multi links and lets us use them. */
bool probe_multi_works(int program_fd);
/* Whether a link to a process is to that, and not to one of its threads. */
bool probe_single_works(int program_fd);

#endif
