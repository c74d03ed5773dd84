/* fuzz_walk: the library's walk in its thread, by whatever the daemon shares, on whatever is on the
 * stack: nothing is read outside of that, and it comes to what the daemon's own walk comes to. The
 * same for frames of Python, against how the kernel's programs take them; and calls between nodes
 * of autograd that come, run and go. */
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "daemon/unwind/walk.h"
#include "inject/light.h"
#include "tests/fuzz/seed.h"

#define ENTRY	   0x401000
#define TID	   77
#define RULES	   16
#define ADDRESS(n) (0x500000 + (n)*0x11)
#define FRAMES	   8
#define CODES	   4
#define NODES	   4
#define WORDS_MAX  512
#define DESCRIPTOR 0x900
#define CHECK	   24 /* bytes */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is done with an input. */
enum { RULES_OF_DAEMON, ANY_RULES, PYTHON, AUTOGRAD, KINDS };

struct input {
	const uint8_t *data;
	size_t size;
};

struct code {
	uint64_t count, type, between, word[TS_PYTHON_CHECK];
};

struct variables {
	uint64_t next, node, thread;
};

struct node {
	uint64_t before, word[TS_AUTOGRAD_WORDS];
};

static struct ts_walk shared;
static struct walker walker;
static uint64_t *frame[FRAMES];
static struct code *code[CODES];
static struct node *node[NODES];
static __thread struct variables variables;
static uint64_t thread_state[3];
static uint32_t state_at;
static uint32_t module, variables_at; /* in its block */

static uint64_t take(struct input *input, size_t bytes)
{
	uint64_t value = 0;

	bytes = bytes < input->size ? bytes : input->size;
	if (!bytes)
		return 0;
	memcpy(&value, input->data, bytes);
	input->data += bytes;
	input->size -= bytes;
	return value;
}

static int initialized(void)
{
	return 1;
}

/* Only that is there, the rest is not. */
bool light_copy(uint64_t from, uint64_t *to, size_t words)
{
	for (size_t i = 0; i < NODES; i++)
		if (from == (uint64_t)node[i]->word && words == TS_AUTOGRAD_WORDS) {
			memcpy(to, node[i]->word, sizeof(node[i]->word));
			return true;
		}
	return false;
}

/* A stack of exactly this size, and what the hook has saved right below it. */
struct stack {
	uint64_t *saved, *sp;
	size_t words;
	struct ts_light_call call;
};

static void stack_new(struct stack *stack, struct input *input)
{
	uint8_t between = (uint8_t)(1 + take(input, 1) % 255);
	size_t words = input->size < 2 ? 1 : input->size / 2;

	words = words < WORDS_MAX ? words : WORDS_MAX;
	stack->saved = malloc((between + words) * sizeof(uint64_t));
	if (!stack->saved)
		abort();
	stack->sp = stack->saved + between;
	stack->words = words;
	stack->call = (struct ts_light_call){ .entry = ENTRY, .frame = between };
	for (size_t i = 0; i < words; i++) {
		uint64_t value = take(input, 2);

		/* An address that has a rule, one on the stack or around it, or a number. */
		if (value % 4 == 0)
			stack->sp[i] = ADDRESS(value / 4 % RULES);
		else if (value % 4 == 1)
			stack->sp[i] = (uint64_t)(stack->sp + value / 4 % (words + 16) - 8);
		else if (value % 4 == 2)
			stack->sp[i] = (uint64_t)(int64_t)(int16_t)value;
		else
			stack->sp[i] = (uint64_t)stack->sp + value / 4;
	}
	stack->saved[TS_LIGHT_RBP] = stack->sp[words - 1];
	/* All but what it is told to read there. */
	ASAN_POISON_MEMORY_REGION(stack->saved + 1, (between - 1) * sizeof(uint64_t));
	walker.place.main_tid = TID;
	walker.place.main_low = (uint64_t)stack->saved;
	walker.place.main_top = (uint64_t)(stack->sp + words);
}

static void stack_free(struct stack *stack)
{
	ASAN_UNPOISON_MEMORY_REGION(stack->saved, (char *)stack->sp - (char *)stack->saved);
	free(stack->saved);
}

static void share_rule(uint64_t address, uint64_t packed)
{
	struct ts_walk_rule *set = shared.rule[walk_rule_set(address)];
	size_t i = 0;

	while (i < TS_WALK_RULE_WAYS - 1 && set[i].address)
		i++;
	set[i] = (struct ts_walk_rule){ address, packed };
}

static void share_rules(struct input *input, bool any)
{
	static const uint8_t kinds[] = { RULE_RSP, RULE_RBP, RULE_AT_RSP, RULE_AT_RBP, RULE_END };

	for (uint64_t i = 0; i < RULES && input->size; i++) {
		uint8_t kind = (uint8_t)take(input, 1);
		struct rule rule = { kinds[kind % ARRAY_SIZE(kinds)], kind / 8 % 4, 0, 0 };

		if (any) {
			rule.kind = kind & 15;
			rule.rbp_kind = kind >> 4;
		}
		rule.rbp = (int16_t)take(input, kind & 128 ? 2 : 0);
		rule.cfa = (int8_t)take(input, 1) / 8;
		if (kind & 64)
			rule.cfa = (int32_t)(take(input, 3) << 8) >> 8;
		share_rule(ADDRESS(i), rule_pack(rule, (uint16_t)ADDRESS(i)));
	}
}

static int rule_at(void *data, uint64_t pc, bool returned, struct rule *ret)
{
	return walk_find_rule(&shared, pc, ret) ? 0 : -EAGAIN;
}

static bool word_at(void *data, uint64_t at, uint64_t *ret)
{
	return walk_copy_word(data, at, ret);
}

/* What the daemon makes of it; 0: it misses a rule, or cannot go on. */
static uint64_t id_by_daemon(const struct stack *stack)
{
	struct walk_copy copy = { (uint64_t)stack->sp, (const uint8_t *)stack->sp,
				  stack->words * sizeof(uint64_t), 0 };
	const struct walk_source source = { .data = &copy, .rule = rule_at, .word = word_at };
	uint32_t depth = shared.depth < TS_STACK_FRAMES_MAX ? shared.depth : TS_STACK_FRAMES_MAX;
	struct walk_registers at = { stack->sp[0], (uint64_t)(stack->sp + 1), stack->saved[0] };
	uint64_t frames[TS_STACK_FRAMES_MAX] = { ENTRY };
	struct walk walked = { 0 };

	if (at.pc && depth)
		walk(&source, at, true, frames + 1, depth - 1, &walked);
	if (at.pc && depth && walked.count < depth - 1 && walked.end != TS_END_COMPLETE)
		return 0;
	return stack_id_of(shared.seed, frames, walked.count + 1, TS_END_COMPLETE);
}

static struct walked call(const struct stack *stack)
{
	struct walked walked;

	walk_call(&walker, &stack->call, stack->saved, TID, &walked);
	if (walked.stack &&
	    (walked.stack != walked.found || shared.check || !walk_has_id(&shared, walked.stack)))
		abort();
	if (walked.id && !walked.stack)
		abort();
	if (walked.is_new &&
	    (walked.role.role != TS_STUB_BACKWARD || !walk_has_id(&shared, walked.role.word[0])))
		abort();
	return walked;
}

static void walk_rules(struct input *input, bool any)
{
	struct stack stack;
	uint64_t found;

	share_rules(input, any);
	stack_new(&stack, input);
	for (size_t turn = 0; turn < stack.words; turn += 1 + turn) {
		found = call(&stack).found;
		if (!any && found != id_by_daemon(&stack))
			abort();
		if (found != call(&stack).found)
			abort();
		/* What has been walked before may be another stack by now. */
		stack.sp[turn] = stack.sp[stack.words / 2];
	}
	stack_free(&stack);
}

static void put_code(struct input *input, uint64_t *to)
{
	uint8_t which = (uint8_t)take(input, 1);

	*to = (uint64_t)code[which % CODES];
	if (which / CODES % 16 == 1)
		*to = 0;
	if (which / CODES % 16 == 2)
		*to |= 4;
	*to |= which >> 6 & shared.python.tags;
}

static uint64_t frame_of(struct input *input)
{
	uint8_t which = (uint8_t)take(input, 1);

	if (which < FRAMES * 24)
		return (uint64_t)frame[which % FRAMES] + (which == FRAMES * 24 - 1 ? 4 : 0);
	return 0;
}

/* Where they are is the daemon's word, and what they are the interpreter's. */
static void link_frames(struct input *input)
{
	struct ts_python *python = &shared.python;

	*python =
		(struct ts_python){ .state = state_at, .frame = 8, .check = CHECK, .size = FRAMES };
	python->indirect = take(input, 1) % 2 ? TS_PYTHON_DIRECT : 8 * (FRAMES - 1);
	python->code = 0;
	python->previous = 1;
	python->position = 2;
	python->mark = (uint8_t)(take(input, 1) % (FRAMES - 1));
	python->mark_shift = (uint8_t)take(input, 1);
	python->marks = (uint8_t)take(input, 1) % 4;
	python->index = (uint8_t)take(input, 1) % 2;
	python->tags = (uint8_t)take(input, 1) % 4;
	for (size_t i = 0; i < FRAMES; i++) {
		for (size_t k = 2; k < FRAMES; k++)
			frame[i][k] = take(input, 2) * 0x0001000100010001;
		put_code(input, &frame[i][0]);
		frame[i][1] = frame_of(input);
		frame[i][FRAMES - 1] = (uint64_t)frame[(i + 1) % FRAMES];
	}
	for (size_t i = 0; i < CODES; i++)
		code[i]->type = take(input, 1) % 8 ? walker.place.code_type : 1;
	thread_state[1] = (uint64_t)frame[take(input, 1) % FRAMES];
}

/* As bpf/python.bpf.h has them; false: what is not known. */
static bool take_frames(struct ts_python_frame *taken, uint32_t *ret)
{
	const struct ts_python *python = &shared.python;
	uint64_t at = thread_state[1];
	uint32_t count = 0;

	if (python->indirect != TS_PYTHON_DIRECT)
		memcpy(&at, (char *)at + python->indirect, sizeof(at));
	for (uint32_t i = 0; at && i < TS_STACK_PYTHON_MAX && i < shared.python_depth; i++) {
		const uint64_t *word = (const uint64_t *)at;
		uint8_t mark;
		struct code *its;

		if (at % 8)
			return false;
		mark = (uint8_t)(word[python->mark] >> (python->mark_shift & 63));
		its = (struct code *)(word[0] & ~(uint64_t)python->tags);
		at = word[1];
		if (python->marks == TS_PYTHON_SHIMS && mark == TS_PYTHON_SHIM) {
			if (count && !(taken[count - 1].position & TS_PYTHON_ENTRY))
				taken[count - 1].position |= TS_PYTHON_ENTRY;
			else
				taken[count++] = (struct ts_python_frame){ 0, TS_PYTHON_ENTRY, 0 };
			continue;
		}
		if (!its || (uint64_t)its % 8 || its->type != walker.place.code_type)
			return false;
		taken[count].code = (uint64_t)its;
		taken[count].position = word[2] & ~TS_PYTHON_FLAGS;
		if (python->index)
			taken[count].position = (uint32_t)word[2];
		if (python->marks == TS_PYTHON_ALL || (python->marks == TS_PYTHON_ENTERED && mark))
			taken[count].position |= TS_PYTHON_ENTRY;
		taken[count++].check = stack_hash_code((const __u64 *)its->word);
	}
	*ret = count;
	return true;
}

static void walk_frames(struct input *input)
{
	struct ts_python_frame taken[TS_STACK_PYTHON_MAX];
	uint64_t native = stack_id_of(shared.seed, (uint64_t[]){ ENTRY }, 1, TS_END_COMPLETE),
		 found;
	struct stack stack;
	uint32_t count = 0;

	link_frames(input);
	walker.place.is_main = 1;
	stack_new(&stack, &(struct input){ NULL, 0 });
	stack.sp[0] = 0; /* no more than the entry */
	found = call(&stack).found;
	if (shared.python_depth && !take_frames(taken, &count))
		native = 0;
	else
		native = stack_id_with_python(native, taken, count);
	if (found != native)
		abort();
	stack_free(&stack);
}

/* Makes, runs and forgets nodes. */
static void change(struct input *input, uint64_t id)
{
	uint8_t what = (uint8_t)take(input, 1), value = (uint8_t)take(input, 1);
	struct node *its = node[value % NODES];

	switch (what % 8) {
	case 0:
		variables.next += value;
		break;
	case 1:
		variables.next = value;
		break;
	case 2:
		variables.thread = value % 4;
		break;
	case 3:
		its->word[TS_AUTOGRAD_NUMBER] = what / 8 ? value / NODES : UINT64_MAX;
		its->word[TS_AUTOGRAD_THREAD] = what / 8 % 4;
		break;
	case 4:
		variables.node = value % 8 ? (uint64_t)its : 0;
		break;
	case 5: /* once one was found, it is where it is said to be */
		if (!walker.proven)
			variables.node = take(input, 8);
		break;
	case 6:
		memset(shared.id, 0, sizeof(shared.id));
		break;
	default:
		shared.id[walk_id_set(id)][0] = id;
	}
}

static bool is_made(uint64_t at)
{
	uint64_t word[TS_AUTOGRAD_WORDS];

	return light_copy(at + offsetof(struct node, word), word, TS_AUTOGRAD_WORDS) &&
	       word[TS_AUTOGRAD_THREAD] && word[TS_AUTOGRAD_NUMBER] != UINT64_MAX;
}

static void call_between_nodes(struct input *input)
{
	struct stack stack;
	uint64_t id = 1;

	shared.python.autograd = (struct ts_autograd){
		module,
		variables_at + offsetof(struct variables, next),
		variables_at + offsetof(struct variables, node),
		variables_at + offsetof(struct variables, thread),
		offsetof(struct node, word),
	};
	share_rule(ADDRESS(0), rule_pack((struct rule){ .kind = RULE_END }, (uint16_t)ADDRESS(0)));
	stack_new(&stack, &(struct input){ NULL, 0 });
	stack.sp[0] = ADDRESS(0);
	while (input->size) {
		bool was_proven = walker.proven;
		struct walked walked;

		change(input, id);
		walked = call(&stack);
		if (walker.proven && !was_proven && !is_made(variables.node))
			abort();
		id = walked.is_new ? walked.id : walked.found;
	}
	stack_free(&stack);
}

static int on_object(struct dl_phdr_info *info, size_t size, void *data)
{
	module = (uint32_t)info->dlpi_tls_modid;
	variables_at = (uint32_t)((char *)&variables - (char *)info->dlpi_tls_data);
	return 1; /* the program is the first */
}

/* Of these sizes exactly, so that reading beyond shows. */
static void make_interpreter(void)
{
	static uint64_t type;
	uint64_t base = walk_thread_pointer();
	pthread_key_t key;

	pthread_key_create(&key, NULL);
	pthread_setspecific(key, thread_state);
	while (state_at < DESCRIPTOR && walk_load(base + state_at) != (uint64_t)thread_state)
		state_at += 8;
	if (state_at == DESCRIPTOR)
		abort();
	walker.place.initialized = initialized;
	walker.place.code_type = (uint64_t)&type;
	walker.place.type_at = 8;
	for (size_t i = 0; i < FRAMES; i++)
		frame[i] = calloc(FRAMES, sizeof(uint64_t));
	for (size_t i = 0; i < CODES; i++)
		code[i] = calloc(1, sizeof(struct code));
	for (size_t i = 0; i < NODES; i++)
		node[i] = calloc(1, sizeof(struct node));
	dl_iterate_phdr(on_object, NULL);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	/* Three rules, by RSP, by RBP and the end, for three return addresses; RBP points between
	 * them, and once it is lost before it is needed. */
	uint8_t rules[3 + 2 * RULES + 11] = { 127, 64, 0, 0, 8, 1, 16, 4 };
	static const uint8_t words[11] = { 19, 0, 0, 4, 0, 0, 0, 8, 0, 41, 0 };
	static const uint8_t frames[] = { 127, 64, 0, 1, 3, 0, 2, 1, 0, 1, 2, 3, 4 };
	static const uint8_t nodes[] = { 127, 64, 0,  2, 1, 1, 5, 7, 0, 0, 1, 7,
					 0,   11, 20, 4, 4, 7, 0, 7, 0, 5, 1 };
	const char *directory = getenv("TS_FUZZ_SEEDS");

	make_interpreter();
	if (!directory)
		return 0;
	memcpy(rules + 3 + 2 * RULES, words, sizeof(words));
	write_seed(directory, 0, RULES_OF_DAEMON, rules, sizeof(rules));
	write_seed(directory, 1, ANY_RULES, rules, sizeof(rules));
	rules[3] = 25;
	write_seed(directory, 2, RULES_OF_DAEMON, rules, sizeof(rules));
	write_seed(directory, 3, PYTHON, frames, sizeof(frames));
	write_seed(directory, 4, AUTOGRAD, nodes, sizeof(nodes));
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint64_t seed = 0x5eed5eed5eed;
	struct input input = { data, size };
	uint8_t kind = (uint8_t)take(&input, 1) % KINDS;
	const struct walk_place place = walker.place;

	memset(&shared, 0, sizeof(shared));
	memset(&variables, 0, sizeof(variables));
	/* What it keeps of walks is of another seed. */
	memset(&walker, 0, offsetof(struct walker, paths));
	walker.place = place;
	walker.place.is_main = 0;
	walker.shared = &shared;
	shared.depth = (uint32_t)take(&input, 1);
	shared.seed = ++seed;
	shared.python_depth = (uint32_t)take(&input, 1);
	shared.check = (uint32_t)take(&input, 1) == 1;
	if (kind == PYTHON)
		walk_frames(&input);
	else if (kind == AUTOGRAD)
		call_between_nodes(&input);
	else
		walk_rules(&input, kind == ANY_RULES);
	return 0;
}
