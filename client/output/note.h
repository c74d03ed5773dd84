/* note.h: the common parts of answers about one process: notes and the names of records. */
#ifndef TS_CLIENT_NOTE_H
#define TS_CLIENT_NOTE_H

#include <stddef.h>
#include <stdint.h>

/* To standard output: one line per note; a member of a JSON object; a JSON value. */
void notes_text(size_t count, char **note);
void notes_json(size_t count, char **note);
void records_json(uint32_t records);

#endif
