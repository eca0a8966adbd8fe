/*
 * Parses a CoreDNS configuration in the way that CoreDNS does.
 *
 *	(logged) {                 a snippet, inserted wherever it is imported
 *	    log
 *	}
 *	corp.example:53 lab. {     a server block: keys, then directives
 *	    import logged
 *	    forward . 10.0.0.53 {  a directive: its words, then the lines of its block
 *	        max_fails 3
 *	    }
 *	}
 *	import custom/?.server     the text of files, which the caller reads
 *
 * Blanks separate words. A quoted word "..." may contain blanks and newlines. In a quoted word, \"
 * is a quote, and \\ stays two backslashes. A # at the beginning of a word begins a comment.
 * {$NAME} and {%NAME%} stand for environment variables. Without braces, the whole file is one
 * server block.
 *
 * Time and memory are O(words read), including imports. The reader reads at most COREFILE_WORDS_MAX
 * words, so snippets that import each other endlessly cause an error.
 */
#ifndef MIGRATE_COREFILE_H
#define MIGRATE_COREFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	COREFILE_BYTES_MAX = 4 << 20, /* maximum number of bytes in a text */
	COREFILE_WORDS_MAX = 200000,
	COREFILE_IMPORT_DEPTH = 16,
	/* maximum number of bytes in all imports, with repetitions */
	COREFILE_IMPORTED_MAX = 64 << 20,
	COREFILE_SNIPPETS_MAX = 1000,
	COREFILE_FILES_MAX = 1000, /* maximum number of files in an import */
};

/* An import returns this value if there are more than COREFILE_FILES_MAX files. */
#define COREFILE_TOO_MANY SIZE_MAX

/* The words of one line after the expansion of imports. `file` is valid until corefile_free. */
struct corefile_line {
	const char *file;
	unsigned line;
	char **words;
	size_t count;
};

/* A directive. head.words[0] is the name of the plugin. `body` contains the lines of the
 * directive's block, without inner braces. */
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

/* A note about an import without a match. */
struct corefile_note {
	const char *file;
	unsigned line;
	bool harmless; /* harmless to CoreDNS too, because a pattern may match no file */
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
	const char *file; /* valid until corefile_free */
	unsigned line;
	char reason[200];
};

struct corefile_text {
	char *name, *text; /* allocated; the reader frees them */
	size_t len; /* length of `text`, which may contain NUL bytes; a further NUL byte follows */
};

/*
 * Reads the files that `pattern` matches. The caller of corefile_read decides where these files
 * are. Allocates `*texts`, which the reader frees. Returns the number of texts, or
 * COREFILE_TOO_MANY.
 */
typedef size_t (*corefile_import)(
    void *arg, const char *pattern, const char *from, struct corefile_text **texts);

/*
 * Reads `len` bytes of `text`. Lines and errors refer to this text as `name`. Returns 0, or -EINVAL
 * after it filled in `error`. In both cases the caller frees `corefile` with corefile_free.
 */
int corefile_read(struct corefile *corefile, const char *name, const char *text, size_t len,
    corefile_import import, void *arg, struct corefile_error *error);

void corefile_free(struct corefile *corefile);

/* Returns the name of the first variable in a word, {$NAME} or {%NAME%}, or NULL. The variable is not
 * set, because the reader replaces all others. Caller frees. */
char *corefile_unset(const char *text);

/* Returns the first directive with this name in the block, or NULL. */
const struct corefile_directive *corefile_find(
    const struct corefile_block *block, const char *name);

#endif
