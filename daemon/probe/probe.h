/* probe.h: the BPF side of the daemon: loads the programs, puts probes on libraries, and reads
 * their events.
 */
#ifndef TS_PROBE_SOURCE_H
#define TS_PROBE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "bpf/probe.h"
#include "core/base/cleanup.h"
#include "daemon/broker/broker.h"
#include "daemon/broker/trial.h"
#include "daemon/intake/intake.h"
#include "daemon/library/library.h"

struct held_file;
struct probe;
struct probe_library;

struct probe_config {
	enum probe_way way;
	size_t ring_bytes;	/* a power of two */
	struct returns returns; /* those of the start count */
	uint32_t stack_depth;
	bool unwind;	       /* by rules, not by frame pointers */
	uint32_t python_depth; /* 0: no frames of Python */
	bool backward; /* join stacks of PyTorch's backward pass to those of the forward one */
	uint64_t tensor_bytes; /* smaller blocks of a framework are only added up */
	uint32_t samples_per_s;
	uint64_t events_per_s;
	uint32_t pid_count, uid_count, cgroup_count;
	uint32_t pid[PROBE_FILTER_MAX];
	uint32_t uid[PROBE_FILTER_MAX];
	uint64_t cgroup[PROBE_FILTER_MAX];
};

/* Whether both trace the same processes. */
bool probe_config_same_filters(const struct probe_config *a, const struct probe_config *b);

/* Gets each record, when its turn in the intake has come; it lies in memory that only we can write.
 */
enum probe_missed {
	PROBE_MISS_DONE,
	PROBE_MISS_ASKED, /* no record follows before probe_go_on() is called */
	PROBE_MISS_WAITS, /* none of its process, before probe_go_on_with(): then it comes again */
};
struct probe_callbacks {
	void (*record)(void *data, const void *record, size_t size);
	/* A stack is to be unwound: struct probe_miss, if it is one. It may not wait if it has done
	 * so `in_vain`. */
	enum probe_missed (*miss)(void *data, const void *record, size_t size, bool in_vain);
	/* Before a turn's records; may be NULL. */
	void (*turn)(void *data);
};

/* -EOPNOTSUPP: the kernel is too old; -EPERM: no permission. Logs what is missing. */
int probe_new(uv_loop_t *loop, struct intake *intake, struct broker *broker,
	      const struct probe_config *config, const struct probe_callbacks *callbacks,
	      void *data, struct probe **ret);
/* What is still in the ring is not read: intake_reach() does. */
void probe_close(struct probe *probe, void (*closed)(void *data));
/* When it is closed, and no thread attaches any more. */
struct probe *probe_free(struct probe *probe);
/* Applies the settings that may change at run time: all but way and ring_bytes. */
void probe_configure(struct probe *probe, const struct probe_config *config);
/* Chooses which launches and waits of a process get stacks. Its end resets the choice only if
 * reported: PROBE_CHOICE_DEFAULT. */
int probe_choose_stacks(struct probe *probe, uint32_t pid, enum probe_choice choice);

/* Where the Python of a process has its frames. Forgotten when it ends or runs another program. */
void probe_place_python(struct probe *probe, uint32_t pid, const struct ts_python *python);
bool probe_python(const struct probe *probe, uint32_t pid, struct ts_python *ret);

/* How stacks are walked now. */
struct probe_walks {
	bool by_rules, autograd;
	bool check; /* in tests: each is walked twice */
	uint32_t depth, python_depth;
};
void probe_walks(const struct probe *probe, struct probe_walks *ret);

/* Memory that the programs read rules from, RULE_SLOTS. */
struct rule_slot *probe_rules(struct probe *probe);
/* Of the sets that are used: all, or in tests as few as TRACESMITH_RULE_SETS, a power of two. */
uint32_t probe_rule_mask(const struct probe *probe);
/* All rules of a process are void. */
void probe_forget_rules(struct probe *probe, uint32_t pid);
/* Its stacks get other ids, and are sent again. False: the map is full. */
bool probe_renew_stacks(struct probe *probe, uint32_t pid);
/* What its ids begin with, and the keys of its rules. False: the programs have not come to that
 * since they were last changed. */
struct probe_seeds {
	uint64_t stacks, rules;
};
bool probe_seeds(const struct probe *probe, uint32_t pid, struct probe_seeds *ret);
/* Of a return address; false: none is filed. */
bool probe_rule(const struct probe *probe, const struct probe_seeds *seeds, uint64_t address,
		struct rule *ret);
/* A stack of a process is known that the programs have not sent. False: they have. */
bool probe_add_stack(struct probe *probe, uint32_t pid, uint64_t id);
void probe_go_on(struct probe *probe);
void probe_go_on_with(struct probe *probe, uint32_t tgid);
/* Nobody answers any more. */
void probe_wait_no_longer(struct probe *probe);

/* Finds the functions in the library behind `fd`, copy number `copy` of below PROBE_COPIES_MAX.
 * -ENOENT: it has none. */
int probe_read(struct probe *probe, int fd, const char *path, uint32_t copy,
	       struct probe_library **ret);
/* Puts probes on them, once. -EBUSY, -ETXTBSY: as below, because of process `*ret_in_way`, 0: not
 * known. */
int probe_put_on(struct probe_library *library, int fd, uint32_t *ret_in_way);
/* The group has no link for all, because of somebody's inline hook: only single ones. */
bool probe_is_hooked(const struct probe_library *library, enum probe_group group);
struct probe_library *probe_detach(struct probe_library *library);
/* Its file, to be given back (held.h). */
struct held_file *probe_file(const struct probe_library *library);

/* Probes on one group of a library's functions, for one process or for all (pid 0). */
struct probe_link;
struct probe_link_for {
	enum probe_group group;
	uint32_t pid;
	uint32_t epoch;
};

/* The same file is behind `fd`. Takes some 10 ms, and freeing it 40, more on a busy host: not for
 * the loop. -EOPNOTSUPP: this kernel has no links to one process; -ESRCH: no such process; -EBUSY:
 * not while somebody keeps his memory's lock (held.h); -ETXTBSY: not over somebody's inline hook
 * (hooked.h). */
int probe_link_new(const struct probe_library *library, int fd, const struct probe_link_for *to,
		   struct probe_link **ret);
struct probe_link *probe_link_free(struct probe_link *link);
/* Whether somebody must not be disturbed by freeing it now (held.h). Not for the loop, either. */
bool probe_link_is_held(const struct probe_link *link);

/* While a process has links of two epochs, either sees its calls, and each counts once. */
uint32_t probe_epoch(const struct probe_library *library, enum probe_group group);
void probe_next_epoch(struct probe_library *library, enum probe_group group);
/* The link for all processes, which the library else frees with itself; NULL: taken. */
struct probe_link *probe_take_wide(struct probe_library *library, enum probe_group group);

struct probe_library_stats {
	uint32_t functions;    /* with a probe */
	uint32_t returns;      /* of them with a return probe */
	uint32_t single_steps; /* of them slow */
	uint32_t failed;       /* that could not be probed */
};
void probe_library_stats(const struct probe_library *library, struct probe_library_stats *ret);
/* Name of the n-th slow function, NULL after the last. */
const char *probe_library_slow(const struct probe_library *library, uint32_t n);

/* A probe on the function that calibrate.c calls, in one process that is a child of ours, until it
 * is freed. Its events have the number PROBE_CALIBRATION, of a process that nothing else announces.
 * Not for the loop; one at a time. */
struct remover;
struct probe_calibration;
int probe_calibrate(struct probe *probe, uint32_t pid, struct probe_calibration **ret);
/* The remover takes the probe off. */
void probe_calibration_end(struct probe_calibration *calibration, struct remover *remover);

/* The probe on the stub of our library in a process, through which it reports calls that are to
 * have a stack (light.h). Only with links to single processes: -EOPNOTSUPP. Not for the loop. */
struct probe_stub;
int probe_stub_new(struct probe *probe, int fd, uint64_t offset, uint32_t pid,
		   struct probe_stub **ret);
/* The same on where a Python frees code objects, to count them in that place of probe_freed(). */
int probe_freed_new(struct probe *probe, int fd, uint64_t offset, uint32_t pid, uint32_t place,
		    struct probe_stub **ret);
/* Memory that the programs count in, PROBE_FREED_MAX. */
struct probe_freed *probe_freed(struct probe *probe);
/* The remover takes it off. Takes NULL, too. */
struct probe_stub *probe_stub_end(struct probe_stub *stub, struct remover *remover);
/* Mean time between two sampled stacks of a thread; ~0: there are none. */
uint64_t probe_sample_ns(const struct probe *probe);

struct probe_stats {
	enum probe_way way;
	bool single;		   /* has links to single processes */
	enum trial_result returns; /* without TRIAL_SURVIVED no function has a return probe */
	uint8_t returns_error;
	uint32_t without_return; /* functions that would have one, and have not */
	uint64_t records, bytes; /* received */
	uint32_t parked;	 /* processes whose records wait for their mappings */
	size_t ring_bytes, ring_waiting;
	uint32_t cpus;
	struct probe_counters total;
};
/* `per_cpu`, unless NULL, gets up to `max` CPUs' counters. */
void probe_stats(struct probe *probe, struct probe_stats *ret, struct probe_counters *per_cpu,
		 uint32_t max);

/* Takes what each process has lost since the last time. */
void probe_take_losses(struct probe *probe,
		       void (*each)(void *data, uint32_t pid, const struct probe_counters *lost),
		       void *data);

/* How often each process has run into probes, since its first hit. A call takes some 50 us. */
int probe_read_hits(struct probe *probe,
		    void (*each)(void *data, uint32_t pid, const struct probe_hits *hits),
		    void *data);

/* A driver call of which the return has not been seen. */
struct probe_open {
	uint16_t fn;
	uint64_t start_ns;
	uint64_t sp; /* stack pointer at its entry: there lies its return address */
};

/* Where a thread's storage has it: a map, and places in bytes. */
struct probe_open_place {
	uint32_t size, depth, call, sp;
};
/* The map stays the probe's. */
int probe_open_map(const struct probe *probe, struct probe_open_place *ret);
/* For who has both from somebody else. -EBADMSG: they do not belong together. */
int probe_open_check(int map, const struct probe_open_place *place);
/* That of a thread, the outermost: whether it is still in it only the thread's stack can tell.
 * -ENOENT: none that is known. In any process of ours that has the map. */
int probe_open_call(int map, const struct probe_open_place *place, uint32_t tid,
		    struct probe_open *ret);

/* How long work waits for the kernel's workers is watched. False: this kernel does not tell. */
/* What allocators said since the last time, of blocks that are no events. `each` says whether there
 * is such a process. */
int probe_read_sums(struct probe *probe,
		    bool (*each)(void *data, const struct probe_sums_key *key,
				 const struct probe_sums *sums),
		    void *data);
bool probe_watch_workers(struct probe *probe, bool on);
/* Of each CPU for whose worker work has waited since the last call: the longest wait, and the hits
 * on that CPU meanwhile. */
void probe_read_workers(struct probe *probe, uint64_t now_ns,
			void (*each)(void *data, uint64_t waited_ns, uint64_t hits), void *data);

#endif
