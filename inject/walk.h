/* walk.h: knows the stack of a call from inside, by what the daemon shares (proto/walk.h).
 *
 * On the program's thread, in its call: so nothing is read that could not be there. Of the stack
 * that is what lies between the call's own frame and the top of the thread's own stack; of Python,
 * the frames of the main thread while the interpreter is initialized, since only the main thread
 * ends it, and what these lead to. Whatever does not fit is left to the kernel's walk, which may
 * fail.
 */
#ifndef TS_INJECT_WALK_H
#define TS_INJECT_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/event.h"
#include "proto/light.h"
#include "proto/walk.h"

/* What our thread finds out for the others. */
struct walk_place {
	/* Where glibc's struct pthread has the lowest address of the thread's stack, and its size;
	 * 0: not known. */
	uint32_t block, size;
	/* The main thread's stack, as far as it had grown; 0: not known. */
	uint64_t main_low, main_top;
	uint32_t main_tid;
	uint32_t grown; /* it has come below that since */
	/* Of Python, all 0 where the program is none. */
	int (*initialized)(void);
	uint64_t code_type;
	uint32_t type_at;	       /* in an object */
	uint32_t is_main;	       /* 1: the program's main thread runs the interpreter */
	uint64_t code_start, code_end; /* of the interpreter */
};

/* On our thread. */
void walk_find_place(struct walk_place *ret);
/* The main thread's stack has grown. */
void walk_find_low(struct walk_place *place);

/* A walk over native frames that has been done before: where it leads depends on nothing but the
 * words that it went by, as in bpf/walked.bpf.h. To look at them all costs a fraction of the walk,
 * in which each word must be known before the next one is looked for. */
#define WALK_WORDS 108
struct walk_path {
	uint64_t key;  /* of the stack ids' seed, and where the walk begins; 0: none */
	uint64_t hash; /* of the words */
	uint64_t id;
	uint64_t bp; /* if it mattered */
	uint8_t by_bp, interpreter;
	uint16_t count;		   /* of the words, in fours */
	uint16_t word[WALK_WORDS]; /* counted from where it begins; the last one is the highest */
};

/* Those of one thread at a time. */
#define WALK_PATHS	  2048
#define WALK_PATH_THREADS 16
struct walk_paths {
	uint32_t busy, turn;
	uint8_t apart[56];
	struct walk_path path[WALK_PATHS];
};
_Static_assert(sizeof(struct walk_path) == 256, "in lines of the cache");

#define WALK_NODES   16384
#define WALK_THREADS 256

/* Of a thread that makes nodes; whoever has its place next starts anew. */
struct walk_thread {
	uint64_t block; /* the library's variables */
	uint64_t next;	/* the number that its next node gets, as of its last call */
	uint32_t tid;
	uint32_t reserved;
	uint8_t apart[40]; /* one line each */
};

/* Whose launch in the forward pass has which stack. */
struct walk_node {
	uint64_t key;	/* 0: none */
	uint64_t stack; /* 0: the kernel's programs have it */
	uint64_t passed;
};

/* Of the process. A child finds all of it empty, even one that a signal handler has forked off in
 * the middle of a walk. */
struct walker {
	const struct ts_walk *shared; /* NULL: nothing is */
	uint32_t proven;	      /* 1: a node was found where one is said to be */
	uint32_t taken;		      /* how often it was: paths are of one time */
	struct walk_place place;
	struct walk_thread thread[WALK_THREADS];
	struct walk_node node[WALK_NODES];
	struct walk_paths paths[WALK_PATH_THREADS];
};

/* What a call is to PyTorch's autograd: enum ts_stub_role, and what goes with it. */
struct walk_role {
	uint64_t role, word[3];
};

/* Of a call: all 0 but the first and the role, if it cannot be known. */
struct walked {
	uint64_t found; /* where the walk led, whether it is known or not */
	uint64_t stack; /* its own */
	uint64_t id;	/* and with that of the forward pass, if it is of the backward pass */
	bool is_new;	/* the daemon does not know that id yet */
	struct walk_role role;
};

/* walk.c. `saved` as the hook has it. */
void walk_call(struct walker *walker, const struct ts_light_call *call, const uint64_t *saved,
	       uint32_t tid, struct walked *ret);

/* walk_path.c: the paths that a thread may use until it gives them back; NULL: another one does, or
 * the thread itself, in what a signal has interrupted. */
struct walk_paths *walk_paths_take(struct walker *walker, uint32_t tid);
void walk_paths_give(struct walk_paths *paths);
uint64_t walk_path_key(uint64_t seed, uint64_t pc, const uint64_t *sp);
/* The path that a walk with this key takes, or NULL. */
const struct walk_path *walk_path_find(const struct walk_paths *paths, uint64_t key, uint64_t sp,
				       uint64_t top, uint64_t bp);
/* Of a walk that is done; `path` has all but the hash. */
void walk_path_keep(struct walk_paths *paths, const struct walk_path *path, uint64_t sp);

/* walk_python.c: adds the frames of Python to an id; false: they cannot be known. `interpreter`:
 * some of the native frames are its own, or may be. */
bool walk_python(const struct walker *walker, uint32_t tid, bool interpreter, uint64_t *id);

/* walk_node.c */
struct walk_role walk_role(struct walker *walker, uint32_t tid);
/* With the call's stack, 0: it is not known here. */
void walk_keep(struct walker *walker, const struct walk_role *role, uint64_t stack);

/* Once a function, since it may go in between; the memory stays. */
static inline const struct ts_walk *walk_shared(const struct walker *walker)
{
	return __atomic_load_n(&walker->shared, __ATOMIC_ACQUIRE);
}

static inline uint64_t walk_thread_pointer(void)
{
	uint64_t base;

	__asm__("movq %%fs:0x10,%0" : "=r"(base)); /* glibc: it points to itself */
	return base;
}

static inline uint64_t walk_load(uint64_t address)
{
	return *(const volatile uint64_t *)address;
}

#endif
