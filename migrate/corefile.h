/*
 * A CoreDNS configuration as text, read as CoreDNS reads it.
 *
 *	(logged) {                 a snippet, put in wherever it is imported
 *	    log
 *	}
 *	corp.example:53 lab. {     a server block: keys, then directives
 *	    import logged
 *	    forward . 10.0.0.53 {  a directive: its words, then the lines of its block
 *	        max_fails 3
 *	    }
 *	}
 *	import custom/?.server     the text of files, by the caller
 *
 * Words are separated by blanks; "..." holds blanks and newlines, \" is a quote in it and \\ two
 * backslashes; # begins a comment where a word could begin. {$NAME} and {%NAME%} stand for environment variables. Without
 * braces the whole file is one server block.
 *
 * Time and memory are linear in the words read, imports included, which are at most
 * COREFILE_WORDS_MAX: snippets that import each other ten times, and so on, are an error.
 */
#ifndef MIGRATE_COREFILE_H
#define MIGRATE_COREFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	COREFILE_BYTES_MAX = 4 << 20, /* of each text */
	COREFILE_WORDS_MAX = 200000,
	COREFILE_IMPORT_DEPTH = 16,
	COREFILE_IMPORTED_MAX = 64 << 20, /* bytes, a file as often as it is imported */
	COREFILE_SNIPPETS_MAX = 1000,
	COREFILE_FILES_MAX = 1000, /* of one import */
};

/* What an import returns for more than COREFILE_FILES_MAX files. */
#define COREFILE_TOO_MANY SIZE_MAX

/* Words that stand on one line, after imports; `file` lives as long as the corefile. */
struct corefile_line {
	const char *file;
	unsigned line;
	char **words;
	size_t count;
};

/* head.words[0] is the plugin's name; `body` are the lines of its block, inner braces left out. */
struct corefile_directive {
	struct corefile_line head;
	struct corefile_line *body;
	size_t body_count;
};

struct corefile_block {
	struct corefile_line keys;
	struct corefile_directive *directives;
	size_t count;
};

/* An import that matched nothing, or a variable that is not set. */
struct corefile_note {
	const char *file;
	unsigned line;
	bool harmless; /* to CoreDNS too: a pattern may match nothing */
	char *what, *sentence;
};

struct corefile {
	struct corefile_block *blocks;
	size_t count;
	struct corefile_note *notes;
	size_t note_count;
	char **files;
	size_t file_count;
};

struct corefile_error {
	const char *file; /* lives as long as the corefile */
	unsigned line;
	char reason[200];
};

struct corefile_text {
	char *name, *text; /* allocated; the reader frees them */
	size_t len;        /* of `text`, which may have NUL bytes and has one behind its end */
};

/* Reads the files that `pattern` matches; the caller of corefile_read decides what a file is.
 * Allocates `*texts`, which the reader frees; returns their number, or COREFILE_TOO_MANY. */
typedef size_t (*corefile_import)(
    void *arg, const char *pattern, const char *from, struct corefile_text **texts);

/*
 * Reads `len` bytes of `text`, which is called `name` in lines and errors. 0, or -EINVAL with
 * `error` filled; in either case the caller frees with corefile_free.
 */
int corefile_read(struct corefile *corefile, const char *name, const char *text, size_t len,
    corefile_import import, void *arg, struct corefile_error *error);

void corefile_free(struct corefile *corefile);

/* The block's first directive of that name, or NULL. */
const struct corefile_directive *corefile_find(
    const struct corefile_block *block, const char *name);

#endif
