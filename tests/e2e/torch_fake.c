/* What test_python takes for PyTorch: nodes of an autograd, with numbers that each thread counts
 * for itself, and a thread that runs those of all backwards. Each launch has a width that tells it
 * apart: that of a call's node is the call's and TORCH_BACKWARD. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#define VISIBLE	 __attribute__((visibility("default")))
#define EXPORT	 VISIBLE __attribute__((noinline))
#define KEPT	 __asm__ volatile("" ::: "memory") /* the call before it is no jump */
#define BACKWARD 1000
#define NODES	 16

struct node {
	const void *table, *itself, *counts;
	uint64_t number, depth, has_parent, thread;
	unsigned width; /* 0: it launches nothing */
};

/* As a std::shared_ptr. */
struct pointer {
	struct node *node;
	void *counts;
};

/* PyTorch's library exports them, too. */
EXPORT uint64_t next_number(void) __asm__("_ZN2at15sequence_number4peekEv");
EXPORT uint64_t thread_number(void) __asm__("_ZN2at14RecordFunction15currentThreadIdEv");
EXPORT struct pointer current_node(void) __asm__("_ZN5torch8autograd16get_current_nodeEv");
VISIBLE int shared_node __asm__("_ZTISt23enable_shared_from_thisIN5torch8autograd4NodeEE");
EXPORT void call_mm(unsigned width) __asm__("_ZN2at4_ops2mm4callEj");
EXPORT void apply_mm(unsigned width) __asm__("_ZN5torch8autograd9generated11MmBackward05applyEj");
EXPORT void evaluate(struct node *node) __asm__(
	"_ZN5torch8autograd6Engine17evaluate_functionEPNS0_4NodeE");
EXPORT int torch_begin(const char *driver);
EXPORT void torch_call(unsigned width, unsigned launches);
EXPORT void torch_launch(unsigned width);
EXPORT void torch_backward(void);

int shared_node;
static __thread uint64_t count;
static __thread struct pointer current;
static __thread uint64_t number;
static uint64_t numbers;
static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		     void *, void **, void **);
static void *context;
static int (*set_context)(void *);
static __thread struct node made[NODES];
static __thread unsigned nodes;
static struct node *todo; /* of the thread that has `turn` */
static unsigned todo_count;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t begin, end;

uint64_t next_number(void)
{
	return count;
}

uint64_t thread_number(void)
{
	if (!number)
		number = __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED);
	return number;
}

struct pointer current_node(void)
{
	return current;
}

void torch_launch(unsigned width)
{
	static __thread int ready;

	if (!ready++)
		set_context(context);
	launch(NULL, width, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	KEPT;
}

void call_mm(unsigned width)
{
	torch_launch(width);
	KEPT;
}

void apply_mm(unsigned width)
{
	torch_launch(width);
	KEPT;
}

void evaluate(struct node *node)
{
	current.node = node;
	apply_mm(node->width);
	current.node = NULL;
}

static void *engine(void *unused)
{
	(void)unused;
	for (;;) {
		pthread_barrier_wait(&begin);
		while (todo_count > 0)
			evaluate(&todo[--todo_count]);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

int torch_begin(const char *driver)
{
	int (*create)(void **, unsigned, int);
	void *library = dlopen(driver, RTLD_NOW);
	int (*init)(unsigned);
	pthread_t thread;

	init = dlsym(library, "cuInit");
	create = dlsym(library, "cuCtxCreate_v2");
	set_context = dlsym(library, "cuCtxSetCurrent");
	launch = dlsym(library, "cuLaunchKernel");
	pthread_barrier_init(&begin, NULL, 2);
	pthread_barrier_init(&end, NULL, 2);
	return init(0) || create(&context, 0, 0) || pthread_create(&thread, NULL, engine, NULL);
}

void torch_call(unsigned width, unsigned launches)
{
	if (nodes == NODES)
		abort();
	made[nodes++] = (struct node){ .number = count++,
				       .thread = thread_number(),
				       .width = BACKWARD + width };
	while (launches--)
		call_mm(width);
}

void torch_backward(void)
{
	pthread_mutex_lock(&turn);
	todo = made;
	todo_count = nodes;
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&end);
	pthread_mutex_unlock(&turn);
	nodes = 0;
}
