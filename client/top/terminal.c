/* Terminal: ncurses. Colours unless NO_COLOR says otherwise (no-color.org), and block characters
 * where the locale has them. */
#include "client/top/terminal.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <ncurses.h>
#include <stdlib.h>
#include <string.h>
#include <term.h>
#include <unistd.h>
#include <wchar.h>

#include "client/base/complain.h"

#define ESCAPE_MS   50
#define SPARK_FIRST 0x2581
#define SPARK_LAST  0x2588

enum { PAIR_GOOD = 1, PAIR_WARN, PAIR_BAD };

static bool utf8, colors;

static bool can_draw(void)
{
	const char *name = getenv("TERM");
	int error;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		complain("Standard input and output are not a terminal: use 'tsctl top --once' or "
			 "'--json'");
		return false;
	}
	if (setupterm(NULL, STDOUT_FILENO, &error) != OK || !cursor_address || !clear_screen) {
		complain("A terminal of type '%s' cannot show a screen: use 'tsctl top --once', or "
			 "set TERM",
			 name && *name ? name : "unknown");
		return false;
	}
	return true;
}

static void start_colors(void)
{
	const char *none = getenv("NO_COLOR");

	colors = !(none && *none) && has_colors() && start_color() == OK;
	if (!colors)
		return;
	use_default_colors();
	init_pair(PAIR_GOOD, COLOR_GREEN, -1);
	init_pair(PAIR_WARN, COLOR_YELLOW, -1);
	init_pair(PAIR_BAD, COLOR_RED, -1);
}

int terminal_open(void)
{
	if (!can_draw())
		return -ENOTTY;
	utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	initscr();
	set_escdelay(ESCAPE_MS);
	cbreak();
	noecho();
	nodelay(stdscr, TRUE);
	keypad(stdscr, TRUE);
	curs_set(0);
	mousemask(BUTTON1_PRESSED | BUTTON1_CLICKED | BUTTON4_PRESSED | BUTTON5_PRESSED, NULL);
	mouseinterval(0);
	start_colors();
	return 0;
}

void terminal_close(void)
{
	endwin();
}

void terminal_size(int *ret_width, int *ret_height)
{
	getmaxyx(stdscr, *ret_height, *ret_width);
}

/* Where the locale has no block characters. */
static wchar_t plain(uint32_t code)
{
	static const char level[] = "_.:-=+*#";

	if (code < 0x80)
		return (wchar_t)code;
	return (wchar_t)(code >= SPARK_FIRST && code <= SPARK_LAST ? level[code - SPARK_FIRST]
								   : '?');
}

static attr_t attributes(uint8_t style)
{
	return ((style & CANVAS_BOLD) ? A_BOLD : 0) | ((style & CANVAS_REVERSE) ? A_REVERSE : 0) |
	       ((style & CANVAS_DIM) ? A_DIM : 0);
}

static short pair(uint8_t style)
{
	if (!colors || style & CANVAS_REVERSE)
		return 0;
	return (short)((style & CANVAS_BAD)    ? PAIR_BAD
		       : (style & CANVAS_WARN) ? PAIR_WARN
		       : (style & CANVAS_GOOD) ? PAIR_GOOD
					       : 0);
}

void terminal_show(const struct canvas *canvas)
{
	for (int row = 0; row < canvas->height; row++) {
		for (int column = 0; column < canvas->width; column++) {
			const struct canvas_cell *cell =
				&canvas->cell[row * canvas->width + column];
			wchar_t text[2] = { utf8 ? (wchar_t)cell->code : plain(cell->code), 0 };
			cchar_t shown;

			setcchar(&shown, text, attributes(cell->style), pair(cell->style), NULL);
			mvadd_wch(row, column, &shown);
		}
	}
	refresh();
}

static int special(int key, int *ret_row, int *ret_column)
{
	MEVENT mouse;

	switch (key) {
	case KEY_UP:
		return KEYS_UP;
	case KEY_DOWN:
		return KEYS_DOWN;
	case KEY_PPAGE:
		return KEYS_PAGE_UP;
	case KEY_NPAGE:
		return KEYS_PAGE_DOWN;
	case KEY_HOME:
		return KEYS_HOME;
	case KEY_END:
		return KEYS_END;
	case KEY_RESIZE:
		return KEYS_RESIZE;
	case KEY_ENTER:
		return KEYS_ENTER;
	case KEY_BACKSPACE:
		return KEYS_BACKSPACE;
	case KEY_F(1):
		return KEYS_HELP;
	case KEY_F(4):
		return KEYS_FILTER;
	case KEY_F(5):
		return KEYS_TREE;
	case KEY_F(10):
		return KEYS_QUIT;
	case KEY_MOUSE:
		if (getmouse(&mouse) != OK)
			return KEYS_RESIZE;
		*ret_row = mouse.y;
		*ret_column = mouse.x;
		return mouse.bstate & BUTTON4_PRESSED	? KEYS_WHEEL_UP
		       : mouse.bstate & BUTTON5_PRESSED ? KEYS_WHEEL_DOWN
							: KEYS_CLICK;
	default:
		return KEYS_RESIZE; /* draws again, and that is all */
	}
}

int terminal_key(int *ret_row, int *ret_column)
{
	wint_t key;
	int kind = get_wch(&key);

	if (kind == ERR)
		return KEYS_NONE;
	if (kind == KEY_CODE_YES)
		return special((int)key, ret_row, ret_column);
	return key == 127 ? KEYS_BACKSPACE : key == '\r' ? KEYS_ENTER : (int)key;
}
