/* Section: the list. */
#include "client/report/section.h"

const struct section sections[SECTION_COUNT] = {
#define X(id, title, query, limit, by, windowed, recorded, columns)                                \
	[SECTION_##id] = { title, query, limit, by, windowed, recorded, columns },
	SECTIONS(X)
#undef X
};
