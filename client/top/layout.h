/* layout.h: where on the screen what is. Pure: the state goes in, cells come out. */
#ifndef TS_TOP_LAYOUT_H
#define TS_TOP_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "client/top/canvas.h"
#include "client/top/state.h"

enum top_pane {
	TOP_PANE_NONE,
	TOP_PANE_KERNELS,
	TOP_PANE_PATHS,
	TOP_PANE_MEMORY,
	TOP_PANE_WAITS,
	TOP_PANE_STREAMS, /* drawn from the state; the others are text */
	TOP_PANES
};
extern const char *const top_pane_names[TOP_PANES];

/* What the user has chosen to see. */
struct top_view {
	enum top_sort sort;
	bool reverse, tree;
	uint32_t selected; /* id of the process, 0: the first */
	size_t first;	   /* row of the list at the top */
	char filter[TOP_TEXT];
	enum top_pane pane;
	const char *pane_text; /* lines, or NULL: it is awaited */
	size_t pane_first;     /* line at the top */
	/* Where layout_draw() has put them; 0: nowhere. */
	int head_row, pane_row;
	bool help;
	const char *message; /* in place of the keys, or NULL: a question, or what came of it */
	const char *trouble; /* why nothing new comes, or NULL */
	const char *clock;
};

/* Draws all of it; `first` and `selected` are brought to what there is. */
void layout_draw(struct canvas *canvas, const struct top_state *state, struct top_view *view);
/* The selected process as the view has it, or NULL. */
const struct top_process *layout_selected(const struct top_state *state,
					  const struct top_view *view);
/* What the head of the list has there, or -1: an enum top_sort. */
int layout_sort_at(const struct canvas *canvas, int column);
/* Which pane the line above them names there. */
enum top_pane layout_pane_at(int column);
/* Moves the selection by so many of the rows that match the filter. */
void layout_move(const struct top_state *state, struct top_view *view, int by);

/* "63.0 %", "<63.0 %" for a bound, "-" if it is not known. */
#define LAYOUT_TEXT 48
char *layout_share(char text[LAYOUT_TEXT], const struct top_share *share);
char *layout_rate(char text[LAYOUT_TEXT], double rate);

#endif
