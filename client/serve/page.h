/* page.h: the files of the page, which tsctl carries. */
#ifndef TS_CLIENT_PAGE_H
#define TS_CLIENT_PAGE_H

#include "client/serve/web.h"

/* The file that the rest of the path names, "" is index.html; 404: there is none. */
void page_file(const struct web_request *request, struct web_answer *answer);

#endif
