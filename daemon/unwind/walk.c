/* walk: from frame to frame. Each step leads up the stack, except out of a signal, whose handler
 * may have a stack of its own; the number of frames bounds the walk.
 */
#include "daemon/unwind/walk.h"

#include <errno.h>
#include <string.h>

#include "bpf/probe.h"

#define WORD 8

/* What is being walked. */
struct walker {
	const struct walk_source *source;
	struct walk_registers at;
	bool returned;	/* `at.pc` is a return address */
	uint32_t links; /* the next frames that are followed by their links */
	uint32_t max;
	struct walk *ret;
};

static bool word(const struct walker *w, uint64_t at, uint64_t *ret)
{
	return at % WORD == 0 && w->source->word(w->source->data, at, ret);
}

static uint64_t words(uint64_t at, int64_t count)
{
	return at + (uint64_t)count * WORD;
}

static int end(struct walker *w, enum ts_stack_end how)
{
	w->ret->end = how;
	return -ECANCELED;
}

static int step_signal(struct walker *w)
{
	uint64_t sp = w->at.sp;
	struct walk_registers from;

	if (!word(w, words(sp, RULE_SIGNAL_RBP), &from.bp) ||
	    !word(w, words(sp, RULE_SIGNAL_RSP), &from.sp) ||
	    !word(w, words(sp, RULE_SIGNAL_PC), &from.pc))
		return end(w, TS_END_UNREADABLE);
	w->at = from;
	w->returned = false;
	return 0;
}

static int find_cfa(struct walker *w, struct rule rule, uint64_t *ret)
{
	uint64_t base = rule.kind == RULE_RSP || rule.kind == RULE_AT_RSP ? w->at.sp : w->at.bp;

	*ret = words(base, rule.cfa);
	if ((rule.kind == RULE_AT_RSP || rule.kind == RULE_AT_RBP) && !word(w, *ret, ret))
		return end(w, TS_END_UNREADABLE);
	return *ret > w->at.sp ? 0 : end(w, TS_END_BAD);
}

static int step_frame(struct walker *w, struct rule rule)
{
	uint64_t cfa, bp = w->at.bp, pc;
	int r;

	r = find_cfa(w, rule, &cfa);
	if (r < 0)
		return r;
	if (rule.rbp_kind == RULE_RBP_LOST)
		bp = 0;
	else if (rule.rbp_kind != RULE_RBP_SAME &&
		 !word(w, words(rule.rbp_kind == RULE_RBP_AT_CFA ? cfa : bp, rule.rbp), &bp))
		return end(w, TS_END_UNREADABLE);
	if (!word(w, cfa - WORD, &pc))
		return end(w, TS_END_UNREADABLE);
	w->at = (struct walk_registers){ pc, cfa, bp };
	w->returned = true;
	return pc ? 0 : end(w, TS_END_COMPLETE);
}

/* As code with a frame pointer leaves the stack. */
static const struct rule link_rule = {
	.kind = RULE_RBP, .cfa = 2, .rbp_kind = RULE_RBP_AT_CFA, .rbp = -2
};

/* Code that is compiled at run time may have frame pointers, but has no rule that says so. Its
 * links are believed if they lead to a function that has one. How many do, 0: they do not. */
static uint32_t links_lead_out(const struct walker *from)
{
	struct walk scratch = { 0 };
	struct walker w = *from;
	struct rule rule;

	w.ret = &scratch;
	for (uint32_t i = from->ret->count; i < w.max; i++) {
		if (w.at.bp < w.at.sp || step_frame(&w, link_rule) < 0)
			return 0;
		if (w.source->rule(w.source->data, w.at.pc, true, &rule) == 0 &&
		    rule.kind != RULE_NONE)
			return rule.kind == RULE_BAD ? 0 : i - from->ret->count + 1;
	}
	return 0;
}

static void tell(const struct walker *w, struct rule rule)
{
	if (w->source->used)
		w->source->used(w->source->data, w->at.pc, w->returned, rule);
}

/* Without a rule. */
static int step_link(struct walker *w, enum ts_stack_end why)
{
	struct rule rule = { .kind = RULE_LINK };

	if (!w->links)
		w->links = links_lead_out(w);
	if (!w->links) {
		rule = (struct rule){ .kind = RULE_NONE, .cfa = (int32_t)why };
		tell(w, rule);
		return end(w, why);
	}
	tell(w, rule);
	w->links--;
	w->ret->linked = true;
	return step_frame(w, link_rule);
}

static int step(struct walker *w)
{
	struct rule rule = { .kind = RULE_NONE };

	int r = w->source->rule(w->source->data, w->at.pc, w->returned, &rule);

	if (r == -EAGAIN)
		return end(w, TS_END_MISSED);
	if (r < 0)
		return step_link(w, TS_END_NO_MAPPING);
	if (rule.kind == RULE_NONE)
		return step_link(w, TS_END_NO_RULE);
	tell(w, rule);
	switch (rule.kind) {
	case RULE_SIGNAL:
		return step_signal(w);
	case RULE_END:
		return end(w, TS_END_COMPLETE);
	case RULE_BAD:
		return end(w, TS_END_BAD);
	default:
		return step_frame(w, rule);
	}
}

void walk(const struct walk_source *source, struct walk_registers registers, bool returned,
	  uint64_t *frame, uint32_t max, struct walk *ret)
{
	struct walker w = {
		.source = source, .at = registers, .returned = returned, .max = max, .ret = ret
	};
	int r = 0;

	*ret = (struct walk){ .end = TS_END_DEPTH };
	while (r == 0 && ret->count < max) {
		if (source->frame)
			source->frame(source->data, w.at.sp);
		frame[ret->count++] = w.at.pc;
		r = step(&w);
	}
}

bool walk_copy_word(const struct walk_copy *copy, uint64_t at, uint64_t *ret)
{
	if (at < copy->at || copy->size < WORD || at - copy->at > copy->size - WORD)
		return false;
	at -= copy->at;
	if (copy->missing &&
	    (at / PROBE_MISS_PAGE >= 32 || at % WORD || copy->missing >> at / PROBE_MISS_PAGE & 1))
		return false;
	memcpy(ret, copy->bytes + at, WORD);
	return true;
}
