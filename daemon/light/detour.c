/* Detour: saves what the hook may change, calls it, restores everything, runs what the jump has
 * displaced, and goes on in the function. All it uses of the program is 200 bytes of stack. Vector
 * registers are not saved: the hook uses none. */
#include "daemon/light/detour.h"

#include <errno.h>
#include <string.h>

static const uint8_t save[] = {
	0x50,			/* push %rax */
	0x9f, 0x0f, 0x90, 0xc0, /* lahf; seto %al */
	0x50,			/* push %rax */
	0x57, 0x56, 0x52, 0x51, /* push %rdi, %rsi, %rdx, %rcx */
	0x41, 0x50, 0x41, 0x51, /* push %r8, %r9 */
	0x41, 0x52, 0x41, 0x53, /* push %r10, %r11 */
	0x53,			/* push %rbx */
	0x55,			/* push %rbp: not changed, but who looks for callers needs it */
	0x48, 0x89, 0xe6,	/* mov %rsp,%rsi: the second argument */
	0x48, 0x89, 0xe3,	/* mov %rsp,%rbx */
	0x48, 0x83, 0xe4, 0xf0, /* and $-16,%rsp */
};
static const uint8_t load_call[] = { 0x48, 0x8d, 0x3d }; /* lea NUMBER(%rip),%rdi */
static const uint8_t call_hook[] = { 0xff, 0x15 };	 /* call *NUMBER(%rip) */
static const uint8_t restore[] = {
	/* movq $0,-8(%rsp): a return address found on a stack is never a leftover */
	0x48, 0xc7, 0x44, 0x24, 0xf8, 0, 0, 0, 0, 0x48, 0x89, 0xdc, /* mov %rbx,%rsp */
	0x5d,							    /* pop %rbp */
	0x5b,							    /* pop %rbx */
	0x41, 0x5b, 0x41, 0x5a,					    /* pop %r11, %r10 */
	0x41, 0x59, 0x41, 0x58,					    /* pop %r9, %r8 */
	0x59, 0x5a, 0x5e, 0x5f,					    /* pop %rcx, %rdx, %rsi, %rdi */
	0x58,							    /* pop %rax */
	0x04, 0x7f, 0x9e, /* add $127,%al; sahf: overflows again if it had */
	0x58,		  /* pop %rax */
};

_Static_assert(sizeof(save) + sizeof(load_call) + 4 + sizeof(call_hook) + 4 + sizeof(restore) +
			       PROLOGUE_MAX + PROLOGUE_JUMP <=
		       TS_LIGHT_CODE,
	       "a site has room");

struct writer {
	uint8_t *code;
	uint64_t address;
	size_t size;
	bool far;
};

static void put(struct writer *writer, const void *bytes, size_t size)
{
	memcpy(writer->code + writer->size, bytes, size);
	writer->size += size;
}

/* The distance to an address from behind itself. */
static void put_distance(struct writer *writer, uint64_t to)
{
	int64_t distance = (int64_t)(to - (writer->address + writer->size + sizeof(int32_t)));
	int32_t number = (int32_t)distance;

	writer->far |= number != distance;
	put(writer, &number, sizeof(number));
}

int detour_jump(uint64_t from, uint64_t to, uint8_t ret[PROLOGUE_JUMP])
{
	struct writer writer = { .code = ret, .address = from };

	put(&writer, (const uint8_t[]){ 0xe9 }, 1);
	put_distance(&writer, to);
	return writer.far ? -ERANGE : 0;
}

uint64_t detour_target(uint64_t from, const uint8_t code[PROLOGUE_JUMP])
{
	int32_t distance;

	memcpy(&distance, code + 1, sizeof(distance));
	return code[0] == 0xe9 ? from + PROLOGUE_JUMP + (uint64_t)(int64_t)distance : 0;
}

uint64_t detour_moved(void)
{
	return sizeof(save) + sizeof(load_call) + sizeof(int32_t) + sizeof(call_hook) +
	       sizeof(int32_t) + sizeof(restore);
}

int detour_write(const struct detour *detour, const struct prologue *prologue, const uint8_t *moved,
		 uint8_t ret[TS_LIGHT_CODE])
{
	struct writer writer = { .code = ret, .address = detour->code };
	uint8_t back[PROLOGUE_JUMP];
	int r;

	memset(ret, 0xcc, TS_LIGHT_CODE);
	put(&writer, save, sizeof(save));
	put(&writer, load_call, sizeof(load_call));
	put_distance(&writer, detour->call);
	put(&writer, call_hook, sizeof(call_hook));
	put_distance(&writer, detour->hook);
	put(&writer, restore, sizeof(restore));
	put(&writer, moved, prologue->moved);
	r = detour_jump(detour->code + writer.size, detour->jump + prologue->moved, back);
	put(&writer, back, sizeof(back));
	return writer.far ? -ERANGE : r;
}
