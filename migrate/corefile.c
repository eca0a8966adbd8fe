#include <assert.h>
#include <errno.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/corefile.h"
#include "migrate/corefile_lex.h"
#include "lib/xalloc.h"

/* A text that is being read: the file, or an imported text. */
struct frame {
	struct words own; /* words of a file. The words of a snippet belong to the snippet. */
	const struct word *words;
	size_t count, at;
};

struct snippet {
	char *name;
	struct words words;
};

/* Reads the words of all frames. `word` is the last word read. If `pushed` is set, the next read
 * returns this word again. */
struct reader {
	struct corefile *corefile;
	struct corefile_error *error;
	corefile_import import;
	void *arg;
	struct frame frames[COREFILE_IMPORT_DEPTH];
	size_t depth;
	struct word word;
	bool begins; /* the last word is the first word of its line */
	bool jumped; /* the last word was an import, so the next word begins a line */
	bool pushed;
	size_t total;    /* words read so far */
	size_t imported; /* bytes of imported files */
	struct snippet *snippets;
	size_t snippet_count;
	struct json_object *snippet_index; /* name -> index of the first snippet of that name */
};

static int __attribute__((format(printf, 2, 3))) mistake(struct reader *r, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(r->error->reason, sizeof r->error->reason, fmt, args);
	va_end(args);
	r->error->file = r->corefile->file_count ? r->corefile->files[r->word.file] : "";
	r->error->line = r->word.line;
	return -EINVAL;
}

static unsigned
add_file(struct corefile *corefile, const char *name)
{
	size_t n = corefile->file_count;

	if ((n & (n - 1)) == 0)
		corefile->files =
		    xreallocarray(corefile->files, n ? 2 * n : 1, sizeof *corefile->files);
	corefile->files[corefile->file_count] = xstrdup(name);
	return (unsigned)corefile->file_count++;
}

static void
line_add(struct corefile_line *line, char *word)
{
	if ((line->count & (line->count - 1)) == 0)
		line->words = xreallocarray(
		    line->words, line->count ? 2 * line->count : 1, sizeof *line->words);
	line->words[line->count++] = word;
}

/* Takes `sentence`. */
static void
add_note(struct reader *r, const char *what, bool harmless, char *sentence)
{
	struct corefile *c = r->corefile;

	if ((c->note_count & (c->note_count - 1)) == 0)
		c->notes = xreallocarray(
		    c->notes, c->note_count ? 2 * c->note_count : 1, sizeof *c->notes);
	c->notes[c->note_count++] = (struct corefile_note){ .file = c->files[r->word.file],
		.line = r->word.line,
		.harmless = harmless,
		.what = xstrdup(what),
		.sentence = sentence };
}

/* Finds the first {$NAME} or {%NAME%} in `text`. Returns NULL if there is none. Sets `end` to the text
 * behind it, and `name` to its name, which the caller frees. */
static const char *
find_variable(const char *text, const char **end, char **name)
{
	for (const char *open = text; (open = strchr(open, '{')) != NULL; open++) {
		const char *close = NULL;

		if (open[1] == '$' || open[1] == '%')
			close = strstr(open + 2, open[1] == '$' ? "}" : "%}");
		if (close == NULL)
			continue;
		*name = xstrndup(open + 2, (size_t)(close - open) - 2);
		*end = close + (open[1] == '$' ? 1 : 2);
		return open;
	}
	return NULL;
}

/* Returns `text` with the values of {$NAME} and {%NAME%}. A variable that is not set stays in the
 * text. Caller frees. */
static char *
expand(const char *text)
{
	char *out = NULL, *name;
	size_t size = 0;
	FILE *f = open_memstream(&out, &size);
	const char *end;

	for (const char *open; (open = find_variable(text, &end, &name)) != NULL; text = end) {
		const char *value = getenv(name);

		fwrite(text, 1, (size_t)((value != NULL ? open : end) - text), f);
		if (value != NULL)
			fputs(value, f);
		free(name);
	}
	fputs(text, f);
	fclose(f);
	return out;
}

char *
corefile_unset(const char *text)
{
	char *name;
	const char *end;

	return find_variable(text, &end, &name) != NULL ? name : NULL;
}

/* Reads the next word from the innermost frame. Returns false at the end of all frames. */
static bool
next(struct reader *r)
{
	if (r->pushed) {
		r->pushed = false;
		return true;
	}
	while (r->depth > 0) {
		struct frame *frame = &r->frames[r->depth - 1];

		if (frame->at < frame->count) {
			struct word word = frame->words[frame->at++], *last = &r->word;

			/* A smaller line number starts a line too, because a snippet is defined
			 * before the line that imports it. */
			r->begins = r->jumped || r->total == 0 || word.file != last->file ||
				    word.line < last->line || word.line > last->line + last->lines;
			r->jumped = false;
			r->word = word;
			r->total++;
			return true;
		}
		/* Also frees the text of the last word. Only the position of that word is used from
		 * here on. */
		words_free(&frame->own);
		r->depth--;
	}
	return false;
}

static void
push_back(struct reader *r)
{
	r->pushed = true;
}

static int
push_frame(struct reader *r, struct frame frame)
{
	if (r->depth == COREFILE_IMPORT_DEPTH) {
		words_free(&frame.own);
		return mistake(r,
		    "imports are nested deeper than %d: does one of them import itself?",
		    COREFILE_IMPORT_DEPTH);
	}
	r->frames[r->depth++] = frame;
	r->jumped = true;
	return 0;
}

static int
import_files(struct reader *r, const char *pattern)
{
	size_t wildcards = 0;

	for (const char *c = pattern; *c; c++)
		wildcards += strchr("*?[", *c) != NULL;
	if (wildcards > 1)
		return mistake(r, "import %.100s: has more than one wildcard", pattern);
	struct corefile_text *texts = NULL;
	size_t count = r->import != NULL
			   ? r->import(r->arg, pattern, r->corefile->files[r->word.file], &texts)
			   : 0;
	struct words words = { 0 };
	int rc = 0;
	if (count == COREFILE_TOO_MANY)
		return mistake(r, "import %.100s: more than %d files", pattern, COREFILE_FILES_MAX);
	if (count == 0)
		add_note(r, pattern, wildcards > 0,
		    wildcards > 0
			? xasprintf(
			      "import %s: no file here matches. If the cluster has a ConfigMap "
			      "for it (kubectl -n kube-system get configmap coredns-custom), "
			      "read it together with the Corefile",
			      pattern)
			: xasprintf(
			      "import %s: no such file here: the report lacks its lines", pattern));
	for (size_t i = 0; i < count; i++) {
		if (rc == 0 && words_read(&words, texts[i].text, texts[i].len,
				   add_file(r->corefile, texts[i].name), COREFILE_WORDS_MAX) < 0)
			rc = mistake(
			    r, "import %s: more than %d words", pattern, COREFILE_WORDS_MAX);
		r->imported += texts[i].len;
		free(texts[i].name);
		free(texts[i].text);
	}
	free(texts);
	if (rc == 0 && r->imported > COREFILE_IMPORTED_MAX)
		rc = mistake(
		    r, "import %s: more than %d bytes imported", pattern, COREFILE_IMPORTED_MAX);
	if (rc < 0) {
		words_free(&words);
		return rc;
	}
	return push_frame(
	    r, (struct frame){ .own = words, .words = words.items, .count = words.count });
}

/* Handles `import X`: continues with the words of X. The word `import` has already been read. */
static int
import_here(struct reader *r)
{
	if (r->total > COREFILE_WORDS_MAX)
		return mistake(r, "more than %d words, imports included", COREFILE_WORDS_MAX);
	if (!next(r) || r->begins)
		return mistake(r, "import: needs a file or a snippet");
	char *pattern = expand(r->word.text);
	int rc = 0;
	struct json_object *index;
	if (json_object_object_get_ex(r->snippet_index, pattern, &index)) {
		size_t i = (size_t)json_object_get_int(index);

		assert(r->snippets != NULL && i < r->snippet_count);
		rc = push_frame(r, (struct frame){ .words = r->snippets[i].words.items,
				       .count = r->snippets[i].words.count });
	} else {
		rc = import_files(r, pattern);
	}
	free(pattern);
	return rc;
}

/* Reads the next word and expands imports. Returns 1, or 0 at the end, or a negative error. */
static int
next_expanded(struct reader *r)
{
	while (next(r)) {
		if (r->total > COREFILE_WORDS_MAX)
			return mistake(
			    r, "more than %d words, imports included", COREFILE_WORDS_MAX);
		if (strcmp(r->word.text, "import") != 0 || !r->begins)
			return 1;
		int rc = import_here(r);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static struct corefile_line
line_new(struct reader *r)
{
	struct corefile_line line = { .file = r->corefile->files[r->word.file],
		.line = r->word.line };

	line_add(&line, expand(r->word.text));
	return line;
}

static void
line_free(struct corefile_line *line)
{
	for (size_t i = 0; i < line->count; i++)
		free(line->words[i]);
	free(line->words);
}

/* Returns the body line for the word that was just read. If `fresh` is set, this is a new line,
 * otherwise the last line. */
static struct corefile_line *
body_line(struct reader *r, struct corefile_directive *d, bool fresh)
{
	if (!fresh)
		return &d->body[d->body_count - 1];
	if ((d->body_count & (d->body_count - 1)) == 0)
		d->body =
		    xreallocarray(d->body, d->body_count ? 2 * d->body_count : 1, sizeof *d->body);
	d->body[d->body_count] = (struct corefile_line){ .file = r->corefile->files[r->word.file],
		.line = r->word.line };
	return &d->body[d->body_count++];
}

/* Reads the part of a directive after its name, up to the end of its line or block. */
static int
read_directive(struct reader *r, struct corefile_block *block)
{
	if ((block->count & (block->count - 1)) == 0)
		block->directives = xreallocarray(block->directives,
		    block->count ? 2 * block->count : 1, sizeof *block->directives);
	struct corefile_directive *d = &block->directives[block->count++];
	*d = (struct corefile_directive){ .head = line_new(r) };
	unsigned nesting = 0;
	bool fresh = true;
	int rc;
	while ((rc = next_expanded(r)) == 1) {
		const char *text = r->word.text;
		bool begins = r->begins;

		if (begins && nesting == 0) {
			push_back(r);
			return 0;
		}
		fresh = fresh || begins;
		if (strcmp(text, "{") == 0) {
			nesting++;
			fresh = true;
		} else if (strcmp(text, "}") == 0) {
			if (nesting == 0)
				return mistake(r, "closing brace without an opening brace");
			nesting--;
			fresh = true;
		} else if (nesting == 0) {
			line_add(&d->head, expand(text));
		} else {
			line_add(body_line(r, d, fresh), expand(text));
			fresh = false;
		}
	}
	if (rc == 0 && nesting > 0)
		return mistake(
		    r, "%s at line %u: its brace is not closed", d->head.words[0], d->head.line);
	return rc;
}

/* Reads the directives of a block. The block ends at its closing brace or, without braces, at the
 * end of the text. */
static int
read_directives(struct reader *r, struct corefile_block *block, bool braced)
{
	int rc;

	while ((rc = next_expanded(r)) == 1) {
		if (strcmp(r->word.text, "}") == 0) {
			if (!braced)
				return mistake(r, "closing brace without an opening brace");
			return 0;
		}
		rc = read_directive(r, block);
		if (rc < 0)
			return rc;
	}
	if (rc == 0 && braced)
		return mistake(r, "the brace of %s at line %u is not closed",
		    block->keys.count ? block->keys.words[0] : "", block->keys.line);
	return rc;
}

/* Reads the words of a snippet up to its closing brace. Does not expand imports. */
static int
read_snippet(struct reader *r, const char *name)
{
	size_t n = r->snippet_count;

	if (n == COREFILE_SNIPPETS_MAX)
		return mistake(r, "more than %d snippets", COREFILE_SNIPPETS_MAX);
	if ((n & (n - 1)) == 0)
		r->snippets = xreallocarray(r->snippets, n ? 2 * n : 1, sizeof *r->snippets);
	struct snippet *s = &r->snippets[r->snippet_count++];
	/* The name is in parentheses. */
	*s = (struct snippet){ .name = xstrndup(name + 1, strlen(name) - 2) };
	if (!json_object_object_get_ex(r->snippet_index, s->name, NULL))
		json_object_object_add(r->snippet_index, s->name, json_object_new_int((int)n));
	unsigned nesting = 0;
	while (next(r)) {
		if (strcmp(r->word.text, "}") == 0 && nesting-- == 0)
			return 0;
		nesting += strcmp(r->word.text, "{") == 0;
		struct words *words = &s->words;
		if ((words->count & (words->count - 1)) == 0)
			words->items = xreallocarray(words->items,
			    words->count ? 2 * words->count : 1, sizeof *words->items);
		words->items[words->count] = r->word;
		words->items[words->count++].text = xstrdup(r->word.text);
	}
	return mistake(r, "the brace of snippet %s is not closed", name);
}

/* Reads the keys of a block up to the opening brace or the end of the line. Sets `braced` if there
 * was a brace. */
static int
read_keys(struct reader *r, struct corefile_line *keys, bool *braced)
{
	bool another = true;
	int rc;

	do {
		if (strcmp(r->word.text, "{") == 0) {
			*braced = true;
			return keys->count ? 0 : mistake(r, "brace without a zone before it");
		}
		if (strcmp(r->word.text, "}") == 0)
			return mistake(r, "closing brace without an opening brace");
		if (keys->count > 0 && r->begins && !another) {
			push_back(r);
			return 0;
		}
		char *word = expand(r->word.text);
		size_t len = strlen(word);
		another = len > 0 && word[len - 1] == ',';
		if (another)
			word[len - 1] = '\0';
		if (*word != '\0')
			line_add(keys, word);
		else
			free(word);
	} while ((rc = next_expanded(r)) == 1);
	return rc;
}

static int
read_block(struct reader *r)
{
	struct corefile *c = r->corefile;

	if ((c->count & (c->count - 1)) == 0)
		c->blocks =
		    xreallocarray(c->blocks, c->count ? 2 * c->count : 1, sizeof *c->blocks);
	struct corefile_block *block = &c->blocks[c->count++];
	*block = (struct corefile_block){ .keys = { .file = c->files[r->word.file],
					      .line = r->word.line } };
	bool braced = false;
	int rc = read_keys(r, &block->keys, &braced);
	if (rc < 0)
		return rc;
	const char *first = block->keys.count ? block->keys.words[0] : "";
	size_t len = strlen(first);
	if (braced && block->keys.count == 1 && len > 2 && first[0] == '(' &&
	    first[len - 1] == ')') {
		rc = read_snippet(r, first);
		line_free(&block->keys);
		c->count--;
		return rc;
	}
	return read_directives(r, block, braced);
}

int
corefile_read(struct corefile *corefile, const char *name, const char *text, size_t len,
    corefile_import import, void *arg, struct corefile_error *error)
{
	*corefile = (struct corefile){ 0 };
	*error = (struct corefile_error){ 0 };
	struct reader r = { .corefile = corefile, .error = error, .import = import, .arg = arg };
	r.snippet_index = json_object_new_object();
	struct words words = { 0 };
	int rc = 0;
	unsigned file = add_file(corefile, name);
	if (len > COREFILE_BYTES_MAX)
		rc = mistake(&r, "larger than %d bytes", COREFILE_BYTES_MAX);
	else if (words_read(&words, text, len, file, COREFILE_WORDS_MAX) < 0)
		rc = mistake(&r, "more than %d words", COREFILE_WORDS_MAX);
	r.frames[r.depth++] =
	    (struct frame){ .own = words, .words = words.items, .count = words.count };
	while (rc >= 0 && (rc = next_expanded(&r)) == 1)
		rc = read_block(&r);
	while (r.depth > 0)
		words_free(&r.frames[--r.depth].own);
	for (size_t i = 0; i < r.snippet_count; i++) {
		free(r.snippets[i].name);
		words_free(&r.snippets[i].words);
	}
	free(r.snippets);
	json_object_put(r.snippet_index);
	return rc;
}

void
corefile_free(struct corefile *corefile)
{
	for (size_t i = 0; i < corefile->count; i++) {
		struct corefile_block *block = &corefile->blocks[i];

		for (size_t k = 0; k < block->count; k++) {
			struct corefile_directive *d = &block->directives[k];

			line_free(&d->head);
			for (size_t n = 0; n < d->body_count; n++)
				line_free(&d->body[n]);
			free(d->body);
		}
		free(block->directives);
		line_free(&block->keys);
	}
	for (size_t i = 0; i < corefile->note_count; i++) {
		free(corefile->notes[i].what);
		free(corefile->notes[i].sentence);
	}
	for (size_t i = 0; i < corefile->file_count; i++)
		free(corefile->files[i]);
	free(corefile->files);
	free(corefile->notes);
	free(corefile->blocks);
	*corefile = (struct corefile){ 0 };
}

const struct corefile_directive *
corefile_find(const struct corefile_block *block, const char *name)
{
	for (size_t i = 0; i < block->count; i++)
		if (strcmp(block->directives[i].head.words[0], name) == 0)
			return &block->directives[i];
	return NULL;
}
