/* terminal.h: the screen and the keys, through ncurses. */
#ifndef TS_TOP_TERMINAL_H
#define TS_TOP_TERMINAL_H

#include <stdbool.h>

#include "client/top/canvas.h"

enum terminal_key {
	KEYS_NONE = 0, /* there is none now; others are their character, or: */
	KEYS_UP = 0x110000,
	KEYS_DOWN,
	KEYS_PAGE_UP,
	KEYS_PAGE_DOWN,
	KEYS_HOME,
	KEYS_END,
	KEYS_RESIZE,
	KEYS_FILTER,
	KEYS_HELP,
	KEYS_QUIT,
	KEYS_TREE,
	KEYS_CLICK,
	KEYS_WHEEL_UP,
	KEYS_WHEEL_DOWN,
};
#define KEYS_ENTER     '\n'
#define KEYS_ESCAPE    27
#define KEYS_BACKSPACE 8

/* Takes the terminal over; -ENOTTY: it is none that can be drawn on, and why was printed. */
int terminal_open(void);
void terminal_close(void);
void terminal_size(int *ret_width, int *ret_height);
void terminal_show(const struct canvas *canvas);
/* `ret_row` and `ret_column`: where the mouse is, of a click and of the wheel. */
int terminal_key(int *ret_row, int *ret_column);

#endif
